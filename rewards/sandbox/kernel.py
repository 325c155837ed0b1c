"""What the kernel can be asked for: the layers by name, and the raw calls that put them on.

Covers why a layer cannot be had (`Unavailable`), system calls through ctypes, and their numbers. Does
not decide what is put on when (`isolation.py`), nor what a guest has used (`usage.py`).

Loaded by path inside the fork server, so it uses the standard library alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

LINUX = sys.platform == "linux"
MACHINE = os.uname().machine

LAYERS = (
    "rlimits",  # CPU, address space, file size, descriptors, core dumps
    "process_group",  # the guest and what it started are killed together; orphans are swept
    "user",  # user namespace: no identity outside
    "pid",  # PID namespace: sees and signals only itself; the sweep is complete
    "mount",  # mount namespace: a private, read-only root with the standard library
    "network",  # network namespace without any interface up
    "ipc",  # IPC namespace
    "uts",  # UTS namespace: its own host name
    "privileges",  # no capabilities, no way to gain any, not traceable
    "seccomp",  # only the system calls that programs need; no processes unless allowed
    "landlock",  # files: the standard library to read, the private folder to write
)


class Unavailable(Exception):
    """A layer cannot be had here; the text says why."""


# --------------------------------------------------------------------------- calls

CLONE_FLAGS = {
    "user": 0x1000_0000,
    "pid": 0x2000_0000,
    "mount": 0x0002_0000,
    "network": 0x4000_0000,
    "ipc": 0x0800_0000,
    "uts": 0x0400_0000,
}

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 0x20, 0x1000, 0x4000, 0x8_0000
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 24, 36, 38

# Numbers that are the same on every processor.
NR_MOUNT_SETATTR = 442
NR_LANDLOCK_CREATE, NR_LANDLOCK_ADD, NR_LANDLOCK_RESTRICT = 444, 445, 446
# Those that differ, by processor: where there is none, the layer that needs it is not had.
NR_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
NR_CAPSET = {"x86_64": 126, "aarch64": 91}


Step = tuple[Callable[..., Any], tuple[Any, ...]]
"""A call that is made later: function and arguments. That it returns -1 means that it was refused."""


class Kernel:
    """Raw system calls through ctypes. Every method raises OSError when the kernel refuses."""

    def __init__(self) -> None:
        import ctypes

        self.ctypes = ctypes
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.syscall.restype = ctypes.c_long
        self.libc.mount.argtypes = (
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_ulong,
            ctypes.c_char_p,
        )

    def check(self, returned: int, what: str) -> int:
        if returned < 0:
            code = self.ctypes.get_errno()
            raise OSError(code, f"{what}: {os.strerror(code)}")
        return returned

    def syscall(self, number: int, *arguments: Any) -> int:
        long = self.ctypes.c_long
        ready = [long(a) if isinstance(a, int) else a for a in arguments]
        return self.check(self.libc.syscall(long(number), *ready), f"system call {number}")

    def prctl(self, option: int, *arguments: int) -> int:
        long = self.ctypes.c_ulong
        ready = [long(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
        return self.check(self.libc.prctl(option, *ready), f"prctl {option}")

    def prepared(self, function: Any, *arguments: int) -> Step:
        """A call of the C library with its arguments made already."""
        return function, tuple(map(self.ctypes.c_long, arguments))

    def run(self, steps: Iterable[Step]) -> None:
        for function, arguments in steps:
            if function(*arguments) == -1:
                raise self.refused()

    def keep(self, thing: object) -> None:
        """Never free an object, even if nothing refers to it any more."""
        self.ctypes.pythonapi.Py_IncRef(self.ctypes.py_object(thing))

    def stay_frozen(self) -> None:
        """Have `gc.unfreeze` do what `gc.freeze` does, however a program comes by it.

        A fresh copy of the module has the same table of functions. Only for the layouts known here:
        CPython without debugging or free threads.
        """
        import gc

        if sys.implementation.name != "cpython" or sys.abiflags:
            return
        types = self.ctypes

        class Method(types.Structure):  # type: ignore[misc,name-defined]
            _fields_ = (
                ("name", types.c_char_p),
                ("function", types.c_void_p),
                ("flags", types.c_int),
                ("text", types.c_char_p),
            )

        class Function(types.Structure):  # type: ignore[misc,name-defined]
            _fields_ = (
                ("references", types.c_ssize_t),
                ("type", types.c_void_p),
                ("method", types.POINTER(Method)),
            )

        freeze, unfreeze = (
            Function.from_address(id(each)).method.contents for each in (gc.freeze, gc.unfreeze)
        )
        names = freeze.name, unfreeze.name
        if names == (b"freeze", b"unfreeze") and freeze.flags == unfreeze.flags:
            unfreeze.function = freeze.function

    def refused(self) -> OSError:
        """Why the last call failed."""
        code = self.ctypes.get_errno()
        return OSError(code, os.strerror(code))

    def unshare(self, flags: int) -> None:
        self.check(self.libc.unshare(flags), "unshare")

    def mount(
        self, source: str | None, target: str, kind: str | None, flags: int, data: str = ""
    ) -> None:
        source_bytes = None if source is None else os.fsencode(source)
        kind_bytes = None if kind is None else kind.encode()
        done = self.libc.mount(source_bytes, os.fsencode(target), kind_bytes, flags, data.encode())
        self.check(done, f"mount {target}")

    def detach(self, target: str) -> None:
        self.check(self.libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")
