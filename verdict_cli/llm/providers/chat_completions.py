"""The OpenAI chat-completions protocol, as pure functions: request → body, body → reply."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from verdict_cli.errors import Rejected, ReplyError, Retryable
from verdict_cli.llm.providers.http_errors import (
    OTHER_API,
    Source,
    broken_reply,
    clean,
    first_words,
    stated_error,
)
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.sse import assemble, text_of
from verdict_cli.llm.providers.wire_protocol import (
    TOOL,
    WireProtocol,
    bearer,
    content_parts,
    joined,
    own_arguments,
    with_instruction,
)
from verdict_cli.llm.providers.wire_values import is_strict, object_at, objects, read_logprobs
from verdict_cli.messages import Alternative, JsonObject, Message, NamedValues, Reply, Request
from verdict_cli.regex import regex

_TAKES_COMPLETION_TOKENS = regex(r"(?:^|[/.])(?:o\d(?![a-z0-9])|gpt-[5-9])")
"""OpenAI's models that take ``max_completion_tokens`` and reject ``max_tokens``, behind any provider's prefixes."""
_MAX_NAME = 500
_CALLS = frozenset({"tool_calls", "function_call"})
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
"""Requests the reply as events, with its usage."""


def arguments(request: Request, mode: JsonMode = "schema") -> JsonObject:
    """The request's arguments but the model's name, as the API names them."""
    return _arguments(request, mode) | _content(with_instruction(request, mode))


def _arguments(request: Request, mode: JsonMode) -> JsonObject:
    """All arguments but the messages: the same for all requests of a unit."""
    settings: JsonObject = request.model.sampling()
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


def _content(request: Request) -> JsonObject:
    messages = []
    for message in request.messages:
        messages.append({"role": message.role, "content": message_content(message)})
    return {"messages": messages}


def message_content(message: Message) -> Any:
    """The message's text; with images, the list of its texts and images in order."""
    return content_parts(message, text_part, _image) if message.images else message.content


def text_part(text: str) -> JsonObject:
    """A text among other parts of a message."""
    return {"type": "text", "text": text}


def _image(url: str) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": url}}


def _settings(request: Request, name: str, mode: JsonMode) -> JsonObject:
    settings = _arguments(request, mode)
    settings["model"] = name
    settings.pop("extra_headers", None)
    settings.pop("api_version", None)  # part of Azure's address
    settings |= settings.pop("extra_body", None) or {}
    if "seed" in settings and request.model.name.startswith("mistral/"):
        settings["random_seed"] = settings.pop("seed")
    own_name = request.model.base_model or name
    if "max_tokens" in settings and _TAKES_COMPLETION_TOKENS.search(own_name):
        settings["max_completion_tokens"] = settings.pop("max_tokens")
    if request.stream:
        settings |= STREAMED
    return settings


class ChatReply(Struct, frozen=True):
    """What a chat completion says: its text, how it ended, and what the model declined or thought."""

    text: str
    finish_reason: str
    logprobs: tuple[tuple[Alternative, ...], ...] | None
    reasoning: str
    refusal: Any


NO_TEXT = ChatReply("", "stop", None, "", None)
"""Of a model that answers questions."""


def read_chat(envelope: Any, source: Source) -> ChatReply:
    """What a decoded chat completion says. Raises Retryable or ValueError for a body that is none, and what `stated_error` gives
    for an error in it."""
    error = stated_error(envelope, source)
    if error is not None:
        raise error
    choice, message = _choice(envelope, source)
    text = _text(message)
    logprobs = read_logprobs(choice.get("logprobs"))
    finish_reason = name_in(choice, "finish_reason") or "stop"
    finish_reason = _FINISH.get(finish_reason.lower(), finish_reason)
    refusal = message.get("refusal") or joined(objects(message.get("content")), "refusal")
    if finish_reason == "refusal":
        refusal = refusal or text or "it gave no reason"
    return ChatReply(text, finish_reason, logprobs, _reasoning(envelope, message), refusal)


_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "model_length": "length",
    "content-filter": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "prohibited_content": "content_filter",
    "blocklist": "content_filter",
    "spii": "content_filter",
    "language": "content_filter",
    "image_safety": "content_filter",
    "abort": "error",
    "insufficient_system_resource": "error",
}
"""What OpenAI calls the ends of replies that other servers name: Claude, Gemini, Mistral, DeepSeek, vLLM, and gateways."""


def _reasoning(envelope: NamedValues, message: NamedValues) -> str:
    """The text of the model's thinking: beside the message (our own protocols), or under a key that servers add to it."""
    text = envelope.get("reasoning") or message.get("reasoning_content") or message.get("reasoning")
    return text if isinstance(text, str) else ""


def name_in(values: NamedValues, key: str) -> str:
    """A name from the server; "" for what is not a text, or too long for a name."""
    value = values.get(key)
    return value if isinstance(value, str) and len(value) <= _MAX_NAME else ""


def _choice(envelope: Any, source: Source) -> tuple[NamedValues, NamedValues]:
    if not isinstance(envelope, dict):
        raise broken_reply("the body is not a JSON object", source, OTHER_API)
    choices = envelope.get("choices")
    if not isinstance(choices, list) or not choices:
        text = json.dumps(envelope, default=str, separators=(",", ":"))
        raise broken_reply(f"no choices in {first_words(text.encode())}", source, OTHER_API)
    # Several replies of one request may come in any order: the first is that of index 0.
    choice = next(
        (item for item in choices if isinstance(item, dict) and item.get("index") == 0), choices[0]
    )
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise broken_reply("the choice has no message", source, OTHER_API)
    return choice, message


def _text(message: NamedValues) -> str:
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
    called = [object_at(call, "function") for call in objects(calls)]
    ours = own_arguments(called, "arguments")
    if ours is not None:
        return _arguments_text(ours)
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        content = "".join(part for part in parts if isinstance(part, str))
    if content is not None and not isinstance(content, str):
        raise ValueError(f"the content is {type(content).__name__}, not text")
    if content and not content.isspace():
        return content
    return _arguments_text(called[0].get("arguments")) if called else content or ""


def _arguments_text(stated: Any) -> str:
    """A call's arguments as text: some servers send them as an object."""
    if isinstance(stated, dict):
        return json.dumps(stated, ensure_ascii=False, separators=(",", ":"))
    return stated if isinstance(stated, str) else ""


def check_reply(reply: Reply, name: str, refusal: Any) -> None:
    """Raise what makes a reply unusable by its own account: a refusal, a filter, a cut before the first word."""
    if refusal:
        raise ReplyError(
            f"model {name} declined to answer: {clean(str(refusal))}", kind="refused", reply=reply
        )
    if reply.finish_reason == "content_filter":
        message = f"model {name}: the provider's content filter withheld the reply"
        raise Rejected(message, kind="content-filter", reply=reply)
    if reply.finish_reason == "error":
        message = f"model {name}: the provider broke its reply off with an error"
        raise Retryable(message, kind="unavailable", reply=reply)
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


CHAT = WireProtocol(
    name="chat",
    version="",
    path=lambda _name, _stream: "/chat/completions",
    headers=bearer,
    settings=_settings,
    content=_content,
    to_chat=dict,
    assemble=assemble,
    text_of=text_of,
)
