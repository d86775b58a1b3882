"""Anthropic's Messages API (`/v1/messages`), as pure functions: request → body, body → chat completion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from verdict_cli.errors import Refused
from verdict_cli.llm.prompt_prefix import TOKEN_BYTES, cacheable_minimum
from verdict_cli.llm.providers.chat_completions import text_part
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_protocol import (
    TOOL,
    Envelope,
    WireProtocol,
    chat_completion,
    content_parts,
    count,
    data_url,
    joined,
    of_type,
    own_arguments,
    split_system,
    texts_of,
    with_settings,
)
from verdict_cli.llm.providers.wire_values import object_at, objects
from verdict_cli.messages import JsonObject, Message, NamedValues, Request
from verdict_cli.model import Model

SYSTEM = -1
"""Stands for the system prompt, which the API takes apart from the turns."""
_BETWEEN = "\n\n"
"""What joins system messages."""
EPHEMERAL = {"type": "ephemeral"}
_SETTING = "cache_control"


def cache_marks(request: Request) -> Mapping[int, list[int]]:
    """The positions to mark by the number of the turn (`SYSTEM`: of the system prompt), in order.

    Only marks at or behind the model's cacheable minimum; none where the pipeline's own `params` ask for caching.
    """
    params = request.model.params
    if not request.marks or _SETTING in params or _SETTING in (params.get("extra_body") or {}):
        return {}
    least = cacheable_minimum(request.model)
    if least is None:
        return {}
    positions: dict[int, list[int]] = {}
    system = preceding = turn = 0
    for index, message in enumerate(request.messages):
        start, place = 0, turn
        if message.role == "system":
            start, place = system, SYSTEM
            system += len(message.content) + len(_BETWEEN)
        else:
            turn += 1
        # The end of the request is position -1 of message -1.
        offsets = [offset for of, offset in request.marks if of % len(request.messages) == index]
        for offset in offsets:
            text = message.content if offset < 0 else message.content[:offset]
            if preceding + _size(text) >= least * TOKEN_BYTES:
                positions.setdefault(place, []).append(start + len(text))
        preceding += _size(message.content)
    return positions


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def marked_parts(message: Message, positions: Sequence[int]) -> list[JsonObject]:
    """The message's texts and images, split at the positions; what ends at one of them is marked."""
    if not positions:
        return content_parts(message, text_part, _image)
    parts: list[JsonObject] = []
    start = 0
    for end in sorted({*positions, len(message.content)}):
        is_last = end == len(message.content)
        text = message.content[start:end]
        images = tuple(
            (position - start, url)
            for position, url in message.images
            if start <= position and (position < end or (is_last and position == end))
        )
        if text.strip() or images:
            parts += content_parts(Message(message.role, text, images), text_part, _image)
            start = end
            if end in positions:
                parts[-1][_SETTING] = EPHEMERAL
    return parts


_DEFAULT_MAX_TOKENS = 4096
"""The API needs a limit. Judges' replies are short; a model's own maximum would only raise what a run reserves."""
_THINKING_TOKENS = {"low": 1024, "medium": 4096, "high": 16384}
"""Thinking budgets for `reasoning_effort`; 1,024 is the least that the API takes."""
_NO_THINKING = (None, "none", "minimal")
_UNSUPPORTED = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
)
"""Keywords that the API's structured output refuses. They move into the description, where the model reads them."""


def _settings(request: Request, name: str, mode: JsonMode) -> JsonObject:
    if request.top_logprobs:
        hint = "use a structured score, or a model whose API gives log-probabilities"
        raise Refused(f"model {request.model.name} returns no token log-probabilities", hint=hint)
    settings = request.model.sampling()
    body: JsonObject = {
        "model": name,
        "max_tokens": settings.pop("max_tokens", _DEFAULT_MAX_TOKENS),
    }
    effort = settings.pop("reasoning_effort", None)
    if effort is not None:
        _think(body, settings, str(effort), request.model.name)
    if "stop" in settings:
        body["stop_sequences"] = texts_of(settings.pop("stop"))
    if request.json_schema is not None:
        _ask_for_json(body, request.json_schema, mode)
    if request.stream:
        body["stream"] = True
    return with_settings(body, settings)


def _content(request: Request) -> JsonObject:
    system, turns = split_system(request.messages)
    marks = cache_marks(request)
    messages = []
    for index, turn in enumerate(turns):
        parts = marked_parts(turn, marks.get(index, ()))
        messages.append({"role": turn.role, "content": parts})
    if not system:
        return {"messages": messages}
    prompt = marked_parts(Message("system", system), marks.get(SYSTEM, ()))
    return {"system": prompt, "messages": messages}


def _json_mode(model: Model, mode: JsonMode) -> JsonMode:
    """The API refuses a forced tool together with thinking."""
    if mode != "tool":
        return mode
    settings = model.sampling()
    thinks = settings.get("reasoning_effort") not in _NO_THINKING or "thinking" in settings
    return "prompt" if thinks else mode


def _ask_for_json(body: JsonObject, schema: NamedValues, mode: JsonMode) -> None:
    if mode == "schema":
        form = {"type": "json_schema", "schema": _supported(schema)}
        body["output_config"] = {"format": form}
    elif mode == "tool":
        tool = {"name": TOOL, "description": "Gives the reply.", "input_schema": schema}
        body |= {"tools": [tool], "tool_choice": {"type": "tool", "name": TOOL}}


