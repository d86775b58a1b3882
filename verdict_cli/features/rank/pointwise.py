"""Rank by score: each candidate is judged by itself, once or several times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.features.rank.candidates import Candidate, CandidateColumns
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
    """Rank candidates by their mean score. With several samples, two differ if they do by the tests of Games and Howell
    (1976), for scores that vary unequally, and of Tukey, whose common variance is also that of a candidate whose few scores
    happen to be equal: of equal candidates at most 5% of rankings separate any two. One sample does not show how much a
    score varies.

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
    """The variance of a score within candidates, its degrees of freedom, and how many candidates have scores."""

    variance: float
    freedom: int
    candidates: int


def _pooled(scores: Sequence[Sequence[float]]) -> Pooled | None:
    """None where no candidate has two samples."""
    known = [values for values in scores if values]
    freedom = sum(len(values) - 1 for values in known)
    if not freedom:
        return None
    return Pooled(sum(_variance(values) * (len(values) - 1) for values in known) / freedom, freedom, len(known))


def _variance(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1)


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
    """Whether both tests separate two candidates; the one of Games and Howell needs two samples of each."""
    if pooled is None or not one or not other:
        return False
    away = abs(sum(one) / len(one) - sum(other) / len(other)) - _ROUNDING
    if not _is_separated(away, pooled.variance * (1 / len(one) + 1 / len(other)), pooled.candidates, pooled.freedom):
        return False
    if min(len(one), len(other)) < 2:
        return True
    # A few scores that happen to be equal do not show that a score never varies.
    errors = [(_variance(values) or pooled.variance) / len(values) for values in (one, other)]
    if not sum(errors):
        return True
    squares = sum(error**2 / (len(values) - 1) for error, values in zip(errors, (one, other), strict=True))
    return _is_separated(away, sum(errors), pooled.candidates, sum(errors) ** 2 / squares)


def _is_separated(away: float, variance: float, candidates: int, freedom: float) -> bool:
    """Whether Tukey's studentized range of this difference is beyond its 95% point."""
    if away <= 0:
        return False
    from scipy.stats import studentized_range

    return not variance or float(studentized_range.sf(away / math.sqrt(variance / 2), candidates, freedom)) < 1 - _LEVEL
