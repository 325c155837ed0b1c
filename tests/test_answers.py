"""From a completion in any container to one answer per question: forms, reasoning, fences, lines."""

from __future__ import annotations

import re
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rewards import answers, lexing
from rewards.answers import code_of, extract, fenced, text_of, without_prompt
from rewards.lexing import (
    logical_lines,
    same_tokens,
    split_value_and_type,
    statement_tokens,
    tokens,
    tree,
    without_comment,
)

TEXT = "<answer>\n3\n</answer>"


# ------------------------------------------------------------------------------------ containers


def message(text: object, role: str = "assistant") -> dict[str, object]:
    return {"role": role, "content": text}


@pytest.mark.parametrize(
    "completion",
    [
        TEXT,
        message(TEXT),
        {"content": TEXT},
        [message(TEXT)],
        [TEXT],
        [message("<answer>9</answer>", "user"), message(TEXT)],
        [message("<answer>9</answer>"), message("42", "tool"), message(TEXT)],
        [message(TEXT), message("<answer>9</answer>", "user")],
        message([{"type": "text", "text": TEXT}]),
        message([{"type": "thinking", "thinking": "?"}, {"type": "text", "text": TEXT}]),
        [message([{"type": "text", "text": TEXT[:9]}, {"type": "text", "text": TEXT[9:]}])],
        [{"type": "text", "text": TEXT[:9]}, {"type": "text", "text": TEXT[9:]}],
        (message(TEXT),),
        SimpleNamespace(role="assistant", content=TEXT),
        [
            SimpleNamespace(role="user", content="?"),
            SimpleNamespace(role="assistant", content=TEXT),
        ],
        {**message(TEXT), "reasoning_content": "<answer>9</answer>"},
    ],
)
def test_text_of_every_container_is_what_the_model_wrote(completion: object) -> None:
    assert text_of(completion) == TEXT


@pytest.mark.parametrize(
    "completion",
    [None, [], {}, 3, b"x", message(None), [message(TEXT, "user")], message([]), [None]],
    ids=repr,
)
def test_no_text_is_none(completion: object) -> None:
    assert text_of(completion) is None
    assert extract(text_of(completion)).status == "no_answer"


def test_an_array_of_texts_or_messages() -> None:
    class Array:
        def __init__(self, items: list[Any]) -> None:
            self.items = items

        def tolist(self) -> list[Any]:
            return self.items

    assert text_of(Array([message(TEXT)])) == TEXT


def test_the_prompt_is_taken_off_where_it_stands_in_front() -> None:
    prompt = "Answer in <answer>0</answer>."
    assert without_prompt(prompt + TEXT, prompt) == TEXT
    assert without_prompt(TEXT, prompt) == TEXT
    assert without_prompt(TEXT, "") == TEXT


# ------------------------------------------------------------------------------------ the answer


@pytest.mark.parametrize(
    ("text", "status", "answer"),
    [
        (TEXT, "found", "3"),
        ("x", "no_answer", ""),
        ("", "no_answer", ""),
        ("<answer>3", "truncated", ""),
        ("<answer></answer>", "found", ""),
        ("<think>it is <answer>3</answer>", "truncated", ""),
        ("<think>a</think><answer>1</answer><think>b</think><answer>2</answer>", "found", "2"),
        ("<think>a</think><answer>1</answer>\n<think>wait", "truncated", ""),
        ("<answer>1</answer> no <answer>2", "found", "1"),
        ("<reasoning>a</reasoning><answer>1</answer> I used <think> here", "found", "1"),
        ("<seed:think>a <answer>1</answer></seed:think><answer>2</answer>", "found", "2"),
        ("[THINK]a <answer>1</answer>[/THINK]<answer>2</answer>", "found", "2"),
        ("[THINK]a <answer>1</answer>", "truncated", ""),
        ("< answer >1</ answer >", "found", "1"),
        ("<reasoning>say '</reasoning>'</reasoning><answer>1</answer>", "found", "1"),
        ("<answer>'</answer>'</answer>", "found", "'</answer>'"),
        ("<answer>'</think>'</answer>", "found", "'</think>'"),
        ("</answer><answer>1</answer>", "found", "1"),
        ("<answer>1</answer>\x00", "found", "1"),
        ("<answer>1<|im_end|></answer><|im_end|><|endoftext|>", "found", "1"),
        ("<answer>1</answer><\uff5cend\u2581of\u2581sentence\uff5c>", "found", "1"),
        ("<answer>1</answer>" + "<pad>" * 5000, "found", "1"),
    ],
)
def test_which_answer_counts(text: str, status: str, answer: str) -> None:
    found = extract(text)
    assert (found.status, found.answer) == (status, answer)


