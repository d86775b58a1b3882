"""Choose among candidates on labelled rows without fooling oneself: three parts by cluster, and successive halving.

The labelled rows are split into parts: candidates are made from `fit`, compared on `select`, and the winner meets the pipeline as it
was once, on `test`, which nothing has seen before. Clusters are never divided. Successive halving (Jamieson and Talwalkar, 2016)
judges few rows by all candidates and more rows by the better half, until one is left.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from verdict_cli.cli.console import print_error
from verdict_cli.errors import RowError, UsageError
from verdict_cli.stats.columns.column import Floats, Ints

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan


def labelled_parts(
    plan: Plan, labelled: str, target: str, cluster: str | None, folder: Path, seed: int
) -> tuple[dict[PartName, Path], dict[PartName, int], str]:
    """The labelled rows in three files, as they are in the dataset; their numbers; the digest of all. UsageError for too few."""
    import numpy as np

    from verdict_cli.cli.open_dataset import open_dataset
    from verdict_cli.language.expressions.expression import compile_expression
    from verdict_cli.stats.columns.column import key_text
    from verdict_cli.storage.datasets.dataset import Dataset
    from verdict_cli.storage.datasets.read import stream_rows

    right = compile_expression(target, ("source",))
    group = compile_expression(cluster, ("source",)) if cluster is not None else None
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to:
        dataset = open_dataset(plan, labelled, Path(spool_to))
        keys: dict[int, str] = {}
        for row in stream_rows(dataset):
            try:
                if right({"source": row.source}) is not None:
                    keys[row.index] = key_text(group({"source": row.source})) if group is not None else str(row.index)
            except RowError as error:
                raise UsageError(
                    f"row {row.index}: {error.message}", hint="--target and --cluster are expressions over `source`"
                ) from None
        raw = {row.index: dict(row.source) for row in stream_rows(Dataset(dataset.files)) if row.index in keys}
    if len(keys) < LEAST_LABELS:
        raise UsageError(
            f"{len(keys)} rows have a label; an alignment needs {LEAST_LABELS} or more",
            hint="label more rows: verdict queue RUN",
        )
    places = list(keys)
    clusters = np.unique([keys[place] for place in places], return_inverse=True)[1]
    digest = hashlib.sha256()
    folder.mkdir(parents=True, exist_ok=True)
    parts: dict[PartName, Path] = {}
    sizes: dict[PartName, int] = {}
    for name, rows in split_rows(clusters, seed).items():
        text = "".join(json.dumps(raw[places[row]], ensure_ascii=False, default=str) + "\n" for row in rows.tolist())
        digest.update(text.encode())
        parts[name], sizes[name] = folder / f"{name}.jsonl", len(rows)
        parts[name].write_text(text, encoding="utf-8")
    if min(sizes.values()) < 2:
        print_error("warning: one cluster holds most rows, so that the parts are very unequal")
        raise UsageError("the clusters cannot be split into three parts", hint="give another --cluster, or more rows")
    return parts, sizes, digest.hexdigest()


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
