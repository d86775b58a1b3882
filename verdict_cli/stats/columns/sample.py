"""A sample as distinct observations with their counts, and its resamples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from verdict_cli.stats.columns.column import Floats, Ints

CELLS = 2_000_000
"""The most weights in memory at once (16 MB)."""
MOST_DELETIONS = 400
"""Larger samples are left out in this many groups instead of one by one."""


@dataclass(frozen=True, slots=True)
class Sample:
    """`first` is a row that shows each atom, `counts` how often it occurs, `atom` the atom of each row.

    `cluster` is each row's cluster, 0 to one less than their number; None where rows are independent.
    """

    first: Ints
    counts: Floats
    atom: Ints
    cluster: Ints | None = None

    @staticmethod
    def of(columns: tuple[npt.NDArray[np.generic], ...], cluster: Ints | None = None) -> Sample:
        """The sample of rows that these columns describe; equal rows are one atom."""
        key = np.zeros(len(columns[0]), dtype=np.int64)
        for column in columns:
            _, codes = np.unique(column, return_inverse=True)
            key = key * (int(codes.max(initial=0)) + 1) + codes
            key = np.unique(key, return_inverse=True)[1]
        _, first, atom, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        if cluster is not None:
            cluster = np.unique(cluster, return_inverse=True)[1]
        return Sample(first, counts.astype(np.float64), atom, cluster)

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.atom)

    @property
    def units(self) -> int:
        """The number of what is drawn: clusters, or rows."""
        return self.n if self.cluster is None else int(self.cluster.max(initial=-1)) + 1

    def resamples(self, rng: np.random.Generator, times: int, width: int = 1) -> Iterator[Floats]:
        """Weights (some, atoms) of `times` resamples in all: units drawn with replacement, as many as there are.

        `width` is the most numbers that a statistic makes of one resample, to keep memory small.
        """
        atoms = len(self.counts)
        step = max(1, min(times, CELLS // max(atoms, width, 1 if self.cluster is None else self.units)))
        for start in range(0, times, step):
            some = min(step, times - start)
            if self.cluster is not None:
                draws = rng.multinomial(self.units, np.full(self.units, 1 / self.units), size=some)
                yield self._of_units(draws.astype(np.float64))
            elif atoms * 2 > self.n:
                rows = rng.integers(0, self.n, size=(some, self.n))
                yield np.stack([np.bincount(self.atom[row], minlength=atoms) for row in rows]).astype(np.float64)
            else:
                yield rng.multinomial(self.n, self.counts / self.n, size=some).astype(np.float64)

    def _of_units(self, draws: Floats) -> Floats:
        """Weights of atoms from how often each cluster is drawn: (some, clusters) -> (some, atoms)."""
        from scipy.sparse import csr_array

        assert self.cluster is not None
        shape = (len(self.counts), self.units)
        members = csr_array((np.ones(self.n), (self.atom, self.cluster)), shape=shape)
        return np.ascontiguousarray(np.asarray(members @ draws.T, dtype=np.float64).T)

    def deletions(self, rng: np.random.Generator, width: int = 1) -> Iterator[tuple[Floats, Floats]]:
        """Weights (some, atoms) of the samples that lack a unit (or a group of them), and how many units lack alike.

        Without clusters and with few atoms, each atom stands for its rows; beyond MOST_DELETIONS units are left
        out in that many random groups, whose third moments have the same expectation.
        """
        atoms = len(self.counts)
        step = max(1, CELLS // max(atoms, width, 1))
        if self.cluster is None and atoms <= MOST_DELETIONS:
            for start in range(0, atoms, step):
                some = np.arange(start, min(start + step, atoms))
                weights = np.repeat(self.counts[None, :], len(some), axis=0)
                weights[np.arange(len(some)), some] -= 1
                yield weights, self.counts[some]
            return
        groups = min(self.units, MOST_DELETIONS)
        group = rng.permutation(self.units) % groups
        of_row = group if self.cluster is None else group[self.cluster]
        for start in range(0, groups, step):
            some = np.arange(start, min(start + step, groups))
            gone = [np.bincount(self.atom[of_row == one], minlength=atoms) for one in some]
            yield self.counts - np.stack(gone), np.ones(len(some))

    def blocks(self, rng: np.random.Generator, count: int) -> Iterator[Floats]:
        """Weights (1, atoms) of `count` disjoint random blocks of units."""
        group = rng.permutation(self.units) % count
        of_row = group if self.cluster is None else group[self.cluster]
        for one in range(count):
            yield np.bincount(self.atom[of_row == one], minlength=len(self.counts)).astype(np.float64)[None, :]