def test_a_completion_that_the_server_cut_is_truncated_not_without_answer() -> None:
    assert extract("It is", truncated=True).status == "truncated"
    assert extract(TEXT, truncated=True).status == "found"
    assert extract(None, truncated=True).status == "truncated"


@pytest.mark.parametrize(
    ("text", "well_formed"),
    [
        ("<reasoning>\nx\n</reasoning>\n<answer>\n3\n</answer>", True),
        ("<think>x</think>\n\n<answer>3</answer>\n", True),
        ("x</think><answer>3</answer>", True),  # the prompt opened it
        ("<answer>3</answer><|im_end|>", True),  # the server took the reasoning away
        ("<reasoning>x</reasoning> so <answer>3</answer>", False),
        ("x <answer>3</answer>", False),
        ("<reasoning>x</reasoning><answer>3</answer> done", False),
        ("<reasoning>x</reasoning><answer>2</answer><answer>3</answer>", False),
        ("<reasoning>x<answer>3</answer>", False),
        ("so <reasoning>x</reasoning><answer>3</answer>", False),
        ("<answer>3</answer><reasoning>x</reasoning>", False),
        ("<Answer>3</Answer>", False),
        ("3", False),
    ],
)
def test_well_formed_is_the_form_that_was_asked_for(text: str, well_formed: bool) -> None:
    assert extract(text).well_formed is well_formed


@given(st.text(), st.text(alphabet="<>/answerthinkog '\"\n`[](){}\\#;\r|", max_size=80))
@example("", "<answer>" * 50 + "</think>" * 50 + "</answer>" * 50)
@example("", "<|" * 40 + "<answer>" + "[PAD]" * 40)
def test_extraction_never_raises_and_its_lines_are_its_answer(before: str, text: str) -> None:
    found = extract(before + text)
    assert found.status in ("found", "no_answer", "truncated")
    for line in found.lines:
        assert line.strip()
        assert (
            line in found.answer.replace("\r", "\n") or "`" in found.answer or "~" in found.answer
        )
    for count in range(3):
        found.aligned(count)
    code_of(found.answer)


PIECES = (
    *("<reasoning>", "</reasoning>", "<think>", "</think>", "<answer>", "</answer>"),
    *("<", "</", ">"),
    *("<|channel|>final<|message|>", "<|im_end|>", "</s>", "[THINK]", "[/THINK]", "<seed:think>"),
    *("seed:think", "K", "x < 3", "\n", " ", "\t", "\f", "\u00a0", "```", "'", "`", "1", "\r\n"),
    *("</thinking>", "<thought>", "< answer >", "<ANSWER>", "[answer]", "Answer: 2", "f(\n)"),
)
FORMS = (
    "<reasoning>\n{}\n</reasoning>\n<answer>\n{}\n</answer>",
    "<think>{}</think>\n\n<answer>{}</answer>\n",
    "<reasoning>{}</reasoning><answer>{}</answer>",
    "{}<answer>{}</answer>",
)


@st.composite
def nearly_asked(draw: st.DrawFn) -> str:
    """Completions of the asked form, some with a piece too much or too little somewhere."""
    pieces = st.lists(st.sampled_from(PIECES), max_size=3).map("".join)
    text = draw(st.sampled_from(FORMS)).format(draw(pieces), draw(pieces))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(pieces) + text[place + draw(st.integers(0, 12)) :]
    return text


