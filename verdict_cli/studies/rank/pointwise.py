"""Ranking by score: each candidate judged alone, several times where that is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.run.outcome import Reward
from verdict_cli.studies.rank.candidate_columns import CandidateColumns
from verdict_cli.studies.rank.candidates import Candidate
from verdict_cli.studies.rank.standings import CandidateResult, Judging, Ranking, rank_candidates


async def scored(
    judging: Judging,
    reward: Reward,
    places: CandidateColumns | None,
    shared: Mapping[str, Any],
    candidates: Sequence[Candidate],
    samples: int,
    field: str | None,
) -> Ranking:
    """The candidates by their mean score. Two are told apart by unequal scores; with several samples by Welch's t-test at 5%.

    ``places`` None: the columns of each candidate stand in the row by their own names.
    """
    rows = []
    for one in candidates:
        own = dict(one.value) if places is None and isinstance(one.value, Mapping) else None
        row = {**shared, **own} if own is not None else (places or _NEVER).row(shared, [one.text(field)])
        rows += [row] * samples
    results = await judging.all(rows)
    scores: list[list[float]] = [[] for _ in candidates]
    for place, result in enumerate(results):
        if result.failure is None:
            try:
                scores[place // samples].append(reward(result))
            except RowError:
                continue
    found = [_found(values, samples) for values in scores]
    failed = sum(one.failed for one in found)
    ranked = rank_candidates(candidates, found, lambda one, other: _apart(scores[one], scores[other]))
    return Ranking("scores", ranked, len(rows), failed, {})


_NEVER = CandidateColumns((), 0)


def _found(values: Sequence[float], samples: int) -> CandidateResult:
    """The mean, and with several values its 95% interval by Student's t."""
    if not values:
        return CandidateResult(None, contests=samples, failed=samples)
    mean = sum(values) / len(values)
    failed = samples - len(values)
    if len(values) < 2 or len(set(values)) == 1:
        low = high = mean if len(values) > 1 else None
        return CandidateResult(mean, low, high, contests=samples, failed=failed)
    from scipy import stats

    low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=stats.sem(values))
    return CandidateResult(mean, float(low), float(high), contests=samples, failed=failed)


def _apart(one: Sequence[float], other: Sequence[float]) -> bool:
    if len(one) < 2 or len(other) < 2 or len(set(one)) == len(set(other)) == 1:
        return sum(one) / len(one) != sum(other) / len(other)
    from scipy import stats

    return bool(stats.ttest_ind(one, other, equal_var=False).pvalue < 0.05)
