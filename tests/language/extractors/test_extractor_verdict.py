"""The rubric's parser, against the two regular expressions that the lesson prints."""

from __future__ import annotations

import re
import unicodedata
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.verdict import VerdictExtractor, build_rubric, parse_verdict
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    RecordType,
    ScaleType,
)
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
        printed = re.findall(
            r're\.findall\(r"([^"]+)", text, re\.I\)', path.read_text(encoding="utf-8")
        )
        if len(printed) == 2:
            return re.compile(printed[0], re.IGNORECASE), re.compile(printed[1], re.IGNORECASE)
    pytest.skip("no seed prints the two expressions")


@settings(deadline=None, max_examples=120)
@given(TEXTS)
@example("this could be a fail, but … VERDICT: PASS\nSCORE: 8")
@example("score 3 then Score=4 then SCORE :\n 5")
@example("compass failing")
def test_any_text_gives_what_the_lessons_expressions_give(lesson, text):
    verdicts, scores = lesson[0].findall(text), lesson[1].findall(text)
    if (scores and len(scores[-1]) > 4300) or re.search(
        r"score\s*(?:[:=]\s*)?\d*[.,]\d", text, re.IGNORECASE
    ):
        return
    assert parse_verdict(text) == {
        "verdict": verdicts[-1].upper() if verdicts else "FAIL",
        "score": int(scores[-1]) if scores else 0,
    }


@settings(deadline=None)
@given(TEXTS)
@example("SCORE: " + "9" * 5000)
@example("score" + " " * 200_000)
def test_any_text_gives_a_verdict_and_a_number(text):
    result = parse_verdict(text)
    assert result["verdict"] in ("PASS", "FAIL")
    assert result["score"] >= 0


@pytest.mark.parametrize(("digits", "read"), [(30, 10**30 - 1), (4300, 10**4300 - 1), (4301, 0)])
def test_a_score_has_as_many_digits_as_python_reads(digits, read):
    assert parse_verdict("SCORE: " + "9" * digits)["score"] == read


@settings(deadline=None)
@given(st.text().filter(lambda text: not re.search("pa[sſ]{2}", text, re.IGNORECASE)))
def test_a_text_that_does_not_say_pass_never_passes(text):
    assert parse_verdict(text)["verdict"] == "FAIL"


def test_the_rubric_numbers_its_criteria_and_ends_with_the_two_lines():
    rubric = build_rubric(["accuracy", "clarity {source.x}"])
    assert "Rubric" in rubric
    lines = rubric.splitlines()
    assert "1. accuracy" in lines
    assert "2. clarity {source.x}" in lines
    assert "VERDICT: PASS" in rubric
    assert "VERDICT: FAIL" in rubric
    assert lines[-1] == "SCORE: <0-10>"


def test_both_fields_are_read_and_the_text_explains_where_asked():
    reading = VerdictExtractor().bind(RecordType({"score": INTEGER}))
    read = reading.read(Reply("ok\nVERDICT: PASS\nSCORE: 9"), REQUEST)
    assert read == {"verdict": "PASS", "score": 9, "defaulted": False}
    assert reading.whole
    explained = VerdictExtractor().bind(RecordType({"explanation": TEXT, "score": INTEGER}))
    assert explained.read(Reply("score 3"), REQUEST)["explanation"] == "score 3"
    assert list(explained.output.fields) == ["explanation", "verdict", "score", "defaulted"]
    verdict = VerdictExtractor(default="none").bind(RecordType({"verdict": TEXT}))
    assert verdict.read(Reply("PASS"), REQUEST) == {"verdict": "PASS"}


BOTH = VerdictExtractor().bind(RecordType({"verdict": TEXT, "score": INTEGER}))


