"""What the values of an input look like, as a tree of nodes: infer it, draw from it, vary a value.

Covers the nodes: one class per kind of value, each with its free draws (a Hypothesis strategy),
near mutations, boundary values and type check; `combine`, which makes one node of several; and
`infer`, which decides the node of a value. Runs in the child of `synth.inputs.Drawer`, which gets the
text of the modules below, not of this one; nothing but `synth/drawing.py` imports them.

A node keeps: element types, container kinds, key and value types of dicts, arity and positions of
tuples, the keys of record-like dicts, rectangular (and square) grids, and mixes such as `[1,
None]`. Where the seed says nothing a default stands in: an empty list, set or deque holds small
integers, an empty dict maps words to small integers.

In the order of reading: `nodes`, `scalars`, `sequences`, `dicts`, `inference`.
"""
