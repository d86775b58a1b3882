"""Cost, latency and failures of each unit's calls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.storage.tables.arrow_vectors import floats, integers, truths
from verdict_cli.storage.tables.reader import read_arrow, read_table, table_columns

_COLUMNS = ("unit", "failure", "finish_reason", "prompt_tokens", "completion_tokens", "cost_usd", "latency_s")


@dataclass(frozen=True, slots=True)
class UnitCalls:
    """The calls of one unit. `cost_usd` is None where a price is unknown; seconds are None where none was measured."""

    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    median_s: float | None
    p95_s: float | None


class _Growing:
    """One unit's calls while they are read: four bytes a call."""

    def __init__(self) -> None:
        self.calls = self.failed = self.unpriced = 0
        self.tokens = [0, 0]
        self.cost_usd = 0.0
        self.seconds: list[Any] = []

    def add(self, batch: dict[str, Any], here: Any) -> None:
        """Take in the rows of a batch that are this unit's."""
        self.calls += int(here.sum())
        self.failed += int(batch["failed"][here].sum())
        for place, name in enumerate(("prompt_tokens", "completion_tokens")):
            self.tokens[place] += int(np.nansum(batch[name][here]))
        cost = batch["cost_usd"][here]
        self.unpriced += int((np.isnan(cost) & batch["answered"][here]).sum())
        self.cost_usd += float(np.nansum(cost))
        seconds = batch["latency_s"][here]
        self.seconds.append(seconds[np.isfinite(seconds)].astype(np.float32))

    def finished(self) -> UnitCalls:
        """The sums."""
        seconds = np.concatenate(self.seconds)
        median, late = np.quantile(seconds, [0.5, 0.95]).tolist() if len(seconds) else (None, None)
        cost_usd = None if self.unpriced else self.cost_usd
        tokens_in, tokens_out = self.tokens
        return UnitCalls(self.calls, self.failed, tokens_in, tokens_out, cost_usd, median, late)


def by_unit(calls: Path) -> dict[str, UnitCalls]:
    """The calls of a `calls.parquet` by unit, in the order of their first appearance; empty where there is no file."""
    if not calls.is_file() or not set(_COLUMNS) <= set(table_columns(calls)):
        return {}
    found: dict[str, _Growing] = {}
    for batch in read_arrow(calls, _COLUMNS):
        units = batch.column("unit").dictionary_encode()
        codes = integers(units.indices)
        columns: dict[str, Any] = {name: floats(batch.column(name)) for name in _COLUMNS[3:]}
        columns["failed"] = truths(batch.column("failure").is_valid())
        columns["answered"] = truths(batch.column("finish_reason").is_valid())
        for code, unit in enumerate(units.dictionary.to_pylist()):
            found.setdefault(unit, _Growing()).add(columns, codes == code)
    return {unit: growing.finished() for unit, growing in found.items()}


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds a call, over `n` calls that were answered."""

    n: int
    mean_s: float
    median_s: float
    p95_s: float


def latency(calls: Path) -> Latency | None:
    """The latency of the calls in a `calls.parquet`; None where there is no file, or no call was answered."""
    if not calls.is_file() or "latency_s" not in table_columns(calls):
        return None
    parts = [
        np.array([value for value in batch["latency_s"] if value is not None], dtype=np.float64)
        for batch in read_table(calls, ["latency_s"])
    ]
    seconds = np.concatenate(parts) if parts else np.empty(0)
    if not len(seconds):
        return None
    median, late = np.quantile(seconds, [0.5, 0.95])
    return Latency(len(seconds), float(seconds.mean()), float(median), float(late))
