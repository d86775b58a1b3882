"""One row through a pipeline, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verdict_cli.api.judged import Judged
from verdict_cli.api.judged import judged as judged_result
from verdict_cli.api.ready import check_columns
from verdict_cli.api.schema import plain
from verdict_cli.calls import Gates, limited
from verdict_cli.engines.ready import check_models, recording
from verdict_cli.errors import (
    DataError,
    Problem,
    Rejected,
    ReplyError,
    Retryable,
    RowError,
    UsageError,
    VerdictError,
)
from verdict_cli.plan import Plan
from verdict_cli.plan.row_types import caster
from verdict_cli.providers import Providers
from verdict_cli.runtime import Context, run_pinned, run_row
from verdict_cli.values import Failure, Row

_REPLY = ("unreadable", "off-scale", "cut-off", "refused", "empty", "no-logprobs", "invalid")
_PASSING = ("rate-limit", "timeout", "unavailable")
_REJECTED = ("rejected", "context-too-long", "content-filter", "not-recorded")


async def judged(plan: Plan, row: Mapping[str, Any], replay: Path | None, seed: int) -> Judged:
    """What the pipeline gives on for the row. Raises what made it fail."""
    source = _source(plan, row)
    recorded = None if replay is None else recording(replay, plan)
    if recorded is None:
        check_models(plan)
    providers = Providers(recorded)
    context = Context(limited(providers.ask, Gates()), seed=seed)
    try:
        context.pinned, shared = await run_pinned(plan, context)
        result = await run_row(plan, Row(0, source.get(_id(plan), 0), source), context)
    finally:
        await providers.close()
    if result.failure is not None:
        raise _raised(result.failure)
    return judged_result(plan, result, shared)


def _source(plan: Plan, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row with the pipeline's own column names and types. DataError when it lacks a column that is used."""
    if not isinstance(row, Mapping):
        raise UsageError(
            f"a row is a mapping of columns, not {row!r:.80}", hint="`pipeline.run({'question': '…'})`"
        )
    columns = (plan.resolved.get("dataset") or {}).get("columns") or {}
    source = {**plain(row), **{name: row[there] for name, there in columns.items() if there in row}}
    check_columns(plan, source)
    if plan.row_types is None:
        return source
    try:
        return caster(plan.row_types)(source)
    except ValueError as error:
        raise DataError(Problem("schema", f"the row breaks the schema: {error}")) from None


def _id(plan: Plan) -> str:
    return str((plan.resolved.get("dataset") or {}).get("id", ""))


def _raised(failure: Failure) -> VerdictError:
    """The failure as the error that it was."""
    words = f"{failure.node}: {failure.message}"
    if failure.kind in _REPLY:
        return ReplyError(words, kind=failure.kind)
    if failure.kind in _PASSING:
        return Retryable(words, kind=failure.kind)
    if failure.kind in _REJECTED:
        return Rejected(words, kind=failure.kind)
    return RowError(words, kind=failure.kind)
