"""Laws of taking a program out of a completion: fences, prose, sessions, and what is refused."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest
from generated import completion, constraints, programs
from hypothesis import example, given, settings
from hypothesis import strategies as st

from synth.errors import ProgramRejected
from synth.programs import Program, extract, vet
from synth.source import MAX_SOURCE_CHARS

DEF = "def f(x):\n    return x - 1\n"
WHOLE = f"{DEF}\nprint(f(1))\n"


def refused(text: str) -> str:
    """Name of the rule by which `extract` refuses a completion."""
    with pytest.raises(ProgramRejected) as caught:
        extract(text)
    assert caught.value.detail
    return caught.value.rule


def test_ge_04_prose_and_fences_around_a_program_are_not_source() -> None:
    text = f"Sure! Here is the function:\n```python\n{DEF}```\nCall it with f(1)."
    assert extract(text) == DEF
    assert extract(text.replace(DEF, WHOLE)) == WHOLE


FENCES = {
    "plain": f"```\n{WHOLE}```",
    "python": f"```python\n{WHOLE}```\n",
    "words after the language": f"```python title='a b'\n{WHOLE}```\n",
    "tildes": f"~~~python\n{WHOLE}~~~\n",
    "four": f"````python\n{WHOLE}````\n",
    "closed by more": f"```python\n{WHOLE}`````\n",
    "tildes closed by more": f"~~~\n{WHOLE}~~~~\n",
    "indented fence lines": f"  ```python\n{WHOLE}  ```\n",
    "blanks after the fence": f"```python  \n{WHOLE}```  \n",
    "blank lines inside": f"```python\n\n\n{WHOLE}\n\n```\n",
    "windows line ends": f"Here:\n```python\n{WHOLE}```\n".replace("\n", "\r\n"),
    "no end of line": f"```python\n{WHOLE}```",
    "prose": f"Sure.\n\n```python\n{WHOLE}```\n\nIt prints 0, as `f(1)` is 0.",
    "reasoning first": f"<think>a `for` loop, maybe</think>\n```python\n{WHOLE}```",
    "no fence": WHOLE,
    "no fence, blank lines": f"\n\n{WHOLE}\n\n",
    "no fence, windows line ends": WHOLE.replace("\n", "\r\n"),
    "another language first": f"```bash\npip install x\n```\n```python\n{WHOLE}```",
    "another language last": f"```python\n{WHOLE}```\n```text\nprints zero here\n```",
    "a draft first": f"```python\ndef g(y):\n    return y\n\nprint(g(2))\n```\nBetter:\n```python\n{WHOLE}```",
    "a broken block last": f"```python\n{WHOLE}```\n```python\ndef f(x:\n```",
    "the output last": f"```python\n{WHOLE}```\nOutput:\n```\n0\n```",
    "the output, a list": f"```python\n{WHOLE}```\nIt prints\n```text\n['a', 'b']\n```",
    "an example call last": f"```python\n{WHOLE}```\nCall it:\n```python\nprint(f(2))\n```",
    "an empty block last": f"```python\n{WHOLE}```\n```\n\n```",
    "tildes inside backticks": f"```python\n{WHOLE}```\n~~~\nnot python at all\n~~~",
    "session": ">>> def f(x):\n...     return x - 1\n...\n>>> print(f(1))\n0\n",
    "session, longer blanks": ">>> def f(x):\n...     return x - 1\n... \n>>> print(f(1))\n0\n",
    "session in a fence": "```pycon\n>>> def f(x):\n...     return x - 1\n...\n>>> print(f(1))\n0\n```",
    "session with a traceback": (
        ">>> def f(x):\n...     return x - 1\n...\n>>> print(f(1))\n"
        "Traceback (most recent call last):\n  File ...\nTypeError: no\n"
    ),
}


@pytest.mark.parametrize("name", FENCES)
def test_what_stands_around_a_program_is_left_out(name: str) -> None:
    found = extract(FENCES[name])
    assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(WHOLE))
    if "session" not in name:
        assert found == WHOLE


REFUSED = {
    "": "no_program",
    "   \n\t\n": "no_program",
    "```python\n```": "no_program",
    "```python\n\n\n```\n~~~\n~~~": "no_program",
    "Sure": "no_program",
    "None": "no_program",
    "42": "no_program",
    "x = 1": "no_program",
    "Sure! Here is the function that you asked for.": "syntax",
    "I cannot write this program.": "syntax",
    "```text\nI cannot write it\n```": "syntax",
    "```python\nx = 1\n```": "no_program",
    f"```python\n{WHOLE}": "no_program",
    f"Here it is:\n~~~\n{WHOLE}": "no_program",
    f"````python\n{WHOLE}```\n": "no_program",
    f"~~~~python\n{WHOLE}~~~\n": "no_program",
    f"```python\n{WHOLE}~~~\n": "no_program",
    f"Sure:\n{WHOLE}": "syntax",
    f"{WHOLE}Call it with f(1).": "syntax",
    "def f(x):\n    return\n  x": "syntax",
    "def f(x):\n    return 1\x00": "syntax",
    "def f(x):\n    return '\ud800'": "syntax",
    "return 1": "syntax",
    "def f(x):\n    break": "syntax",
    ">>> \n": "no_program",
    "def f(x):\n    return " + "(" * 300 + ")" * 300: "syntax",
    "x" * (MAX_SOURCE_CHARS + 1): "too_long",
    f"```python\n{DEF}{'# ' + 'x' * MAX_SOURCE_CHARS}\n```": "too_long",
}


@pytest.mark.parametrize("text", REFUSED, ids=[repr(text[:40]) for text in REFUSED])
def test_what_holds_no_program_is_refused_by_name(text: str) -> None:
    assert refused(text) == REFUSED[text]


def test_a_long_answer_around_a_short_program_is_no_fault() -> None:
    assert extract(f"{'word ' * MAX_SOURCE_CHARS}\n```python\n{WHOLE}```\n") == WHOLE


@pytest.mark.parametrize("mark", ["```", "~~~", ">>> ", "... "])
def test_marks_inside_a_line_of_code_mean_nothing(mark: str) -> None:
    text = f"def f(x):\n    return x + '{mark}'\n\nprint(f('a'))\n"
    assert extract(text) == text
    assert extract(f"```python\n{text}```") == text


def test_a_line_of_dots_in_a_program_is_no_session() -> None:
    text = "def f(x):\n    return x\n\n\n...\n\nprint(f(1))\n"
    assert extract(text) == text


pieces = st.sampled_from([
    "```", "```python", "````", "~~~", "~~~~ py", "\n", "\n\n", " ", "```\n", "~~~\n", DEF, WHOLE, "Sure!",
    ">>> ", "... ", ">>>", "x = 1", "def f(x):", "    return x", "\r\n", "\x00", "\x0c", "'", '"""', "42", "#",
    "\ud800", "\u2028", "    ", "print(f(1))", "async def g(y):\n    return y\n", "class A:\n    x = 1\n",
])  # fmt: skip


