"""A ranking of candidates (ranks, intervals, ties with rank 1), its document, and the ranking by score: each candidate is judged by
itself, once or several times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isclose
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.features.rank.candidates import Candidate, CandidateColumns
from verdict_cli.messages import Result
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.report.conclusions import listed_names
from verdict_cli.report.document import Note, ReportDocument, Section, Table
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.outcome import Reward
from verdict_cli.run.progress import Progress, RunStats
from verdict_cli.stats.intervals.interval_methods import student


class CountingJudge:
    """A judge that counts what it has judged. ``rows`` is the most that it will judge."""

    def __init__(
        self, session: JudgeSession, rows: int, concurrency: int, on_progress: Callable[[Progress], None]
    ) -> None:
        self.stats = RunStats(rows)
        self._session = session
        self._concurrency = concurrency
        self._on_progress = on_progress
        self._next_row = 0

    async def judge(self, rows: Sequence[Mapping[str, Any]]) -> list[Result]:
        """The rows' results, in their order. Row numbers continue over all calls."""
        results = await self._session.judge_all(rows, self._count, self._concurrency, self._next_row)
        self._next_row += len(rows)
        return results

    def _count(self, result: Result) -> Result:
        self.stats.add(result)
        self._on_progress(self.stats.progress(self._session.client.limiters))
        return result


_TOLERANCE = 1e-6
"""Values closer than this share a rank: a fit ends a little before its optimum."""


@dataclass(frozen=True)
class RankedCandidate:
    """One candidate. ``rank`` starts at 1 and is equal for equal values; None with ``value`` None, if nothing is known.

    ``value`` is the mean score, or the strength in log-odds against the average candidate, with its 95% interval.
    """

    rank: int | None
    candidate: int
    label: str
    value: float | None
    low: float | None
    high: float | None
    tied_with_first: bool
    wins: float | None = None
    contests: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Ranking:
    """All candidates, best first. ``consistency`` is empty for a judge that scores."""

    kind: str
    standings: tuple[RankedCandidate, ...]
    judgements: int
    failed: int
    consistency: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The ranking in the document of `verdict rank --json`."""
        first = self.standings[0]
        return {
            "kind": self.kind,
            "best": None if first.rank is None else {"candidate": first.candidate, "label": first.label},
            "ranking": [asdict(candidate) for candidate in self.standings],
            "judgements": self.judgements,
            "failed": self.failed,
            "consistency": self.consistency,
        }


@dataclass(frozen=True)
class CandidateResult:
    """One candidate's value before candidates are ranked."""

    value: float | None
    low: float | None = None
    high: float | None = None
    wins: float | None = None
    contests: int = 0
    failed: int = 0


def rank_candidates(
    candidates: Sequence[Candidate], results: Sequence[CandidateResult], differ: Callable[[int, int], bool]
) -> tuple[RankedCandidate, ...]:
    """The candidates, best first; equal values share a rank. ``differ`` says whether two differ significantly."""
    order = sorted(
        range(len(results)), key=lambda index: (results[index].value is None, -(results[index].value or 0.0), index)
    )
    first = order[0]
    standings: list[RankedCandidate] = []
    for position, index in enumerate(order):
        result = results[index]
        rank: int | None = None
        if result.value is not None:
            rank = position + 1
            above = standings[-1] if standings else None
            if above is not None and above.value is not None and isclose(above.value, result.value, abs_tol=_TOLERANCE):
                rank = above.rank
        tied = result.value is not None and index != first and not differ(first, index)
        standings.append(
            RankedCandidate(
                rank, index, candidates[index].label, result.value, result.low, result.high, tied,
                result.wins, result.contests, result.failed,
            )
        )  # fmt: skip
    return tuple(standings)


def ranking_conclusion(ranking: Ranking) -> str:
    """Which candidate is first, and which others are not significantly different from it."""
    ranked = [candidate for candidate in ranking.standings if candidate.rank is not None]
    if not ranked:
        return "no candidate has a rank: every judgement failed"
    tied = [candidate.label for candidate in ranked if candidate.tied_with_first]
    first = f"{listed_names([ranked[0].label])} is first of {len(ranking.standings)}"
    if not tied:
        return f"{first}, significantly better than the others" if ranked[1:] else first
    return f"{first}; not significantly different from it: {listed_names(tied)}"


def ranking_document(pipeline: str, ranking: Ranking, *, calls: int, cost_usd: float | None) -> ReportDocument:
    """The candidates, ties with rank 1, and how consistent the judge was; from a ranking and the cost of its calls."""
    compares = ranking.kind != "scores"
    headers = (
        "rank",
        "candidate",
        "rating" if compares else "score",
        "95% interval",
        *(["won"] if compares else []),
        "",
    )
    table = Table(headers, [_cells(candidate, compares=compares) for candidate in ranking.standings], (0, 2))
    cost = f"calls {calls:,} · cost {formatting.money(cost_usd)}"
    counts = Note(f"{ranking.judgements:,} judgements · failed {ranking.failed:,} · {cost}")
    return ReportDocument(
        pipeline,
        [Section("", [table, *_consistency(ranking), counts], listed=False)],
        kicker="Verdict ranking",
        data=lambda: {"pipeline": pipeline, **ranking.as_json(), "calls": calls, "cost_usd": cost_usd},
        conclusion=ranking_conclusion(ranking),
    )


def _cells(candidate: RankedCandidate, *, compares: bool) -> tuple[str, ...]:
    notes = ["not significantly different from rank 1"] if candidate.tied_with_first else []
    notes += [f"{candidate.failed} failed"] if candidate.failed else []
    won = [f"{candidate.wins:g}/{candidate.contests}"] if compares else []
    return (
        "–" if candidate.rank is None else str(candidate.rank),
        candidate.label,
        "unknown" if candidate.value is None else formatting.format_number(candidate.value),
        formatting.interval(candidate.low, candidate.high),
        *won,
        ", ".join(notes),
    )


def _consistency(ranking: Ranking) -> Iterator[Note]:
    counts = ranking.consistency
    if ranking.kind == "pairs":
        yield Note(
            f"consistency: {counts['intransitive']} of {counts['triples']} triples intransitive · "
            f"{counts['ties']} of {plural(counts['pairs'], 'pair')} tied · "
            f"the first position won {counts['first_place_wins']} of {counts['decided']}"
        )
        if counts["flips"] is not None:
            yield Note(f"order: {counts['flips']} of {plural(counts['pairs_in_both_orders'], 'pair')} changed with it")
    if ranking.kind == "groups":
        yield Note(f"wins by position: {', '.join(map(str, counts['wins_by_place']))}")


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
