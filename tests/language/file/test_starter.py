"""First pipelines: whatever the columns are called and whatever is asked, the file made is a valid pipeline."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import validated
from verdict_cli.language.scaffold import Scaffold, nameable, pipeline_text, plain_name, scale_of
from verdict_cli.plan.build import build_plan

LINE = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=20)
COLUMNS = st.lists(LINE.filter(nameable).filter(str.strip), min_size=1, max_size=3, unique=True)
QUESTIONS = LINE.filter(lambda text: text.strip() and "{" not in text)
SCALES = st.sampled_from(["boolean", "1-5", "0-10", "bad,fair,good", "no,yes"])


@given(COLUMNS, QUESTIONS, SCALES, st.sampled_from([None, "label", "it's so", "on"]))
@example(["0"], " 0", "boolean", None)
def test_the_file_is_a_valid_pipeline(columns: list[str], question: str, scale: str, target: str | None) -> None:
    start = Scaffold("judge", question, tuple(columns), scale, "gpt-4o-mini", target=target, numbers=target and "int")
    built = build_plan(validated(parse_document(pipeline_text(start).encode(), "judge.yaml"), Path()))
    assert {used.column for used in built.plan.columns} >= set(columns)


@given(st.text())
def test_a_name_is_made_of_any_file_s_name(text: str) -> None:
    assert plain_name(text)[0].isascii()


def test_labels_that_are_on_no_scale_give_none() -> None:
    assert scale_of([]) is None
    assert scale_of([None]) is None
    assert scale_of([-1, 4]) is None
    assert scale_of([0, 1000]) is None
    assert scale_of([f"text {place}" for place in range(99)]) is None
    assert scale_of(["same", "same"]) is None
