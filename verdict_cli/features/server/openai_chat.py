"""The judge as a model of an OpenAI-compatible API: `/v1/chat/completions` and `/v1/models`.

The OpenAI SDK, LangChain, LiteLLM and trainers' reward clients then need no code of their own. The verdict is the text of the
message; its parts are in the field `verdict`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import orjson
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from verdict_cli.errors import DataError, Problem
from verdict_cli.features.server.service import Service, ServiceAnswer
from verdict_cli.language.conversation import ConversationError, read_conversation
from verdict_cli.language.transcript import content_text

MAIN_FIELDS = ("score", "choice", "ranking", "value")
"""The field that is the text of the message, where the output has several: the first of these, else the output as JSON."""

_ERROR_TYPES = {404: "invalid_request_error", 422: "invalid_request_error", 429: "rate_limit_error"}


class ChatRequest(BaseModel):
    """A chat completion. Settings of a model, such as `temperature`, belong to the pipeline's own models and have no effect."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    row: Annotated[
        dict[str, Any] | None,
        Field(description="The columns of the row (`extra_body` of the SDKs). Without it they come from the messages."),
    ] = None
    n: Annotated[int, Field(ge=1, le=1)] = 1
    stream: bool = False


def chat_row(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns that messages give: `messages`, `prompt` (the last user turn) and `response` (the assistant's turn behind it).

    A last message that is a JSON object adds its keys. DataError if the messages are not a conversation.
    """
    try:
        conversation = read_conversation(messages)
    except ConversationError as error:
        raise DataError(Problem("schema", f"messages{error}", "send messages of the form {role, content}")) from None
    row: dict[str, Any] = {"messages": conversation}
    for message in conversation:
        text = content_text(message["content"])
        if message["role"] == "user":
            row["prompt"] = text
            row.pop("response", None)
        elif message["role"] == "assistant":
            row["response"] = text
    try:
        columns = orjson.loads(content_text(conversation[-1]["content"]) or "")
    except orjson.JSONDecodeError:
        return row
    return {**row, **columns} if isinstance(columns, dict) else row


def verdict_as_text(output: Mapping[str, Any]) -> str:
    """The verdict as text: the only field, else the main one, else all of them as JSON."""
    names = list(output) if len(output) == 1 else [name for name in MAIN_FIELDS if name in output]
    value = output[names[0]] if names else output
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def completion(name: str, answer: ServiceAnswer) -> dict[str, Any]:
    """The chat completion of a judged row."""
    document = answer.document
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": name,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": verdict_as_text(document["output"] or {})},
                "finish_reason": "stop",
            }
        ],
        "verdict": document,
    }


def stream_of(whole: Mapping[str, Any]) -> bytes:
    """The completion as server-sent events: one chunk with the text, one that ends it."""
    head = {**{key: whole[key] for key in ("id", "created", "model")}, "object": "chat.completion.chunk"}
    first = {**head, "choices": [{"index": 0, "delta": whole["choices"][0]["message"], "finish_reason": None}]}
    last = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "verdict": whole["verdict"]}
    events = [b"data: " + orjson.dumps(chunk, option=orjson.OPT_NON_STR_KEYS) for chunk in (first, last)]
    return b"\n\n".join([*events, b"data: [DONE]", b""])


def openai_error(status: int, code: str, message: str) -> dict[str, Any]:
    """An error as the API's clients read it."""
    return {
        "error": {"message": message, "type": _ERROR_TYPES.get(status, "server_error"), "code": code, "param": None}
    }


def chat_endpoints(app: FastAPI, service: Service, respond: Callable[..., Response]) -> None:
    """Add the two endpoints; ``respond(document, status)`` makes a JSON response."""

    @app.get("/v1/models")
    async def models(_: Request) -> Response:
        """List the judge, the only model."""
        model = {"id": service.active.plan.name, "object": "model", "created": 0, "owned_by": "verdict"}
        return respond({"object": "list", "data": [model]})

    @app.post("/v1/chat/completions")
    async def chat(body: ChatRequest) -> Response:
        """Judge one row as a chat completion."""
        name = service.active.plan.name
        if body.model != name:
            message = f"the model {body.model!r} does not exist; the judge is {name!r}"
            return respond(openai_error(404, "model_not_found", message), 404)
        (answer,) = await service.judge_rows([body.row or chat_row(body.messages)], service.deadline(None))
        if (failure := answer.document["failure"]) is not None:
            # 422, because the clients repeat a request after any other error, and the judge has retried already.
            return respond(openai_error(422, failure["kind"], failure["message"]), 422)
        whole = completion(name, answer)
        return Response(stream_of(whole), media_type="text/event-stream") if body.stream else respond(whole)
