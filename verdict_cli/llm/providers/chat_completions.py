"""The OpenAI chat-completions protocol, as pure functions: request → body, body → reply."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from msgspec.structs import replace

from verdict_cli.errors import Rejected, ReplyError, Retryable
from verdict_cli.llm.providers.http_errors import clean
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.prices import cost_usd
from verdict_cli.llm.providers.secrets import redact
from verdict_cli.llm.providers.sse import assembled
from verdict_cli.llm.providers.usage import paid, read_usage, written_usage
from verdict_cli.llm.providers.wire_values import content, loads, read_logprobs
from verdict_cli.messages import Reply, Request, Usage

_NEW_LIMIT = re.compile(r"o\d|gpt-[5-9]")
"""OpenAI's models that take ``max_completion_tokens`` and refuse ``max_tokens``."""


_LONGEST_NAME = 500
_CALLS = frozenset({"tool_calls", "function_call"})
TOOL = "reply"
"""The tool whose arguments are the reply where JSON is asked for by a tool call."""
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
"""Asks for the reply as events, with its usage."""
INSTRUCTION = "\n\nReply with one JSON object, and nothing else, that satisfies this JSON Schema:\n"


def arguments(request: Request, way: JsonMode = "schema") -> dict[str, Any]:
    """Everything that is asked for beside the model's name, in the API's words; JSON in the given way."""
    return _settings(request, way) | {"messages": _messages(request, way)}


def _settings(request: Request, way: JsonMode) -> dict[str, Any]:
    """All arguments but the messages: the same for all requests of a unit."""
    asked: dict[str, Any] = request.model.sampling()
    schema = request.json_schema
    if schema is not None:
        if way == "schema":
            form = {"name": TOOL, "schema": schema, "strict": is_strict(schema)}
            asked["response_format"] = {"type": "json_schema", "json_schema": form}
        elif way == "tool":
            function = {"name": TOOL, "description": "Gives the reply.", "parameters": schema}
            asked["tools"] = [{"type": "function", "function": function}]
            asked["tool_choice"] = {"type": "function", "function": {"name": TOOL}}
    if request.top_logprobs:
        asked["logprobs"] = True
        asked["top_logprobs"] = request.top_logprobs
    return asked


def _messages(request: Request, way: JsonMode) -> list[dict[str, Any]]:
    said = [{"role": one.role, "content": content(one)} for one in request.messages]
    if way == "words" and request.json_schema is not None:
        last = request.messages[-1]
        told = f"{last.content}{INSTRUCTION}{orjson.dumps(request.json_schema).decode()}"
        said[-1] = {"role": last.role, "content": content(replace(last, content=told))}
    return said


class Bodies:
    """The bodies of requests. What the requests of one unit have in common is written out once."""

    def __init__(self) -> None:
        self._fixed: dict[tuple[int, int, int, bool, JsonMode, str], _Fixed] = {}

    def of(self, request: Request, name: str, way: JsonMode = "schema") -> tuple[bytes, str]:
        """The request's body for a server that knows the model by this name, and the parameters in it as JSON.

        TypeError for a request that cannot be written as JSON.
        """
        key = (id(request.model), id(request.json_schema), request.top_logprobs, request.stream, way, name)
        fixed = self._fixed.get(key)
        if fixed is None:
            if len(self._fixed) >= _MOST_KEPT:
                self._fixed.clear()
            fixed = self._fixed[key] = _fixed(request, name, way)
        if fixed.whole:
            return fixed.body, fixed.sent
        messages = orjson.dumps(_messages(request, way))
        return b'%b,"messages":%b}' % (fixed.body[:-1], messages), fixed.sent


