"""Completion -> vetted program: the source text inside a completion, checked against its constraint.

Covers extraction (fences, prose, prompts of an interactive session), parsing, and every rule that can be
checked on the text. What needs an execution is checked by the pipeline with the evidence of the runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from synth.constraints import Constraint, violations
from synth.errors import ProgramRejected
from synth.source import MAX_SOURCE_CHARS, Source, content_digest, read

# As in Markdown, the closing fence is at least as long as the opening one.
_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,}(?!~))[^`\n]*\n(.*?)^[ \t]*\1[`~]*[ \t]*$", re.DOTALL | re.MULTILINE
)
_FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_SESSION = re.compile(r"^>>>(?: |$)", re.MULTILINE)
_FUNCTION = re.compile(r"^(async[ \t]+)?def\b", re.MULTILINE)
_SESSION_INPUT = re.compile(r"(>>>|\.\.\.)(?: |$)")


@dataclass(frozen=True)
class Program:
    """A program that meets every rule which its text can show."""

    id: str
    """First 16 hex digits of the SHA-256 of the normalised code and entry: stable under formatting."""
    source: Source
    constraint: Constraint

    @property
    def code(self) -> str:
        """The stored text: imports and functions, without the printed call."""
        return self.source.code

    @property
    def entry(self) -> str:
        """Name of the entry function."""
        return self.source.entry

    @property
    def args(self) -> str:
        """Text of the seed input."""
        return self.source.args


def extract(completion: str) -> str:
    """The program text inside a completion.

    Takes the last fenced block that parses and defines a function, or the whole text if there is no
    fence. A block that shows the output (`42`), and prose of one word, parse as well, and are no
    programs. Raises `ProgramRejected` with the rule `no_program` (nothing there, no function, a fence
    left open), `syntax` (no block is Python) or `too_long`.
    """
    completion = completion.replace("\r\n", "\n")
    blocks = [match.group(2) for match in _FENCE.finditer(completion)]
    if not blocks and _FENCE_LINE.search(completion):
        raise ProgramRejected("no_program", "a code fence is opened and not closed")
    candidates = blocks or [completion]
    texts = [_without_session(text).strip("\n") for text in candidates]
    if all(len(text) > MAX_SOURCE_CHARS for text in texts):
        raise ProgramRejected("too_long", f"no block of at most {MAX_SOURCE_CHARS} characters")
    python = [text for text in texts if len(text) <= MAX_SOURCE_CHARS and _compiles(text)]
    for text in reversed(python):
        if _FUNCTION.search(text):
            return text + "\n"
    if not any(text.strip() for text in texts):
        raise ProgramRejected("no_program", "the completion holds no text")
    if python:
        raise ProgramRejected("no_program", "no block of the completion defines a function")
    raise ProgramRejected("syntax", "no block of the completion is Python")


def vet(constraint: Constraint, completion: str) -> Program:
    """The program in a completion. Raises `ProgramRejected` naming the first rule that is broken."""
    source = read(extract(completion))
    broken = violations(constraint, source)
    if broken:
        raise ProgramRejected(broken[0].rule, broken[0].detail)
    return Program(content_digest(f"{source.code}\n{source.entry}")[:16], source, constraint)


def _without_session(text: str) -> str:
    """The input lines of an interactive session, without their prompts and without the output."""
    if not _SESSION.search(text):
        return text
    kept = [line[4:] for line in text.split("\n") if _SESSION_INPUT.match(line)]
    return "\n".join(kept)


def _compiles(text: str) -> bool:
    try:
        compile(text, "<completion>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True
