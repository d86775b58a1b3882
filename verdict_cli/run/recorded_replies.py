"""The replies that a run recorded, with the requests that they answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.llm.providers.wire_values import read_logprobs
from verdict_cli.messages import Reply, Request, Row
from verdict_cli.model import Model
from verdict_cli.storage.tables.reader import table_rows

_COLUMNS = ("row", "id", "unit", "call", "attempt", "reply", "finish_reason", "logprobs")


def recorded_replies(calls: Path, seed: int) -> Iterator[tuple[Request, Reply]]:
    """Each recorded reply and the request that it answered, as far as extractors look at it.

    Raises DataError if `calls` is not a table of calls.
    """
    model = Model(name="recorded")
    for row, identity, unit, call, attempt, text, finish, logprobs in table_rows(calls, _COLUMNS):
        if text is None:
            continue
        source = Row(row, row if identity is None else identity, {})
        request = Request(source, unit, model, (), call, attempt, seed=seed)
        yield request, Reply(text, finish or "stop", _logprobs(logprobs))


def _logprobs(logprobs: Any) -> Any:
    try:
        return None if logprobs is None else read_logprobs(logprobs)
    except ValueError as fault:
        message = f"log-probabilities that no run writes: {fault}"
        raise DataError(
            Problem("not-a-run", message, "run the pipeline again", "calls.parquet")
        ) from None
