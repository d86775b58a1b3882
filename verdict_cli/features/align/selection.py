"""Choose among candidates on labelled rows without fooling oneself: three parts by cluster, and successive halving.

The labelled rows are split into parts: candidates are made from `fit`, compared on `select`, and the winner meets the pipeline as it
was once, on `test`, which nothing has seen before. Clusters are never divided. Successive halving (Jamieson and Talwalkar, 2016)
judges few rows by all candidates and more rows by the better half, until one is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from verdict_cli.stats.columns.column import Floats, Ints

PartName = Literal["fit", "select", "test"]
PART_SHARES: dict[PartName, float] = {"fit": 0.35, "select": 0.3, "test": 0.35}
"""How the rows are divided: the test needs the power to tell a better judge, the others enough of each label."""
LEAST_ROWS_AT_FIRST = 16
"""The rows on which all candidates are compared first, where there are so many."""
LEAST_LABELS = 24
"""Fewer labelled rows leave nothing to test on."""
SIGNIFICANT = 0.05

RowScoring = Callable[[Sequence[int], int], Sequence[Floats]]
"""Gives the scores of candidates (by index) on the first so many rows of `select`, larger is better, NaN where a row failed."""


@dataclass(frozen=True, slots=True)
class HalvingRound:
    """One round: the rows that were judged, and the mean score of each candidate that was still in it."""

    rows: int
    means: dict[int, float]


def split_rows(clusters: Ints, seed: int) -> dict[PartName, Ints]:
    """The rows of each part, in a random order. Shape of `clusters`: (rows,), equal for rows that must stay together."""
    rng = np.random.default_rng(seed)
    ids, sizes = np.unique(clusters, return_counts=True)
    parts: dict[PartName, list[int]] = {name: [] for name in PART_SHARES}
    for place in rng.permutation(len(ids)):
        short = {name: PART_SHARES[name] - len(rows) / len(clusters) for name, rows in parts.items()}
        part = max(short, key=lambda name: short[name])
        parts[part] += np.flatnonzero(clusters == ids[place]).tolist()
        assert sizes[place] > 0
    return {name: rng.permutation(np.array(rows, dtype=np.int64)) for name, rows in parts.items()}


def successive_halving(candidates: int, rows: int, score: RowScoring) -> tuple[int, tuple[HalvingRound, ...]]:
    """The best candidate, and the rounds. The last round has all rows; ties go to the earlier candidate, the first of all.

    A failed row counts as the lowest score of its round: a judge that does not answer is not better for it.
    """
    left = list(range(candidates))
    seen = min(rows, LEAST_ROWS_AT_FIRST)
    rounds = []
    while True:
        if len(left) <= 2:
            seen = rows
        found = [np.asarray(each, dtype=np.float64) for each in score(left, seen)]
        known = np.concatenate([each[np.isfinite(each)] for each in found] or [np.zeros(0)])
        lowest = float(known.min()) if len(known) else 0.0
        means = {
            candidate: float(np.where(np.isfinite(each), each, lowest).mean())
            for candidate, each in zip(left, found, strict=True)
        }
        rounds.append(HalvingRound(seen, means))
        order = sorted(left, key=lambda candidate: (-means[candidate], candidate))
        if seen >= rows:
            return order[0], tuple(rounds)
        left = sorted(order[: max(2, (len(order) + 1) // 2)])
        seen = min(rows, 2 * seen)


def is_better(change: float | None, p: float | None) -> bool:
    """Whether the winner is shown to be better on the sealed rows: a gain with a two-sided p-value of at most 0.05."""
    return change is not None and p is not None and change > 0 and p <= SIGNIFICANT
