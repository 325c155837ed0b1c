"""Files for trainers that load a reward by path: `python -m rewards path` prints where they lie.

Such a trainer runs a file outside the import system, where dataclasses and relative imports fail and
nothing can be pickled, or puts its folder first on the path of imports. So each file here only
re-exports, with absolute imports, and bears a name that no other module has. Nothing else covers them:
they are not imported by this package.
"""
