"""What `verdict init` recognises in columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import validated
from verdict_cli.language.scaffold import Scaffold, pipeline_text
from verdict_cli.language.scaffold_columns import column_type, compared_scores, nested_columns
from verdict_cli.plan.build import build_plan

TALK = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([TALK], "conversation"),
        ([TALK, None], "conversation?"),
        ([["a"], []], "list[str]"),
        ([["a"], None], "list[str]?"),
        ([["a"], [1]], None),
        ([None], None),
        (["a"], None),
    ],
)
def test_types_are_declared_where_every_value_has_them(values: list[Any], kind: str | None) -> None:
    assert column_type(values) == kind


def test_a_column_of_the_dataset_goes_before_a_path_of_the_same_name() -> None:
    assert nested_columns({"a": [{"b": 1, "c": {"d": 2}}, None], "a.b": [3, 4]}) == {
        "a.c": (("a", "c"), [{"d": 2}, None]),
        "a.c.d": (("a", "c", "d"), [2, None]),
    }


@pytest.mark.parametrize(
    ("values", "scale", "lines"),
    [
        ([True, False], "boolean", ["prediction: output.score", "target: source.scores.x"]),
        ([1, 0.0], "boolean", ["prediction: output.score", 'target: "source.scores.x == 1"']),
        (["C", "I"], "boolean", ["prediction: output.score", "target: \"source.scores.x == 'C'\""]),
        ([0.5, 1], "1-5", ["prediction: output.score", "target: source.scores.x", "kind: numeric", "metrics: [spearman]"]),
    ],
)  # fmt: skip
def test_another_tools_scores_are_targets(values: list[Any], scale: str, lines: list[str]) -> None:
    assert compared_scores({"scores": [{"x": value} for value in values]}, scale) == [("their_x", lines)]


@pytest.mark.parametrize(("values", "scale"), [(["good"], "boolean"), ([True], "1-5"), ([0.5], "bad,good"), ([1, None], "boolean"), ([[1]], "boolean")])  # fmt: skip
def test_scores_that_cannot_be_compared_are_left_out(values: list[Any], scale: str) -> None:
    assert compared_scores({"scores": [{"x": value} for value in values]}, scale) == []
    assert compared_scores({"scores": ["x"]}, scale) == compared_scores({}, scale) == []


@given(st.dictionaries(st.text(), st.sampled_from([True, 0.5, 1, "C"]), min_size=1, max_size=4), st.sampled_from(["boolean", "1-5", "bad,good"]))  # fmt: skip
def test_whatever_scores_are_called_the_file_is_a_valid_pipeline(scores: dict[str, Any], scale: str) -> None:
    start = Scaffold("judge", "Good?", ("text",), scale, "gpt-4o-mini", compared=compared_scores({"scores": [scores] * 2}, scale))  # fmt: skip
    build_plan(validated(parse_document(pipeline_text(start).encode(), "judge.yaml"), Path()))