@settings(deadline=None)
@given(st.lists(pieces, max_size=14).map("".join) | st.text(max_size=60))
@example(f"```\n{WHOLE}```\n```\n{WHOLE}")
@example(">>> def f(x): return x\n")
def test_extraction_gives_source_or_refuses(text: str) -> None:
    try:
        found = extract(text)
    except ProgramRejected as rejected:
        assert rejected.rule in ("no_program", "syntax", "too_long")
        return
    compile(found, "<test>", "exec", dont_inherit=True)
    assert any(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.parse(found).body)
    assert found.endswith("\n")
    if not re.search(r"```|~~~|>>>", found):
        assert extract(found) == found


PROSE = st.lists(
    st.sampled_from([
        "Sure, here it is.", "Note that f(1) is 0.", "1. It strips.", "`f` is pure.", "", "> quoted", "---",
        "| a | b |", "The result is:", "$x^2$", "# Heading", "* item", "Done.",
    ]),
    max_size=5,
).map("\n".join)  # fmt: skip


@settings(deadline=None)
@given(PROSE, PROSE, st.sampled_from(["```", "````", "~~~", "~~~~~"]), st.integers(0, 19))
def test_prose_never_gets_in(before: str, after: str, fence: str, index: int) -> None:
    text = programs(20)[index][1]
    assert extract(f"{before}\n{fence}python\n{text}{fence}\n{after}") == text


# ---------------------------------------------------------------------------------------------
# Vetting.


def test_vet_accepts_what_the_grammar_writes_and_says_what_it_read() -> None:
    for index, constraint in enumerate(constraints(60)):
        answer = completion(constraint, f"0:{index}")
        program = vet(constraint, answer)
        assert program.constraint is constraint
        assert f"{program.code.rstrip()}\n\n\nprint({program.entry}({program.args}))" in answer
        assert len(program.id) == 16
        assert set(program.id) <= set("0123456789abcdef")
        assert "print(" not in program.code


def test_ids_are_stable_under_formatting_and_tell_programs_apart() -> None:
    seen: dict[str, Program] = {}
    for constraint, text, _ in programs(60):
        program = vet(constraint, f"```python\n{text}```")
        seen[program.id] = program
        loose = text.replace("\n    ", "\n\n    ").replace(" = ", "  =  ").replace(", ", ",")
        assert vet(constraint, loose.replace("',", "' ,")).id == program.id
    assert len(seen) == 60


def test_the_arguments_are_no_part_of_an_id_and_the_entry_is() -> None:
    constraint, text, source = next(
        found for found in programs(60) if found[0].structure.call_chain
    )
    body = text[: text.rindex("print(")]
    again = vet(constraint, f"{body}print({source.entry}({source.args}))")
    assert again.id == vet(constraint, text).id
    assert again.args == source.args
    other = replace(source, entry=next(n for n in source.functions if n != source.entry))
    assert Program("", other, constraint).entry != again.entry


def test_vet_names_the_first_rule_that_is_broken() -> None:
    constraint = constraints(1)[0]
    for text, rule in (
        ("", "no_program"),
        ("```\nfoo bar\n```", "syntax"),
        (DEF, "one_print"),
        ("def f(x):\n    return x\n\ny = 1\nprint(f(1))\n", "module_level"),
        ("def f(x):\n    return hash(x)\n\nprint(f(1))\n", "pure"),
        (WHOLE, "nested_calls"),
    ):
        with pytest.raises(ProgramRejected) as caught:
            vet(constraint, text)
        assert caught.value.rule == rule
        assert str(caught.value).startswith(rule)