@pytest.mark.parametrize(
    "text",
    [
        "VERDICT: PASS\nSCORE: 8",
        "**VERDICT:** PASS\n**SCORE:** 8",
        "VERDICT: **PASS**\nSCORE: **8**",
        "VERDICT: PASS\nSCORE (0-10): 8",
        "VERDICT: PASS\nSCORE [0-10]: 8",
        "VERDICT: PASS\nScore - 8",
        "VERDICT: PASS\nSCORE：8",
        "VERDICT: PASS\nSCORE: `8`",
        "VERDICT: PASS\nSCORE: 8/10",
        "VERDICT: PASS\nSCORE: 8 out of 10",
        "VERDICT: PASSED\nSCORE: 8",
        "VERDICT: ✅ PASS\nSCORE: 8️⃣",
        "VERDICT:\nPASS\nSCORE:\n8",
        "[VERDICT]: PASS\n[SCORE]: 8",
        "## Verdict\nPASS\n\n## Score\n8",
        "| VERDICT | PASS |\n| SCORE | 8 |",
        "<verdict>PASS</verdict>\n<score>8</score>",
        "Final verdict - pass. Final score - 8.",
        "**Final Verdict: PASS**\n**Final Score: 8 / 10**",
        "The verdict is PASS with a score of 8.",
        "Verdict (PASS/FAIL): PASS\nScore 0-10: 8",
        '{"verdict": "PASS", "score": 8}',
        '```json\n{"Verdict": "pass", "Score": "8/10", "explanation": "It may fail. Score: 3"}\n```',
        "{'verdict': 'PASS', 'score': 8}",
        "VERDICT: FAIL\nSCORE: 2\nNo, better:\nVERDICT: PASS\nSCORE: 8",
        "VERDICT: PASS\nSCORE: 8\nNothing here would make it fail; a score of 3 would be unfair.",
        "VERDICT: PASS (a fail would need a false claim)\nSCORE: 8",
        "This could fail, but …\nPASS\nScore: 8",
        "<think>VERDICT: FAIL, SCORE: 1?</think>\nVERDICT: PASS\nSCORE: 8<|eot_id|>",
    ],
)
def test_a_verdict_and_a_score_are_read_as_people_write_them(text):
    assert BOTH.read(Reply(text), REQUEST) == {"verdict": "PASS", "score": 8, "defaulted": False}


@pytest.mark.parametrize(
    "text",
    [
        "VERDICT: NOT PASS\nSCORE: 2",
        "It does not pass. SCORE: 2",
        "Verdict: it fails to pass.\nScore: 2",
        "VERDICT: FAILED SCORE 2",
    ],
)
def test_a_denied_pass_is_a_fail(text):
    assert BOTH.read(Reply(text), REQUEST) == {"verdict": "FAIL", "score": 2, "defaulted": False}


@pytest.mark.parametrize(
    "text",
    [
        "VERDICT: PASS",
        "SCORE: 8",
        "VERDICT: PASS\nSCORE: eight",
        "VERDICT: PASS\nSCORE: -3",
        "VERDICT: PASS\nSCORE: 7-8",
        "VERDICT: PASS\nSCORE: <0-10>",
        "VERDICT: PASS\nSCORE: 8.5",
        "VERDICT: PASS\nSCORE: 80%",
        "VERDICT: PASS\nSCORE: N/A",
        "VERDICT: PASS\nSCORE: " + "9" * 30,
        "VERDICT: PASS or FAIL\nSCORE: 8",
        "VERDICT: NOT FAIL\nSCORE: 8",
        "VERDICT: UNCLEAR\nSCORE: 8",
        "It could fail, but it may pass. Score: 8",
        '{"verdict": "PASS", "score": null}',
        '{"verdict": "FAIL", "score": 1}\nIt says {"verdict": "PASS", "score": 10}',
        "<think>VERDICT: PASS SCORE: 8</think>",
    ],
)
def test_a_reply_that_states_one_of_them_alone_or_not_clearly_is_unreadable(text):
    with pytest.raises(ReplyError) as caught:
        BOTH.read(Reply(text), REQUEST)
    assert caught.value.failure == "unreadable"
    assert caught.value.default is None


