"""A sample as distinct observations with their counts, and what is left of it without some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from verdict_cli.stats.columns.column import Floats, Ints

CELLS = 2_000_000
"""The most weights in memory at once: 16 MB of floats."""
MOST_DELETIONS = 400
"""The jackknife of more units than this leaves out so many random groups: its cost is deletions times atoms."""


Keys = tuple[npt.NDArray[np.generic], ...]
"""Columns whose distinct tuples are the atoms of a sample."""


def as_codes(values: npt.NDArray[np.generic]) -> Ints:
    """The place of each value among the distinct ones."""
    codes: Ints = np.unique(values, return_inverse=True)[1]
    return codes


class Sample(Struct, frozen=True):
    """`first` is a row that shows each atom, `counts` how often it occurs, `atom` the atom of each row.

    `cluster` is each row's cluster, 0 to one less than their number; None where rows are independent.
    """

    first: Ints
    counts: Floats
    atom: Ints
    cluster: Ints | None = None

    @staticmethod
    def of(columns: Keys, cluster: Ints | None = None) -> Sample:
        """The sample of rows that these columns describe; equal rows are one atom."""
        first, atom, counts = distinct_tuples(columns, len(columns[0]))
        if cluster is not None:
            cluster = as_codes(cluster)
        return Sample(first, counts.astype(np.float64), atom, cluster)

    @property
    def n(self) -> int:
        return len(self.atom)

    @property
    def units(self) -> int:
        """The number of clusters, or of rows where there are none: what is left out."""
        return self.n if self.cluster is None else int(self.cluster.max(initial=-1)) + 1

    def deletions(
        self, rng: np.random.Generator, width: int = 1, most: int = MOST_DELETIONS
    ) -> Iterator[tuple[Floats, Floats]]:
        """Weights (some, atoms) of the samples without one unit (or a group), and how many units each stands for.

        Without clusters and with few atoms, leaving out any row of an atom is the same. Beyond that number, units
        are left out in `most` random groups, whose third moments have the same expectation. `width` is the most numbers that a
        statistic computes for one deletion: it bounds the memory.
        """
        atoms = len(self.counts)
        step = max(1, CELLS // max(atoms, width, 1))
        if self.cluster is None and atoms <= most:
            for start in range(0, atoms, step):
                some = np.arange(start, min(start + step, atoms))
                weights = np.repeat(self.counts[None, :], len(some), axis=0)
                weights[np.arange(len(some)), some] -= 1
                yield weights, self.counts[some]
            return
        groups = min(self.units, most)
        group = rng.permutation(self.units) % groups
        of_row = group if self.cluster is None else group[self.cluster]
        for start in range(0, groups, step):
            stop = min(start + step, groups)
            here = (of_row >= start) & (of_row < stop)
            cell = (of_row[here] - start) * atoms + self.atom[here]
            removed = np.bincount(cell, minlength=(stop - start) * atoms).reshape(-1, atoms)
            yield self.counts - removed, np.ones(stop - start)


def distinct_tuples(
    columns: Sequence[npt.NDArray[np.generic]], rows: int
) -> tuple[Ints, Ints, Ints]:
    """The first row of each distinct row of these columns, which of them each row is, and how often each occurs."""
    key = np.zeros(rows, dtype=np.int64)
    for column in columns:
        codes = as_codes(column)
        key = key * (int(codes.max(initial=0)) + 1) + codes
        key = as_codes(key)
    _, first, tuples, counts = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    return first, tuples, counts
