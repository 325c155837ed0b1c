"""Landlock: which files a guest may read, and the one folder that it may write to.

Loaded by path inside the fork server, so it uses the standard library alone.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable

from rewards.sandbox.kernel import NR_LANDLOCK_ADD, NR_LANDLOCK_CREATE, Kernel
from rewards.sandbox.root import DEVICES

_READ_FILE, _READ_DIR, _EXECUTE, _WRITE_FILE = 1 << 2, 1 << 3, 1 << 0, 1 << 1
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_LINK, _REFER, _TRUNCATE = 1 << 12, 1 << 13, 1 << 14
_HANDLED_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_PRIVATE = (
    _READ_FILE | _READ_DIR | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_FILE
) | (_MAKE_LINK | _REFER | _TRUNCATE)


def landlock_rules(kernel: Kernel, readable: Iterable[str], private: str, devices: bool) -> int:
    """A rule set as a descriptor: `readable` to read and execute, `private` to do anything in.

    Raises OSError if the kernel has no Landlock.
    """
    abi = kernel.syscall(NR_LANDLOCK_CREATE, 0, 0, 1)
    handled = _HANDLED_BY_ABI[max(known for known in _HANDLED_BY_ABI if known <= abi)]
    attributes = struct.pack(
        "=QQQ",
        handled,
        0b11 if abi >= 4 else 0,  # TCP: bind, connect
        0b11 if abi >= 6 else 0,  # abstract sockets and signals to processes outside
    )[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    rules = kernel.syscall(NR_LANDLOCK_CREATE, attributes, len(attributes), 0)
    wanted = [(path, _READ_FILE | _READ_DIR | _EXECUTE) for path in readable]
    wanted.append((private, _PRIVATE))
    if devices:
        wanted += [(f"/dev/{name}", _READ_FILE | _WRITE_FILE) for name in DEVICES]
    for path, rights in wanted:
        try:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            if not stat.S_ISDIR(os.fstat(folder).st_mode):
                rights &= _READ_FILE | _WRITE_FILE | _EXECUTE | _TRUNCATE
            rule = struct.pack("=Qi", rights & handled, folder)
            kernel.syscall(NR_LANDLOCK_ADD, rules, 1, rule, 0)
        finally:
            os.close(folder)
    return rules
