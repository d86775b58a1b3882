"""Patterns on free text."""

from __future__ import annotations

import contextlib
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.regex import RegexExtractor
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    FieldType,
    RecordType,
    ScaleType,
    TextListType,
)
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.boolean import BooleanScale
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.scales.discrete import LIKERT, DiscreteScale
from verdict_cli.messages import Reply, Request, Row
from verdict_cli.model import Model

REQUEST = Request(Row(0, 0, {}), "judge", Model(name="m"), ())
ABC = DiscreteScale(values=("A", "B", "C"))


def read(
    text: str,
    pattern: str,
    kind: FieldType | Scale,
    match: Any = "first",
    finish_reason: str = "stop",
) -> Any:
    response = RecordType({"score": kind if not isinstance(kind, Scale) else ScaleType(kind)})
    extractor = RegexExtractor(fields={"score": pattern}, match=match)
    assert extractor.validation_error(response) is None
    return extractor.bind(response).read(Reply(text, finish_reason=finish_reason), REQUEST)["score"]


@pytest.mark.parametrize("kind", [NUMBER, DiscreteScale(values=("1", "4", "5"))])
@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("4.5/10", r"(\d)/10"),  # the end of a number
        ("4,5/10", r"(\d)/10"),
        ("4.5 points", r"^(\d)"),  # its start
        ("score 14", r"score (\d)"),
        ("score 41", r"(\d)$"),
    ],
)
def test_a_digit_of_a_longer_number_is_no_score(text, pattern, kind):
    with pytest.raises(ReplyError, match="part of a longer word"):
        read(text, pattern, kind)


@pytest.mark.parametrize(
    ("text", "pattern", "kind", "match", "expected"),
    [
        ("I give 4 of 5", "FIRST_INT", LIKERT, "first", 4),
        ("I give 4 of 5", "LAST_INT", LIKERT, "first", 4),
        ("a 0.25 then 0.75", "FIRST_FLOAT", ContinuousScale(), "first", 0.25),
        ("a 0.25 then 0.75", "LAST_FLOAT", NUMBER, "first", 0.75),
        ("-3 and 4", "FIRST_INT", INTEGER, "first", -3),
        ("1,234,567 people", "FIRST_INT", INTEGER, "first", 1234567),
        ("12345678901234567890", "FIRST_INT", INTEGER, "first", 12345678901234567890),
        ("gpt4 says 3", "FIRST_INT", LIKERT, "first", 3),
        ("v1.2: 3", "FIRST_INT", LIKERT, "first", 3),
        ("score-5", "FIRST_INT", LIKERT, "first", 5),
        ("4/5", "FIRST_INT", LIKERT, "first", 4),
        ("Score: 3.", "FIRST_INT", LIKERT, "first", 3),
        ("answer: (b)", r"answer: \((\w)\)", ABC, "first", "B"),
        ("A or B or C", r"\b[ABC]\b", ABC, "last", "C"),
        ("A, yes: A", r"\b[ABC]\b", ABC, "unique", "A"),
        ("Verdict: Yes.", r"Verdict: (\w+)", TRUTH, "first", True),
        ("Verdict: no", r"Verdict: (\w+)", BooleanScale(), "first", False),
        ("x: foo | y: bar", r"x: (\w+)|y: (\w+)", TEXT, "last", "bar"),
    ],
)
def test_a_pattern_reads_its_match(text, pattern, kind, match, expected):
    assert read(text, pattern, kind, match) == expected


@pytest.mark.parametrize(
    ("text", "pattern", "kind", "match"),
    [
        ("10 out of 10", "FIRST_INT", LIKERT, "first"),
        ("3.5 of 5", "FIRST_INT", LIKERT, "first"),
        ("5th", "FIRST_INT", LIKERT, "first"),
        ("no number", "FIRST_INT", LIKERT, "first"),
        ("CI", "[ABC]", ABC, "first"),
        ("CI", "([ABC])I", ABC, "first"),
        ("xA", "A", ABC, "first"),
        ("A_", "A", ABC, "first"),
        ("15", r"\d", LIKERT, "first"),
        ("1.5", r"\d", LIKERT, "first"),
        ("1,5", r"\d", LIKERT, "last"),
        ("Ä" + "A", "A", ABC, "first"),
        ("A then B", r"\b[ABC]\b", ABC, "unique"),
        ("A then CI", "[ABC]", ABC, "unique"),
        ("maybe", r"(\w+)", TRUTH, "first"),
        ("", "x?", LIKERT, "first"),
        ("1e999", "FIRST_FLOAT", NUMBER, "first"),
        ("9" * 5000, "FIRST_INT", INTEGER, "first"),
        ("9" * 5000, "FIRST_FLOAT", NUMBER, "first"),
    ],
)
def test_what_is_not_wholly_a_value_is_never_read(text, pattern, kind, match):
    with pytest.raises(ReplyError, match=r"^score: "):
        read(text, pattern, kind, match)


