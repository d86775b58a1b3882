"""The OpenAI chat-completions protocol, as pure functions: request → body, body → reply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import ProviderError, Rejected, ReplyError, Retryable
from verdict_cli.llm.identity_cache import IdentityCache
from verdict_cli.llm.providers.http_errors import (
    UNKNOWN_SOURCE,
    Source,
    clean,
    first_words,
    stated_error,
)
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.secrets import redact, redact_text
from verdict_cli.llm.providers.sse import assemble, has_events
from verdict_cli.llm.providers.usage import charged_cost, paid_reply, read_usage, usage_in_text
from verdict_cli.llm.providers.wire_protocol import WireProtocol, events
from verdict_cli.llm.providers.wire_values import is_strict, loads, message_content, read_logprobs
from verdict_cli.messages import Reply, Request, Usage
from verdict_cli.regex import regex

_TAKES_COMPLETION_TOKENS = regex(r"(?:^|[/.])(?:o\d(?![a-z0-9])|gpt-[5-9])")
"""OpenAI's models that take ``max_completion_tokens`` and reject ``max_tokens``, behind any provider's prefixes."""
_MAX_NAME = 500
_CALLS = frozenset({"tool_calls", "function_call"})
TOOL = "reply"
"""The tool whose arguments are the reply where JSON is requested by a tool call."""
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
"""Requests the reply as events, with its usage."""
INSTRUCTION = "\n\nReply with one JSON object, and nothing else, that satisfies this JSON Schema:\n"


def arguments(request: Request, mode: JsonMode = "schema") -> dict[str, Any]:
    """The request's arguments but the model's name, as the API names them."""
    return _settings(request, mode) | {"messages": _messages(request, mode)}


def _settings(request: Request, mode: JsonMode) -> dict[str, Any]:
    """All arguments but the messages: the same for all requests of a unit."""
    settings: dict[str, Any] = request.model.sampling()
    schema = request.json_schema
    if schema is not None:
        if mode == "schema":
            form = {"name": TOOL, "schema": schema, "strict": is_strict(schema)}
            settings["response_format"] = {"type": "json_schema", "json_schema": form}
        elif mode == "tool":
            function = {"name": TOOL, "description": "Gives the reply.", "parameters": schema}
            settings["tools"] = [{"type": "function", "function": function}]
            settings["tool_choice"] = {"type": "function", "function": {"name": TOOL}}
        elif mode == "json":
            settings["response_format"] = {"type": "json_object"}
    if request.top_logprobs:
        settings["logprobs"] = True
        settings["top_logprobs"] = request.top_logprobs
    return settings


def _messages(request: Request, mode: JsonMode) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for message in request.messages:
        messages.append(
            {
                "role": message.role,
                "content": message_content(message) if message.images else message.content,
            }
        )
    if mode in ("prompt", "json") and request.json_schema is not None:
        last = request.messages[-1]
        instructed = f"{last.content}{INSTRUCTION}{orjson.dumps(request.json_schema).decode()}"
        messages[-1] = {
            "role": last.role,
            "content": message_content(replace(last, content=instructed)),
        }
    return messages


class RequestBodies:
    """Writes request bodies. What the requests of one unit have in common is serialized once."""

    def __init__(self) -> None:
        self._shared: IdentityCache[_SharedBody] = IdentityCache()

    def get(self, request: Request, name: str, mode: JsonMode = "schema") -> tuple[bytes, str]:
        """The request's body for a server that knows the model by this name, and its parameters as JSON.

        Raises TypeError for a request that cannot be written as JSON.
        """
        rest = (request.top_logprobs, request.stream, mode, name)
        shared = self._shared.get(
            (request.model, request.json_schema), rest, _share, request, name, mode
        )
        if shared.has_messages:
            return shared.body, shared.parameters
        messages = orjson.dumps(_messages(request, mode))
        return b'%b,"messages":%b}' % (shared.body[:-1], messages), shared.parameters


class _SharedBody(Struct, frozen=True):
    """A body without its messages (``has_messages``: `extra_body` sets them), and its parameters as JSON."""

    body: bytes
    parameters: str
    has_messages: bool


def _share(request: Request, name: str, mode: JsonMode) -> _SharedBody:
    settings = _settings(request, mode)
    settings["model"] = name
    settings.pop("extra_headers", None)
    settings.pop("api_version", None)  # part of Azure's address
    settings |= settings.pop("extra_body", None) or {}
    if "seed" in settings and request.model.name.startswith("mistral/"):
        settings["random_seed"] = settings.pop("seed")
    if "max_tokens" in settings and _TAKES_COMPLETION_TOKENS.search(
        request.model.base_model or name
    ):
        settings["max_completion_tokens"] = settings.pop("max_tokens")
    if request.stream:
        settings |= STREAMED
    return _SharedBody(orjson.dumps(settings), parameters(settings), "messages" in settings)


_IN_OTHER_COLUMNS = frozenset({"messages", "model", "api_base", "api_key"})


def parameters(settings: Mapping[str, Any]) -> str:
    """The parameters as JSON for `calls.parquet`: without what has its own column, and with the JSON mode for a schema."""
    sent = {name: value for name, value in settings.items() if name not in _IN_OTHER_COLUMNS}
    if "json_schema" in (form := sent.get("response_format") or {}):
        sent["response_format"] = form["type"]
    if sent.get("tool_choice") == {"type": "function", "function": {"name": TOOL}}:
        sent |= {"tools": [TOOL], "tool_choice": TOOL}
    return orjson.dumps(sent, default=str).decode()


def read_body(
    content: bytes,
    request: Request,
    latency_s: float,
    sent: str = "",
    hidden: tuple[str, ...] = (),
    protocol: WireProtocol | None = None,
    source: Source = UNKNOWN_SOURCE,
) -> Reply:
    """The reply in a body, without the ``hidden`` texts that the server may have repeated.

    ``protocol`` is that of the server, None for chat completions.

    Raises Retryable for a body that is not a chat completion (the message says why), ReplyError for a refusal or an empty
    or cut-off reply, Rejected if the provider's filter withheld it, and what `stated_error` gives for an error in the body.
    The errors carry the reply that was paid for, if the body states its usage.
    """
    name = request.model.name
    streamed = has_events(content)  # some servers stream whatever is asked for, and some never do
    try:
        if protocol is None:
            envelope = redact(assemble(content, hidden) if streamed else loads(content), hidden)
        else:
            whole = redact(
                protocol.assemble(events(content)) if streamed else loads(content), hidden
            )
            envelope = protocol.to_chat(whole) if isinstance(whole, dict) else whole
    except (ValueError, RecursionError) as fault:
        error = broken_reply(name, *body_fault(content, streamed, fault, hidden, source), source)
        error.reply = paid_reply(usage_in_text(content), request, latency_s, sent)
        raise error from None
    return read_envelope(envelope, request, latency_s, sent, source)


def read_envelope(
    envelope: Any,
    request: Request,
    latency_s: float,
    sent: str = "",
    source: Source = UNKNOWN_SOURCE,
) -> Reply:
    """The reply in a decoded body; raises as `read_body` does."""
    error: ProviderError
    try:
        return _reply(envelope, request, latency_s, sent, source)
    except RecursionError:
        error = broken_reply(request.model.name, "it is nested too deeply", "", source)
    except ProviderError as fault:
        error = fault
    if error.reply is None and isinstance(envelope, dict):
        error.reply = paid_reply(envelope.get("usage"), request, latency_s, sent)
    raise error from None


def _reply(envelope: Any, request: Request, latency_s: float, sent: str, source: Source) -> Reply:
    name = request.model.name
    error = stated_error(envelope, name, source)
    if error is not None:
        raise error
    choice, message = _choice(envelope, name, source)
    text = _text(message, name, source)
    try:
        logprobs = read_logprobs(choice.get("logprobs"))
    except ValueError as fault:
        raise broken_reply(name, str(fault), "", source) from None
    usage = read_usage(envelope.get("usage"))
    finish_reason, tier, served, fingerprint = _names(
        choice.get("finish_reason"), *map(envelope.get, _NAMES)
    )
    reply = Reply(
        text,
        finish_reason=finish_reason or "stop",
        logprobs=logprobs,
        usage=usage or Usage(),
        cost_usd=charged_cost(request.model, envelope.get("usage"), usage, tier, served),
        model=served or name,
        latency_s=latency_s,
        sent=sent,
        system_fingerprint=fingerprint,
        reasoning=_reasoning(envelope, message),
        service_tier=tier,
    )
    _accept(reply, name, message.get("refusal"))
    return reply


def _reasoning(envelope: Mapping[str, Any], message: Mapping[str, Any]) -> str:
    """The text of the model's thinking: beside the message (our own protocols), or under a key that servers add to it."""
    text = envelope.get("reasoning") or message.get("reasoning_content") or message.get("reasoning")
    return text if isinstance(text, str) else ""


