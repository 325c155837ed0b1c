"""How a guest is held in: the layers, and how each is put on.

Covers, where the kernel offers them: resource limits, process-group kill, namespaces (user, PID,
mount, network, IPC, UTS) with a root folder that holds little more than the standard library,
dropped privileges, a seccomp filter, Landlock. Each layer is put on once per fork server unless it
has to differ per job, and what cannot be had is reported, not pretended: `Guarantees.missing`.

Does not cover cgroups (memory is bounded per process by address space, and over the processes of a
guest by looking from time to time: `usage.py`), side channels, or bugs of the kernel. On processors
other than x86-64 and AArch64 there is no seccomp filter and no private root folder. Outside Linux
there are only resource limits and the process group, CPU is bounded by whole seconds, and memory is
not bounded where the system ignores RLIMIT_AS.

Loaded by path inside the fork server (`guest.py`), so it uses the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

from rewards.sandbox.kernel import (
    CLONE_FLAGS,
    LAYERS,
    LINUX,
    MACHINE,
    NR_CAPSET,
    NR_LANDLOCK_RESTRICT,
    NR_PIVOT_ROOT,
    PR_CAPBSET_DROP,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    Kernel,
    Unavailable,
)
from rewards.sandbox.landlock import landlock_rules
from rewards.sandbox.root import INSIDE_WORK, Root, empty_folder, readable_folders
from rewards.sandbox.seccomp import (
    AUDIT_ARCH,
    LoadedFilter,
    base_filter,
    call_numbers,
    guest_filter,
)
from rewards.sandbox.usage import Alone, Family, Processes, Usage

_PAGE = resource.getpagesize()
_OPEN_FILES = 128
HIGHEST_FD = 256  # above everything that a fork server has open
_KINDS = (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_NPROC)
_UNKNOWN_SIZE = 256 << 20  # more address space than any fork server has


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


Limit = tuple[int, tuple[int, int]]


class Sentence(NamedTuple):
    """How one guest is held in, beyond what its fork server already is."""

    limits: tuple[Limit, ...]
    memory: tuple[int, int]
    """Soft and hard limit of address space: what lies between them is for the report of a program
    that ran out of memory."""
    calls: Sequence[Callable[[], int]]
    filter: LoadedFilter | None

    def begin(self) -> None:
        """The child's last step before it runs the program. Raises OSError if anything is refused."""
        for kind, limit in self.limits:
            resource.setrlimit(kind, limit)
        for call in self.calls:
            call()
        if self.filter is not None:
            self.filter.install()


