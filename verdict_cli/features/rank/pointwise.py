"""Rank by score: each candidate is judged by itself, once or several times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.features.rank.candidate_columns import CandidateColumns
from verdict_cli.features.rank.candidates import Candidate
from verdict_cli.features.rank.standings import CandidateResult, CountingJudge, Ranking, rank_candidates
from verdict_cli.run.outcome import Reward
from verdict_cli.stats.intervals.interval_methods import student

_LEVEL = 0.95
_ROUNDING = 1e-12


async def rank_by_score(
    judge: CountingJudge,
    reward: Reward,
    columns: CandidateColumns | None,
    shared: Mapping[str, Any],
    candidates: Sequence[Candidate],
    samples: int,
    field: str | None,
) -> Ranking:
    """Rank candidates by their mean score. With several samples, two differ by Tukey's test, so that of equal candidates at
    most 5% of rankings separate any two; one sample does not show how much a score varies.

    ``columns`` None: each candidate is an object whose fields are columns of the row.
    """
    rows: list[Mapping[str, Any]] = []
    for candidate in candidates:
        if columns is not None:
            row: Mapping[str, Any] = columns.row(shared, [candidate.text(field)])
        else:
            assert isinstance(candidate.value, Mapping)
            row = {**shared, **candidate.value}
        rows += [row] * samples
    scores: list[list[float]] = [[] for _ in candidates]
    for index, result in enumerate(await judge.judge(rows)):
        if result.failure is None:
            try:
                scores[index // samples].append(reward(result))
            except RowError:
                continue
    pooled = _pooled(scores)
    results = [_mean_score(values, samples, pooled, len(scores)) for values in scores]
    standings = rank_candidates(candidates, results, lambda one, other: _differ(scores[one], scores[other], pooled))
    return Ranking("scores", standings, len(rows), sum(result.failed for result in results), {})


@dataclass(frozen=True, slots=True)
class Pooled:
    """The variance of a score within candidates, its degrees of freedom, and the 95% point of Tukey's studentized range."""

    variance: float
    freedom: int
    range: float


def _pooled(scores: Sequence[Sequence[float]]) -> Pooled | None:
    """None where no candidate has two samples."""
    known = [values for values in scores if values]
    freedom = sum(len(values) - 1 for values in known)
    if not freedom:
        return None
    means = [sum(values) / len(values) for values in known]
    squares = sum((value - mean) ** 2 for values, mean in zip(known, means, strict=True) for value in values)
    largest = _studentized_range(len(known), freedom) if len(known) > 1 and squares else 0.0
    return Pooled(squares / freedom, freedom, largest)


@lru_cache(maxsize=64)
def _studentized_range(candidates: int, freedom: int) -> float:
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(_LEVEL, candidates, freedom))


def _mean_score(values: Sequence[float], samples: int, pooled: Pooled | None, family: int) -> CandidateResult:
    """The mean, and with several samples an interval that holds for all candidates together (Šidák, 1967)."""
    if not values:
        return CandidateResult(None, contests=samples, failed=samples)
    mean = sum(values) / len(values)
    failed = samples - len(values)
    if pooled is None:
        return CandidateResult(mean, None, None, contests=samples, failed=failed)
    reach = student(_LEVEL ** (1 / family), pooled.freedom) * math.sqrt(pooled.variance / len(values))
    return CandidateResult(mean, mean - reach, mean + reach, contests=samples, failed=failed)


def _differ(one: Sequence[float], other: Sequence[float], pooled: Pooled | None) -> bool:
    """Tukey's test, for unequal numbers of samples by Kramer (1956)."""
    if pooled is None or not one or not other:
        return False
    error = math.sqrt(pooled.variance / 2 * (1 / len(one) + 1 / len(other)))
    return abs(sum(one) / len(one) - sum(other) / len(other)) > pooled.range * error + _ROUNDING
