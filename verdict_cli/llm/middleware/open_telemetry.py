"""OpenTelemetry spans by the GenAI semantic conventions. Imported only where a run is traced."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from verdict_cli.errors import ProviderError, ReplyError, RowError, VerdictError
from verdict_cli.language.model_address import AddressError, parse_address
from verdict_cli.llm.providers.provider import endpoint_address
from verdict_cli.llm.tracing import Spans
from verdict_cli.messages import Ask, Failure, Message, Output, Reply, Request, Row, RunFacts
from verdict_cli.model import Model

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


class OpenTelemetrySpans(Spans):
    """Spans of a run. Prompts, replies, and messages of errors, which may quote them, only with ``content``."""

    def __init__(self, tracer: Tracer, *, content: bool = False) -> None:
        self._tracer = tracer
        self._content = content
        self._fixed = cache(_fixed)

    @contextmanager
    def run(self, name: str) -> Iterator[Callable[[RunFacts], None]]:
        """Span `verdict run NAME`, told the facts at its end."""
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
    def row(self, row: Row) -> Iterator[Callable[[Failure | None], None]]:
        """Span `row`, told why the row failed; the attributes name it."""
        with self._span("row", {"verdict.row.index": row.index, "verdict.row.id": str(row.id)}) as span:

            def ended(failure: Failure | None) -> None:
                if failure is not None:
                    span.set_attribute("verdict.failure.unit", failure.node)
                    self._fail(span, failure.kind, failure.message)

            yield ended

    @contextmanager
    def unit(self, node: str) -> Iterator[Callable[[Output | None], None]]:
        """Span `unit NODE`."""
        with self._span(f"unit {node}", {"verdict.unit": node}):
            yield lambda _: None

    def calls(self, ask: Ask) -> Ask:
        """A client's span `chat MODEL` for each call that is really made."""

        async def ask_traced(request: Request) -> Reply:
            model = request.model
            asked = self._fixed(model.name, model.api_base, model.api_key_env) | _asked(request)
            if self._content:
                asked["gen_ai.input.messages"] = _json([_message(one) for one in request.messages])
            with self._span(f"chat {asked['gen_ai.request.model']}", asked, SpanKind.CLIENT) as span:
                try:
                    reply = await ask(request)
                except (ProviderError, ReplyError) as error:
                    if error.reply is not None:
                        self._said(span, error.reply)
                    raise
                self._said(span, reply)
                return reply

        return ask_traced

    @contextmanager
    def _span(self, name: str, attributes: Mapping[str, Any], kind: SpanKind = SpanKind.INTERNAL) -> Iterator[Span]:
        """A span that is the current one while it lasts; what is raised ends it as failed."""
        with self._tracer.start_as_current_span(
            name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                self._fail(span, _kind(error), str(error))
                raise

    def _fail(self, span: Span, kind: str, message: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(StatusCode.ERROR, message if self._content else kind)

    def _said(self, span: Span, reply: Reply) -> None:
        """What is known once there is a reply, readable or not."""
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
            said = _message(Message("assistant", reply.text)) | {"finish_reason": reply.finish_reason}
            span.set_attribute("gen_ai.output.messages", _json([said]))


def _fixed(name: str, api_base: str | None, api_key_env: str | None) -> dict[str, Any]:
    """What is the same for all calls of a model."""
    prefix, slash, short = name.partition("/")
    fixed: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDERS.get(prefix, prefix) if slash else "openai",
        "gen_ai.request.model": short or name,
    }
    with suppress(AddressError):  # a provider's name, whose address litellm knows
        there = parse_address(endpoint_address(Model(name=name, api_base=api_base, api_key_env=api_key_env))[0])
        fixed["server.address"] = there.host.strip("[]")
        fixed["server.port"] = there.port or (80 if there.scheme == "http" else 443)
    return fixed


def _asked(request: Request) -> dict[str, Any]:
    """What a request asks for, and which call of the run it is."""
    given = request.model.sampling()
    asked = {f"gen_ai.request.{name}": given[name] for name in _SAMPLING if name in given}
    if stop := given.get("stop"):
        asked["gen_ai.request.stop_sequences"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return asked | {
        "gen_ai.output.type": "text" if request.json_schema is None else "json",
        "verdict.row.index": request.row.index,
        "verdict.unit": request.node,
        "verdict.call": request.call,
        "verdict.attempt": request.attempt,
    }


def _message(message: Message) -> dict[str, Any]:
    """A message in the conventions' shape, its pictures left out."""
    return {"role": message.role, "parts": [{"type": "text", "content": message.content}]}


def _json(value: Any) -> str:
    """As JSON; half a surrogate pair, which no exporter takes, as its escape."""
    return json.dumps(value, separators=(",", ":"))


def _kind(error: BaseException) -> str:
    if isinstance(error, ProviderError | ReplyError | RowError):
        return error.failure
    return error.kind if isinstance(error, VerdictError) else type(error).__qualname__