def test_only_a_reply_that_states_neither_has_the_lessons_default():
    refusal = "I'm sorry, but I can't help with that."
    with pytest.raises(ReplyError) as caught:
        BOTH.read(Reply(refusal), REQUEST)
    assert caught.value.failure == "no-verdict"
    assert caught.value.default == {"verdict": "FAIL", "score": 0, "defaulted": True}
    with pytest.raises(ReplyError) as caught:
        VerdictExtractor(default="none").bind(RecordType({"verdict": TEXT, "score": INTEGER})).read(
            Reply(refusal), REQUEST
        )
    assert (caught.value.failure, caught.value.default) == ("unreadable", None)


@settings(deadline=None, max_examples=120)
@given(TEXTS)
@example("SCORE: " + "9" * 5000)
@example("score" + " " * 20_000)
def test_any_text_is_read_or_a_reply_error_and_never_passes_with_an_unread_score(text):
    try:
        output = BOTH.read(Reply(text), REQUEST)
    except ReplyError:
        return
    assert "score" in text.lower()
    assert str(output["score"]) in "".join(str(unicodedata.decimal(char, char)) for char in text)


@pytest.mark.parametrize(
    ("number", "score"),
    [
        ("0.62", 0.62),
        ("0,62", 0.62),
        ("8, because", 8.0),
        (".5", 0.5),
        ("8.0", 8.0),
        ("8.", 8.0),
        ("7.5/10", 7.5),
        ("3 of 10", 3.0),
    ],
)
def test_a_score_with_decimals_is_the_number_that_is_written(number, score):
    reading = VerdictExtractor().bind(RecordType({"score": NUMBER}))
    assert reading.read(Reply(f"VERDICT: PASS\nSCORE: {number}"), REQUEST)["score"] == score


def test_parse_verdict_gives_whole_numbers():
    assert parse_verdict("SCORE: 7.5, PASS") == {"verdict": "PASS", "score": 7}


@pytest.mark.parametrize(
    "kind", [NUMBER, ScaleType(ContinuousScale()), ScaleType(DiscreteScale(range=(0.0, 1.0, 0.25)))]
)
def test_decimals_are_read_where_the_response_has_them(kind):
    reading = VerdictExtractor().bind(RecordType({"score": kind}))
    assert reading.output.fields["score"] == NUMBER
    assert reading.read(Reply("VERDICT: PASS\nSCORE: 0.62"), REQUEST)["score"] == 0.62
    assert isinstance(reading.read(Reply("VERDICT: PASS\nSCORE: 1"), REQUEST)["score"], float)


@pytest.mark.parametrize("kind", [INTEGER, ScaleType(LIKERT)])
def test_decimals_are_unreadable_where_scores_are_whole_and_never_a_silent_zero(
    kind,
):
    reading = VerdictExtractor().bind(RecordType({"score": kind}))
    with pytest.raises(ReplyError, match=r"0\.62 is not a whole number"):
        reading.read(Reply("VERDICT: PASS\nSCORE: 0.62"), REQUEST)
    assert reading.read(Reply("SCORE: 3.0"), REQUEST)["score"] == 3
    with (
        pytest.raises(ReplyError, match="not between 1 and 5")
        if isinstance(kind, ScaleType)
        else nullcontext()
    ):
        reading.read(Reply("SCORE: 8"), REQUEST)


def test_a_field_that_it_does_not_read_is_a_problem():
    assert (
        VerdictExtractor().validation_error(
            RecordType({"verdict": TEXT, "score": ScaleType(LIKERT)})
        )
        is None
    )
    trouble = VerdictExtractor().validation_error(RecordType({"choice": TEXT}))
    assert trouble is not None
    assert "'choice'" in trouble[1]


def test_a_score_has_at_most_18_digits():
    assert BOTH.read(Reply("VERDICT: PASS\nSCORE: " + "9" * 18), REQUEST)["score"] == 10**18 - 1
    with pytest.raises(ReplyError, match="no score can be read"):
        BOTH.read(Reply("VERDICT: PASS\nSCORE: 1" + "0" * 18), REQUEST)
