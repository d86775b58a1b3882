"""Which rows a page shows: what went wrong first, then a seeded sample of the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from verdict_cli.data import read_arrow
from verdict_cli.data.vectors import scalar, truths
from verdict_cli.evaluate import Scored
from verdict_cli.evaluate.column import Ints
from verdict_cli.report.behind import Behind

MOST_ROWS = 10_000
MOST_STORIES = 1_000
TROUBLE = 0.8
"""The share of places that rows in trouble may take."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Places in `results.parquet`: `rows` in the order in which they are shown, `stories` some of them.

    `failed` are all failed rows, `wrong` all that the first labelled evaluation finds wrong; `total` counts the rows.
    """

    rows: Ints
    stories: Ints
    failed: Ints
    wrong: Ints
    total: int


def chosen(behind: Behind) -> Chosen:
    """The rows of a run, from its statuses and the scores of its first evaluation."""
    bad = _bad(behind)
    failed = np.flatnonzero(bad)
    scored = next(iter(behind.study.scored), None)
    trouble, wrong = failed, np.zeros(0, dtype=np.int64)
    if scored is not None and scored.labelled:
        order, wrong = _worst(scored)
        trouble = np.concatenate([failed, order[~bad[order]]])
    draw = np.random.default_rng([abs(behind.seed), 7])
    everything = np.arange(len(bad))
    rest = np.setdiff1d(everything, trouble, assume_unique=True)
    rows = _some(trouble, rest, MOST_ROWS, draw)
    shown = np.isin(trouble, rows)
    stories = _some(trouble[shown], np.intersect1d(rest, rows), MOST_STORIES, draw)
    return Chosen(rows, stories, failed, wrong, len(bad))


def _bad(behind: Behind) -> npt.NDArray[np.bool_]:
    """Whether each row failed."""
    import pyarrow.compute as pc

    parts = [
        truths(pc.equal(batch.column("status"), scalar("failed", "str")))
        for batch in read_arrow(behind.results, ["status"])
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def _worst(scored: Scored) -> tuple[Ints, Ints]:
    """Rows that are wrong, or off their target, the worst first; and those that are plainly wrong."""
    scores = scored.scores
    places = np.flatnonzero(np.isfinite(scores) & (scores < (1 if scored.labels else 0)))
    places = places[np.argsort(scores[places], kind="stable")]
    return scored.at[places], scored.at[places] if scored.labels else np.zeros(0, dtype=np.int64)


def _some(trouble: Ints, rest: Ints, most: int, draw: np.random.Generator) -> Ints:
    """At most so many: of both kinds where there are more, in their order."""
    room = max(int(most * TROUBLE), most - len(rest))
    first = trouble[:room]
    room = most - len(first)
    if len(rest) > room:
        rest = np.sort(draw.choice(rest, room, replace=False))
    return np.concatenate([first, rest])
