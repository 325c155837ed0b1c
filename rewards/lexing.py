r"""Python text cut into tokens without running it, tolerant of what a model leaves unfinished.

Covers the tokens of a line, logical lines, cutting off a comment, the last semicolon outside quotes,
and `tree`: Python's own parser behind a check that keeps deep nesting, warnings and oversize away
from it. Every function is total: it returns for any text, in time linear in its length.

Not covered: what an answer means (`rewards.assertions`, `rewards.grading`), values (`rewards.values`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from rewards.values import canonical, parse, parse_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

__all__ = [
    "MAX_TREE_CHARS",
    "Token",
    "logical_lines",
    "same_tokens",
    "split_value_and_type",
    "statement_tokens",
    "tokens",
    "tree",
    "without_comment",
]

MAX_TREE_CHARS = 50_000
"""Longest text that is handed to Python's parser, in characters."""
_MAX_NESTING = 90  # open brackets; Python's parser stops at 200, `rewards.values` at 90
_MAX_CHAIN = 250  # operators, signs, dots, calls on the way to the deepest node
_MAX_FORMATTED = 500  # characters of an f-string, whose expressions the check does not look into

Token = tuple[str, str]
"""(kind, text); kinds: string, comment, newline, continued, space, name, number, open, close, op."""

_LONG = (
    r"'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''|"
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|'
)
_SHORT = (
    r"'(?!'')[^'\\\n]*(?:\\.[^'\\\n]*)*'|''|"
    r'"(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"|""'
)
_NO_STRING = (
    r"(?P<comment>\#[^\n]*)|(?P<newline>\n)|(?P<continued>\\\n)|(?P<space>[^\S\n]+)"
    r"|(?P<name>[^\W\d]\w*)|(?P<number>\.?\d(?:[eE][+-]\d|[\w.])*)"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<op>\*\*=|//=|>>=|<<=|\.\.\.|[-+*/%@&|^=!<>:]=|->|\*\*|//|<<|>>|<>|.)"
)
_TOKEN = re.compile(rf"(?P<string>[rRbBuUfFtT]{{0,2}}(?:{_LONG}{_SHORT}))|{_NO_STRING}", re.DOTALL)
# Where a long string is known not to end, and where no string is.
_TOKEN_NOT_LONG = re.compile(
    rf"(?P<string>[rRbBuUfFtT]{{0,2}}(?:{_SHORT}))|{_NO_STRING}", re.DOTALL
)
_TOKEN_NO_STRING = re.compile(_NO_STRING, re.DOTALL)
_BEGINS_STRING = re.compile(r"[rRbBuUfFtT]{0,2}('''|\"\"\"|'|\")")
_SHORT_REST = {
    "'": re.compile(r"[^'\\\n]*(?:\\.[^'\\\n]*)*", re.DOTALL),
    '"': re.compile(r'[^"\\\n]*(?:\\.[^"\\\n]*)*', re.DOTALL),
}
_PLAIN = r"[^()\[\]{}'\"\\#\n]*"
_STRINGS = (
    rf"{_PLAIN}(?:(?:'[^'\\\n]*(?:\\.[^'\\\n]*)*'|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"){_PLAIN})*"
)


def _nested(inner: str) -> str:
    return rf"{_STRINGS}(?:(?:\({inner}\)|\[{inner}\]|\{{{inner}\}}){_STRINGS})*"


_BALANCED = _nested(_nested(_STRINGS))
_SIMPLE = re.compile(
    rf"{_STRINGS}(?:(?:\({_BALANCED}\)|\[{_BALANCED}\]|\{{{_BALANCED}\}}){_STRINGS})*"
)
_MAX_SIMPLE = 4000
"""Longest text whose lines and tokens are remembered beyond the next few, in characters."""
_OPEN = {")": "(", "]": "[", "}": "{"}
_CHAINING = frozenset((*"+-*/%@&|^~.", "**", "//", "<<", ">>", ":="))
_CHAINING_WORDS = frozenset(("not", "lambda", "else", "await"))
_NUMBER = re.compile(
    r"0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+"
    r"|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?[jJ]?"
)
_CLASS = re.compile(r"<class '(?:collections\.)?([A-Za-z]+)'>")


def tokens(text: str) -> Iterator[Token]:
    """The tokens of `text`, white space included; their texts joined are `text`."""
    for found in _TOKEN.finditer(text):
        kind, part = found.lastgroup or "op", found.group()
        yield kind, part
        if part[-1] in "'\"" and len(part) <= 4 and _is_left_over(kind, part, text, found.end()):
            yield from _tokens_with_unclosed_quotes(text, found.end())
            return


def _is_left_over(kind: str, part: str, text: str, end: int) -> bool:
    """Whether a token shows that quotes before `end` are closed by nothing: `'`, or `''` of `'''`."""
    if kind == "op":
        return True
    return part[-2:] in ("''", '""') and text[end : end + 1] == part[-1]