@settings(max_examples=500)
@example(FORMS[0].format("", "<|channel|>final<|message|>1"), False, False, False)
@example(FORMS[0].format("[THINK]", "1"), False, False, False)
@example(FORMS[0].format("seed:think", "1 </seed:think>"), False, False, False)
@example(FORMS[0].format("", "1</s>"), False, False, False)
@given(nearly_asked(), st.booleans(), st.booleans(), st.booleans())
def test_the_plain_form_is_read_as_the_patterns_and_the_scan_read_it(
    text: str, answer_first: bool, marked: bool, truncated: bool
) -> None:
    options = {"answer_first": answer_first, "marked": marked, "truncated": truncated}
    quick = extract(text, **options)
    with patch.object(answers, "_asked_form", lambda text: None):
        assert extract(text, **options) == quick
        # White space in front is no fault for the pattern, and one for the scan.
        if text[:1] not in (" ", "\t", "\n"):
            with patch.object(answers, "_ASKED_FORM", re.compile("(?!)")):
                assert extract(text, **options) == quick


@pytest.mark.parametrize("form", FORMS[:3])
def test_the_usual_forms_take_the_quick_way(form: str) -> None:
    for answer in ("1", "if x < 3:\n1; int", "a\n" * 100):
        assert answers._asked_form(form.format("go on", answer)) is not None
    assert answers._asked_form(form.format("if x < 3", "1")) is None


