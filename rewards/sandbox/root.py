"""The file system of a guest: a private, read-only root, and one folder to write in.

Covers what a guest can see (`readable_folders`), building the root inside a mount namespace, and
emptying the private folder after a guest, whatever it left there. Does not cover what may be done
with the files that are visible (`landlock.py`).

Loaded by path inside the fork server, so it uses the standard library alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import sys
from collections.abc import Sequence

from rewards.sandbox.kernel import (
    AT_FDCWD,
    AT_RECURSIVE,
    MACHINE,
    MOUNT_ATTR_RDONLY,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    MS_SLAVE,
    NR_MOUNT_SETATTR,
    NR_PIVOT_ROOT,
    Kernel,
)

WORK_BYTES = "64m"
"""Size of the private folder as a whole, where it is a file system of its own."""

INSIDE_WORK = "/box"
"""Where the private folder stands inside the private root."""
DEVICES = ("null", "zero", "full", "random", "urandom")

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


def readable_folders(libraries: Sequence[str]) -> list[str]:
    """What a guest may read: the interpreter with its library, shared libraries, time zones."""
    folders = [path for path in libraries if os.path.exists(path)]
    folders.append(os.path.join(sys.base_prefix, "lib"))
    folders.append(os.path.dirname(os.path.realpath(sys.executable)))
    folders += _SYSTEM_FOLDERS
    return [path for path in dict.fromkeys(folders) if os.path.exists(path)]


class Root:
    """Builds a root folder on a file system of its own and moves into it."""

    def __init__(self, kernel: Kernel, base: str, own_pids: bool) -> None:
        self.kernel = kernel
        self.base = base
        self.own_pids = own_pids

    def build(self, folders: Sequence[str]) -> None:
        """Raises OSError if the kernel refuses; the old root is then still in place."""
        self.kernel.mount(None, "/", None, MS_REC | MS_SLAVE)
        self.kernel.mount("sandbox", self.base, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
        try:
            for folder in folders:
                self.show(folder)
            self.add_devices()
            self.add_processes()
            self.add_work()
            self.kernel.mount(
                None, self.base, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV
            )
            os.chdir(self.base)
            self.kernel.syscall(NR_PIVOT_ROOT[MACHINE], b".\0", b".\0")
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
        self.kernel.mount(folder, target, None, MS_BIND | MS_REC)
        self.make_readonly(target)
        for name in _PACKAGE_FOLDERS:
            self.hide(os.path.join(target, name))
            if os.path.isdir(target):
                for inner in os.listdir(target):
                    if inner.startswith("python"):
                        self.hide(os.path.join(target, inner, name))

    def make_readonly(self, target: str) -> None:
        attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
        try:
            self.kernel.syscall(
                NR_MOUNT_SETATTR,
                AT_FDCWD,
                os.fsencode(target),
                AT_RECURSIVE,
                attributes,
                len(attributes),
            )
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            kept = os.statvfs(target).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
            self.kernel.mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)

    def hide(self, path: str) -> None:
        """Cover installed packages: programs get the standard library alone."""
        if os.path.isdir(path) and not os.path.islink(path):
            self.kernel.mount("hidden", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "size=4k")

    def add_devices(self) -> None:
        os.mkdir(self.inside("/dev"), 0o755)
        for name in DEVICES:
            if os.path.exists(f"/dev/{name}"):
                target = self.inside(f"/dev/{name}")
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
                self.kernel.mount(f"/dev/{name}", target, None, MS_BIND)
        os.symlink("/proc/self/fd", self.inside("/dev/fd"))
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            os.symlink(f"/proc/self/fd/{number}", self.inside(f"/dev/{name}"))

    def add_processes(self) -> None:
        """/proc of the PID namespace. Without such a namespace there is none: it would show the
        host's processes. Kernels refuse it inside some containers, which costs only comfort."""
        os.mkdir(self.inside("/proc"), 0o555)
        if self.own_pids:
            flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
            with contextlib.suppress(PermissionError):
                self.kernel.mount("proc", self.inside("/proc"), "proc", flags)

    def add_work(self) -> None:
        os.mkdir(self.inside(INSIDE_WORK), 0o700)
        options = f"size={WORK_BYTES},nr_inodes=8192,mode=700"
        flags = MS_NOSUID | MS_NODEV
        self.kernel.mount("work", self.inside(INSIDE_WORK), "tmpfs", flags, options)
        os.symlink(INSIDE_WORK.lstrip("/"), self.inside("/tmp"))


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
            if stat.S_ISDIR(os.stat(child, dir_fd=inner, follow_symlinks=False).st_mode):
                # A folder is moved only by who may write to it.
                os.chmod(child, 0o700, dir_fd=inner)
            os.rename(child, os.urandom(16).hex(), src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)
