"""How a pipeline spells an extractor, and the extractors that take a text as it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from verdict_cli.language.extractors import EXTRACTORS, ExtractKey, resolve_extractor
from verdict_cli.language.extractors.post_hoc import PostHocExtractor
from verdict_cli.language.extractors.raw import RawExtractor
from verdict_cli.language.extractors.regex import RegexExtractor
from verdict_cli.language.extractors.structured import StructuredOutputExtractor
from verdict_cli.language.extractors.token_probability import (
    TokenProbabilityExtractor,
    WeightedSummedScoreExtractor,
)
from verdict_cli.language.fields.types import INTEGER, TEXT, RecordType, ScaleType
from verdict_cli.language.scales.discrete import LIKERT
from verdict_cli.messages import Reply, Request, Row
from verdict_cli.model import Model

ADAPTER: TypeAdapter[Any] = TypeAdapter(ExtractKey)
REQUEST = Request(Row(0, 0, {}), "judge", Model(name="m"), ())


@pytest.mark.parametrize(
    ("spelling", "extractor"),
    [
        ("structured", StructuredOutputExtractor()),
        ("raw", RawExtractor()),
        (
            {"type": "regex", "fields": {"score": "FIRST_INT"}},
            RegexExtractor(fields={"score": "FIRST_INT"}),
        ),
        ({"type": "post_hoc", "model": "gpt-4o-mini"}, PostHocExtractor(model="gpt-4o-mini")),
        ({"type": "token_probability"}, TokenProbabilityExtractor()),
        (
            {"type": "weighted_summed_score", "weights": {1: 0.9}},
            WeightedSummedScoreExtractor(weights={1: 0.9}),
        ),
    ],
)
def test_each_spelling_of_the_language_means_its_extractor(spelling, extractor):
    assert resolve_extractor(ADAPTER.validate_python(spelling)) == extractor


@pytest.mark.parametrize(
    "spelling",
    [
        None,
        3,
        {},
        "json",
        {"type": "json"},
        {"type": "raw", "x": 1},
        {"type": "regex", "fields": 3},
    ],
)
def test_what_spells_no_extractor_is_refused(spelling):
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(spelling)


def test_every_name_is_its_extractors_type():
    assert [EXTRACTORS[name].model_fields["type"].default for name in EXTRACTORS] == [*EXTRACTORS]


@settings(deadline=None)
@given(st.text())
def test_raw_keeps_the_whole_text(text):
    assert RawExtractor().bind(RecordType({"thinking": TEXT})).read(Reply(text), REQUEST) == {
        "thinking": text
    }


@pytest.mark.parametrize(
    "fields", [{"a": INTEGER}, {"a": TEXT, "b": TEXT}, {"score": ScaleType(LIKERT)}, {}]
)
def test_raw_needs_one_text_field(fields):
    assert RawExtractor().validation_error(RecordType({"thinking": TEXT})) is None
    trouble = RawExtractor().validation_error(RecordType(fields))
    assert trouble is not None
    assert "one `str` field" in trouble[1]


@settings(deadline=None)
@given(st.text())
def test_post_hoc_shows_the_first_reply_to_a_second_call_that_structures_it(text):
    reading = PostHocExtractor(model="small").bind(RecordType({"score": ScaleType(LIKERT)}))
    assert reading.read(Reply(text), REQUEST) == {"text": text}
    assert reading.json_schema is None
    assert reading.then is not None
    assert reading.then.model == "small"
    assert f"<answer>\n{text}\n</answer>" in reading.then.messages(text)[-1].content
    assert reading.then.reading.json_schema == reading.output.json_schema()
    assert reading.then.reading.read(Reply('{"score": 4}'), REQUEST) == {"score": 4}
    assert PostHocExtractor().validation_error(RecordType({"score": INTEGER})) is None
