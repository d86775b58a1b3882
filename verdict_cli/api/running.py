"""One row through a pipeline, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verdict_cli.api.judged import Judged, judged
from verdict_cli.api.schema import plain
from verdict_cli.engines.access import Access
from verdict_cli.engines.ready import check_models, recording
from verdict_cli.engines.warm import Warm
from verdict_cli.errors import Rejected, ReplyError, Retryable, RowError, UsageError, VerdictError
from verdict_cli.plan import Plan
from verdict_cli.values import Call, Failure, Result

_REPLY = ("unreadable", "off-scale", "cut-off", "refused", "empty", "no-logprobs", "invalid")
_PASSING = ("rate-limit", "timeout", "unavailable")
_REJECTED = ("rejected", "context-too-long", "content-filter", "not-recorded")


async def judged_once(plan: Plan, given: Mapping[str, Any], replay: Path | None, seed: int) -> Judged:
    """What the pipeline gives on for the row. Raises what made it fail."""
    recorded = None if replay is None else recording(replay, plan)
    if recorded is None:
        check_models(plan)
    access = Access.open(recording=recorded)
    try:
        warm = Warm(plan, access, seed=seed)
        row = warm.row(mapping(given))
        await warm.open()
        return settled(plan, await warm.judge(row), warm.pinned)
    finally:
        await access.close()


def settled(plan: Plan, result: Result, pinned: tuple[Call, ...] = ()) -> Judged:
    """The outcome for Python. Raises the failure of a row that failed."""
    if result.failure is not None:
        raise raised(result.failure)
    return judged(plan, result, pinned)


def mapping(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row, made of plain values. UsageError for what is no row."""
    if not isinstance(row, Mapping):
        raise UsageError(
            f"a row is a mapping of columns, not {row!r:.80}", hint="`pipeline.run({'question': '…'})`"
        )
    given: Mapping[str, Any] = plain(row)
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