def test_long_completions_take_linear_time() -> None:
    for piece in ("<answer>", "</think>", "<", "[", "'''", '"""', "(", "```\n", "\\", "#", "<|a|>"):
        text = "<answer>" + piece * (40_000 // len(piece)) + "</answer>"
        started = time.process_time()
        extract(text)
        assert time.process_time() - started < 2.0, piece  # 40 kB; a quadratic scan takes minutes


@pytest.mark.parametrize(
    "text",
    [
        "```" + " " * 40_000 + "x",
        "`" + " " * 40_000 + "x",
        "```" + " `" * 20_000,
        "a\n```" + " " * 40_000 + "!",
        "a\n~~~" + "\t" * 40_000 + "!",
        "a\n```a" + " " * 40_000 + "!",
        "a\n" + "`" * 40_000 + "!",
    ],
    ids=range(7),
)
def test_white_space_beside_fence_marks_takes_linear_time(text: str) -> None:
    """Once 1 to 2 seconds at 1 kB for the first two, and with the cube of the length."""
    started = time.thread_time()
    found = extract(f"<answer>{text}</answer>")
    code_of(found.answer)
    assert time.thread_time() - started < 2.0
    assert found.status == "found"


class Watched(str):
    """A text that counts how many of its characters are searched backwards or copied."""

    looked = 0

    def rfind(self, *args: Any) -> int:
        place = super().rfind(*args)
        self.looked += args[2] - max(place, args[1])
        return place

    def __getitem__(self, key: Any) -> str:
        part = super().__getitem__(key)
        self.looked += len(part)
        return part


@pytest.mark.parametrize(
    "piece", ["<think>", "<think> ", "\nx<think>", "<think></think>", "\n<think>x"]
)
def test_tags_on_one_line_are_not_looked_at_again_for_each_of_them(piece: str) -> None:
    text = Watched("x" + piece * 1000)
    answers._Scan(text, answers._TAG)
    assert text.looked < 5 * len(text)


TAGS = (
    "<think>",
    "</think>",
    "<reasoning>",
    "</reasoning>",
    "\n",
    " ",
    "x",
    "<answer>",
    "</answer>",
)


@given(st.lists(st.sampled_from(TAGS), max_size=14).map("".join))
@example("<think><think>")
@example("x<think>\n <think>")
@example("<think></think><think>")
def test_a_tag_opens_a_line_if_nothing_stands_before_it_in_the_line(text: str) -> None:
    scan = answers._Scan(text, answers._TAG)
    expected = None
    for start, _, _, name in reversed(scan.openings):
        before = text[:start].rpartition("\n")[2]
        if start >= scan.reasoned and not before.strip():
            expected = name
    assert scan.left_open == expected


# ------------------------------------------------------------------------------------ fences

# What says the same in one pattern, in cubic and in quadratic time.
INLINE = re.compile(r"(`{1,})(?:(?:python3?|py)(?=\s))?\s*([^`\n].*?)\s*\1", re.DOTALL)
FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*((?:[A-Za-z][\w.+#-]*)?)[ \t]*$")


@settings(max_examples=500)
@given(
    st.lists(
        st.sampled_from(("`", "``", " ", "\t", "\x1c", "x", "py", "python3", "é", "'")), max_size=9
    ).map("".join)
)
@example("`py `x`")
@example("` `")
@example("` ``x `")
@example("``py  ``")
@example("```x``")
def test_text_in_back_ticks_is_what_the_pattern_finds(text: str) -> None:
    found = INLINE.fullmatch(text)
    assert answers._inline(text) == (found.group(2) if found else None)


@settings(max_examples=500)
@given(
    st.lists(
        st.sampled_from(("```", "`", "~~~", "~", " ", "\t", "x", "A.b+#-", "9", "é", "!")),
        max_size=8,
    ).map("".join)
)
def test_a_fence_is_what_the_pattern_finds(line: str) -> None:
    plain, found = FENCE.match(line), answers._FENCE.match(line)
    assert (found is None) == (plain is None)
    if plain and found:
        assert (found[1], found[2] or "") == (plain[1], plain[2])


def test_fences_are_taken_off_or_read() -> None:
    for text in (
        "```python\nassert f() == 1\n1; int\n```",
        "```\nassert f() == 1\n```\n1; int",
        "~~~\nassert f() == 1\n1; int\n~~~",
        "```py \nassert f() == 1\n1; int```",
    ):
        found = extract(f"<answer>{text}</answer>")
        assert found.lines == ("assert f() == 1", "1; int")
    assert code_of("Here:\n```python\nx\n```\nDone.") == "x"
    assert code_of("`x`") == "x"
    assert code_of("```py x```") == "x"
    assert code_of("'`x`'") == "'`x`'"
    assert code_of("```\nx") == "x"


def test_ap_09_two_fences_are_two_blocks() -> None:
    found = fenced("```python\na = 1\n```\nand then\n```python\nb = 2\n```")
    assert found.blocks == ("a = 1", "b = 2")
    assert found.around == "and then"


def test_ap_11_a_fence_closes_with_as_many_marks_as_it_opened() -> None:
    found = fenced("````python\ndef f():\n    return '```'\n````")
    assert found.blocks == ("def f():\n    return '```'",)
    assert fenced("````\n```\nx\n```\n````").blocks == ("```\nx\n```",)


# ------------------------------------------------------------------------------------ lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\n\nb\n", ["a", "b"]),
        ("[1,\n 2]; list\nb", ["[1,\n 2]; list", "b"]),
        ("f(\n)\nb", ["f(\n)", "b"]),
        ("f(\nb", ["f(", "b"]),  # never closed: continues nothing
        ("f(\n[1]\n{2}", ["f(", "[1]", "{2}"]),
        ("a)\n(b", ["a)", "(b"]),
        ("(]\n)", ["(]\n)"]),
        ("'('\n')'", ["'('", "')'"]),
        ("'(\n)", ["'(\n)"]),  # the quote is never closed, so it quotes nothing
        ("# (\n)", ["# (", ")"]),
        ("'''a\nb'''; str\nc", ["'''a\nb'''; str", "c"]),
        ("'''a\nb", ["'''a", "b"]),
        ("a \\\nb\nc", ["a \\\nb", "c"]),
        ("don't (\nstop)", ["don't (\nstop)"]),
        ("r'\\'\nb", ["r'\\'\nb"[:4], "b"]),
    ],
)
def test_logical_lines(text: str, lines: list[str]) -> None:
    assert list(logical_lines(text)) == lines


@given(st.lists(st.sampled_from([*"()[]{}'\"#\\;a1 \n", "'''", '"""', "\n\n"]), max_size=40))
def test_logical_lines_lose_nothing_but_blank_lines(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert "".join(part for _, part in tokens(text)) == text
    lines = logical_lines(text)
    assert "\n".join(lines).replace("\n", "").replace(" ", "") == text.replace("\n", "").replace(
        " ", ""
    )
    for line in lines:  # cutting again gives the same: a line stands for itself
        assert logical_lines(line) == (line,) or "\n" in line


LINE_PIECES = (
    *"()[]{}'\"#\\;a1 \n",
    *("'''", '"""', "\n\n", "\\'", "\\n", "'a'", '"b"', "f(x)", "[1, 2]", "r'\\'", "'\\\\'"),
)


@settings(max_examples=500)
@example("'''a'\n'''b'")
@example('"""a"\n"""b"')
@given(st.lists(st.sampled_from(LINE_PIECES), max_size=30).map("".join))
def test_lines_known_to_be_whole_are_those_that_tokens_would_cut(text: str) -> None:
    quick = logical_lines(text)
    with patch.object(lexing, "_is_simple", lambda line: False):
        assert logical_lines(text) == quick
    filler = "a" * lexing._MAX_SIMPLE  # a text so long is not remembered
    last = logical_lines(f"{text}\na")[-1]
    assert logical_lines(f"{text}\n{filler}")[-1] == last[:-1] + filler


@pytest.mark.parametrize("answer", ["f(\n1; int\ng)", "```\nf(\n\n1; int\ng)\n```"])
def test_a_bracket_closed_by_a_later_answer_does_not_join_them(answer: str) -> None:
    found = extract(f"<answer>\n{answer}\n</answer>")
    assert len(found.lines) == 1
    assert found.aligned(3) == ("f(", "1; int", "g)")
    assert found.aligned(2) == found.lines


@given(st.lists(st.from_regex(r"[^\n\r]*\S[^\n\r]*", fullmatch=True), min_size=1, max_size=6))
def test_physical_lines_are_taken_where_their_number_fits(lines: list[str]) -> None:
    found = extract("<answer>\n" + "\n".join(lines) + "\n</answer>")
    text = "".join(lines)
    if not any(mark in text for mark in "`~<>[\x85\u2028\ufeff\u200b\u00a0\v\f\x1c\x1d\x1e"):
        assert len(found.aligned(len(lines))) == len(lines)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("1; int", ("1", "int")),
        ("1;int", ("1", "int")),
        ("'a; b'; str", ("'a; b'", "str")),
        ("'a; str'", None),
        ("[';']; list", ("[';']", "list")),
        ("'it\\'s; x'; str", ("'it\\'s; x'", "str")),
        ("1; int  # one; more", ("1", "int")),
        ("'#'; str", ("'#'", "str")),
        ("1; 2; int", ("1; 2", "int")),
        ("'a'; 'b'; str", ("'a'; 'b'", "str")),
        ("int", None),
        ("'''a;'''; str", ("'''a;'''", "str")),
    ],
)
def test_value_and_type_are_cut_at_the_last_semicolon_outside_quotes(
    text: str, pieces: tuple[str, str] | None
) -> None:
    assert split_value_and_type(text) == pieces


# ------------------------------------------------------------------------------------ statements


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("x = 1", "x=1", True),
        ("x = 1", "  x  =  1  # set", True),
        ("x = 'a'", 'x = "a"', True),
        ("x = 'a b'", "x = 'a  b'", False),
        ("x = ' '", "x = ''", False),
        ("x = u'a'", "x = 'a'", True),
        ("x = b'a'", "x = 'a'", False),
        ("x = r'\\n'", "x = '\\\\n'", True),
        ("x = f'a'", 'x = f"a"', True),
        ("x = f'a'", "x = 'a'", False),
        ("if x:", "elif x:", False),
        ("if x:", "if x", False),
        ("if x:", "while x:", False),
        ("return x", "returnx", False),
        ("x = 1", "x == 1", False),
        ("x += 1", "x = + 1", False),
        ("x = 1", "x = 1;", False),
        ("x = 10", "x = 1 0", False),
        ("f(\n    1,\n)", "f(1,)", True),
        ("rows = list(", "rows = list (", True),
        ("", "", False),
        ("# a", "# a b", False),
        ("x = '''a'''", "x = 'a'", True),
    ],
)
def test_statements_are_the_same_by_their_tokens(a: str, b: str, same: bool) -> None:
    assert same_tokens(a, b) is same
    assert same_tokens(b, a) is same