class Prison:
    """Everything that a fork server asks of the kernel.

    Args:
        layers: the layers wanted, of `LAYERS`.
        work: an empty folder for this fork server alone.
        libraries: where the interpreter loads modules from.
        rules_fd, statm_fd, proc_fd: numbers for the descriptors that it keeps.
    """

    def __init__(
        self,
        layers: Iterable[str],
        work: str,
        libraries: Sequence[str],
        *,
        rules_fd: int,
        statm_fd: int,
        proc_fd: int,
    ) -> None:
        self.wanted = frozenset(layers)
        self.work = work
        self.outside_work = work
        self.readable = readable_folders(libraries)
        self.rules_fd = rules_fd
        self.statm_fd = statm_fd
        self.proc_fd = proc_fd
        self.active: set[str] = set()
        self.missing: dict[str, str] = {}
        self.kernel: Kernel | None = None
        self.processes: Processes | None = None
        self.filters: dict[bool, LoadedFilter] = {}
        self.calls: list[Callable[[], int]] = []
        self.most = {kind: resource.getrlimit(kind)[1] for kind in _KINDS}
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
        if self.kernel is None:
            self.keep_proc()
        else:
            self.enter_namespaces(self.kernel)
            self.kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)
        os.chdir(self.work)
        if self.kernel is not None:
            self.attempt("landlock", self.prepare_landlock, self.kernel)
            self.attempt("privileges", self.drop_privileges, self.kernel)
            self.attempt("seccomp", self.install_filter, self.kernel)
            self.prepare_calls(self.kernel)
        if "rlimits" in self.active:
            # The same for all guests and no burden to the fork server.
            resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def prepare_calls(self, kernel: Kernel) -> None:
        """What every guest asks of the kernel, ready to be called."""
        if "pid" not in self.active:
            prctl = kernel.libc.prctl
            call = kernel.prepared(prctl, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            self.calls.append(call)
        if "landlock" in self.active:
            restrict = kernel.libc.syscall
            self.calls.append(kernel.prepared(restrict, NR_LANDLOCK_RESTRICT, self.rules_fd, 0))

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
        self.keep_proc()
        self.attempt("network", lambda k: k.unshare(CLONE_FLAGS["network"]), kernel)
        self.attempt("ipc", lambda k: k.unshare(CLONE_FLAGS["ipc"]), kernel)
        self.attempt("uts", self.enter_uts, kernel)
        self.attempt("mount", self.enter_mount, kernel)

    def keep_proc(self) -> None:
        """Open what is read of /proc later, as long as the host's is in sight."""
        try:
            self.processes = Processes(self.proc_fd)
            statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # a host without /proc
            self.statm_fd = -1
            return
        os.dup2(statm, self.statm_fd, inheritable=False)
        os.close(statm)

    def enter_user(self, kernel: Kernel) -> None:
        """A user that is nobody special: not number 0, so no `exec` gives capabilities back."""
        user, group = os.geteuid(), os.getegid()
        kernel.unshare(CLONE_FLAGS["user"])
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"1000 {user} 1"),
            ("gid_map", f"1000 {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)

    def enter_pid(self, kernel: Kernel) -> None:
        """Become process 1 of a new PID namespace; this process stays behind and waits."""
        kernel.unshare(CLONE_FLAGS["pid"])
        child = os.fork()
        if child:
            self.stay_behind(child)
        kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()

    def stay_behind(self, child: int) -> NoReturn:
        """Hold nothing open, wait for process 1, remove the folder, end the way it ended."""
        os.closerange(0, 2)  # stderr stays: it is where a failure can still be read
        os.closerange(3, HIGHEST_FD)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(FileNotFoundError):
            empty_folder(self.outside_work)
            os.rmdir(self.outside_work)
        os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))

    def enter_uts(self, kernel: Kernel) -> None:
        kernel.unshare(CLONE_FLAGS["uts"])
        kernel.check(kernel.libc.sethostname(b"sandbox", 7), "sethostname")

    def enter_mount(self, kernel: Kernel) -> None:
        if MACHINE not in NR_PIVOT_ROOT:
            raise Unavailable(f"not written for {MACHINE}")
        kernel.unshare(CLONE_FLAGS["mount"])
        Root(kernel, self.work, "pid" in self.active).build(self.readable)
        self.work = INSIDE_WORK

    def prepare_landlock(self, kernel: Kernel) -> None:
        readable = list(self.readable)
        if {"mount", "pid"} <= self.active:
            readable.append("/proc")
        rules = landlock_rules(kernel, readable, self.work, devices=True)
        os.dup2(rules, self.rules_fd, inheritable=False)
        os.close(rules)
        kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)

    def drop_privileges(self, kernel: Kernel) -> None:
        if MACHINE not in NR_CAPSET:
            raise Unavailable(f"not written for {MACHINE}")
        with contextlib.suppress(OSError):  # ends at the first number without a capability
            for capability in range(64):
                kernel.prctl(PR_CAPBSET_DROP, capability)
        kernel.syscall(
            NR_CAPSET[MACHINE], struct.pack("=Ii", 0x2008_0522, 0), struct.pack("=6I", *[0] * 6)
        )
        kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
        kernel.prctl(PR_SET_DUMPABLE, 0)

    def install_filter(self, kernel: Kernel) -> None:
        if MACHINE not in AUDIT_ARCH or struct.calcsize("P") != 8:
            raise Unavailable(f"not written for {MACHINE}")
        kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
        number = call_numbers(MACHINE)["seccomp"]
        for processes in (False, True):
            code = guest_filter(MACHINE, processes=processes, mount="mount" in self.active)
            self.filters[processes] = LoadedFilter(kernel, number, code)
        LoadedFilter(kernel, number, base_filter(MACHINE)).install()

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
            os.chdir(self.work)
            return
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

    def usage(self, pid: int, request: _Request) -> Usage:
        """Where to read what a guest has used."""
        if self.processes is None or self.is_alone(request.processes):
            return Alone(pid)
        return Family(pid, self.processes, request.processes, request.memory_bytes)

    def is_alone(self, processes: int) -> bool:
        """True if a guest with this budget cannot have started anything."""
        return processes == 0 and ("seccomp" in self.active or self.counts_processes)

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
            if "pid" not in self.active and self.processes is not None:
                for child in self.processes.children(self.processes.own):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            time.sleep(0.001)

    def sentence(self, request: _Request, reserve: int) -> Sentence:
        """What differs per job, worked out before the fork: a child copies every page it touches."""
        calls = list(self.calls)
        if request.processes and self.kernel is not None:
            # So that the fork server may read how much memory is shared; the filter keeps the
            # members of a family from tracing each other.
            calls.append(self.kernel.prepared(self.kernel.libc.prctl, PR_SET_DUMPABLE, 1, 0, 0, 0))
        filter_ = self.filters[request.processes > 0] if "seccomp" in self.active else None
        if "rlimits" not in self.active:
            return Sentence((), resource.getrlimit(resource.RLIMIT_AS), calls, filter_)
        budget = sum(call.cpu_seconds for call in request.calls)
        cpu = int(budget) + 1  # a backstop in whole seconds, never below the budget
        limits = [
            self.limit(resource.RLIMIT_CPU, cpu, cpu + 1),
            self.limit(resource.RLIMIT_FSIZE, request.file_bytes, request.file_bytes),
        ]
        if self.counts_processes:
            if not request.processes:
                limits.append(self.limit(resource.RLIMIT_NPROC, 0, 0))
            elif "user" in self.active:
                # Counted per namespace: the two halves of the fork server and the guest itself.
                allowed = request.processes + 3
                limits.append(self.limit(resource.RLIMIT_NPROC, allowed, allowed))
        memory = resource.getrlimit(resource.RLIMIT_AS)
        if LINUX:
            soft = self.size() + request.memory_bytes
            limits.append(self.limit(resource.RLIMIT_AS, soft, soft + reserve))
            memory = limits[-1][1]
        return Sentence(tuple(limits), memory, calls, filter_)

    def limit(self, kind: int, soft: int, hard: int) -> Limit:
        """A limit that can be set: the fork server may itself have been given less."""
        most = self.most[kind]
        if most == resource.RLIM_INFINITY:
            return kind, (soft, hard)
        return kind, (min(soft, most), min(hard, most))

    def size(self) -> int:
        """Address space of the fork server, and so of a new child, in bytes."""
        if self.statm_fd < 0:
            return _UNKNOWN_SIZE  # no /proc to read it from
        return int(os.pread(self.statm_fd, 64, 0).split()[0]) * _PAGE
