"""How a guest is held in: the layers, and how each is put on.

Covers, where the kernel offers them: resource limits, process-group kill, namespaces (user, PID,
mount, network, IPC, UTS) with a root folder that holds little more than the standard library,
dropped privileges, a seccomp filter, Landlock. Each layer is put on once per fork server unless it
has to differ per job, and what cannot be had is reported, not pretended: `Guarantees.missing`.

Does not cover cgroups (memory is bounded per process by address space), side channels, or bugs of
the kernel. On processors other than x86-64 and AArch64 there is no seccomp filter and no private
root folder. Outside Linux there are only resource limits and the process group, CPU is bounded by
whole seconds, and memory is not bounded where the system ignores RLIMIT_AS.

Loaded by path inside the fork server (`guest.py`), so it uses the standard library alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import resource
import secrets
import signal
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

LINUX = sys.platform == "linux"

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

WORK_BYTES = "64m"
"""Size of the private folder as a whole, where it is a file system of its own."""

_PAGE = resource.getpagesize()
_OPEN_FILES = 128
_HIGHEST_FD = 256  # above everything that a fork server has open


@dataclass(frozen=True)
class Guarantees:
    """Which layers hold guests in on this machine, as a fork server found when it put them on."""

    active: tuple[str, ...]
    """Layers in force, in the order of `LAYERS`."""
    missing: tuple[tuple[str, str], ...]
    """Layers that were wanted and are not in force, with the reason in plain words."""

    @property
    def complete(self) -> bool:
        """True if nothing that was wanted is missing."""
        return not self.missing

    def __str__(self) -> str:
        lines = ["active: " + (", ".join(self.active) or "none")]
        lines += [f"missing: {layer} ({why})" for layer, why in self.missing]
        return "\n".join(lines)


class Unavailable(Exception):
    """A layer cannot be had here; the text says why."""


class _Call(Protocol):
    @property
    def cpu_seconds(self) -> float: ...


class _Request(Protocol):
    """The part of a job that concerns its confinement."""

    @property
    def memory_bytes(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def processes(self) -> int: ...
    @property
    def calls(self) -> Sequence[_Call]: ...


# --------------------------------------------------------------------------- the kernel's calls

_CLONE_FLAGS = {
    "user": 0x1000_0000,
    "pid": 0x2000_0000,
    "mount": 0x0002_0000,
    "network": 0x4000_0000,
    "ipc": 0x0800_0000,
    "uts": 0x0400_0000,
}

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 0x20, 0x1000, 0x4000, 0x8_0000
_MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 24, 36, 38

_NR_MOUNT_SETATTR = 442
_NR_LANDLOCK_CREATE, _NR_LANDLOCK_ADD, _NR_LANDLOCK_RESTRICT = 444, 445, 446
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1


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
        self.check(self.libc.umount2(os.fsencode(target), _MNT_DETACH), f"umount {target}")


# --------------------------------------------------------------------------- system-call tables

# One row per call: name, number on x86-64, number on AArch64 (-1: the processor has none).
_ALLOWED_TEXT = """
read 0 63; write 1 64; open 2 -1; close 3 57; stat 4 -1; fstat 5 80; lstat 6 -1; poll 7 -1
lseek 8 62; mmap 9 222; mprotect 10 226; munmap 11 215; brk 12 214; rt_sigaction 13 134
rt_sigprocmask 14 135; rt_sigreturn 15 139; pread64 17 67; pwrite64 18 68; readv 19 65
writev 20 66; access 21 -1; pipe 22 -1; select 23 -1; sched_yield 24 124; mremap 25 216
madvise 28 233; dup 32 23; dup2 33 -1; pause 34 -1; nanosleep 35 101; getitimer 36 102
alarm 37 -1; setitimer 38 103; getpid 39 172; sendfile 40 71; recvfrom 45 207; shutdown 48 210
getsockname 51 204; getpeername 52 205; setsockopt 54 208; getsockopt 55 209; fork 57 -1
vfork 58 -1; execve 59 221; exit 60 93; wait4 61 260; kill 62 129; uname 63 160; fcntl 72 25
flock 73 32; fsync 74 82; fdatasync 75 83; truncate 76 45; ftruncate 77 46; getdents 78 -1
getcwd 79 17; chdir 80 49; fchdir 81 50; rename 82 -1; mkdir 83 -1; rmdir 84 -1; creat 85 -1
link 86 -1; unlink 87 -1; symlink 88 -1; readlink 89 -1; chmod 90 -1; fchmod 91 52; umask 95 166
gettimeofday 96 169; getrlimit 97 163; getrusage 98 165; sysinfo 99 179; times 100 153
getuid 102 174; getgid 104 176; geteuid 107 175; getegid 108 177; setpgid 109 154; getppid 110 173
getpgrp 111 -1; setsid 112 157; getgroups 115 158; getresuid 118 148; getresgid 120 150
getpgid 121 155; getsid 124 156; rt_sigpending 127 136; rt_sigtimedwait 128 137
rt_sigsuspend 130 133; sigaltstack 131 132; utime 132 -1; statfs 137 43; fstatfs 138 44
getpriority 140 141; prctl 157 167; arch_prctl 158 -1; setrlimit 160 164; gettid 186 178
tkill 200 130; time 201 -1; futex 202 98; sched_getaffinity 204 123; epoll_create 213 -1
getdents64 217 61; set_tid_address 218 96; restart_syscall 219 128; fadvise64 221 223
clock_gettime 228 113; clock_getres 229 114; clock_nanosleep 230 115; exit_group 231 94
epoll_wait 232 -1; epoll_ctl 233 21; tgkill 234 131; utimes 235 -1; waitid 247 95; openat 257 56
mkdirat 258 34; newfstatat 262 79; unlinkat 263 35; renameat 264 38; linkat 265 37
symlinkat 266 36; readlinkat 267 78; fchmodat 268 53; faccessat 269 48; pselect6 270 72
ppoll 271 73; set_robust_list 273 99; get_robust_list 274 100; utimensat 280 88
epoll_pwait 281 22; eventfd 284 -1; fallocate 285 47; eventfd2 290 19; epoll_create1 291 20
dup3 292 24; pipe2 293 59; preadv 295 69; pwritev 296 70; getcpu 309 168; renameat2 316 276
seccomp 317 277; getrandom 318 278; memfd_create 319 279; execveat 322 281
copy_file_range 326 285; statx 332 291; rseq 334 293; pidfd_open 434 434; close_range 436 436
faccessat2 439 439; landlock_restrict_self 446 446; fchmodat2 452 452
"""

_SPECIAL = {  # calls whose arguments are looked at
    "clone": (56, 220),
    "clone3": (435, 435),
    "socketpair": (53, 199),
    "sendto": (44, 206),
    "prlimit64": (302, 261),
    "ioctl": (16, 29),
}
_AUDIT_ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_X32_BIT = 0x4000_0000

_LOAD, _JUMP_EQUAL, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_DENY = _ERRNO | errno.EPERM
_INSTRUCTION = struct.Struct("<HBBI")
_NAMESPACE_FLAGS = 0x7E02_0000
_PID_PLACEHOLDER = 0x7FFF_FFFE


def _call_numbers(machine: str) -> dict[str, int]:
    column = 1 if machine == "x86_64" else 2
    numbers = {}
    for entry in _ALLOWED_TEXT.replace("\n", ";").split(";"):
        fields = entry.split()
        if fields and int(fields[column]) >= 0:
            numbers[fields[0]] = int(fields[column])
    for name, pair in _SPECIAL.items():
        numbers[name] = pair[column - 1]
    return numbers


def _argument(index: int, high: bool = False) -> tuple[int, int, int, int]:
    return (_LOAD, 0, 0, 16 + 8 * index + (4 if high else 0))


class _Filter:
    """A seccomp program put together block by block; every block decides one call."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.numbers = numbers
        self.code: list[tuple[int, int, int, int]] = []

    def block(self, name: str, *body: tuple[int, int, int, int]) -> None:
        """If the call is `name`, run `body`, which must end by returning."""
        if name in self.numbers:
            self.code.append((_JUMP_EQUAL, 0, len(body), self.numbers[name]))
            self.code += body

    def deny(self, *names: str, code: int = _DENY) -> None:
        for name in names:
            self.block(name, (_RETURN, 0, 0, code))

    def only_if(self, name: str, index: int, *values: int) -> None:
        """Allow `name` only if the low half of an argument is one of `values`."""
        checks = [
            (_JUMP_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)
        ]
        self.block(
            name,
            _argument(index),
            *checks,
            (_RETURN, 0, 0, _DENY),
            (_RETURN, 0, 0, _ALLOW),
        )

    def pack(self) -> bytes:
        return b"".join(_INSTRUCTION.pack(*each) for each in self.code)