TEXTS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(["1", "5", "10", "A", "C", "CI", ".", ",", " ", "-", "e", "é", "_", "\n", "٣", "score"]), max_size=8).map("".join),
)  # fmt: skip


@settings(deadline=None, max_examples=120)
@given(TEXTS, st.sampled_from(["FIRST_INT", "LAST_INT", "FIRST_FLOAT", r"\d", r"(\d+)", "5?", r"\d|A"]), st.sampled_from(["first", "last", "unique"]))  # fmt: skip
def test_a_number_is_returned_only_if_it_stands_as_a_whole_word(text, pattern, match):
    try:
        number = read(text, pattern, LIKERT, match)
    except ReplyError:
        return
    ascii_text = "".join(str(unicodedata.decimal(char, char)) for char in text)
    ascii_text = re.sub(r"(?<![^\W_])_+|_+(?![^\W_])", " ", ascii_text)  # Markdown's emphasis
    assert re.search(
        rf"(?<![^\W]){number}(?:[.,]0+)?(?:e[+-]?0+)?(?![^\W])", ascii_text, re.IGNORECASE
    )


@settings(deadline=None, max_examples=120)
@given(
    TEXTS,
    st.sampled_from(["A", "[ABC]", r"(\w)", "C?", r"(A)|(C)"]),
    st.sampled_from(["first", "last", "unique"]),
)
@example("CI", "C", "first")
def test_a_letter_is_returned_only_if_it_stands_as_a_whole_word(text, pattern, match):
    try:
        letter = read(text, pattern, ABC, match)
    except ReplyError:
        return
    assert re.search(rf"\b{letter}\b", text, re.IGNORECASE)


@settings(deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from([*list("()[]{}*+?|\\.^$:!=<>-,dwsbPRnAC019"), "(?", "(?P<"]), max_size=8).map("".join)), TEXTS)  # fmt: skip
def test_any_pattern_is_a_problem_or_reads_or_raises_a_reply_error(pattern, text):
    response = RecordType({"score": ScaleType(LIKERT)})
    extractor = RegexExtractor(fields={"score": pattern})
    if extractor.validation_error(response) is not None:
        return
    with contextlib.suppress(ReplyError):
        assert extractor.bind(response).read(Reply(text), REQUEST)["score"] in LIKERT.values()


def test_a_number_where_the_reply_was_cut_off_is_not_read():
    with pytest.raises(ReplyError, match="cut off"):
        read("I give it 1", "FIRST_INT", DiscreteScale(range=(1, 10)), finish_reason="length")
    assert (
        read("I give it 1 of", "FIRST_INT", DiscreteScale(range=(1, 10)), finish_reason="length")
        == 1
    )
    assert read("because it is", r".*", TEXT, finish_reason="length") == "because it is"


def test_a_pattern_that_takes_too_long_is_a_reply_error(monkeypatch):
    monkeypatch.setattr("verdict_cli.language.extractors.regex.TIMEOUT_S", 0.01)
    with pytest.raises(ReplyError, match="took longer"):
        read("a" * 40 + "!", r"(?:a|a|aa)+$", TEXT)