_NAMES = ("service_tier", "model", "system_fingerprint")


def _names(*values: Any) -> list[str]:
    """Names from the server; "" for what is not a text, or too long for a name."""
    return [value if isinstance(value, str) and len(value) <= _MAX_NAME else "" for value in values]


def _choice(
    envelope: Any, name: str, source: Source
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if not isinstance(envelope, dict):
        raise broken_reply(name, "the body is not a JSON object", _OTHER_API, source)
    choices = envelope.get("choices")
    if not isinstance(choices, list) or not choices:
        raise broken_reply(
            name,
            f"no choices in {first_words(orjson.dumps(envelope, default=str))}",
            _OTHER_API,
            source,
        )
    # Several replies of one request may come in any order: the first is that of index 0.
    choice = next(
        (item for item in choices if isinstance(item, dict) and item.get("index") == 0), choices[0]
    )
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise broken_reply(name, "the choice has no message", _OTHER_API, source)
    return choice, message


def _text(message: Mapping[str, Any], name: str, source: Source) -> str:
    """The arguments of a call of our own tool, else the content, its parts joined, else the first call's arguments."""
    content = message.get("content")
    if (
        isinstance(content, str)
        and content
        and not content.isspace()
        and _CALLS.isdisjoint(message)
    ):
        return content
    calls = message.get("tool_calls") or [{"function": message.get("function_call")}]
    functions = (
        [call.get("function") for call in calls if isinstance(call, dict)]
        if isinstance(calls, list)
        else []
    )
    called = [function for function in functions if isinstance(function, dict)]
    ours = next((function for function in called if function.get("name") == TOOL), None)
    if ours is not None:
        return _arguments_text(ours)
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        content = "".join(part for part in parts if isinstance(part, str))
    if content is not None and not isinstance(content, str):
        raise broken_reply(name, f"the content is {type(content).__name__}, not text", "", source)
    if content and not content.isspace():
        return content
    return _arguments_text(called[0]) if called else content or ""


def _arguments_text(function: Mapping[str, Any]) -> str:
    """A call's arguments as text: some servers send them as an object."""
    arguments_text = function.get("arguments")
    if isinstance(arguments_text, dict):
        return json.dumps(arguments_text, ensure_ascii=False, separators=(",", ":"))
    return arguments_text if isinstance(arguments_text, str) else ""


def _accept(reply: Reply, name: str, refusal: Any) -> None:
    if refusal:
        raise ReplyError(
            f"model {name} declined to answer: {clean(str(refusal))}", kind="refused", reply=reply
        )
    if reply.finish_reason == "content_filter":
        message = f"model {name}: the provider's content filter withheld the reply"
        raise Rejected(message, kind="content-filter", reply=reply)
    if reply.finish_reason == "error":
        broken_off = Retryable(
            f"model {name}: the provider broke its reply off with an error", kind="unavailable"
        )
        broken_off.reply = reply
        raise broken_off
    if reply.text and not reply.text.isspace():
        return
    if reply.finish_reason == "length":
        hint = "raise max_tokens; reasoning models spend them before the first word"
        message = f"model {name} reached its token limit before its first word"
        raise ReplyError(message, hint=hint, kind="cut-off", reply=reply)
    if reply.reasoning:
        message = f"model {name} replied with nothing: all of its {len(reply.reasoning):,} characters are in `reasoning_content`"
        hint = "set the server's reasoning parser to the model's, turn thinking off, or raise max_tokens"
        raise ReplyError(message, hint=hint, kind="empty", reply=reply)
    raise ReplyError(f"model {name} replied with nothing", kind="empty", reply=reply)


def broken_reply(name: str, what: str, hint: str, source: Source) -> Retryable:
    message = f"model {name}: the reply of {source.address} cannot be used: {what}"
    return Retryable(message, hint=hint, kind="unavailable", status=200)


def body_fault(
    content: bytes, streamed: bool, fault: Exception, hidden: tuple[str, ...], source: Source
) -> tuple[str, str]:
    """Why a body is not a reply, with its first words, and what to do."""
    if not content.strip():
        return "the body is empty", _OTHER_API
    words = redact_text(first_words(content), hidden)
    if streamed:
        return f"the stream is not a reply: {fault}", ""
    kind = (source.headers.get("content-type") or "").partition(";")[0].strip() or "text"
    if content.lstrip()[:1] in (b"{", b"["):
        return f"the body is not JSON: {fault}: {words}", ""
    return f"it is {kind}, not JSON: {words}", _OTHER_API


_OTHER_API = "check api_base: another page or API than chat completions answers there (theirs mostly ends in /v1)"
