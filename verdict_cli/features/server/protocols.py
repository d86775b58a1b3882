"""Requests and responses of others: the judge as a model of an OpenAI-compatible API, and the reward endpoints of trainers
(`--protocol`).

The OpenAI SDK, LangChain, LiteLLM and trainers' reward clients then need no code of their own. The verdict is the text of the
message; its parts are in the field `verdict`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import orjson
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.features.rewards.trainer_rewards import (
    REWARD,
    TrainerProtocol,
    openrlhf_rows,
    trl_rows,
    verl_row,
    verl_score,
)
from verdict_cli.features.server.service import Service, ServiceAnswer
from verdict_cli.language.conversation import ConversationError, content_text, read_conversation
from verdict_cli.messages import Result

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


class OpenRLHFRequest(BaseModel):
    """What OpenRLHF's remote reward client posts."""

    query: Annotated[list[str], Field(min_length=1, description="Prompt and response of each sample, in one text.")]
    prompts: list[str] | None = None
    labels: list[Any] | None = None


class VerlRequest(BaseModel):
    """The arguments of verl's `compute_score`, or of its batch form (`data_sources`, `solution_strs`, …)."""

    model_config = ConfigDict(extra="forbid")
    data_source: Any = None
    solution_str: str | None = None
    ground_truth: Any = None
    extra_info: dict[str, Any] | None = None
    data_sources: list[Any] | None = None
    solution_strs: list[str] | None = None
    ground_truths: list[Any] | None = None
    extra_infos: list[dict[str, Any] | None] | None = None


class TrlRequest(BaseModel):
    """The arguments of a reward function of TRL; further keys are columns."""

    model_config = ConfigDict(extra="allow")
    prompts: Annotated[list[Any], Field(min_length=1)]
    completions: list[Any]


def trainer_endpoints(app: FastAPI, service: Service, protocol: TrainerProtocol) -> None:
    """Add the endpoint of the protocol: `/get_reward`, `/compute_score` or `/trl_reward`."""
    {"openrlhf": _openrlhf, "verl": _verl, "trl": _trl}[protocol](app, service)


async def _rewards(service: Service, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    until = service.deadline(None)

    async def judge(given: Sequence[Mapping[str, Any]]) -> list[Result]:
        return await service.results(given, until)

    trainer = service.active.trainer
    assert trainer is not None
    try:
        return await trainer.of_rows(rows, judge)
    except UsageError as error:
        raise DataError(Problem("bad-batch", error.message, error.hint)) from None


def _openrlhf(app: FastAPI, service: Service) -> None:
    @app.post("/get_reward")
    async def get_reward(body: OpenRLHFRequest) -> Response:
        """Rewards of samples. One without a reward is NaN, and `extra_logs.failed` is 1 there."""
        rewards = await _rewards(service, _checked(openrlhf_rows, body.query, body.prompts, body.labels))
        failed = [float(value is None) for value in rewards[REWARD]]
        logs = {
            name: [float("nan") if value is None else value for value in values] for name, values in rewards.items()
        }
        scores = logs.pop(REWARD)
        return _answer({"rewards": scores, "scores": scores, "extra_logs": {"failed": failed, **logs}})


def _verl(app: FastAPI, service: Service) -> None:
    @app.post("/compute_score")
    async def compute_score(body: VerlRequest) -> Response:
        """The score of a solution, or those of several. One without a score is NaN, and its `failed` is 1."""
        is_single = body.solution_strs is None
        solutions = [body.solution_str] if is_single else body.solution_strs
        columns = (
            ([body.data_source], [body.ground_truth], [body.extra_info])
            if is_single
            else (body.data_sources, body.ground_truths, body.extra_infos)
        )
        count = len(solutions or ())
        if not count or solutions is None or any(solution is None for solution in solutions):
            raise DataError(
                Problem("bad-batch", "there is no `solution_str`", "send `solution_str` or `solution_strs`")
            )
        filled = [[None] * count if column is None else column for column in columns]
        if any(len(column) != count for column in filled):
            raise DataError(Problem("bad-batch", f"the batch has {count} solutions", "send as many of each"))
        rows = [
            verl_row(source, str(solution), truth, extra)
            for solution, source, truth, extra in zip(solutions, *filled, strict=True)
        ]
        rewards = await _rewards(service, rows)
        scores = [verl_score({name: values[at] for name, values in rewards.items()}) for at in range(count)]
        return _answer(scores[0] if is_single else scores)


def _trl(app: FastAPI, service: Service) -> None:
    @app.post("/trl_reward")
    async def trl_reward_function(body: TrlRequest) -> Response:
        """Rewards of completions. One without a reward is null."""
        rows = _checked(trl_rows, body.prompts, body.completions, body.model_extra or {})
        rewards = await _rewards(service, rows)
        return _answer({"rewards": rewards.pop(REWARD), "criteria": rewards})


def _checked(make: Any, *given: Any) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = make(*given)
    except UsageError as error:
        raise DataError(Problem("bad-batch", error.message, error.hint)) from None
    return rows


def _answer(document: Any) -> Response:
    # Trainers read NaN with Python's JSON; orjson would write null, of which no tensor can be made.
    return Response(json.dumps(document), media_type="application/json")
