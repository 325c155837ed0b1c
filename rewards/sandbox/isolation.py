"""How a guest is held in: the layers, and how each is put on.

Covers, where the kernel offers them: resource limits, process-group kill, namespaces (user, PID,
mount, network, IPC, UTS) with a root folder that holds little more than the standard library,
dropped privileges, a seccomp filter, Landlock. Each layer is put on once per fork server unless it
has to differ per job, and what cannot be had is reported, not pretended: `Guarantees.missing`.

Does not cover what is asked for one guest (`cell.py`), cgroups (memory is bounded per process by
address space, and over the processes of a guest by looking from time to time: `usage.py`), side
channels, or bugs of the kernel. On processors other than x86-64 and AArch64 there is no seccomp filter
and no private root folder. Outside Linux there are only resource limits and the process group, CPU is
bounded by whole seconds, and memory is not bounded where the system ignores RLIMIT_AS.

Loaded by path inside the fork server (`guest.py`), so it uses the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

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
    Step,
    Unavailable,
)
from rewards.sandbox.landlock import landlock_rules
from rewards.sandbox.mappings import enlarge_pages, join_mappings
from rewards.sandbox.root import INSIDE_WORK, Root, empty_folder, readable_folders
from rewards.sandbox.seccomp import (
    AUDIT_ARCH,
    LoadedFilter,
    base_filter,
    call_numbers,
    guest_filter,
)
from rewards.sandbox.usage import Processes

_OPEN_FILES = 128
HIGHEST_FD = 256  # above everything that a fork server has open
_KINDS = (
    *(resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_AS),
    *(resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE),
)


Limit = tuple[int, tuple[int, int]]


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
        self.steps: list[Step] = []
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
            for improve in (join_mappings, enlarge_pages):
                with contextlib.suppress(OSError):  # forks are dearer then, that is all
                    improve(self.kernel)
            self.enter_namespaces(self.kernel)
            self.kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)
        os.chdir(self.work)
        if self.kernel is not None:
            self.attempt("landlock", self.prepare_landlock, self.kernel)
            self.attempt("privileges", self.drop_privileges, self.kernel)
            self.attempt("seccomp", self.install_filter, self.kernel)
            self.prepare_steps(self.kernel)
        if "rlimits" in self.active:
            # The same for all guests and no burden to the fork server.
            resource.setrlimit(*self.limit(resource.RLIMIT_NOFILE, _OPEN_FILES, _OPEN_FILES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def prepare_steps(self, kernel: Kernel) -> None:
        """What every guest asks of the kernel, ready to be called."""
        if "pid" not in self.active:
            prctl = kernel.libc.prctl
            self.steps.append(kernel.prepared(prctl, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        if "landlock" in self.active:
            restrict = kernel.libc.syscall
            self.steps.append(kernel.prepared(restrict, NR_LANDLOCK_RESTRICT, self.rules_fd, 0))

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
            code = guest_filter(
                MACHINE,
                processes=processes,
                mount="mount" in self.active,
                pid="pid" in self.active,
            )
            self.filters[processes] = LoadedFilter(kernel, number, code)
        base = LoadedFilter(kernel, number, base_filter(MACHINE))
        kernel.run(base.steps())

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

    def limit(self, kind: int, soft: int, hard: int) -> Limit:
        """A limit that can be set: the fork server may itself have been given less."""
        most = self.most[kind]
        if most == resource.RLIM_INFINITY:
            return kind, (soft, hard)
        return kind, (min(soft, most), min(hard, most))
