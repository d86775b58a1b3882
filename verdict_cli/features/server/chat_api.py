"""The judge as a model of an OpenAI-compatible API, so that the OpenAI SDK, LangChain and LiteLLM need no code of their own: the
verdict is the text of the message, or the JSON that `response_format` asks for; its parts are in the field `verdict`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import orjson
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from verdict_cli.errors import DataError, Problem
from verdict_cli.features.server.service import Service, ServiceAnswer
from verdict_cli.language.conversation import ConversationError, content_text, read_conversation
from verdict_cli.messages import JsonObject, NamedValues

MAIN_FIELDS = ("score", "choice", "ranking", "value")
"""The field that is the text of the message, where the output has several: the first of these, else the output as JSON."""


class ChatRequest(BaseModel):
    """A chat completion. Settings of a model, such as `temperature`, belong to the pipeline's own models and have no effect."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: Annotated[list[JsonObject], Field(min_length=1)]
    row: Annotated[
        JsonObject | None,
        Field(
            description="The columns of the row (`extra_body` of the SDKs). Without it they come from the messages."
        ),
    ] = None
    n: Annotated[int, Field(ge=1, le=1)] = 1
    stream: bool = False
    stream_options: JsonObject | None = None
    response_format: JsonObject | None = None
    tools: list[Any] | None = None


def chat_row(messages: list[JsonObject]) -> JsonObject:
    """The columns that messages give: `messages`, `prompt` (the last user turn) and `response` (the assistant's turn behind it).

    A last message that is a JSON object adds its keys. DataError if the messages are not a conversation.
    """
    try:
        conversation = read_conversation(messages)
    except ConversationError as error:
        raise DataError(
            Problem("schema", f"messages{error}", "send messages of the form {role, content}")
        ) from None
    row: JsonObject = {"messages": conversation}
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


def verdict_as_text(output: NamedValues) -> str:
    """The verdict as text: the only field, else the main one, else all of them as JSON."""
    names = list(output) if len(output) == 1 else [name for name in MAIN_FIELDS if name in output]
    value = output[names[0]] if names else output
    return (
        value
        if isinstance(value, str)
        else orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    )


class RequestedForm:
    """The JSON that a request asks for by `response_format`; none where it asks for text.

    Raises:
        UnfitFormError: the judge's output, whose ``fields`` these are, cannot have the form.
    """

    def __init__(self, body: ChatRequest, fields: Sequence[str]) -> None:
        if body.tools:
            raise UnfitFormError("a judge calls no tools; ask for JSON by `response_format`")
        response_format = body.response_format or {"type": "text"}
        self.kind = str(response_format.get("type"))
        if self.kind not in ("text", "json_object", "json_schema"):
            raise UnfitFormError(f"`response_format` has no type {self.kind!r:.40}")
        self.schema: JsonObject = (response_format.get("json_schema") or {}).get("schema") or {}
        absent = [name for name in self.schema.get("required", ()) if name not in fields]
        if absent:
            raise UnfitFormError(
                f"the judge gives {', '.join(fields)}, and the schema requires {', '.join(absent)}"
            )

    def text(self, output: NamedValues) -> str:
        """The output as the text of a message. UnfitFormError where it breaks the schema."""
        if self.kind == "text":
            return verdict_as_text(output)
        properties = self.schema.get("properties") or output
        content = {name: value for name, value in output.items() if name in properties}
        json_bytes = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
        self._check(orjson.loads(json_bytes))
        return json_bytes.decode()

    def _check(self, content: Any) -> None:
        from jsonschema import Draft202012Validator, SchemaError

        try:
            Draft202012Validator.check_schema(self.schema)
        except SchemaError as error:
            raise UnfitFormError(f"the schema is no JSON Schema: {error.message:.200}") from None
        broken = next(Draft202012Validator(self.schema).iter_errors(content), None)
        if broken is not None:
            path = ".".join(map(str, broken.absolute_path)) or "the verdict"
            raise UnfitFormError(f"the verdict breaks the schema: {path}: {broken.message:.200}")


class UnfitFormError(Exception):
    """The verdict cannot have the form that a request asks for."""


def completion(name: str, answer: ServiceAnswer, content: str) -> JsonObject:
    """The chat completion of a judged row."""
    usage = answer.usage
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": name,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        },
        "verdict": answer.document,
    }


def stream_of(whole: NamedValues, *, with_usage: bool) -> bytes:
    """The completion as server-sent events: one chunk with the text, one that ends it, and with usage one that has it."""
    head = {
        **{key: whole[key] for key in ("id", "created", "model")},
        "object": "chat.completion.chunk",
    }
    choice = {"index": 0, "delta": whole["choices"][0]["message"], "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    chunks = [
        {**head, "choices": [choice]},
        {**head, "choices": [end], "verdict": whole["verdict"]},
    ]
    if with_usage:
        chunks.append({**head, "choices": [], "usage": whole["usage"]})
    events = [b"data: " + orjson.dumps(chunk, option=orjson.OPT_NON_STR_KEYS) for chunk in chunks]
    return b"\n\n".join([*events, b"data: [DONE]", b""])


def request_error(code: str, message: str) -> JsonObject:
    """An error of a request as the API's clients read it."""
    return {
        "error": {
            "message": message,
            "type": "invalid_request_error",
            "code": code,
            "param": None,
        }
    }


def chat_endpoints(app: FastAPI, service: Service, respond: Callable[..., Response]) -> None:
    """Add the endpoints; ``respond(document, status)`` makes a JSON response."""

    def model() -> JsonObject:
        name = service.active.plan.name
        return {"id": name, "object": "model", "created": 0, "owned_by": "verdict"}

    def unknown(name: str) -> Response:
        message = f"the model {name!r:.100} does not exist; the judge is {model()['id']!r}"
        return respond(request_error("model_not_found", message), 404)

    @app.exception_handler(UnfitFormError)
    async def unfit(_: Request, error: UnfitFormError) -> Response:
        return respond(request_error("unfit_response_format", str(error)), 400)

    @app.get("/v1/models")
    async def models(_: Request) -> Response:
        """List the judge, the only model."""
        return respond({"object": "list", "data": [model()]})

    @app.get("/v1/models/{name}")
    async def retrieve(name: str) -> Response:
        """Return the judge as a model."""
        return respond(model()) if name == model()["id"] else unknown(name)

    @app.post("/v1/chat/completions")
    async def chat(body: ChatRequest) -> Response:
        """Judge one row as a chat completion."""
        plan = service.active.plan
        if body.model != plan.name:
            return unknown(body.model)
        form = RequestedForm(body, service.active.fields)
        row = body.row or chat_row(body.messages)
        answer = await service.judge_row(row, service.deadline(None))
        failure = answer.document["failure"]
        if failure is not None:
            # 422, because the clients repeat a request after any other error, and the judge has retried already.
            return respond(request_error(failure["kind"], failure["message"]), 422)
        whole = completion(plan.name, answer, form.text(answer.document["output"] or {}))
        if not body.stream:
            return respond(whole)
        with_usage = bool((body.stream_options or {}).get("include_usage"))
        return Response(stream_of(whole, with_usage=with_usage), media_type="text/event-stream")