@given(st.text(alphabet="ab1'\"()=+ #.:\\\n", max_size=20))
def test_the_same_text_is_the_same_statement_whatever_it_is(text: str) -> None:
    assert same_tokens(text, text) is bool(text.strip())
    assert (
        statement_tokens(text + "  # end") == statement_tokens(text)
        or text.count("'")
        or ('"' in text or "\\" in text)
    )


def test_without_comment() -> None:
    assert without_comment(" x  # y") == "x"
    assert without_comment("'#'") == "'#'"


# ------------------------------------------------------------------------------------ trees


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100 + ")" * 100,
        "-" * 3000 + "1",
        "1" + "+1" * 3000,
        "a" + ".a" * 3000,
        "a" + "()" * 3000,
        "a" + "[0]" * 3000,
        "lambda a, b: " * 1000 + "1",
        "1" + " if 1 else 1" * 1000,
        "not " * 3000 + "1",
        "f(1, 2)" + " + f(1, 2)" * 3000,
        "f'{" + "-" * 3000 + "1}'",
        "x\x00",
        "1" * 60_000,
    ],
    ids=lambda text: text[:8],
)
def test_texts_that_would_go_deep_are_not_parsed(text: str) -> None:
    started = time.process_time()
    assert tree(text) is None
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    "text",
    [
        "[" + ", ".join(["-1.5"] * 3000) + "]",
        "{" + ", ".join(["'a.b.c': (1, -2)"] * 1000) + "}",
        "'" + "." * 3000 + "'",
        "x = 1\n" * 500,
        "a and " * 200 + "a",
    ],
    ids=lambda text: text[:8],
)
def test_wide_texts_are_parsed(text: str) -> None:
    assert tree(text) is not None


