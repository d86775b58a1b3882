"""One row through a pipeline, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verdict_cli.errors import Rejected, ReplyError, Retryable, RowError, UsageError, VerdictError
from verdict_cli.language.authoring.schema import plain_view
from verdict_cli.messages import Call, Failure, Result
from verdict_cli.plan.node import Plan
from verdict_cli.python.judged import Judged, judged_of
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.preflight import check_models, recording

_REPLY = ("unreadable", "off-scale", "cut-off", "refused", "empty", "no-logprobs", "invalid")
_PASSING = ("rate-limit", "timeout", "unavailable")
_REJECTED = ("rejected", "context-too-long", "content-filter", "not-recorded")


async def judged_once(plan: Plan, given: Mapping[str, Any], replay: Path | None, seed: int) -> Judged:
    """What the pipeline gives on for the row. Raises what made it fail."""
    recorded = None if replay is None else recording(replay, plan)
    if recorded is None:
        check_models(plan)
    access = ModelClient.open(recording=recorded)
    try:
        warm = JudgeSession(plan, access, seed=seed)
        row = warm.row(mapping(given))
        await warm.open()
        return settle_result(plan, await warm.judge(row), warm.pinned)
    finally:
        await access.close()


def settle_result(plan: Plan, result: Result, pinned: tuple[Call, ...] = ()) -> Judged:
    """The outcome for Python. Raises the failure of a row that failed."""
    if result.failure is not None:
        raise raised(result.failure)
    return judged_of(plan, result, pinned)


def mapping(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row, made of plain values. UsageError for what is no row."""
    if not isinstance(row, Mapping):
        raise UsageError(f"a row is a mapping of columns, not {row!r:.80}", hint="`pipeline.run({'question': '…'})`")
    given: Mapping[str, Any] = plain_view(row)
    return given


def raised(failure: Failure) -> VerdictError:
    """The failure as the error that it was."""
    words = f"{failure.node}: {failure.message}"
    if failure.kind in _REPLY:
        return ReplyError(words, kind=failure.kind)
    if failure.kind in _PASSING:
        return Retryable(words, kind=failure.kind)
    if failure.kind in _REJECTED:
        return Rejected(words, kind=failure.kind)
    return RowError(words, kind=failure.kind)
