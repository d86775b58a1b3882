"""How long a run's model calls took."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from verdict_cli.data import read_table, table_columns


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
