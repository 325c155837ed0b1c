"""What grades are worth together: the formulas, their ranges, and that more is never worth less."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.grades import Grade, Graded
from rewards.row import CONTROL_FLOW, DATA_FLOW, SHAPES, Shape, Spec
from rewards.shapes import maximum, total

RIGHT, WRONG, LOST = Grade(1.0, "right"), Grade(0.0, "wrong"), Grade(None, "infrastructure")


def graded(io: Grade, right: int = 0, asked: int = 0, format: float = 1.0) -> Graded:
    questions = (RIGHT,) * right + (WRONG,) * (asked - right)
    families = tuple([CONTROL_FLOW, DATA_FLOW][n % 2] for n in range(asked))
    return Graded("whitebox", io, questions, families, format=format)


@pytest.mark.parametrize(
    ("name", "io", "right", "asked", "expected"),
    [
        ("gated", RIGHT, 4, 4, 2.0),
        ("gated", RIGHT, 1, 4, 1.25),
        ("gated", RIGHT, 0, 4, 1.0),
        ("gated", WRONG, 4, 4, 0.0),
        ("gated", RIGHT, 0, 0, 2.0),
        ("additive", RIGHT, 1, 4, 0.625),
        ("additive", WRONG, 4, 4, 0.5),
        ("outcome", RIGHT, 0, 4, 1.0),
        ("outcome", WRONG, 4, 4, 0.0),
        ("process", WRONG, 3, 4, 0.75),
        ("process", RIGHT, 0, 0, 1.0),
        ("process", WRONG, 0, 0, 0.0),
        ("penalized", RIGHT, 3, 4, 0.75),
        ("penalized", RIGHT, 2, 4, 0.5),
        ("penalized", RIGHT, 1, 4, 0.5),
        ("penalized", WRONG, 4, 4, 0.5),
        ("penalized", RIGHT, 0, 0, 1.0),
    ],
)
def test_formulas(name: str, io: Grade, right: int, asked: int, expected: float) -> None:
    assert total(Shape(name), graded(io, right, asked)) == pytest.approx(expected)


def test_alpha_weighs_the_white_box_answers() -> None:
    for alpha in (0.0, 0.25, 1.0):
        half = graded(RIGHT, 1, 2)
        assert total(Shape("gated", alpha), half) == pytest.approx(2 * (1 - alpha + alpha / 2))
        assert total(Shape("additive", alpha), half) == pytest.approx(1 - alpha + alpha / 2)


def test_families_may_weigh_differently() -> None:
    one = Graded("whitebox", RIGHT, (RIGHT, WRONG), (CONTROL_FLOW, DATA_FLOW))
    for weights, share in (
        ((), 0.5),
        (((CONTROL_FLOW, 3.0),), 0.75),
        (((CONTROL_FLOW, 0.0),), 0.0),
        (((CONTROL_FLOW, 0.0), (DATA_FLOW, 0.0)), 0.5),  # no weight at all: as without weights
    ):
        assert total(Shape("process", weights=weights), one) == pytest.approx(share)


def test_the_format_term_keeps_the_range() -> None:
    shape = Shape("gated", format=0.1)
    assert total(shape, graded(RIGHT, 1, 1)) == pytest.approx(2.0)
    assert total(shape, graded(RIGHT, 1, 1, format=0.0)) == pytest.approx(1.8)
    assert total(shape, graded(WRONG, 0, 1)) == pytest.approx(0.2)


@pytest.mark.parametrize("name", SHAPES)
def test_what_has_no_score_has_no_total(name: str) -> None:
    assert total(Shape(name), graded(LOST, 1, 1)) is None
    assert total(Shape(name), Graded("")) is None


def test_unit_tests_are_worth_their_share() -> None:
    for score in (0.0, 0.25, 1.0):
        one = Graded("unittest", tests=Grade(score, "wrong"))
        assert total(Shape(), one) == score
        assert total(Shape(), one, scale=2.0) == 2 * score
    assert maximum(Shape(), Spec("unittest")) == 1.0


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_a_scale_is_a_positive_number(scale: float) -> None:
    with pytest.raises(ValueError, match="scale"):
        total(Shape(), graded(RIGHT), scale=scale)


shapes = st.builds(
    Shape,
    st.sampled_from(SHAPES),
    st.floats(0, 1),
    st.floats(0, 1),
    st.dictionaries(st.sampled_from([CONTROL_FLOW, DATA_FLOW]), st.floats(0, 5)).map(
        lambda weights: tuple(sorted(weights.items()))
    ),
)
scales = st.sampled_from([None, 1.0, 2.0])


@given(shapes, st.booleans(), st.lists(st.booleans(), max_size=6), scales)
def test_laws(shape: Shape, io: bool, answers: list[bool], scale: float | None) -> None:
    """Within the range; all right earns the maximum; one answer more is never worth less."""
    one = graded(RIGHT if io else WRONG, 0, len(answers))
    one = replace(one, questions=tuple([RIGHT if right else WRONG for right in answers]))
    paid, top = total(shape, one, scale=scale), maximum(shape, scale=scale)
    assert paid is not None
    assert 0.0 <= paid <= top * (1 + 1e-9)
    best = replace(one, io=RIGHT, questions=(RIGHT,) * len(answers))
    assert total(shape, best, scale=scale) == pytest.approx(top)
    for number, right in enumerate(answers):
        if not right:
            better = (*one.questions[:number], RIGHT, *one.questions[number + 1 :])
            more = total(shape, replace(one, questions=better), scale=scale)
            assert more is not None
            assert more >= paid - 1e-9
    assert (total(shape, replace(one, io=RIGHT), scale=scale) or 0.0) >= paid - 1e-9