def base_filter(machine: str) -> bytes:
    """The allow-list that the fork server itself lives under, and its children with it."""
    numbers = _call_numbers(machine)
    made = _Filter(numbers)
    made.code += [
        (_LOAD, 0, 0, 4),
        (_JUMP_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
    ]
    if machine == "x86_64":
        made.code += [(_JUMP_GE, 0, 1, _X32_BIT), (_RETURN, 0, 0, _DENY)]
    made.block(
        "clone",
        _argument(0),
        (_JUMP_SET, 0, 1, _NAMESPACE_FLAGS),
        (_RETURN, 0, 0, _DENY),
        (_RETURN, 0, 0, _ALLOW),
    )
    # Its flags lie in memory, out of a filter's sight; the C library falls back to `clone`.
    made.deny("clone3", code=_ERRNO | errno.ENOSYS)
    made.only_if("socketpair", 0, 1)  # AF_UNIX: an event loop wakes itself through one
    made.block(  # no address: only to the other end of such a pair
        "sendto",
        _argument(4),
        (_JUMP_EQUAL, 0, 3, 0),
        _argument(4, high=True),
        (_JUMP_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DENY),
    )
    made.only_if("prlimit64", 0, 0)
    made.block(  # no typing into a terminal
        "ioctl",
        _argument(1),
        (_JUMP_EQUAL, 2, 0, 0x5412),
        (_JUMP_EQUAL, 1, 0, 0x541C),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DENY),
    )
    plain = sorted(number for name, number in numbers.items() if name not in _SPECIAL)
    # A jump reaches 255 instructions at most, so the list goes in parts.
    for start in range(0, len(plain), 200):
        part = plain[start : start + 200]
        made.code += [
            (_JUMP_EQUAL, len(part) - place, 0, number) for place, number in enumerate(part)
        ]
        made.code += [(0x05, 0, 0, 1), (_RETURN, 0, 0, _ALLOW)]
    made.code.append((_RETURN, 0, 0, _DENY))
    return made.pack()


