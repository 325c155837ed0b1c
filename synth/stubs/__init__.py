"""Typeshed stubs -> normalised signatures.

Covers: finding a function, a method or a constructor in the stubs that `typeshed_client` bundles
(for the running version and platform), along base classes, and writing its types in one small
vocabulary of `TypeTerm`s. Does not cover: type checking, unification of type variables, and which
operations exist at all (`synth.catalogue` asks the interpreter for that).

In the order of reading: `terms` (with the vocabulary), `vocabulary`, `lookup`, `annotations`,
`signatures`.
"""

from synth.stubs.signatures import Stubs
from synth.stubs.terms import Param, Signature, TypeTerm, merged, parse_term, union

__all__ = ["Param", "Signature", "Stubs", "TypeTerm", "merged", "parse_term", "union"]