_MOST_KEPT = 1000


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A body without its messages (or ``whole``: `extra_body` gives them), and the parameters in it as JSON.

    ``owners`` are kept so that no other object is given their place in memory.
    """

    body: bytes
    sent: str
    whole: bool
    owners: tuple[Any, ...]


def _fixed(request: Request, name: str, way: JsonMode) -> _Fixed:
    asked = _settings(request, way)
    asked["model"] = name
    asked.pop("extra_headers", None)
    asked |= asked.pop("extra_body", None) or {}
    if "max_tokens" in asked and _NEW_LIMIT.match(name):
        asked["max_completion_tokens"] = asked.pop("max_tokens")
    if request.stream:
        asked |= STREAMED
    owners = (request.model, request.json_schema)
    return _Fixed(orjson.dumps(asked), parameters(asked), "messages" in asked, owners)


_IN_OTHER_COLUMNS = frozenset({"messages", "model", "api_base", "api_key"})


def parameters(asked: Mapping[str, Any]) -> str:
    """The parameters as JSON: without what stands in columns of its own, and a schema by the way it was asked for."""
    sent = {name: value for name, value in asked.items() if name not in _IN_OTHER_COLUMNS}
    if "json_schema" in (form := sent.get("response_format") or {}):
        sent["response_format"] = form["type"]
    if sent.get("tool_choice") == {"type": "function", "function": {"name": TOOL}}:
        sent |= {"tools": [TOOL], "tool_choice": TOOL}
    return orjson.dumps(sent, default=str).decode()


def is_strict(schema: Any) -> bool:
    """Whether the API's strict mode takes the schema: every object closed, every property required."""
    if isinstance(schema, list | tuple):
        return all(is_strict(part) for part in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object":
        named = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(named):
            return False
        return all(is_strict(part) for part in named.values())
    return all(is_strict(part) for part in schema.values())


def read_body(
    content: bytes, request: Request, latency_s: float, sent: str = "", hidden: tuple[str, ...] = ()
) -> Reply:
    """The reply in a body, in which the server may have repeated what is ``hidden``, without that.

    Raises Retryable for a body that is no chat completion (the message says what is wrong with it), ReplyError for
    a refusal or an empty or cut-off reply, Rejected where the provider's filter withheld it. They carry the reply that
    was paid for; Retryable where the body says what was used.
    """
    name = request.model.name
    streamed = request.stream and not content.lstrip().startswith(b"{")
    try:
        envelope = redact(assembled(content, hidden) if streamed else loads(content), hidden)
    except (ValueError, RecursionError) as problem:
        error = _broken(name, f"the body {'is no reply' if streamed else 'is not JSON'}: {problem}")
        error.reply = paid(written_usage(content), request, latency_s, sent)
        raise error from None
    return read_envelope(envelope, request, latency_s, sent)


def read_envelope(envelope: Any, request: Request, latency_s: float, sent: str = "") -> Reply:
    """The reply in a decoded body; raises as ``read`` does."""
    try:
        return _reply(envelope, request, latency_s, sent)
    except RecursionError:
        error = _broken(request.model.name, "it is nested too deeply")
    except Retryable as problem:
        error = problem
    if isinstance(envelope, dict):
        error.reply = paid(envelope.get("usage"), request, latency_s, sent)
    raise error from None


def _reply(envelope: Any, request: Request, latency_s: float, sent: str) -> Reply:
    name = request.model.name
    choice, message = _choice(envelope, name)
    text = _text(message, name)
    try:
        logprobs = read_logprobs(choice.get("logprobs"))
    except ValueError as problem:
        raise _broken(name, str(problem)) from None
    usage, cached = read_usage(envelope.get("usage"))
    reply = Reply(
        text,
        finish_reason=_short(choice.get("finish_reason")) or "stop",
        logprobs=logprobs,
        usage=usage or Usage(),
        cost_usd=cost_usd(request.model, usage, cached),
        model=_short(envelope.get("model")) or name,
        latency_s=latency_s,
        sent=sent,
    )
    _accept(reply, name, message.get("refusal"))
    return reply


def _short(value: Any) -> str:
    """A name that the server gives; "" for what is none, or longer than any."""
    return value if isinstance(value, str) and len(value) <= _LONGEST_NAME else ""


def _choice(envelope: Any, name: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if not isinstance(envelope, dict):
        raise _broken(name, "the body is not a JSON object")
    choices = envelope.get("choices")
    if not isinstance(choices, list) or not choices:
        said = envelope.get("error")
        raise _broken(name, clean(f"an error in place of choices: {said}") if said else "no choices")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise _broken(name, "the choice has no message")
    return choice, message


def _text(message: Mapping[str, Any], name: str) -> str:
    """The arguments of a call of our own tool; else the content, its parts joined; without any, the first call's."""
    content = message.get("content")
    if isinstance(content, str) and content and not content.isspace() and _CALLS.isdisjoint(message):
        return content
    calls = message.get("tool_calls") or [{"function": message.get("function_call")}]
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    called = [function for function in functions if isinstance(function, dict)]
    ours = next((function for function in called if function.get("name") == TOOL), None)
    if ours is not None:
        return _given(ours)
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        content = "".join(part for part in parts if isinstance(part, str))
    if content is not None and not isinstance(content, str):
        raise _broken(name, f"the content is {type(content).__name__}, not text")
    if content and not content.isspace():
        return content
    return _given(called[0]) if called else content or ""


def _given(function: Mapping[str, Any]) -> str:
    """A call's arguments as text: some servers send them as an object."""
    given = function.get("arguments")
    if isinstance(given, dict):
        return json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    return given if isinstance(given, str) else ""


def _accept(reply: Reply, name: str, refusal: Any) -> None:
    if refusal:
        raise ReplyError(f"model {name} declined to answer: {clean(str(refusal))}", kind="refused", reply=reply)
    if reply.finish_reason == "content_filter":
        message = f"model {name}: the provider's content filter withheld the reply"
        raise Rejected(message, kind="content-filter", reply=reply)
    if reply.text and not reply.text.isspace():
        return
    if reply.finish_reason == "length":
        hint = "raise max_tokens; reasoning models spend them before the first word"
        message = f"model {name} reached its token limit before it said anything"
        raise ReplyError(message, hint=hint, kind="cut-off", reply=reply)
    raise ReplyError(f"model {name} replied with nothing", kind="empty", reply=reply)


def _broken(name: str, what: str) -> Retryable:
    return Retryable(f"model {name}: the server's reply cannot be used: {what}", kind="unavailable")
