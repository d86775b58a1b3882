"""The columns of a row that take candidates, and the reading of the winner."""

from __future__ import annotations

from typing import Any

import pytest

from verdict_cli.errors import UsageError
from verdict_cli.features.rank.candidates import (
    CandidateColumns,
    choosing_unit,
    find_candidate_columns,
    judges_both_orders,
    order_reader,
)
from verdict_cli.messages import Result, Row

SCORE = "- {unit: JudgeUnit, prompt: 'Rate {source.answer} to {source.question}'}"
PAIR = "- {unit: PairwiseJudgeUnit, options: [source.one, source.two], prompt: '{source.q}: {input.A} or {input.B}?'}"
BEST = "- {unit: BestOfKJudgeUnit, options: ['source.c[0]', 'source.c[1]', 'source.c[2]'], prompt: '{input.A}{input.B}{input.C}'}"


def test_a_row_has_one_candidate_a_column_or_all_in_a_list():
    assert CandidateColumns(("a", "b"), 2).row({"q": 1}, ["x", "y"]) == {"q": 1, "a": "x", "b": "y"}
    assert CandidateColumns(("c",), 2, listed=True).row({"q": 1}, ["x", "y"]) == {
        "q": 1,
        "c": ["x", "y"],
    }


@pytest.mark.parametrize(
    ("steps", "columns_option", "columns"),
    [
        (SCORE, (), CandidateColumns(("answer",), 1)),
        (PAIR, (), CandidateColumns(("one", "two"), 2)),
        (PAIR, ("x", "y"), CandidateColumns(("x", "y"), 2)),
        (PAIR, ("x",), CandidateColumns(("x",), 2, listed=True)),
        (BEST, (), CandidateColumns(("c",), 3, listed=True)),
        (SCORE, ("other",), CandidateColumns(("other",), 1)),
    ],
)
def test_the_columns_follow_from_the_pipeline_or_are_named(planned, steps, columns_option, columns):
    plan, _ = planned(steps)
    assert find_candidate_columns(plan, {"question": "?"}, columns_option) == columns


@pytest.mark.parametrize(
    ("steps", "shared", "message"),
    [
        (SCORE, {}, "which column takes the candidate"),
        (SCORE, {"answer": 1, "question": 1}, "lacks are: none"),
        (PAIR.replace("source.one", "source.one ~ '!'"), {}, "are ambiguous"),
        (PAIR.replace("source.two", "source.one"), {}, "are ambiguous"),
    ],
)
def test_ambiguous_columns_are_refused(planned, steps, shared, message):
    plan, _ = planned(steps)
    with pytest.raises(UsageError, match=message):
        find_candidate_columns(plan, shared, ())


def test_the_choosing_unit_and_its_orders_are_inferred(planned):
    pair, _ = planned(PAIR)
    assert choosing_unit(pair) is pair.nodes[0] and not judges_both_orders(pair)
    both, _ = planned(PAIR.replace("prompt:", "positions: both, prompt:"))
    assert judges_both_orders(both)
    score, _ = planned(SCORE)
    assert choosing_unit(score) is None and not judges_both_orders(score)


def result(**output: Any) -> Result:
    return Result(Row(0, 0, {}), (output,))


@pytest.mark.parametrize(
    ("choice", "order"),
    [("A", (0,)), (" b ", (1,)), ("tie", ()), (" TIE", ()), ("", ()), ("second text", (1,))],
)
def test_a_choice_is_a_letter_a_tie_or_the_text(planned, choice, order):
    plan, _ = planned(PAIR)
    assert (
        order_reader(plan, None, 2)(result(choice=choice), ["first text", "second text"]) == order
    )


@pytest.mark.parametrize(("choice", "order"), [("left", (0,)), ("right", (1,)), ("tie", ())])
def test_a_choice_by_the_options_own_labels_is_read(planned, choice, order):
    plan, _ = planned(PAIR.replace("prompt:", "labels: [left, right], tie: true, prompt:"))
    assert order_reader(plan, None, 2)(result(choice=choice), ["x", "y"]) == order


@pytest.mark.parametrize(
    ("expression", "output", "order"),
    [
        ("output.choice == 'A'", {"choice": "A"}, (0,)),
        ("output.choice == 'A'", {"choice": "B"}, (1,)),
        ("[1, 0]", {"choice": "A"}, (1, 0)),
        ("1", {"choice": "A"}, (1,)),
    ],
)
def test_an_expression_gives_a_boolean_an_order_or_a_number(planned, expression, output, order):
    plan, _ = planned(PAIR)
    assert order_reader(plan, expression, 2)(result(**output), ["x", "y"]) == order


@pytest.mark.parametrize("value", ["C", "nobody", None, 0.5])
def test_a_value_that_names_no_candidate_is_a_failed_row(planned, value):
    plan, _ = planned(PAIR)
    assert order_reader(plan, None, 2)(result(choice=value), ["x", "y"]) is None


def test_a_skipped_unit_is_a_failed_row(planned):
    plan, _ = planned(PAIR)
    assert order_reader(plan, None, 2)(Result(Row(0, 0, {}), (None,)), ["x", "y"]) is None


def test_a_pipeline_without_a_preference_is_refused(planned):
    plan, _ = planned(SCORE)
    with pytest.raises(UsageError, match="gives no preference"):
        order_reader(plan, None, 2)
