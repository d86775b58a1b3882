"""Rank by score: each candidate is judged by itself, once or several times."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.run.outcome import Reward
from verdict_cli.studies.rank.candidate_columns import CandidateColumns
from verdict_cli.studies.rank.candidates import Candidate
from verdict_cli.studies.rank.standings import CandidateResult, CountingJudge, Ranking, rank_candidates


async def rank_by_score(
    judge: CountingJudge,
    reward: Reward,
    columns: CandidateColumns | None,
    shared: Mapping[str, Any],
    candidates: Sequence[Candidate],
    samples: int,
    field: str | None,
) -> Ranking:
    """Rank candidates by their mean score. Two differ if their scores are unequal; with several samples, by Welch's
    t-test at 5%.

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
    results = [_mean_score(values, samples) for values in scores]
    standings = rank_candidates(candidates, results, lambda one, other: _differ(scores[one], scores[other]))
    return Ranking("scores", standings, len(rows), sum(result.failed for result in results), {})


def _mean_score(values: Sequence[float], samples: int) -> CandidateResult:
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


def _differ(one: Sequence[float], other: Sequence[float]) -> bool:
    # Welch's test is undefined for one value a side, and for two samples without variance.
    if len(one) < 2 or len(other) < 2 or len(set(one)) == len(set(other)) == 1:
        return sum(one) / len(one) != sum(other) / len(other)
    from scipy import stats

    with warnings.catch_warnings():
        # scipy takes a sample without variance for a loss of precision.
        warnings.simplefilter("ignore", RuntimeWarning)
        return bool(stats.ttest_ind(one, other, equal_var=False).pvalue < 0.05)
