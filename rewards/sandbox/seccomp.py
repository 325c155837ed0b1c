"""The filters of system calls: one for the fork server and its children, one for guests on top.

Covers the tables of calls for x86-64 and AArch64 and the programs made of them. Written by hand and
not with libseccomp: that library would have to be there, loading it costs a guest's start a
millisecond, and a filter made once is a string of bytes.

Loaded by path inside the fork server, so it uses the standard library alone.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Mapping

from rewards.sandbox.kernel import Kernel, Step

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
AUDIT_ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X32_BIT = 0x4000_0000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

_LOAD, _RETURN, _JUMP = 0x20, 0x06, 0x05
_JUMP_EQUAL, _JUMP_GE, _JUMP_SET = 0x15, 0x35, 0x45
_ALLOW, _KILL, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_DENY = _ERRNO | errno.EPERM
_INSTRUCTION = struct.Struct("<HBBI")
_NAMESPACE_FLAGS = 0x7E02_0000
_PID_PLACEHOLDER = 0x7FFF_FFFE


def call_numbers(machine: str) -> dict[str, int]:
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
    made = _Filter(call_numbers(machine))
    made.code += [
        (_LOAD, 0, 0, 4),
        (_JUMP_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
    ]
    if machine == "x86_64":
        made.code += [(_JUMP_GE, 0, 1, _X32_BIT), (_RETURN, 0, 0, _DENY)]
    _add_special(made)
    plain = sorted(number for name, number in made.numbers.items() if name not in _SPECIAL)
    # A jump reaches 255 instructions at most, so the list goes in parts.
    for start in range(0, len(plain), 200):
        part = plain[start : start + 200]
        made.code += [
            (_JUMP_EQUAL, len(part) - place, 0, number) for place, number in enumerate(part)
        ]
        made.code += [(_JUMP, 0, 0, 1), (_RETURN, 0, 0, _ALLOW)]
    made.code.append((_RETURN, 0, 0, _DENY))
    return made.pack()


def _add_special(made: _Filter) -> None:
    """The calls that are allowed with some arguments only."""
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
        (_JUMP_EQUAL, 2, 0, _TIOCSTI),
        (_JUMP_EQUAL, 1, 0, _TIOCLINUX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DENY),
    )


def guest_filter(machine: str, *, processes: bool, mount: bool, pid: bool) -> bytes:
    """What a guest may not do although its fork server must; `_PID_PLACEHOLDER` stands for its PID.

    Args:
        processes: the job may start processes and threads.
        mount: the root is private and read-only, so changing a file's mode harms nobody.
        pid: the fork server is process 1 of a namespace in which there is nobody else to signal, and
            the kernel keeps signals from process 1.
    """
    made = _Filter(call_numbers(machine))
    made.code.append((_LOAD, 0, 0, 0))
    made.deny("seccomp", "landlock_restrict_self", "pidfd_open", "memfd_create")
    # Thread names, and the allocator naming its memory.
    made.only_if("prctl", 0, 15, 16, 0x5356_4D41)
    if not processes:
        made.deny("clone", "fork", "vfork", "execve", "execveat")
        if not pid:
            for name in ("kill", "tkill", "tgkill"):
                made.only_if(name, 0, _PID_PLACEHOLDER)
    if not mount:
        made.deny("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "utimensat")
    made.code.append((_RETURN, 0, 0, _ALLOW))
    return made.pack()


class LoadedFilter:
    """A filter laid out in memory before the fork, so that a child only patches its PID in."""

    def __init__(self, kernel: Kernel, number: int, code: bytes) -> None:
        ctypes = kernel.ctypes
        self.kernel = kernel
        self.code = ctypes.create_string_buffer(code, len(code))
        needle = struct.pack("<I", _PID_PLACEHOLDER)
        self.places = [i for i in range(4, len(code), 8) if code[i : i + 4] == needle]
        head = struct.pack("@HP", len(code) // _INSTRUCTION.size, ctypes.addressof(self.code))
        self.program = ctypes.create_string_buffer(head, len(head))
        mode, flags = ctypes.c_long(1), ctypes.c_long(0)
        arguments = (ctypes.c_long(number), mode, flags, self.program)
        self.call: Step = (kernel.libc.syscall, arguments)

    def steps(self) -> list[Step]:
        """What a child does to come under the filter."""
        return [(self.patch, ()), self.call] if self.places else [self.call]

    def patch(self) -> None:
        pid = os.getpid()
        for place in self.places:
            struct.pack_into("<I", self.code, place, pid)
