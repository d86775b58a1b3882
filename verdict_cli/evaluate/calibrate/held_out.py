"""Figures before and after a fit, on rows that the fit has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from verdict_cli.evaluate.column import Floats, Ints
from verdict_cli.evaluate.figures import Figure
from verdict_cli.evaluate.intervals import LEVEL, Draw, figures, paired
from verdict_cli.evaluate.metrics import Statistic
from verdict_cli.evaluate.sample import Sample

Columns = tuple[Floats, ...]
Statistics = Callable[..., Mapping[str, Statistic]]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One figure on held-out rows: without what was fitted, with it, and the difference with its interval."""

    before: Figure
    after: Figure
    change: Figure


def folds(rows: Ints, count: int, rng: np.random.Generator) -> Ints:
    """The fold of each row, 0 to ``count - 1``; rows of one number stay together."""
    numbers, places = np.unique(rows, return_inverse=True)
    return (rng.permutation(len(numbers)) % count)[places]


def held_out(
    wanted: tuple[str, ...],
    statistics: Statistics,
    before: Columns,
    after: Columns,
    rows: Ints,
    rng: np.random.Generator,
) -> dict[str, HeldOut]:
    """The wanted figures of both pairs of columns, paired row by row; rows of one number count as a cluster."""
    alone = len(np.unique(rows)) == len(rows)
    cluster = None if alone else np.unique(rows, return_inverse=True)[1].astype(np.int64)
    sample = Sample.of((*before, *after), cluster)
    old = statistics(*(column[sample.first] for column in before))
    new = statistics(*(column[sample.first] for column in after))
    found = {}
    for name in wanted:
        first, second = (figures({name: side[name]}, sample, Draw(rng, LEVEL))[name] for side in (old, new))
        found[name] = HeldOut(first, second, paired(old[name], new[name], sample, Draw(rng, LEVEL)))
    return found