@pytest.mark.parametrize(
    "pattern",
    [
        "a{1000000000}",
        "a{ 1000000000 }",
        f"a{{{'9' * 5000}}}",
        "(?:a{1000}){1000}",
        "((a{100}){100}){100}",
        "(?x)(a{1000}) # ]\n{1000}",
        "(?:a|b){200000}",
        "a{1000}{1000}",
        "a{1000}" * 200,
    ],
)
def test_repetitions_that_would_take_all_memory_are_refused_before_compilation(
    pattern,
):
    response = RecordType({"score": TEXT})
    path, message, _ = RegexExtractor(fields={"score": pattern}).validation_error(response) or (
        "",
        "",
        "",
    )
    assert path == "fields.score" and "repetition counts" in message


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d{4}-\d{2}-\d{2}" * 20,
        r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        "a{50000}",
        ".{0,1000000000}",
        "a{,99999999}",
    ],
)
def test_ordinary_repetitions_are_taken(pattern):
    assert (
        RegexExtractor(fields={"score": pattern}).validation_error(RecordType({"score": TEXT}))
        is None
    )


@pytest.mark.parametrize(
    ("fields", "response", "key"),
    [
        ({"score": "("}, {"score": LIKERT}, "fields.score"),
        ({"scor": "x"}, {"score": LIKERT}, "fields.scor"),
        ({}, {"score": LIKERT}, "fields"),
        ({"score": "x"}, {"score": LIKERT, "why": TEXT}, "fields"),
    ],
)
def test_a_field_without_a_pattern_and_a_pattern_without_a_field_are_problems(
    fields, response, key
):
    record = RecordType(
        {
            name: ScaleType(kind) if isinstance(kind, Scale) else kind
            for name, kind in response.items()
        }
    )
    trouble = RegexExtractor(fields=fields).validation_error(record)
    assert trouble is not None
    assert trouble[0] == key
    assert trouble[2]


def test_a_list_cannot_be_read_from_text_and_an_explanation_is_the_whole_text():
    trouble = RegexExtractor(fields={"items": "x"}).validation_error(
        RecordType({"items": TextListType()})
    )
    assert trouble is not None
    assert "cannot be read from text" in trouble[1]
    response = RecordType({"explanation": TEXT, "score": ScaleType(LIKERT)})
    extractor = RegexExtractor(fields={"score": "LAST_INT"})
    assert extractor.validation_error(response) is None
    assert extractor.bind(response).read(Reply("Good. 4"), REQUEST) == {
        "explanation": "Good. 4",
        "score": 4,
    }


def test_what_counts_at_the_end_needs_a_whole_reply():
    response = RecordType({"score": ScaleType(LIKERT)})
    assert RegexExtractor(fields={"score": "LAST_INT"}).bind(response).whole
    assert RegexExtractor(fields={"score": "x"}, match="last").bind(response).whole
    assert RegexExtractor(fields={"score": "x"}, match="unique").bind(response).whole
    assert not RegexExtractor(fields={"score": "FIRST_INT"}).bind(response).whole


@pytest.mark.parametrize("depth", [1000, 5000])
def test_a_pattern_that_is_nested_too_deeply_is_an_error_of_the_file(depth):
    trouble = RegexExtractor(fields={"score": "(" * depth + "a" + ")" * depth}).validation_error(
        RecordType({"score": TEXT})
    )
    assert (
        trouble is not None and trouble[0] == "fields.score" and "nested too deeply" in trouble[1]
    )
    assert len(trouble[1]) < 200


@pytest.mark.parametrize(
    "text", ["non-relevant", "ir-relevant", "It is un\u2011relevant.", "relevant-ish"]
)
def test_a_hyphen_between_letters_makes_one_word(text):
    scale = DiscreteScale(["irrelevant", "relevant"])
    with pytest.raises(ReplyError):
        read(text, "relevant", scale)
    assert read("It is relevant - mostly.", "relevant", scale) == "relevant"


@pytest.mark.parametrize(
    ("text", "pattern", "value"),
    [
        ("Score: 8/10", r"Score: (\d+)", 8),
        ("8/10", r"(\d+)/10", 8),
        ("1-10: 8", r"\d+", 8),
        ("Score-8", r"\d", 8),
    ],
)
def test_a_pattern_reads_a_number_in_what_is_around_it(text, pattern, value):
    assert read(text, pattern, DiscreteScale(range=(1, 10))) == value


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("Score: 8/100", r"Score: (\d+)"),
        ("Score: −2", r"(\d)"),
        ("Score: 85%", r"(\d)"),
        ("7-8", r"\d"),
    ],
)
def test_a_pattern_takes_no_part_of_another_number(text, pattern):
    with pytest.raises(ReplyError, match="not clearly one number"):
        read(text, pattern, DiscreteScale(range=(1, 10)))
