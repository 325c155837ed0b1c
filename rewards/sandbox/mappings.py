"""How the fork server's memory is mapped, which is what a fork of it costs.

Covers loaded files: fewer mappings for each, and large pages under the interpreter's code. Neither
changes what lies where or what it says; a kernel that refuses leaves things as they were, and forks are
dearer then.

Loaded by path inside the fork server, so it uses the standard library alone.
"""

from __future__ import annotations

from typing import NamedTuple

from rewards.sandbox.kernel import Kernel

_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE, _ANONYMOUS = 2, 0x20
_HUGEPAGE, _COLLAPSE = 14, 25  # what madvise is told
_MAYMOVE, _FIXED = 1, 2
_LARGE = 2 << 20
_MOST_BYTES = 4 * _LARGE  # of code for which large pages are spent, in every fork server
_LARGE_SIZE = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"


class Mapping(NamedTuple):
    """A line of /proc/self/maps that has a name."""

    start: int
    end: int
    rights: str
    name: str


def mappings() -> list[Mapping]:
    """The named mappings of this process. Raises OSError if there is no /proc."""
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6:
                start, end = (int(number, 16) for number in fields[0].split("-"))
                found.append(Mapping(start, end, fields[1], fields[5]))
    return found


def join_mappings(kernel: Kernel) -> None:
    """Have every loaded file mapped in two pieces instead of five: one to run, one to write.

    A fork copies the list of mappings, not only pages, and with two dozen extension modules that is
    a tenth of its cost. The price is a hardening that means nothing in a process which runs foreign
    code anyway: read-only data lies beside the code and is executable like it, relocated data stays
    writable. Raises OSError if there is no /proc or the kernel refuses.
    """
    found = mappings()
    run = {each.name for each in found if each.rights == "r-xp" and each.name.startswith("/")}
    for each, after in zip(found, [*found[1:], Mapping(0, 0, "", "")], strict=True):
        if each.rights == "r--p" and each.name in run:
            # What is relocated lies before what is written to, at the end.
            relocated = (after.rights, after.name) == ("rw-p", each.name)
            wanted = _READ | (_WRITE if relocated else _EXECUTE)
            _protect(kernel, each.start, each.end - each.start, wanted)


def enlarge_pages(kernel: Kernel) -> None:
    """Have the interpreter's code in pages of 2 MiB, of this process alone.

    A child has no page of a file when it begins and asks for each group of 16 that it comes to: some
    forty times for the interpreter's code, a tenth of what a small program costs. Pages this large
    are handed down with the fork. The price is that code's size, for each fork server: 4 MiB.

    Raises OSError if there is no /proc, if the processor's large pages are of another size, or if the
    kernel refuses or has none left; Linux has them for this since 6.1.
    """
    with open(_LARGE_SIZE, encoding="ascii") as file:
        if file.read().strip() != str(_LARGE):
            raise OSError("large pages of another size")
    left = _MOST_BYTES
    for each in mappings():
        if each.rights == "r-xp" and each.name.startswith("/"):
            start = -(-each.start // _LARGE) * _LARGE
            size = min(each.end // _LARGE * _LARGE - start, left)
            if size > 0:
                _enlarge(kernel, start, size)
                left -= size


def _enlarge(kernel: Kernel, start: int, size: int) -> None:
    """Put a copy in large pages in place of what is mapped to read and run at `start`."""
    types, libc = kernel.ctypes, kernel.libc
    pointer, length = types.c_void_p, types.c_size_t
    libc.mmap.restype = libc.mremap.restype = pointer
    # So much more than is needed that an aligned place is in it.
    room = libc.mmap(
        None,
        length(size + _LARGE),
        _READ | _WRITE,
        _PRIVATE | _ANONYMOUS,
        -1,
        types.c_long(0),
    )
    if room == pointer(-1).value:
        raise kernel.refused()
    copy = -(-room // _LARGE) * _LARGE
    libc.munmap(pointer(room), length(copy - room))
    libc.munmap(pointer(copy + size), length(room + _LARGE - copy))
    try:
        kernel.check(libc.madvise(pointer(copy), length(size), _HUGEPAGE), "madvise")
        types.memmove(copy, start, size)
        # Refused unless all of it is in large pages then; a copy in small ones makes forks dearer.
        kernel.check(libc.madvise(pointer(copy), length(size), _COLLAPSE), "madvise")
        _protect(kernel, copy, size, _READ | _EXECUTE)
        # The same bytes at the same place: nothing that runs there can tell.
        moved = libc.mremap(
            pointer(copy), length(size), length(size), _MAYMOVE | _FIXED, pointer(start)
        )
        if moved != start:
            raise kernel.refused()
    except OSError:
        libc.munmap(pointer(copy), length(size))
        raise


def _protect(kernel: Kernel, start: int, size: int, rights: int) -> None:
    types = kernel.ctypes
    done = kernel.libc.mprotect(types.c_void_p(start), types.c_size_t(size), rights)
    kernel.check(done, f"mprotect {start:#x}")
