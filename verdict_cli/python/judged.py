"""One row through a pipeline: the run, its outcome as `Judged`, and its failure as an exception."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from verdict_cli.errors import (
    DataError,
    Problem,
    RowError,
    UsageError,
    VerdictError,
    failure_class,
)
from verdict_cli.language.authoring.schema import View, unwrap_views
from verdict_cli.messages import Call, Failure, JsonObject, NamedValues, Result
from verdict_cli.plan.node import Plan
from verdict_cli.python.plain_values import plain_value
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.outcome import given
from verdict_cli.run.preflight import open_recording

T = TypeVar("T")


class Judged(View):
    """The output of the last step as a mapping with attributes: `judged.score`.

    Where the last step passes on several units, it holds their outputs by id: `judged["judge[0]"].score`.
    ``nodes`` holds every unit's output by id (None: skipped; of a unit inside `each` a list, one output an entry), ``calls``
    every model call that was made.
    """

    __slots__ = ("calls", "nodes")

    nodes: NamedValues
    calls: tuple[Call, ...]


def _judged(plan: Plan, result: Result, pinned: tuple[Call, ...]) -> Judged:
    """The outcome of a row that succeeded; the calls of pinned units come first."""
    by_id = {node.id: output for node, output in zip(plan.nodes, result.outputs, strict=True)}
    judged = Judged(given(plan, result))
    object.__setattr__(judged, "nodes", View(by_id))
    object.__setattr__(judged, "calls", pinned + result.calls)
    return judged


async def judged_once(plan: Plan, values: NamedValues, replay: Path | None, seed: int) -> Judged:
    """The pipeline's output for the row. Raises the row's failure."""
    client = ModelClient.open(recording=open_recording(replay, plan))
    try:
        session = JudgeSession(plan, client, seed=seed)
        row = session.row(row_values(values))
        await session.open()
        return judged_or_raise(plan, await session.judge(row), session.pinned)
    finally:
        await client.close()


def judged_or_raise(plan: Plan, result: Result, pinned: tuple[Call, ...] = ()) -> Judged:
    """The outcome for Python. Raises the failure of a row that failed."""
    if result.failure is not None:
        raise _to_error(result.failure)
    return _judged(plan, result, pinned)


def row_values(row: NamedValues) -> NamedValues:
    """The row with plain values. UsageError for anything but a mapping."""
    if not isinstance(row, Mapping):
        raise UsageError(
            f"a row is a mapping of columns, not {row!r:.80}",
            hint="`pipeline.run({'question': '…'})`",
        )
    values: JsonObject = unwrap_views(row)
    for column, value in values.items():
        try:
            values[column] = plain_value(value)
        except (TypeError, ValueError, OverflowError) as error:
            message = f"column {column!r}: the value cannot be judged: {error}"
            raise DataError(Problem("bad-row", message)) from None
    return values


def _to_error(failure: Failure) -> VerdictError:
    """The failure as the error that it was."""
    message = f"{failure.node}: {failure.message}"
    kind = failure_class(failure.kind) or RowError
    return kind(message, kind=failure.kind)


def run_sync(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of a coroutine, whether or not an event loop is running."""
    return run_in_thread(lambda: asyncio.run(start()))


def run_in_thread(work: Callable[[], T]) -> T:
    """The result of the work, done in another thread where this one runs an event loop."""
    if not _in_loop():
        return work()
    with ThreadPoolExecutor(1, "verdict") as threads:
        return threads.submit(work).result()


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
