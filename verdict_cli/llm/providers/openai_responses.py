"""OpenAI's Responses API (`/v1/responses`), for the models that only it serves: request → body, body → chat completion."""

from __future__ import annotations

from collections.abc import Iterable

from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_protocol import (
    TOOL,
    Envelope,
    WireProtocol,
    bearer,
    chat_completion,
    content_parts,
    joined,
    of_type,
    own_arguments,
    with_settings,
)
from verdict_cli.llm.providers.wire_values import is_strict, object_at, objects
from verdict_cli.messages import JsonObject, Message, Request

_FEWEST_TOKENS = 16
"""The least `max_output_tokens` that the API takes."""


def _settings(request: Request, name: str, mode: JsonMode) -> JsonObject:
    settings = request.model.sampling()
    # `store: false`: the API otherwise keeps every request and reply for thirty days.
    body: JsonObject = {"model": name, "store": False}
    if "max_tokens" in settings:
        body["max_output_tokens"] = max(_FEWEST_TOKENS, settings.pop("max_tokens"))
    effort = settings.pop("reasoning_effort", None)
    if effort is not None:
        body["reasoning"] = {"effort": effort}
    schema = request.json_schema
    if schema is not None:
        if mode == "schema":
            body["text"] = {
                "format": {
                    "type": "json_schema",
                    "name": TOOL,
                    "schema": schema,
                    "strict": is_strict(schema),
                }
            }
        elif mode == "tool":
            function = {
                "name": TOOL,
                "description": "Gives the reply.",
                "parameters": schema,
                "strict": is_strict(schema),
            }
            body |= {
                "tools": [{"type": "function", **function}],
                "tool_choice": {"type": "function", "name": TOOL},
            }
        elif mode == "json":
            body["text"] = {"format": {"type": "json_object"}}
    if request.top_logprobs:
        body |= {"top_logprobs": request.top_logprobs, "include": ["message.output_text.logprobs"]}
    if request.stream:
        body["stream"] = True
    return with_settings(body, settings)


def _content(request: Request) -> JsonObject:
    return {"input": [input_message(message) for message in request.messages]}


def input_message(message: Message) -> JsonObject:
    """A message as OpenAI's newer APIs take it."""
    kind = "output_text" if message.role == "assistant" else "input_text"
    parts = content_parts(message, lambda text: {"type": kind, "text": text}, _image)
    return {"role": message.role, "content": parts}


def _image(url: str) -> dict[str, str]:
    return {"type": "input_image", "image_url": url}


def _to_chat(envelope: Envelope) -> JsonObject:
    usage = envelope.get("usage")
    if envelope.get("error") or not isinstance(envelope.get("output"), list):
        return {"error": envelope.get("error") or "no output", "usage": usage}
    items = objects(envelope.get("output"))
    messages = of_type(items, "message")
    parts = [part for message in messages for part in objects(message.get("content"))]
    texts = of_type(parts, "output_text")
    positions = [position for part in texts for position in objects(part.get("logprobs"))]
    thoughts = of_type(items, "reasoning")
    summaries = [part for thought in thoughts for part in objects(thought.get("summary"))]
    finish = "stop"
    if envelope.get("status") == "incomplete":
        reason = object_at(envelope, "incomplete_details").get("reason")
        finish = "content_filter" if reason == "content_filter" else "length"
    return chat_completion(
        joined(texts),
        finish,
        usage,
        model=str(envelope.get("model") or ""),
        arguments=own_arguments(of_type(items, "function_call"), "arguments"),
        refusal=joined(of_type(parts, "refusal"), "refusal") or None,
        logprobs=positions,
        extra={
            "service_tier": envelope.get("service_tier"),
            "reasoning": "\n".join(str(part.get("text") or "") for part in summaries),
        },
    )


def _assemble(stream: Iterable[Envelope]) -> JsonObject:
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
    settings=_settings,
    content=_content,
    to_chat=_to_chat,
    assemble=_assemble,
    text_of=_text_of,
    absent=("seed", "stop"),
)