def guest_filter(machine: str, *, processes: bool, mount: bool) -> bytes:
    """What a guest may not do although its fork server must; `_PID_PLACEHOLDER` stands for its PID.

    Args:
        processes: the job may start processes and threads.
        mount: the root is private and read-only, so changing a file's mode harms nobody.
    """
    made = _Filter(_call_numbers(machine))
    made.code.append((_LOAD, 0, 0, 0))
    made.deny("seccomp", "landlock_restrict_self", "pidfd_open", "memfd_create")
    # Thread names, and the allocator naming its memory.
    made.only_if("prctl", 0, 15, 16, 0x5356_4D41)
    if not processes:
        made.deny("clone", "fork", "vfork", "execve", "execveat")
        for name in ("kill", "tkill", "tgkill"):
            made.only_if(name, 0, _PID_PLACEHOLDER)
    if not mount:
        made.deny("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "utimensat")
    made.code.append((_RETURN, 0, 0, _ALLOW))
    return made.pack()


class _GuestFilter:
    """A guest filter laid out in memory before the fork, so that a child only patches its PID in."""

    def __init__(self, kernel: Kernel, number: int, code: bytes) -> None:
        ctypes = kernel.ctypes
        self.kernel = kernel
        self.number = number
        self.code = ctypes.create_string_buffer(code, len(code))
        needle = struct.pack("<I", _PID_PLACEHOLDER)
        self.places = [i for i in range(4, len(code), 8) if code[i : i + 4] == needle]
        head = struct.pack("@HP", len(code) // _INSTRUCTION.size, ctypes.addressof(self.code))
        self.program = ctypes.create_string_buffer(head, len(head))

    def install(self) -> None:
        pid = os.getpid()
        for place in self.places:
            struct.pack_into("<I", self.code, place, pid)
        self.kernel.syscall(self.number, 1, 0, self.program)


# --------------------------------------------------------------------------- Landlock

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
    abi = kernel.syscall(_NR_LANDLOCK_CREATE, 0, 0, 1)
    handled = _HANDLED_BY_ABI[max(known for known in _HANDLED_BY_ABI if known <= abi)]
    attributes = struct.pack(
        "=QQQ",
        handled,
        0b11 if abi >= 4 else 0,  # TCP: bind, connect
        0b11 if abi >= 6 else 0,  # abstract sockets and signals to processes outside
    )[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    rules = kernel.syscall(_NR_LANDLOCK_CREATE, attributes, len(attributes), 0)
    wanted = [(path, _READ_FILE | _READ_DIR | _EXECUTE) for path in readable]
    wanted.append((private, _PRIVATE))
    if devices:
        wanted += [(f"/dev/{name}", _READ_FILE | _WRITE_FILE) for name in _DEVICES]
    for path, rights in wanted:
        try:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            if not stat.S_ISDIR(os.fstat(folder).st_mode):
                rights &= _READ_FILE | _WRITE_FILE | _EXECUTE | _TRUNCATE
            rule = struct.pack("=Qi", rights & handled, folder)
            kernel.syscall(_NR_LANDLOCK_ADD, rules, 1, rule, 0)
        finally:
            os.close(folder)
    return rules


# --------------------------------------------------------------------------- the private root

_DEVICES = ("null", "zero", "full", "random", "urandom")
_SYSTEM_FOLDERS = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share/zoneinfo",
    "/bin",
    "/usr/bin",
)
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_INSIDE_WORK = "/box"


def readable_folders(libraries: Sequence[str]) -> list[str]:
    """What a guest may read: the interpreter with its library, shared libraries, time zones."""
    folders = [path for path in libraries if os.path.exists(path)]
    folders.append(os.path.join(sys.base_prefix, "lib"))
    folders.append(os.path.dirname(os.path.realpath(sys.executable)))
    folders += _SYSTEM_FOLDERS
    return [path for path in dict.fromkeys(folders) if os.path.exists(path)]


class _Root:
    """Builds a root folder on a file system of its own and moves into it."""

    def __init__(self, kernel: Kernel, base: str, own_pids: bool) -> None:
        self.kernel = kernel
        self.base = base
        self.own_pids = own_pids

    def build(self, folders: Sequence[str]) -> None:
        """Raises OSError if the kernel refuses; the old root is then still in place."""
        self.kernel.mount(None, "/", None, _MS_REC | _MS_SLAVE)
        self.kernel.mount("sandbox", self.base, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
        try:
            for folder in folders:
                self.show(folder)
            self.add_devices()
            self.add_processes()
            self.add_work()
            self.kernel.mount(
                None, self.base, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV
            )
            os.chdir(self.base)
            self.kernel.syscall(_PIVOT_ROOT[platform.machine()], b".\0", b".\0")
        except OSError:
            os.chdir("/")
            self.kernel.detach(self.base)
            raise
        self.kernel.detach(".")
        os.chdir("/")

    def inside(self, path: str) -> str:
        return self.base + path

    def show(self, folder: str) -> None:
        """Make a folder of the host visible, read-only, at the same place."""
        target = self.inside(folder)
        if os.path.lexists(target):
            return  # below a folder that is shown already
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        if os.path.islink(folder):
            os.symlink(os.readlink(folder), target)
            return
        if os.path.isdir(folder):
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        self.kernel.mount(folder, target, None, _MS_BIND | _MS_REC)
        self.make_readonly(target)
        for name in _PACKAGE_FOLDERS:
            self.hide(os.path.join(target, name))
            if os.path.isdir(target):
                for inner in os.listdir(target):
                    if inner.startswith("python"):
                        self.hide(os.path.join(target, inner, name))

    def make_readonly(self, target: str) -> None:
        attributes = struct.pack("=QQQQ", _MOUNT_ATTR_RDONLY, 0, 0, 0)
        try:
            self.kernel.syscall(
                _NR_MOUNT_SETATTR,
                _AT_FDCWD,
                os.fsencode(target),
                _AT_RECURSIVE,
                attributes,
                len(attributes),
            )
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            kept = os.statvfs(target).f_flag & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
            self.kernel.mount(None, target, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept)

    def hide(self, path: str) -> None:
        """Cover installed packages: programs get the standard library alone."""
        if os.path.isdir(path) and not os.path.islink(path):
            self.kernel.mount(
                "hidden", path, "tmpfs", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, "size=4k"
            )

    def add_devices(self) -> None:
        os.mkdir(self.inside("/dev"), 0o755)
        for name in _DEVICES:
            if os.path.exists(f"/dev/{name}"):
                target = self.inside(f"/dev/{name}")
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
                self.kernel.mount(f"/dev/{name}", target, None, _MS_BIND)
        os.symlink("/proc/self/fd", self.inside("/dev/fd"))
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            os.symlink(f"/proc/self/fd/{number}", self.inside(f"/dev/{name}"))

    def add_processes(self) -> None:
        """/proc of the PID namespace. Without such a namespace there is none: it would show the
        host's processes. Kernels refuse it inside some containers, which costs only comfort."""
        os.mkdir(self.inside("/proc"), 0o555)
        if self.own_pids:
            flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
            with contextlib.suppress(PermissionError):
                self.kernel.mount("proc", self.inside("/proc"), "proc", flags)

    def add_work(self) -> None:
        os.mkdir(self.inside(_INSIDE_WORK), 0o700)
        options = f"size={WORK_BYTES},nr_inodes=8192,mode=700"
        flags = _MS_NOSUID | _MS_NODEV
        self.kernel.mount("work", self.inside(_INSIDE_WORK), "tmpfs", flags, options)
        os.symlink(_INSIDE_WORK.lstrip("/"), self.inside("/tmp"))


# --------------------------------------------------------------------------- folders


def empty_folder(path: str) -> None:
    """Delete everything inside a folder, however deep, without following links."""
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while names := os.listdir(top):
            for name in names:
                _remove(top, name)
    finally:
        os.close(top)


def _remove(top: int, name: str) -> None:
    """Delete a file, or a folder after moving what it holds up: no recursion, so no depth limit."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top)
        return
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=top)
        return
    os.chmod(name, 0o700, dir_fd=top)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=top)
    try:
        for child in os.listdir(inner):
            os.rename(child, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


# --------------------------------------------------------------------------- all layers together


class Prison:
    """Everything that a fork server asks of the kernel.

    Args:
        layers: the layers wanted, of `LAYERS`.
        work: an empty folder for this fork server alone.
        libraries: where the interpreter loads modules from.
        rules_fd, statm_fd: numbers for the two descriptors that it keeps.
    """

    def __init__(
        self,
        layers: Iterable[str],
        work: str,
        libraries: Sequence[str],
        *,
        rules_fd: int,
        statm_fd: int,
    ) -> None:
        self.wanted = frozenset(layers)
        self.work = work
        self.outside_work = work
        self.readable = readable_folders(libraries)
        self.rules_fd = rules_fd
        self.statm_fd = statm_fd
        self.active: set[str] = set()
        self.missing: dict[str, str] = {}
        self.kernel: Kernel | None = None
        self.filters: dict[bool, _GuestFilter] = {}
        # The kernel exempts the superuser from RLIMIT_NPROC, in a user namespace too.
        self.counts_processes = os.geteuid() != 0

    # -- once per fork server

    def enter(self) -> None:
        """Put on every wanted layer that lasts for the fork server's life.

        With a PID namespace it returns in a child; the caller's process then only waits for that
        child, cleans up after it, and exits with it.
        """
        self.active |= {"rlimits", "process_group"} & self.wanted
        self.kernel = self.find_kernel()
        if self.kernel is not None:
            self.enter_namespaces(self.kernel)
            self.kernel.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        os.chdir(self.work)
        if self.kernel is not None:
            self.attempt("landlock", self.prepare_landlock, self.kernel)
            self.attempt("privileges", self.drop_privileges, self.kernel)
            self.attempt("seccomp", self.install_filter, self.kernel)

    def find_kernel(self) -> Kernel | None:
        reason = f"not offered by {sys.platform}"
        if LINUX:
            try:
                return Kernel()
            except (ImportError, OSError, AttributeError) as error:
                reason = f"this interpreter has no working ctypes ({error})"
        self.missing.update(dict.fromkeys(self.wanted - self.active, reason))
        return None

    def attempt(self, layer: str, step: Callable[[Kernel], None], kernel: Kernel) -> None:
        """Try a layer; what the kernel refuses is recorded as missing."""
        if layer not in self.wanted:
            return
        try:
            step(kernel)
        except (OSError, Unavailable) as error:
            self.missing[layer] = str(error)
        else:
            self.active.add(layer)

    def enter_namespaces(self, kernel: Kernel) -> None:
        self.attempt("user", self.enter_user, kernel)
        self.attempt("pid", self.enter_pid, kernel)
        if LINUX and os.path.exists("/proc/self/statm"):
            # Opened as long as the host's /proc is in sight; stays this process's own.
            statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
            os.dup2(statm, self.statm_fd, inheritable=False)
            os.close(statm)
        else:
            self.statm_fd = -1
        self.attempt("network", lambda k: k.unshare(_CLONE_FLAGS["network"]), kernel)
        self.attempt("ipc", lambda k: k.unshare(_CLONE_FLAGS["ipc"]), kernel)
        self.attempt("uts", self.enter_uts, kernel)
        self.attempt("mount", self.enter_mount, kernel)

    def enter_user(self, kernel: Kernel) -> None:
        """A user that is nobody special: not number 0, so no `exec` gives capabilities back."""
        user, group = os.geteuid(), os.getegid()
        kernel.unshare(_CLONE_FLAGS["user"])
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"1000 {user} 1"),
            ("gid_map", f"1000 {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)

    def enter_pid(self, kernel: Kernel) -> None:
        """Become process 1 of a new PID namespace; this process stays behind and waits."""
        kernel.unshare(_CLONE_FLAGS["pid"])
        child = os.fork()
        if child:
            self.stay_behind(child)
        kernel.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()

    def stay_behind(self, child: int) -> NoReturn:
        """Hold nothing open, wait for process 1, remove the folder, end the way it ended."""
        os.closerange(0, 2)  # stderr stays: it is where a failure can still be read
        os.closerange(3, _HIGHEST_FD)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(FileNotFoundError):
            empty_folder(self.outside_work)
            os.rmdir(self.outside_work)
        os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))

    def enter_uts(self, kernel: Kernel) -> None:
        kernel.unshare(_CLONE_FLAGS["uts"])
        kernel.check(kernel.libc.sethostname(b"sandbox", 7), "sethostname")

    def enter_mount(self, kernel: Kernel) -> None:
        if platform.machine() not in _PIVOT_ROOT:
            raise Unavailable(f"not written for {platform.machine()}")
        kernel.unshare(_CLONE_FLAGS["mount"])
        _Root(kernel, self.work, "pid" in self.active).build(self.readable)
        self.work = _INSIDE_WORK

    def prepare_landlock(self, kernel: Kernel) -> None:
        readable = list(self.readable)
        if {"mount", "pid"} <= self.active:
            readable.append("/proc")
        rules = landlock_rules(kernel, readable, self.work, devices=True)
        os.dup2(rules, self.rules_fd, inheritable=False)
        os.close(rules)
        kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1)

    def drop_privileges(self, kernel: Kernel) -> None:
        machine = platform.machine()
        if machine not in _CAPSET:
            raise Unavailable(f"not written for {machine}")
        with contextlib.suppress(OSError):  # ends at the first number without a capability
            for capability in range(64):
                kernel.prctl(_PR_CAPBSET_DROP, capability)
        kernel.syscall(
            _CAPSET[machine], struct.pack("=Ii", 0x2008_0522, 0), struct.pack("=6I", *[0] * 6)
        )
        kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1)
        kernel.prctl(_PR_SET_DUMPABLE, 0)

    def install_filter(self, kernel: Kernel) -> None:
        machine = platform.machine()
        if machine not in _AUDIT_ARCH or struct.calcsize("P") != 8:
            raise Unavailable(f"not written for {machine}")
        kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1)
        number = _call_numbers(machine)["seccomp"]
        for processes in (False, True):
            code = guest_filter(machine, processes=processes, mount="mount" in self.active)
            self.filters[processes] = _GuestFilter(kernel, number, code)
        _GuestFilter(kernel, number, base_filter(machine)).install()

    def leave(self) -> None:
        """Before the fork server ends: remove its folder unless somebody else will."""
        if "mount" not in self.active:
            os.chdir("/")
            empty_folder(self.work)
            os.rmdir(self.work)

    def summary(self) -> dict[str, Any]:
        return {
            "active": [layer for layer in LAYERS if layer in self.active],
            "missing": self.missing,
        }

    # -- once per job, in the fork server

    def clean_folder(self) -> None:
        """An empty private folder, whatever the last guest did to it."""
        try:
            if not os.listdir(self.work):
                return
        except FileNotFoundError:
            os.mkdir(self.work, 0o700)
        except PermissionError:
            os.chmod(self.work, 0o700)
        empty_folder(self.work)

    def anonymous_file(self) -> int:
        """A file without a name, open for reading and writing."""
        if hasattr(os, "memfd_create"):
            return os.memfd_create("stdin", os.MFD_CLOEXEC)
        path = os.path.join(self.work, "stdin")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
        return fd

    def open_pidfd(self, pid: int) -> int | None:
        """A descriptor that becomes readable when the process has ended, where there is such."""
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def cpu_seconds(self, pid: int, processes: int) -> float:
        """CPU time so far of a guest and of what it started; 0 where it cannot be read."""
        if not LINUX:
            return 0.0
        members = [pid] if self.is_alone(processes) else self.family() or [pid]
        return sum(map(_cpu_clock, members))

    def is_alone(self, processes: int) -> bool:
        """True if a guest with this budget cannot have started anything."""
        return processes == 0 and ("seccomp" in self.active or self.counts_processes)

    def too_many(self, processes: int) -> bool:
        """True if a guest has more processes and threads than it may."""
        if not LINUX or self.is_alone(processes):
            return False
        return sum(map(_threads, self.family())) > processes + 1

    def family(self) -> list[int]:
        """The guest and everything it started, orphans included. Linux only."""
        if {"pid", "mount"} <= self.active and os.path.isdir("/proc/1"):
            return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
        if "pid" in self.active:
            return []  # /proc shows other numbers; the wall clock and RLIMIT_CPU still hold
        found: list[int] = []
        waiting = _children(os.getpid())
        while waiting:
            found.append(waiting.pop())
            waiting += _children(found[-1])
        return found

    def end(self, pid: int) -> tuple[int, float]:
        """Kill a guest and all it started, reap them; wait status and CPU seconds of the guest."""
        if "pid" in self.active:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            # Not reaped yet, so the number cannot belong to anybody else; the group exists once
            # the guest has called setsid.
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        self.sweep()
        return status, usage.ru_utime + usage.ru_stime

    def sweep(self) -> None:
        """Reap what the guest left behind; outside a PID namespace find and kill it first."""
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline:
            try:
                if os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            except ChildProcessError:
                return
            if "pid" not in self.active and LINUX:
                for child in _children(os.getpid()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            time.sleep(0.001)

    # -- once per job, in the child

    def confine(self, request: _Request, result_fd: int, reserve: int) -> tuple[int, int]:
        """Put on what differs per job; the child's last step before it runs the program.

        Returns the soft and the hard limit of address space: `reserve` bytes lie between them, for
        the report of a program that ran out of memory.
        """
        os.chdir(self.work)
        limits = self.set_limits(request, reserve)
        kernel = self.kernel
        if kernel is not None:
            if "pid" not in self.active:
                kernel.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if "landlock" in self.active:
                kernel.syscall(_NR_LANDLOCK_RESTRICT, self.rules_fd, 0)
        os.closerange(3, result_fd)
        os.closerange(result_fd + 1, _HIGHEST_FD)
        if request.processes:
            # What the guest starts by forking must not be able to speak for it.
            os.register_at_fork(after_in_child=lambda: os.close(result_fd))
        if "seccomp" in self.active:
            self.filters[request.processes > 0].install()
        return limits

    def set_limits(self, request: _Request, reserve: int) -> tuple[int, int]:
        if "rlimits" not in self.active:
            return resource.getrlimit(resource.RLIMIT_AS)
        budget = sum(call.cpu_seconds for call in request.calls)
        cpu = int(budget) + 1  # a backstop in whole seconds, never below the budget
        set_limit = resource.setrlimit
        set_limit(resource.RLIMIT_CPU, (cpu, cpu + 1))
        set_limit(resource.RLIMIT_FSIZE, (request.file_bytes, request.file_bytes))
        set_limit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
        set_limit(resource.RLIMIT_CORE, (0, 0))
        if self.counts_processes:
            if not request.processes:
                set_limit(resource.RLIMIT_NPROC, (0, 0))
            elif "user" in self.active:
                # Counted per namespace: the two halves of the fork server and the guest itself.
                allowed = request.processes + 3
                set_limit(resource.RLIMIT_NPROC, (allowed, allowed))
        if not LINUX:
            return resource.getrlimit(resource.RLIMIT_AS)
        soft = self.size() + request.memory_bytes
        set_limit(resource.RLIMIT_AS, (soft, soft + reserve))
        return soft, soft + reserve

    def size(self) -> int:
        """Address space of the fork server, and so of a new child, in bytes."""
        if self.statm_fd < 0:
            return 256 << 20  # no /proc to read it from: more than any fork server has
        return int(os.pread(self.statm_fd, 64, 0).split()[0]) * _PAGE


def _cpu_clock(pid: int) -> float:
    """CPU seconds of a process with all its threads; 0 if it has gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # how Linux numbers the clock of a process
    except OSError:
        return 0.0


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def _children(pid: int) -> list[int]:
    """Direct children of a process; empty if it has gone or the kernel keeps no such list."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    except OSError:
        return found
    return found
