"""OpenTelemetry spans by the GenAI semantic conventions. Imported only when a run is traced."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from time import time_ns
from typing import Any

from opentelemetry._logs import Logger
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from verdict_cli.errors import ProviderError, ReplyError, RowError, VerdictError
from verdict_cli.language.model_address import AddressError, parse_address
from verdict_cli.llm.providers.endpoint import endpoint_address
from verdict_cli.messages import (
    Ask,
    Failure,
    JsonObject,
    Message,
    NamedValues,
    Output,
    Reply,
    Request,
    Row,
)
from verdict_cli.model import Model
from verdict_cli.run.observer import (
    EVALUATION_EVENT,
    JudgedSpan,
    RunObserver,
    Score,
    evaluation_attributes,
)
from verdict_cli.run_facts import RunFacts

_PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""Names of the conventions that are not the prefix of the model's name."""
_SAMPLING = ("temperature", "top_p", "max_tokens", "seed", "frequency_penalty", "presence_penalty")


class OpenTelemetrySpans(RunObserver):
    """Spans of a run, and the scores of its rows as events of ``logger``.

    Prompts, replies, and messages of errors, which may quote them, only with ``content``.
    """

    def __init__(
        self, tracer: Tracer, logger: Logger | None = None, *, content: bool = False
    ) -> None:
        self._tracer = tracer
        self._logger = logger
        self._content = content
        self._model_attributes = cache(_model_attributes)

    @contextmanager
    def run(self, name: str) -> Iterator[Callable[[RunFacts], None]]:
        """Span `verdict run NAME`, with the facts at its end."""
        with self._span(f"verdict run {name}", {"verdict.run.name": name}) as span:

            def ended(facts: RunFacts) -> None:
                span.set_attributes(
                    {
                        "verdict.run.status": facts.status,
                        "verdict.run.rows": facts.rows,
                        "verdict.run.done": facts.done,
                        "verdict.run.failed": facts.failed,
                        "verdict.run.calls": facts.calls,
                    }
                )
                if facts.cost_usd is not None:
                    span.set_attribute("verdict.cost_usd", facts.cost_usd)

            yield ended

    @contextmanager
    def row(
        self, row: Row, judged: JudgedSpan | None = None
    ) -> Iterator[Callable[[Failure | None, Iterable[Score]], None]]:
        """Span `row`, linked to the span that it judges, with the row's failure at its end. Its scores are events on the
        judged span, or on this one if there is none."""
        attributes = {"verdict.row.index": row.index, "verdict.row.id": str(row.id)}
        foreign = None if judged is None else _span_context(judged)
        with self._span(
            "row", attributes, links=[] if foreign is None else [Link(foreign)]
        ) as span:

            def ended(failure: Failure | None, scores: Iterable[Score]) -> None:
                if failure is not None:
                    span.set_attribute("verdict.failure.unit", failure.node)
                    self._fail(span, failure.kind, failure.message)
                self._send_scores(
                    scores, attributes, span if foreign is None else NonRecordingSpan(foreign)
                )

            yield ended

    def _send_scores(self, scores: Iterable[Score], attributes: NamedValues, span: Span) -> None:
        """An event for each score, in the context of the span: a span that has ended takes no event of its own."""
        if self._logger is None:
            return
        context = set_span_in_context(span, Context())
        for score in scores:
            self._logger.emit(
                timestamp=time_ns(),
                context=context,
                event_name=EVALUATION_EVENT,
                attributes={**evaluation_attributes(score), **attributes},
            )

    @contextmanager
    def unit(self, node: str) -> Iterator[Callable[[Output | None], None]]:
        """Span `unit NODE`."""
        with self._span(f"unit {node}", {"verdict.unit": node}):
            yield lambda _: None

    def calls(self, ask: Ask) -> Ask:
        """Client span `chat MODEL` for each call that is made, not for recalled or cached ones."""

        async def ask_traced(request: Request) -> Reply:
            model = request.model
            attributes = self._model_attributes(
                model.name, model.api_base, model.api_key_env
            ) | _request_attributes(request)
            if request.questions:
                attributes |= {
                    "gen_ai.operation.name": "decide",
                    "verdict.questions": len(request.questions),
                }
            if self._content:
                attributes["gen_ai.input.messages"] = _json(
                    [_message(message) for message in request.messages]
                )
            name = f"{attributes['gen_ai.operation.name']} {attributes['gen_ai.request.model']}"
            with self._span(name, attributes, SpanKind.CLIENT) as span:
                try:
                    reply = await ask(request)
                except (ProviderError, ReplyError) as error:
                    if error.reply is not None:
                        self._set_reply(span, error.reply)
                    raise
                self._set_reply(span, reply)
                return reply

        return ask_traced

    @contextmanager
    def _span(
        self,
        name: str,
        attributes: NamedValues,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
    ) -> Iterator[Span]:
        """A span that is current while it lasts; an exception marks it as failed."""
        with self._tracer.start_as_current_span(
            name,
            kind=kind,
            attributes=attributes,
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                self._fail(span, _kind(error), str(error))
                raise

    def _fail(self, span: Span, kind: str, message: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(StatusCode.ERROR, message if self._content else kind)

    def _set_reply(self, span: Span, reply: Reply) -> None:
        """Attributes of a reply, readable or not."""
        span.set_attributes(
            {
                "gen_ai.response.model": reply.model,
                "gen_ai.response.finish_reasons": (reply.finish_reason,),
                "gen_ai.usage.input_tokens": reply.usage.prompt_tokens,
                "gen_ai.usage.output_tokens": reply.usage.completion_tokens,
            }
        )
        if reply.cost_usd is not None:
            span.set_attribute("verdict.cost_usd", reply.cost_usd)
        if self._content:
            message = _message(Message("assistant", reply.text)) | {
                "finish_reason": reply.finish_reason
            }
            span.set_attribute("gen_ai.output.messages", _json([message]))


def _span_context(judged: JudgedSpan) -> SpanContext | None:
    """The span in another tool's trace; None for ids that are not OpenTelemetry's."""
    try:
        trace_id, span_id = int(judged.trace_id, 16), int(judged.span_id or "0", 16)
    except ValueError:
        return None
    if not 0 < trace_id < 1 << 128 or not 0 <= span_id < 1 << 64:
        return None
    return SpanContext(
        trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )


def _model_attributes(name: str, api_base: str | None, api_key_env: str | None) -> JsonObject:
    """The attributes that all calls of a model share."""
    prefix, slash, short = name.partition("/")
    attributes: JsonObject = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDERS.get(prefix, prefix) if slash else "openai",
        "gen_ai.request.model": short or name,
    }
    with suppress(AddressError):  # not an address but the name of a provider of litellm
        address = parse_address(
            endpoint_address(Model(name=name, api_base=api_base, api_key_env=api_key_env))[0]
        )
        attributes["server.address"] = address.host.strip("[]")
        attributes["server.port"] = address.port or (80 if address.scheme == "http" else 443)
    return attributes


def _request_attributes(request: Request) -> JsonObject:
    """The request's parameters, and which call of the run it is."""
    sampling = request.model.sampling()
    attributes = {
        f"gen_ai.request.{name}": sampling[name] for name in _SAMPLING if name in sampling
    }
    if stop := sampling.get("stop"):
        attributes["gen_ai.request.stop_sequences"] = (
            (stop,) if isinstance(stop, str) else tuple(stop)
        )
    if request.row.item:
        attributes["verdict.item"] = request.row.item
    return attributes | {
        "gen_ai.output.type": "text" if request.json_schema is None else "json",
        "verdict.row.index": request.row.index,
        "verdict.unit": request.node,
        "verdict.call": request.call,
        "verdict.attempt": request.attempt,
    }


def _message(message: Message) -> JsonObject:
    """A message in the conventions' shape, without its images."""
    return {"role": message.role, "parts": [{"type": "text", "content": message.content}]}


def _json(value: Any) -> str:
    """JSON in ASCII, because no exporter takes half a surrogate pair."""
    return json.dumps(value, separators=(",", ":"))


def _kind(error: BaseException) -> str:
    if isinstance(error, ProviderError | ReplyError | RowError):
        return error.failure
    return error.kind if isinstance(error, VerdictError) else type(error).__qualname__
