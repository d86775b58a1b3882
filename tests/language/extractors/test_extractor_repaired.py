import pytest

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.structured import (
    StructuredOutputExtractor,
    json_object,
    repaired,
)
from verdict_cli.language.fields.types import INTEGER, RecordType

PLAIN = ['{"score": 4}', ' {"score": 4}\n', '{\n  "score": 4\n}']
MENDED = [
    '{"score": 4,}',
    '{"score": 4, }',
    '```json5\n{"score": 4}\n```',
    '```json\n{"score": 4,\n}\n```',
    'Sure:\n{"score": 4,}',
    '<think>{"score": 1,}</think>{"score": 4}',
    'It is {"score": 1}? No.</think>\n\n{"score": 4}',
]
"""Every text but the plain one; what it means is not in doubt."""


@pytest.mark.parametrize("text", PLAIN)
def test_a_reply_as_asked_for_is_not_called_repaired(text):
    assert json_object(text) == {"score": 4}
    assert not repaired(text)


@pytest.mark.parametrize("text", MENDED)
def test_a_reply_that_can_be_read_without_guessing_is_read_and_called_repaired(text):
    assert json_object(text) == {"score": 4}
    assert repaired(text)


def test_commas_and_line_breaks_within_texts_are_preserved():
    assert json_object('{"a": "x,}\n,]", "b": [1, 2,],}') == {"a": "x,}\n,]", "b": [1, 2]}


@pytest.mark.parametrize(
    "text",
    [
        "{'score': 4}",
        "{score: 4}",
        '{"score": 4',
        '{"score": 4,, }',
        '{"draft": {"score": 1}, "score": 4',
        '<think>{"score": 4,}',
        '{"score": NaN}',
        '{"score": 3, "score": 4,}',
        "4",
    ],
)
def test_a_reply_whose_meaning_would_be_a_guess_is_an_error(text):
    with pytest.raises(ReplyError):
        json_object(text)


def test_the_draft_within_a_broken_object_is_never_read():
    assert json_object('{"draft": {"score": 1}, "score": 4,}') == {
        "draft": {"score": 1},
        "score": 4,
    }


def test_the_reading_says_whether_a_text_was_repaired():
    reading = StructuredOutputExtractor().bind(RecordType({"score": INTEGER}))
    assert [reading.repaired(text) for text in (PLAIN[0], MENDED[0])] == [False, True]
