"""The catalogue of operations that a constraint may name.

Covers: every public method, operator and subscript form of the builtin data types, the builtin
functions, and the functions and classes of the pure library modules. What exists is read from the
running interpreter, parameter and result types from typeshed (`synth.stubs`), so another Python
version gives another catalogue. What a program must not use is not silently missing: it stands in
`Catalogue.exclusions` with the reason. Does not cover: writing a program that uses an operation
(`synth.providers.grammar`), and whether an operation means anything for given values.

    >>> c = catalogue()
    >>> c.get("str.strip").form
    'x.strip()'
    >>> [o.form for o in c.select(["defaultdict"])]
    ['x | y', 'x.copy()']

In the order of reading: `records`, `forms`, `exclusions`, `effects`, `enumeration`.
"""

from synth.catalogue.enumeration import BUILTIN_TYPES, LIBRARY_MODULES, catalogue
from synth.catalogue.records import Catalogue, Exclusion, Operation
from synth.stubs import Param, Signature, TypeTerm

__all__ = [
    "BUILTIN_TYPES",
    "LIBRARY_MODULES",
    "Catalogue",
    "Exclusion",
    "Operation",
    "Param",
    "Signature",
    "TypeTerm",
    "catalogue",
]
