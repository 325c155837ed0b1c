"""How drawn strings are spelled: in words, by a pattern, or from the alphabet of the samples.

Covers what strings look like. Which string is drawn, and small changes of one, are decided in
`synth/structures/scalars.py`. Runs in the child of `synth.inputs.Drawer`; standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

# Everyday words of mixed length, some sharing letters or prefixes: rows are read by people.
_TEXT = """
    apple banana cherry date fig grape lemon mango orange peach pear plum red green blue
    yellow black white cat dog bird fish horse tiger lion bear sun moon star sky rain snow
    wind fire tree leaf river stone road house door window table chair book pen paper music
    noon level radar world hello data code test alpha beta gamma delta one two three ten north
    south
"""
WORDS = tuple(_TEXT.split())


class Style:
    """How the strings at one place are spelled: in words, by a pattern, or from an alphabet."""

    def __init__(self, samples: Sequence[str], pool: str) -> None:
        self.samples = samples
        self.longest = max(len(sample) for sample in samples)
        tokens = [_tokens(sample) for sample in samples if sample]
        self.wordy = all(wordlike for wordlike, _, _ in tokens)
        seen = [word for _, words, _ in tokens for word in words]
        gaps = [gap for _, _, between in tokens for gap in between]
        self.gaps = list(dict.fromkeys(gaps)) or [" "]
        self.most_words = max([1, *(len(words) for _, words, _ in tokens)])
        self.forms = _forms(seen)
        self.words = list(dict.fromkeys([word.lower() for word in seen] + list(WORDS)))[:96]
        self.alphabet = _alphabet("".join(samples), pool)
        everyone = self.alphabet + "".join(map(class_of, self.alphabet))
        self.characters = "".join(dict.fromkeys(everyone))

    def word(self, code: int) -> str:
        form = self.forms[code // len(self.words) % len(self.forms)]
        return form(self.words[code % len(self.words)])

    def phrase(self, codes: bytes) -> str:
        gap = self.gaps[codes[0] % len(self.gaps)] if codes else ""
        return gap.join(self.word(code) for code in codes)

    def spell(self, codes: bytes) -> str:
        return "".join(self.alphabet[code % len(self.alphabet)] for code in codes)

    def patterns(self) -> list[str]:
        """Samples such as '2024-01-15' or 'k=v;a=1' whose form is worth keeping."""
        return [s for s in self.samples if not s.isalpha() and not s.isdigit() and variable(s)][:3]


def _tokens(sample: str) -> tuple[bool, list[str], list[str]]:
    """Whether a string reads as words, its words, and what stands between them."""
    parts = re.findall(r"[^\W\d_]+|[\W\d_]+", sample)
    words = [part for part in parts if part[0].isalpha()]
    between = [part for part in parts[1:-1] if not part[0].isalpha()]
    wordlike = any(len(word) >= 3 and re.search("[aeiouyAEIOUY]", word) for word in words)
    return wordlike and not re.search(r"\d", sample), words, between


def _forms(words: Sequence[str]) -> list[Callable[[str], str]]:
    known: list[tuple[Callable[[str], str], Callable[[str], bool]]] = [
        (str.lower, str.islower),
        (str.capitalize, lambda word: word.istitle() and len(word) > 1),
        (str.upper, lambda word: word.isupper() and len(word) > 1),
    ]
    return [form for form, test in known if any(test(word) for word in words)] or [str.lower]


def _alphabet(seen: str, pool: str) -> str:
    """Characters of the classes in `seen`; `pool` holds the characters of all arguments."""
    parts: list[str] = []
    if any(char.islower() for char in seen):
        parts += [char for char in pool if char.islower()] + list("abcde")
    if any(char.isupper() for char in seen):
        parts += [char for char in pool if char.isupper()] + list("ABCDE")
    digits = [char for char in seen if char.isdigit()]
    if digits:
        binary = len(digits) >= 3 and set(digits) <= {"0", "1"}
        parts += list("01" if binary else "0123456789")
    other = [char for char in seen if not char.isalnum()]
    for pair in ("()", "[]", "{}"):
        if any(char in pair for char in other):
            other += list(pair)
    parts += [*other, *(char for char in seen if char.isalpha() and char.lower() == char.upper())]
    return "".join(dict.fromkeys(parts))[:200] or "abcde"


def class_of(char: str) -> str:
    if char.isdigit():
        return "0123456789"
    if char.islower():
        return "abcdefghijklmnoprstuvw"
    return "ABCDEFGHIJKLMNOPRSTUVW" if char.isupper() else ""


def variable(text: str) -> list[int]:
    return [i for i, char in enumerate(text) if class_of(char)]


def refill(pattern: str, codes: bytes) -> str:
    chars = list(pattern)
    for i, code in zip(variable(pattern), codes, strict=True):
        options = class_of(chars[i])
        # Half of the places keep their character, so that dates and numbers stay plausible.
        if code >= 128:
            chars[i] = options[code % len(options)]
    return "".join(chars)
