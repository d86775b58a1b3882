"""JSON replies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.extractors.structured import Structured, json_object
from verdict_cli.fields import INTEGER, NUMBER, TEXT, TRUTH, OnScale, Record, TextList
from verdict_cli.models import Model
from verdict_cli.scales import LIKERT
from verdict_cli.values import Reply, Request, Row

REQUEST = Request(Row(0, 0, {}), "judge", Model(name="m"), ())
RESPONSE = Record(
    {
        "why": TEXT,
        "score": OnScale(LIKERT),
        "n": INTEGER,
        "p": NUMBER,
        "ok": TRUTH,
        "items": TextList(),
        "part": Record({"a": TEXT}),
    }
)
RECORDS = st.fixed_dictionaries(
    {
        "why": st.text(),
        "score": st.integers(1, 5),
        "n": st.integers(),
        "p": st.floats(allow_nan=False, allow_infinity=False),
        "ok": st.booleans(),
        "items": st.lists(st.text()),
        "part": st.fixed_dictionaries({"a": st.text()}),
    }
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
AROUND = [
    "{}",
    "\n {} \n",
    "```json\n{}\n```",
    "```\n{}\n```",
    "My answer:\n```json\n{}\n```\nThat is all.",
    "Sure! {}",
    "{} I hope that this helps.",
    "<think>{{\"score\": 1}} or so</think>\n{}",
    "I fill in {{\"score\": <number>}} as asked: {}",
    "The set {{x}} and \\frac{{a}}{{b}} do not matter. {}",
]  # fmt: skip


def read(text: str, response: Record = RESPONSE, finish_reason: str = "stop") -> dict[str, Any]:
    return Structured().bind(response).read(Reply(text, finish_reason=finish_reason), REQUEST)


@settings(deadline=None)
@given(RECORDS, st.sampled_from(AROUND), st.booleans(), st.sampled_from([None, 2]))
def test_any_record_that_json_writes_is_read_back_equal(
    record: dict[str, Any], around: str, ascii_only: bool, indent: int | None
) -> None:
    if "```" in around and any("```" in str(part) for part in record.values()):
        return
    text = json.dumps(record, ensure_ascii=ascii_only, indent=indent)
    assert read(around.format(text)) == record


@settings(deadline=None)
@given(st.dictionaries(st.text(), VALUES))
def test_any_object_is_read_back_equal(record: dict[str, Any]) -> None:
    assert json_object(json.dumps(record)) == record


JSONISH = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", '"', ":", ",", '"score"', "3", "NaN", "1e999", "```", "```json\n", "\n", "\\", "<think>",
         "</think>", '{"score": 3}', "'", "null", "true", "-", " "]
    ),
    max_size=15,
).map("".join)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(), JSONISH), st.booleans())
@example('{"score": ' + "1" * 5000 + "}", False)
@example('{"a":' * 3000, False)
@example("[" * 100_000, False)
@example("{" * 20_000, False)
@example('{"' * 20_000, False)
@example('{"a": 1e999}', False)
def test_any_text_reads_or_raises_a_reply_error(text: str, cut: bool) -> None:
    response = Record({"score": OnScale(LIKERT)})
    try:
        found = read(text, response, "length" if cut else "stop")
    except ReplyError as error:
        assert len(str(error)) < 1000
    else:
        assert found["score"] in LIKERT.values()
        assert str(found["score"]) in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        '"score"',
        '[{"score": 4}]',
        "I give it a 4.",
        '{"score": NaN}',
        '{"score": 4, "score": 5}',
        '{"score": 4, "extra": 1}',
        '{"score": "four"}',
        '{"score": 6}',
        '{"score": null}',
        "{'score': 4}",
        "{score: 4}",
    ],
)
def test_what_is_no_such_object_is_never_read(text: str) -> None:
    with pytest.raises(ReplyError):
        read(text, Record({"score": OnScale(LIKERT)}))


@pytest.mark.parametrize(
    "text",
    [
        '{"draft": {"score": 5}, "score": 2 3}',
        'First {"score": 5}, but no: {"score": 2 3}',
        'First {"score": 5}, but no: {"score": ',
        '```json\n{"score": 5}\n```\nNo:\n```json\n{"score": 2 3}\n```',
        '{draft: {"score": 5}}',
        '<think>maybe {"score": 5}',
    ],
)
def test_a_draft_is_not_read_in_place_of_a_broken_answer(text: str) -> None:
    with pytest.raises(ReplyError):
        read(text, Record({"score": OnScale(LIKERT)}))


def test_a_comma_behind_the_last_item_leaves_no_doubt_what_is_meant() -> None:
    score = Record({"score": OnScale(LIKERT)})
    assert read('{"score": 2,}', score) == {"score": 2}
    assert read('First {"score": 5}, but no: {"score": 2,}', score) == {"score": 2}


def test_the_last_object_of_the_prose_is_the_answer() -> None:
    score = Record({"score": OnScale(LIKERT)})
    assert read('First {"score": 5}, but then {"score": 2}.', score) == {"score": 2}
    assert read('```json\n{"score": 5}\n```\n```json\n{"score": 2}\n```', score) == {"score": 2}
    assert read('Reasons …</think>{"score": 2}', score) == {"score": 2}


def test_prose_that_was_cut_off_is_not_read_but_a_whole_object_is() -> None:
    score = Record({"score": OnScale(LIKERT)})
    assert read(' {"score": 5}\n', score, "length") == {"score": 5}
    with pytest.raises(ReplyError, match="has no end"):
        read('At first {"score": 5}, but then', score, "length")


def test_fields_come_in_the_schemas_order_and_the_schema_is_asked_for() -> None:
    reading = Structured().bind(Record({"why": TEXT, "score": OnScale(LIKERT)}))
    assert list(reading.read(Reply('{"score": 4, "why": "x"}'), REQUEST)) == ["why", "score"]
    assert reading.json_schema == reading.output.json_schema()
    assert reading.corrects
    assert Structured().problem(RESPONSE) is None
