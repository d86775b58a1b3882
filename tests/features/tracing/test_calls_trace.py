"""Spans of calls by the GenAI conventions, kept by the SDK's in-memory exporter."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from verdict_cli.errors import ReplyError, Retryable
from verdict_cli.features.tracing.spans import OpenTelemetrySpans
from verdict_cli.messages import Message, Reply, Request, Row, Usage
from verdict_cli.model import Model

MODEL = Model(
    name="openai/tiny",
    api_base="http://127.0.0.1:8080/v1",
    temperature=0.5,
    max_tokens=9,
    stop=["END"],
)
REQUEST = Request(
    Row(3, "r3", {}), "judge", MODEL, (Message("user", "a secret"),), json_schema={"type": "object"}
)
REPLY = Reply("the words", usage=Usage(7, 2), cost_usd=0.25, model="tiny-2026")


def spans_of(
    outcome: Reply | Exception, *, content: bool = False, request: Request = REQUEST
) -> ReadableSpan:
    """The span of one call that ends so."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def ask(_: Request) -> Reply:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    traced = OpenTelemetrySpans(provider.get_tracer("t"), content=content).calls(ask)
    if isinstance(outcome, Reply):
        assert asyncio.run(traced(request)) is outcome
    else:
        with pytest.raises(type(outcome)):
            asyncio.run(traced(request))
    provider.shutdown()
    (span,) = exporter.get_finished_spans()
    return span


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_call_has_the_attributes_of_the_conventions_and_no_text():
    span = spans_of(REPLY)
    assert (span.name, span.kind, span.status.status_code) == (
        "chat tiny",
        SpanKind.CLIENT,
        StatusCode.UNSET,
    )
    assert attributes_of(span) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.output.type": "json",
        "gen_ai.response.model": "tiny-2026",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
        "server.address": "127.0.0.1",
        "server.port": 8080,
        "verdict.row.index": 3,
        "verdict.unit": "judge",
        "verdict.call": 0,
        "verdict.attempt": 0,
        "verdict.cost_usd": 0.25,
    }


def test_prompt_and_reply_are_there_when_they_are_wanted():
    attributes = attributes_of(spans_of(REPLY, content=True))
    assert json.loads(attributes["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "a secret"}]}
    ]
    assert json.loads(attributes["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "the words"}],
            "finish_reason": "stop",
        }
    ]


def test_an_unknown_price_is_not_reported_as_zero():
    assert "verdict.cost_usd" not in attributes_of(spans_of(Reply("x", cost_usd=None)))


def test_a_failed_call_says_its_kind_and_its_words_only_with_the_content():
    problem = Retryable("no reply to 'a secret'", kind="timeout")
    span = spans_of(problem)
    assert span.status.status_code is StatusCode.ERROR
    assert (attributes_of(span)["error.type"], span.status.description) == ("timeout", "timeout")
    assert "a secret" not in span.to_json()
    assert spans_of(problem, content=True).status.description == "no reply to 'a secret'"


def test_a_reply_that_was_paid_for_is_reported_with_its_failure():
    attributes = attributes_of(spans_of(ReplyError("declined", kind="refused", reply=REPLY)))
    assert (attributes["error.type"], attributes["gen_ai.usage.input_tokens"]) == ("refused", 7)


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("bedrock/anthropic.claude", "aws.bedrock", "anthropic.claude"),
        ("anthropic/claude", "anthropic", "claude"),
        ("baseline/lexical", "baseline", "lexical"),
    ],
)
def test_a_model_without_an_address_has_its_provider(name, provider, model):
    request = Request(Row(0, 0, {}), "judge", Model(name=name), ())
    attributes = attributes_of(spans_of(REPLY, request=request))
    assert (attributes["gen_ai.provider.name"], attributes["gen_ai.request.model"]) == (
        provider,
        model,
    )
    assert "server.address" not in attributes
