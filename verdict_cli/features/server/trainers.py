"""The reward endpoints of `verdict serve --protocol`: the requests and responses of trainers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Response
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
from verdict_cli.features.server.service import Service
from verdict_cli.messages import Result


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
        scores = [float("nan") if value is None else value for value in rewards[REWARD]]
        logs = {name: _with_nan(values) for name, values in rewards.items() if name != REWARD}
        failed = [float(value is None) for value in rewards[REWARD]]
        return _answer({"rewards": scores, "scores": scores, "extra_logs": {"failed": failed, **logs}})


def _verl(app: FastAPI, service: Service) -> None:
    @app.post("/compute_score")
    async def compute_score(body: VerlRequest) -> Response:
        """The score of a solution, or those of several. One without a score is NaN, and its `failed` is 1."""
        one = body.solution_strs is None
        solutions = [body.solution_str] if one else body.solution_strs
        columns = (
            ([body.data_source], [body.ground_truth], [body.extra_info])
            if one
            else (body.data_sources, body.ground_truths, body.extra_infos)
        )
        count = len(solutions or ())
        if not count or solutions is None or any(each is None for each in solutions):
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
        return _answer(scores[0] if one else scores)


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


def _with_nan(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _answer(document: Any) -> Response:
    # Trainers read NaN with Python's JSON; orjson would write null, of which no tensor can be made.
    return Response(json.dumps(document), media_type="application/json")