def _tokens_with_unclosed_quotes(text: str, place: int) -> Iterator[Token]:
    """The tokens from `place` on, none of whose strings is looked for twice in vain.

    From a quote that is closed by nothing it is read on to the end of the line, or of the text for
    three. Every further such quote on the way stands behind a backslash, so from there the same is read.
    """
    ends: dict[str, int] = {}  # by quote: how far it is known that none is closed
    while place < len(text):
        pattern = _TOKEN
        begins = _BEGINS_STRING.match(text, place)
        if begins is not None and begins.end() <= ends.get(begins[1], 0):
            pattern = _TOKEN_NO_STRING if len(begins[1]) == 1 else _TOKEN_NOT_LONG
        found = pattern.match(text, place)
        assert found is not None  # any character is an operator at least
        kind, part = found.lastgroup or "op", found.group()
        if begins is not None and pattern is _TOKEN:
            quote = begins[1]
            if len(quote) == 3 and found.end() < begins.end() + 3:
                ends[quote] = len(text)
            elif len(quote) == 1 and kind != "string":
                ends[quote] = _SHORT_REST[quote].match(text, begins.end()).end()  # type: ignore[union-attr]
        yield kind, part
        place = found.end()


# ---------------------------------------------------------------------------------------------
# Lines


def logical_lines(text: str) -> tuple[str, ...]:
    """The lines of `text` that are not blank, where brackets, triple quotes and `\\` continue a line.

    A bracket that is never closed continues nothing, so that one unfinished answer does not swallow
    the next ones. Line ends must be `\\n`.
    """
    if "\n" not in text:
        return (text,) if text.strip() else ()
    lines = text.split("\n")
    if all(map(_is_simple if len(text) <= _MAX_SIMPLE else _is_simple.__wrapped__, lines)):
        return tuple([line for line in lines if line and not line.isspace()])
    cut = list(tokens(text))
    continuing = _matched_brackets(cut)
    lines = []
    parts: list[str] = []
    depth = 0
    for number, (kind, part) in enumerate(cut):
        if kind == "newline" and depth == 0:
            lines.append("".join(parts))
            parts = []
            continue
        parts.append(part)
        if number in continuing:
            depth += 1 if kind == "open" else -1
    lines.append("".join(parts))
    return tuple([line for line in lines if line.strip()])


@lru_cache(maxsize=4096)
def _is_simple(line: str) -> bool:
    """Whether brackets and quotes of one physical line end in it, and none is left over.

    Among such lines none continues another one, told without cutting them into tokens. Completions of
    one row share most of their lines.
    """
    return _SIMPLE.fullmatch(line) is not None and "'''" not in line and '"""' not in line


def _matched_brackets(cut: list[Token]) -> set[int]:
    """Indices of the brackets that have a partner; one that does not fit is passed over."""
    matched: set[int] = set()
    opened: list[tuple[int, str]] = []
    count = dict.fromkeys("([{", 0)  # of the brackets in `opened`, by kind
    for number, (kind, part) in enumerate(cut):
        if kind == "open":
            opened.append((number, part))
            count[part] += 1
        elif kind == "close" and count[_OPEN[part]]:
            while True:
                start, bracket = opened.pop()
                count[bracket] -= 1
                if bracket == _OPEN[part]:
                    break
            matched |= {start, number}
    return matched


def without_comment(text: str) -> str:
    """`text` without comments and without the white space around it."""
    if "#" not in text:
        return text.strip()
    return "".join([part for kind, part in tokens(text) if kind != "comment"]).strip()


def split_value_and_type(text: str) -> tuple[str, str] | None:
    """`text` cut at its last semicolon outside quotes and comments; None if there is none."""
    before, mark, after = text.rpartition(";")
    if not mark:
        return None
    if "#" not in text and "'" not in after and '"' not in after:
        # A text that holds the semicolon would have to end after it.
        return before.strip(), after.strip()
    parts = [(kind, part) for kind, part in tokens(text) if kind != "comment"]
    marks = [number for number, token in enumerate(parts) if token == ("op", ";")]
    if not marks:
        return None
    pieces = parts[: marks[-1]], parts[marks[-1] + 1 :]
    value, type_ = ["".join([part for _, part in piece]).strip() for piece in pieces]
    return value, type_


# ---------------------------------------------------------------------------------------------
# Statements


def statement_tokens(text: str) -> tuple[str, ...]:
    """What makes a statement's text what it is: its tokens, without white space and comments.

    Strings count by what they write: `'a'` and `"a"` are one token, `' '` and `'  '` are two.
    """
    return (_statement_tokens if len(text) <= _MAX_SIMPLE else _long_statement_tokens)(text)