def test_escapes_that_warn_are_read_as_python_reads_them(recwarn: pytest.WarningsRecorder) -> None:
    import ast

    for token in (
        r"'\d'",
        r"b'\d'",
        r"'\777'",
        r"'a\
b'",
        r"r'\d'",
        r"'\N{BULLET}\x41\u0041'",
        r"b'\N\u'",
    ):
        parsed = tree(token)
        assert parsed is not None, token
        (statement,) = parsed[0].body
        assert isinstance(statement, ast.Expr)
        value = ast.literal_eval(statement.value)
        assert not recwarn.list
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert value == ast.literal_eval(token)


# ------------------------------------------------------------------------------------ reports


def last(text: object, **options: bool) -> str | None:
    found = extract(text_of(text), **options)
    return found.answer if found.status == "found" else None


def test_ap_01_text_and_message_list_give_the_same_answer() -> None:
    text = "<answer>[1, 2]</answer>\nWait, the loop runs once more.\n<answer>[1, 2, 3]</answer>"
    assert last(text) == last([message(text)]) == "[1, 2, 3]"


def test_ap_03_several_pairs_are_not_well_formed_and_the_last_counts() -> None:
    text = "<think>a</think><answer>3</answer><think>b</think><answer>4</answer>"
    assert last(text) == "4"
    assert not extract(text).well_formed


def test_ap_05_line_breaks_around_the_tags_cost_nothing() -> None:
    text = "<think>\nadd 2 and 3\n</think>\n\n<answer>\n5\n</answer>\n"
    assert last(text) == "5"
    assert extract(text).well_formed


def test_ap_07_an_answer_may_take_several_lines() -> None:
    assert extract("<answer>[\n    1,\n    2,\n]</answer>").lines == ("[\n    1,\n    2,\n]",)


def test_ap_12_drafts_in_the_reasoning_do_not_count() -> None:
    text = "<think>maybe <answer>0</answer>\n```python\n0\n```\nno</think>\n<answer>\n```\nx\n```\n</answer>"
    assert code_of(last(text) or "") == "x"


def test_ap_13_the_think_block_may_have_been_opened_in_the_prompt() -> None:
    assert last("Perhaps <answer>1</answer>, no.\n</think>\n<answer>2</answer>") == "2"
    assert last("Perhaps <answer>1</answer>, no.\n</think>\nI give up.") is None


def test_ap_14_an_open_think_block_means_that_generation_was_cut() -> None:
    text = "<think>So it should be <answer>7</answer> but let me check the second"
    assert extract(text).status == "truncated"


def test_ap_15_a_tag_inside_the_answer_is_no_tag() -> None:
    assert last("<answer>'<think>'</answer>") == "'<think>'"


def test_ap_36_the_last_answer_line_counts_where_a_policy_takes_lines_without_tags() -> None:
    text = "Answer: 3\nNo, I dropped one.\nAnswer: 4"
    assert last(text, marked=True) == "4"
    assert last(text) is None
    assert last("It could be 3, 4 or 5.", marked=True) is None