def _think(body: JsonObject, settings: NamedValues, effort: str, model: str) -> None:
    if effort in _NO_THINKING:
        return
    if effort not in _THINKING_TOKENS:
        raise Refused(
            f"model {model}: unknown reasoning_effort {effort!r}", hint="use low, medium or high"
        )
    if settings.get("temperature", 1) != 1 or "top_p" in settings:
        hint = "remove temperature and top_p, or reasoning_effort"
        raise Refused(
            f"model {model} takes no temperature together with reasoning_effort", hint=hint
        )
    budget = _THINKING_TOKENS[effort]
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    # The limit includes the thinking, and must be larger than its budget.
    body["max_tokens"] += budget


def _image(url: str) -> JsonObject:
    embedded = data_url(url)
    if embedded is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind, data = embedded
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _supported(schema: Any) -> Any:
    """The schema without the keywords that structured output refuses; the reply is still checked against all of it."""
    if isinstance(schema, list | tuple):
        return [_supported(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    bounds = {
        key: schema[key]
        for key in _UNSUPPORTED
        if key in schema and not isinstance(schema[key], Mapping)
    }
    result = {key: _supported(part) for key, part in schema.items() if key not in bounds}
    if bounds:
        limits = ", ".join(f"{key}: {value}" for key, value in bounds.items())
        result["description"] = (
            f"{result['description']} ({limits})" if result.get("description") else limits
        )
    return result


def _to_chat(envelope: Envelope) -> JsonObject:
    if envelope.get("type") == "error" or "content" not in envelope:
        return {"error": envelope.get("error") or "no content"}
    blocks = objects(envelope.get("content"))
    text = joined(of_type(blocks, "text"))
    used = own_arguments(of_type(blocks, "tool_use"), "input")
    stop = str(envelope.get("stop_reason") or "")
    thinking = joined(of_type(blocks, "thinking"), "thinking")
    usage = _usage(envelope.get("usage"))
    if stop == "pause_turn":
        return {"error": "the server paused its turn", "usage": usage}
    if thinking:
        text = text.lstrip()
    return chat_completion(
        text,
        stop,
        usage,
        model=str(envelope.get("model") or ""),
        arguments=used if isinstance(used, dict) else None,
        extra={
            "service_tier": object_at(envelope, "usage").get("service_tier"),
            "reasoning": thinking,
        },
    )


def _usage(usage: Any) -> JsonObject | None:
    """OpenAI's form. Anthropic counts tokens read from and written to its cache apart from the others of the prompt."""
    if not isinstance(usage, Mapping) or "input_tokens" not in usage:
        return None
    read, cache_writes = (
        count(usage.get("cache_read_input_tokens")),
        count(usage.get("cache_creation_input_tokens")),
    )
    return {
        "prompt_tokens": count(usage.get("input_tokens")) + read + cache_writes,
        "completion_tokens": count(usage.get("output_tokens")),
        "prompt_tokens_details": {"cached_tokens": read, "cache_creation_tokens": cache_writes},
        "cache_creation": object_at(usage, "cache_creation"),
    }


def _assemble(stream: Iterable[Envelope]) -> JsonObject:
    whole: JsonObject = {}
    blocks: dict[int, JsonObject] = {}
    ended = False
    for event in stream:
        match event.get("type"):
            case "error":
                return {"type": "error", "error": event.get("error")}
            case "message_start":
                whole = dict(object_at(event, "message"))
            case "content_block_start":
                blocks[count(event.get("index"))] = {
                    **object_at(event, "content_block"),
                    "written": [],
                }
            case "content_block_delta":
                block = blocks.setdefault(
                    count(event.get("index")), {"type": "text", "text": "", "written": []}
                )
                block["written"].append(object_at(event, "delta"))
            case "message_delta":
                whole |= {
                    key: value
                    for key, value in object_at(event, "delta").items()
                    if value is not None
                }
                whole["usage"] = {**object_at(whole, "usage"), **object_at(event, "usage")}
            case "message_stop":
                ended = True
    if not ended:
        raise ValueError("the stream ended before the reply did")
    return {**whole, "content": [_block(blocks[index]) for index in sorted(blocks)]}


def _block(block: JsonObject) -> JsonObject:
    deltas = block.pop("written")
    if block.get("type") == "tool_use":
        try:
            return {**block, "input": orjson.loads(joined(deltas, "partial_json") or "{}")}
        except orjson.JSONDecodeError:
            raise ValueError("the tool's arguments are not JSON") from None
    return {
        **block,
        "text": joined([block, *deltas]),
        "thinking": joined(deltas, "thinking"),
    }


def _text_of(event: Envelope) -> str:
    delta = object_at(event, "delta")
    text = delta.get("text") or delta.get("partial_json")
    return text if event.get("type") == "content_block_delta" and isinstance(text, str) else ""


ANTHROPIC_MESSAGES = WireProtocol(
    name="anthropic",
    version="/v1",
    path=lambda _name, _stream: "/messages",
    headers=lambda key: ({"x-api-key": key} if key else {}) | {"anthropic-version": "2023-06-01"},
    settings=_settings,
    content=_content,
    to_chat=_to_chat,
    assemble=_assemble,
    text_of=_text_of,
    absent=("seed",),
    json_mode=_json_mode,
)
