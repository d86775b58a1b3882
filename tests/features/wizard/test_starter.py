"""First pipelines: whatever the columns are called and whatever is asked, the file made is a valid pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from verdict_cli.features.wizard.answers import choice_labels, parse_scale
from verdict_cli.features.wizard.columns import DatasetColumn, DatasetColumns, nameable
from verdict_cli.features.wizard.pipeline_text import FirstJudge, pipeline_text, plain_name
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import validate_document
from verdict_cli.plan.build import build_plan

pytestmark = pytest.mark.slow  # `make test-all`


LINE = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=20)
COLUMNS = st.lists(LINE.filter(nameable).filter(str.strip), min_size=1, max_size=3, unique=True)
QUESTIONS = LINE.filter(lambda text: text.strip() and "{" not in text)
SCALES = st.sampled_from(["boolean", "1-5", "0-10", "bad,fair,good", "no,yes", "0.0-1.0"])


@given(COLUMNS, QUESTIONS, SCALES, st.sampled_from([None, "label", "it's so", "on"]))
@example(["0"], " 0", "boolean", None)
def test_the_file_is_a_valid_pipeline(columns, question, scale, target):
    labels = {"boolean": ["yes", None], "1-5": ["1", ""], "0-10": [3, 4.5]}.get(
        scale, scale.split(",")
    )
    built_from(columns, question, scale, target, labels)


def built_from(
    columns: list[str],
    question: str,
    scale: str,
    target: str | None,
    labels: list[Any],
    **shape: Any,
) -> None:
    label = DatasetColumn((target,), labels) if target else None
    read = [DatasetColumn((name,), ["text"] * len(labels)) for name in columns if name != target]
    judge = FirstJudge(
        "judge",
        DatasetColumns(
            "data", {column.name: column for column in [*read, *([label] if label else [])]}
        ),
        tuple(read),
        question,
        "gpt-4o-mini",
        scale=parse_scale(scale),
        target=label,
        **shape,
    )
    text = pipeline_text(judge)
    built = build_plan(validate_document(parse_document(text.encode(), "judge.yaml"), Path()))
    assert {used.column for used in built.plan.columns} >= {column.name for column in read}


@given(
    st.lists(LINE.filter(nameable).filter(str.strip), min_size=2, max_size=4, unique=True),
    QUESTIONS,
)
def test_pairs_and_options_give_valid_pipelines(columns, question):
    target = None if "label" in columns else "label"
    labels = ["A", "B"]
    choices = choice_labels(columns, DatasetColumn(("label",), labels))
    compared = tuple((name,) for name in columns)
    built_from(
        columns,
        question,
        "boolean",
        target,
        labels,
        compared=compared,
        choices=choices if target else None,
    )


@given(st.text())
def test_a_name_is_derived_from_any_files_name(text):
    assert plain_name(text)[0].isascii()
