"""Rows 9 and 25 of the safety findings: a column of winners is read as a whole, before a call where it is in the data."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonl import jsonl
from shell import Outcome, Shell

from verdict_cli.features.rank.contest_rows import WinnerError, Winners
from verdict_cli.language.expressions.expression import compile_expression

PIPELINE = """
verdict: 1
name: battles
model: baseline/lexical
pipeline:
  - {unit: JudgeUnit, name: j, scale: boolean, prompt: "{source.text}"}
evaluate:
  board:
    arena: {a: source.a, b: source.b, winner: WINNER, item: source.task}
"""
Battle = tuple[Any, Any, Any]


def reading(battles: list[Battle], text: str = "source.winner") -> int:
    winners = Winners(compile_expression(text))
    for row, (a, b, winner) in enumerate(battles):
        winners.add(row, (a, b), winner)
    return winners.reading()


@pytest.mark.parametrize(
    ("battles", "expected"),
    [
        ([("x", "y", "x"), ("y", "x", "X "), ("x", "y", "tie")], 0),
        ([("x", "y", "A"), ("y", "x", "b"), ("x", "y", "[[C]]"), ("x", "y", "Draw")], 1),
        ([("x", "y", 0), ("y", "x", 0.5), ("x", "y", True)], 2),
        ([("A", "B", "A"), ("A", "B", "B")], 0),
        ([("A", "B", "A"), ("B", "C", "C"), ("C", "A", "A")], 0),
        ([("model_a", "y", "model_b"), ("y", "z", "model_a")], 1),
        ([(3, 7, 7), (7, 3, 3)], 0),
    ],
)
def test_row_9_a_column_of_winners_has_one_reading(battles, expected):
    assert reading(battles) == expected


@pytest.mark.parametrize(
    "battles",
    [
        [("B", "A", "B"), ("A", "B", "B")],
        [("model_b", "model_a", "model_a")],
        [("tie", "y", "tie"), ("x", "y", "x")],
        [("b", "a", "B")],
    ],
)
def test_row_9_two_readings_that_differ_are_refused_with_both(battles):
    with pytest.raises(WinnerError, match=r"can be read as .* or as") as caught:
        reading(battles)
    hint = caught.value.hint.replace("SYSTEM_A", "source.a").replace("SYSTEM_B", "source.b")
    for cure in re.findall(r'winner: "(.*?)"', hint):
        values = [{"source": {"a": a, "b": b, "winner": winner}} for a, b, winner in battles]
        cured = compile_expression(cure)
        assert reading([(v["source"]["a"], v["source"]["b"], cured(v)) for v in values], cure) == 2
    assert hint.count("winner:") == 2


def test_row_9_numbers_that_are_names_and_shares_are_refused():
    with pytest.raises(WinnerError, match="the names of systems or as shares"):
        reading([(0, 1, 1), (1, 0, 1)])


def test_row_9_the_choice_of_a_judge_of_pairs_is_a_position():
    assert reading([("B", "A", "B"), ("A", "B", "B")], "output.choice") == 1


@pytest.mark.parametrize(
    ("codes", "cure"),
    [
        ([1, 2, 1.5], "{1: 'A', 1.5: 'tie', 2: 'B'}[source.winner]"),
        ([1, 2, 0], "{0: 'tie', 1: 'A', 2: 'B'}[source.winner]"),
        ([1, -1, 0], "{-1: 'B', 0: 'tie', 1: 'A'}[source.winner]"),
        ([0, 40, 55, 100], "source.winner / 100"),
        ([-1.0, -0.5, 0.5, 1.0], "(source.winner + 1) / 2"),
        (["1", "2", "1"], "{'1': 'A', '2': 'A'}[source.winner]"),
        (["a", "b", "C"], "{'a': 'A', 'b': 'B', 'C': 'A'}[source.winner]"),
    ],
)
def test_row_9_codes_are_refused_with_an_expression_that_is_read(codes, cure):
    with pytest.raises(WinnerError) as caught:
        reading([("x", "y", code) for code in codes])
    assert cure in caught.value.hint
    mapped = compile_expression(cure)
    reading([("x", "y", mapped({"source": {"winner": code}})) for code in codes], cure)


def run(shell: Shell, rows: list[dict[str, Any]], winner: str = "source.winner") -> Outcome:
    shell.write("pipeline.yaml", PIPELINE.replace("WINNER", json.dumps(winner)))
    shell.write("rows.jsonl", jsonl(rows))
    return shell("run", "pipeline.yaml", "rows.jsonl", "--out", "out")


def battle(a: str, b: str, winner: Any, task: int = 0) -> dict[str, Any]:
    return {"text": "x", "a": a, "b": b, "winner": winner, "task": task}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([battle("B", "A", "B"), battle("A", "B", "B")], "can be read as"),
        ([battle("x", "y", 1), battle("x", "y", 2)], "numbers are shares"),
        ([battle("x", "y", "A"), battle("x", "y", "neither")], "'neither' (1)"),
        ([battle("x", "y", "A"), battle("x", "x", "A")], "'x' is in battle with itself"),
        ([battle("x", "y", "A"), {**battle("x", "y", "A"), "a": None}], "the system is null"),
    ],
)
def test_row_25_what_a_leaderboard_needs_of_the_columns_is_checked_before_a_call(
    rows, message, shell
):
    result = run(shell, rows)
    assert result.code == 2
    assert message in result.err
    assert not (shell.folder / "out" / "results.parquet").exists()


def test_row_9_rows_without_a_winner_are_in_the_conclusion(shell):
    rows = [battle("x", "y", "A", task) for task in range(12)] + [battle("x", "y", None, 12)]
    assert run(shell, rows).code == 0
    page = (shell.folder / "out" / "report.html").read_text()
    assert "without 1 of 13 rows" in page


def test_row_25_winners_that_only_a_run_can_show_leave_the_report(shell):
    winner = "'A' if output.score else source.winner"
    result = run(shell, [battle("x", "y", "nobody"), battle("x", "y", "nobody")], winner)
    assert result.code == 0
    assert "there is no ranking" in (shell.folder / "out" / "report.html").read_text()
