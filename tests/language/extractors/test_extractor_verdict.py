"""The rubric's parser, against the two regular expressions that the lesson prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.verdict import VerdictExtractor, build_rubric, parse_verdict
from verdict_cli.language.fields.types import INTEGER, NUMBER, TEXT, FieldType, RecordType, ScaleType
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.scales.discrete import LIKERT, DiscreteScale
from verdict_cli.messages import Reply, Request, Row
from verdict_cli.model import Model

REQUEST = Request(Row(0, 0, {}), "judge", Model(name="m"), ())
TEXTS = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(["PASS", "fail", "Pass", "passing", "SCORE", "score", ":", "=", " ", "\n", "7", "85", "٣", "\t", "x"]),
        max_size=12,
    ).map("".join),
)  # fmt: skip


@pytest.fixture(scope="module")
def lesson(shared: Path) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The two expressions of the lesson: for verdicts and for scores."""
    for path in sorted((shared / "seeds").iterdir()):
        printed = re.findall(r're\.findall\(r"([^"]+)", text, re\.I\)', path.read_text(encoding="utf-8"))
        if len(printed) == 2:
            return re.compile(printed[0], re.IGNORECASE), re.compile(printed[1], re.IGNORECASE)
    pytest.skip("no seed prints the two expressions")


@settings(deadline=None, max_examples=120)
@given(TEXTS)
@example("this could be a fail, but … VERDICT: PASS\nSCORE: 8")
@example("score 3 then Score=4 then SCORE :\n 5")
@example("compass failing")
def test_any_text_gives_what_the_lessons_expressions_give(
    lesson: tuple[re.Pattern[str], re.Pattern[str]], text: str
) -> None:
    verdicts, scores = lesson[0].findall(text), lesson[1].findall(text)
    if (scores and len(scores[-1]) > 18) or re.search(r"score\s*(?:[:=]\s*)?\d*[.,]\d", text, re.IGNORECASE):
        return
    assert parse_verdict(text) == {
        "verdict": verdicts[-1].upper() if verdicts else "FAIL",
        "score": int(scores[-1]) if scores else 0,
    }


@settings(deadline=None)
@given(TEXTS)
@example("SCORE: " + "9" * 5000)
@example("score" + " " * 200_000)
def test_any_text_gives_a_verdict_and_a_number(text: str) -> None:
    found = parse_verdict(text)
    assert found["verdict"] in ("PASS", "FAIL")
    assert 0 <= found["score"] < 10**18


@settings(deadline=None)
@given(st.text().filter(lambda text: not re.search("pa[sſ]{2}", text, re.IGNORECASE)))
def test_a_text_that_does_not_say_pass_never_passes(text: str) -> None:
    assert parse_verdict(text)["verdict"] == "FAIL"


def test_the_shared_cases_of_the_parser_hold(value_cases: dict[str, list[dict[str, Any]]]) -> None:
    for case in value_cases["rubric_parse"]:
        assert parse_verdict(case["given"]["text"]) == case["expect"], case["name"]


def test_the_rubric_numbers_its_criteria_and_ends_with_the_two_lines() -> None:
    rubric = build_rubric(["accuracy", "clarity {source.x}"])
    assert "Rubric" in rubric
    lines = rubric.splitlines()
    assert "1. accuracy" in lines
    assert "2. clarity {source.x}" in lines
    assert "VERDICT: PASS" in rubric
    assert "VERDICT: FAIL" in rubric
    assert lines[-1] == "SCORE: <0-10>"


def test_both_fields_are_read_and_the_text_explains_where_asked() -> None:
    reading = VerdictExtractor().bind(RecordType({"score": INTEGER}))
    assert reading.read(Reply("ok\nVERDICT: PASS\nSCORE: 9"), REQUEST) == {"verdict": "PASS", "score": 9}
    assert reading.whole
    explained = VerdictExtractor().bind(RecordType({"explanation": TEXT, "score": INTEGER}))
    assert explained.read(Reply("?"), REQUEST) == {"explanation": "?", "verdict": "FAIL", "score": 0}
    assert list(explained.output.fields) == ["explanation", "verdict", "score"]


@pytest.mark.parametrize(
    ("written", "score"),
    [
        ("0.62", 0.62),
        ("0,62", 0.62),
        ("8, because", 8.0),
        (".5", 0.5),
        ("8.0", 8.0),
        ("8.", 8.0),
        ("7.5/10", 7.5),
        ("3 of 10", 3.0),
        ("9" * 400 + ".5", 0.0),
    ],
)
def test_a_score_with_decimals_is_the_number_that_is_written(written: str, score: float) -> None:
    reading = VerdictExtractor().bind(RecordType({"score": NUMBER}))
    assert reading.read(Reply(f"VERDICT: PASS\nSCORE: {written}"), REQUEST)["score"] == score


def test_parse_verdict_gives_whole_numbers() -> None:
    assert parse_verdict("SCORE: 7.5, PASS") == {"verdict": "PASS", "score": 7}


@pytest.mark.parametrize(
    "kind", [NUMBER, ScaleType(ContinuousScale()), ScaleType(DiscreteScale(range=(0.0, 1.0, 0.25)))]
)
def test_decimals_are_read_where_the_response_has_them(kind: FieldType) -> None:
    reading = VerdictExtractor().bind(RecordType({"score": kind}))
    assert reading.output.fields["score"] == NUMBER
    assert reading.read(Reply("VERDICT: PASS\nSCORE: 0.62"), REQUEST)["score"] == 0.62
    assert isinstance(reading.read(Reply("VERDICT: PASS\nSCORE: 1"), REQUEST)["score"], float)


@pytest.mark.parametrize("kind", [INTEGER, ScaleType(LIKERT)])
def test_decimals_are_unreadable_where_scores_are_whole_and_never_a_silent_zero(kind: FieldType) -> None:
    reading = VerdictExtractor().bind(RecordType({"score": kind}))
    with pytest.raises(ReplyError, match=r"0\.62 is not a whole number"):
        reading.read(Reply("VERDICT: PASS\nSCORE: 0.62"), REQUEST)
    assert reading.read(Reply("SCORE: 3.0"), REQUEST)["score"] == 3


def test_a_field_that_it_does_not_read_is_a_problem() -> None:
    assert VerdictExtractor().validation_error(RecordType({"verdict": TEXT, "score": ScaleType(LIKERT)})) is None
    trouble = VerdictExtractor().validation_error(RecordType({"choice": TEXT}))
    assert trouble is not None
    assert "'choice'" in trouble[1]