@lru_cache(maxsize=4096)
def _statement_tokens(text: str) -> tuple[str, ...]:
    passed = ("space", "comment", "newline", "continued")
    return tuple(
        [
            _string_meaning(part) if kind == "string" else part
            for kind, part in tokens(text)
            if kind not in passed
        ]
    )


# No statement of a program is that long: a few are remembered, for the answers of one question.
_long_statement_tokens = lru_cache(maxsize=8)(_statement_tokens.__wrapped__)


def _string_meaning(token: str) -> str:
    if not _is_formatted(token):
        try:
            return canonical(parse(token), max_chars=MAX_TREE_CHARS)
        except ValueError:  # no string of Python's after all: it stands for its own text
            return token
    quote = token.lstrip("rRbBfFtT")[:1]
    prefix, _, rest = token.partition(quote)
    body = rest[:-1]
    if any(mark in body for mark in "'\"\\"):
        return token
    return f"{''.join(sorted(prefix.lower()))}'{body}'"


def _is_formatted(token: str) -> bool:
    """Whether a string token holds expressions, as f-strings and template strings do."""
    prefix = token[:2].lower()
    return prefix[0] in "ft" or (prefix[0] == "r" and prefix[1] in "ft")


def same_tokens(a: str, b: str) -> bool:
    """Whether two texts are the same statement: equal tokens, at least one."""
    if a == b:
        return bool(a.strip())
    found = statement_tokens(a)
    return bool(found) and found == statement_tokens(b)


# ---------------------------------------------------------------------------------------------
# Trees


def tree(text: str) -> tuple[ast.Module, str] | None:
    """The syntax tree of `text` and the text that its positions speak of; None if it has none.

    In that text escapes about which Python would warn are written as it reads them, and
    `<class 'list'>`, as a defaultdict is printed, is `list`.
    """
    if len(text) > MAX_TREE_CHARS or "\0" in text:
        return None
    source = _harmless(text)
    if source is None:
        return None
    try:
        return parse_tree(source), source
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _harmless(text: str) -> str | None:
    """`text` for Python's parser, or None if parsing it might go too deep."""
    parts: list[str] = []
    chains = [0]  # for each open bracket: how deep the expression before this token may be
    total = words = 0
    previous = ""
    for kind, part in _named_classes(text) if "<class" in text else tokens(text):
        chained = part in _CHAINING or part in _CHAINING_WORDS
        if kind == "number" and not _NUMBER.fullmatch(part):
            return None  # `1or 2`: no value, and Python would warn about it
        if kind == "string":
            if len(part) > _MAX_FORMATTED and _is_formatted(part):
                return None
            part = _quiet(part)
        elif kind == "open":
            chained = previous in ("close", "name", "string", "number")
        if chained:
            chains[-1] += 1
            total += 1
            words += part in _CHAINING_WORDS  # across commas: `lambda a, b: lambda a, b: …`
        if kind == "open":
            chains.append(0)
        elif kind == "close" and len(chains) > 1:
            total -= chains.pop()
        elif part == "," or (kind == "newline" and len(chains) == 1):
            total -= chains[-1]
            chains[-1] = 0
            words = 0 if kind == "newline" else words
        if len(chains) > _MAX_NESTING or total > _MAX_CHAIN or words > _MAX_CHAIN:
            return None
        if kind not in ("space", "comment", "newline", "continued"):
            previous = kind
        parts.append(part)
    return "".join(parts)


def _named_classes(text: str) -> Iterator[Token]:
    """The tokens of `text` with `<class 'list'>` as the name it shows; inside quotes it stays."""
    found = list(tokens(text))
    place = 0
    while place < len(found):
        printed = None
        if found[place][1] == "<":
            printed = _CLASS.fullmatch("".join([part for _, part in found[place : place + 5]]))
        yield ("name", printed[1]) if printed else found[place]
        place += 5 if printed else 1


_ESCAPE = re.compile(r"\\([4-7][0-7][0-7]|.)", re.DOTALL)


def _quiet(token: str) -> str:
    r"""A string token with escapes that mean the same and about which no Python warns (`'\d'`)."""
    if "\\" not in token:
        return token
    start = min(token.find(quote) for quote in "'\"" if quote in token)
    prefix = token[:start].lower()
    if "r" in prefix:
        return token
    known = "\n\r\\'\"abfnrtvx01234567" + ("" if "b" in prefix else "NuU")

    def escape(found: re.Match[str]) -> str:
        tail = found.group(1)
        if len(tail) == 3:  # an octal over \377
            code = int(tail, 8)
            return f"\\x{code & 0xFF:02x}" if "b" in prefix else f"\\u{code:04x}"
        return found.group() if tail in known else "\\" + found.group()

    return token[:start] + _ESCAPE.sub(escape, token[start:])
