"""OpenAI's Responses API (`/v1/responses`), for the models that only it serves: request → body, body → chat completion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from verdict_cli.llm.identity_cache import IdentityCache
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_protocol import (
    TOOL,
    Envelope,
    WireProtocol,
    bearer,
    chat_completion,
    count,
    joined,
    object_at,
    objects,
    of_type,
    protocol_parts,
    with_settings,
)
from verdict_cli.llm.providers.wire_values import is_strict
from verdict_cli.messages import Request

_FEWEST_TOKENS = 16
"""The least `max_output_tokens` that the API takes."""


def _body(request: Request, name: str, mode: JsonMode) -> dict[str, Any]:
    settings = request.model.sampling()
    # `store: false`: the API otherwise keeps every request and reply for thirty days.
    body: dict[str, Any] = {"model": name, "store": False}
    if "max_tokens" in settings:
        body["max_output_tokens"] = max(_FEWEST_TOKENS, settings.pop("max_tokens"))
    effort = settings.pop("reasoning_effort", None)
    if effort is not None:
        body["reasoning"] = {"effort": effort}
    schema = request.json_schema
    messages: list[dict[str, Any]] = [
        {
            "role": message.role,
            "content": [_part(message.role, part) for part in protocol_parts(message)],
        }
        for message in request.messages
    ]
    if schema is not None:
        if mode == "schema":
            body["text"] = {
                "format": {
                    "type": "json_schema",
                    "name": TOOL,
                    "schema": schema,
                    "strict": _is_strict(schema),
                }
            }
        elif mode == "tool":
            function = {
                "name": TOOL,
                "description": "Gives the reply.",
                "parameters": schema,
                "strict": _is_strict(schema),
            }
            body |= {
                "tools": [{"type": "function", **function}],
                "tool_choice": {"type": "function", "name": TOOL},
            }
        elif mode == "json":
            body["text"] = {"format": {"type": "json_object"}}
    body["input"] = messages
    if request.top_logprobs:
        body |= {"top_logprobs": request.top_logprobs, "include": ["message.output_text.logprobs"]}
    if request.stream:
        body["stream"] = True
    return with_settings(body, settings)


def _is_strict(schema: Any) -> bool:
    return _STRICT.get((schema,), None, partial(is_strict, schema))


_STRICT: IdentityCache[bool] = IdentityCache()


def _part(role: str, part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {
            "type": "output_text" if role == "assistant" else "input_text",
            "text": part["text"],
        }
    return {"type": "input_image", "image_url": part["image_url"]["url"]}


def _to_chat(envelope: Envelope) -> dict[str, Any]:
    usage = _usage(envelope.get("usage"))
    if envelope.get("error") or not isinstance(envelope.get("output"), list):
        return {"error": envelope.get("error") or "no output", "usage": usage}
    items = objects(envelope.get("output"))
    messages = of_type(items, "message")
    parts = [part for message in messages for part in objects(message.get("content"))]
    texts = of_type(parts, "output_text")
    calls = [call for call in of_type(items, "function_call") if call.get("name") == TOOL]
    positions = [position for part in texts for position in objects(part.get("logprobs"))]
    thoughts = of_type(items, "reasoning")
    summaries = [part for thought in thoughts for part in objects(thought.get("summary"))]
    return chat_completion(
        joined(texts),
        _finish(envelope),
        usage,
        model=str(envelope.get("model") or ""),
        arguments=calls[0].get("arguments") if calls else None,
        refusal=joined(of_type(parts, "refusal"), "refusal") or None,
        logprobs=[dict(position) for position in positions] or None,
        extra={
            "service_tier": envelope.get("service_tier"),
            "reasoning": "\n".join(str(part.get("text") or "") for part in summaries),
        },
    )


def _finish(envelope: Envelope) -> str:
    if envelope.get("status") != "incomplete":
        return "stop"
    reason = object_at(envelope, "incomplete_details").get("reason")
    return "content_filter" if reason == "content_filter" else "length"


def _usage(usage: Any) -> dict[str, Any] | None:
    if not isinstance(usage, Mapping) or "input_tokens" not in usage:
        return None
    return {
        "prompt_tokens": count(usage.get("input_tokens")),
        "completion_tokens": count(usage.get("output_tokens")),
        "total_tokens": count(usage.get("total_tokens")),
        "prompt_tokens_details": object_at(usage, "input_tokens_details"),
        "completion_tokens_details": object_at(usage, "output_tokens_details"),
    }


def _assemble(stream: Iterable[Envelope]) -> dict[str, Any]:
    for event in stream:
        match event.get("type"):
            case "response.completed" | "response.incomplete" | "response.failed":
                return dict(object_at(event, "response"))
            case "error":
                return {
                    "error": event.get("message") or event.get("error") or "an error in the stream"
                }
    raise ValueError("the stream ended before the reply did")


def _text_of(event: Envelope) -> str:
    delta = event.get("delta")
    kinds = ("response.output_text.delta", "response.function_call_arguments.delta")
    return delta if event.get("type") in kinds and isinstance(delta, str) else ""


OPENAI_RESPONSES = WireProtocol(
    name="responses",
    version="",
    path=lambda _name, _stream: "/responses",
    headers=bearer,
    body=_body,
    to_chat=_to_chat,
    assemble=_assemble,
    text_of=_text_of,
    absent=("seed", "stop"),
)
