"""Rank by contests: seeded pairings of a bounded number, and strengths from them: Bradley-Terry for pairs (Bradley and Terry, 1952),
Plackett-Luce for larger groups (Luce, 1959; Plackett, 1975).

A contest is a choice of one among some; a ranking is a choice of the first, then of the second among the rest, and so on. A tie
of two counts as half a choice of each.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, structs

from verdict_cli.errors import RowError, UsageError
from verdict_cli.features.rank.candidates import (
    Candidate,
    CandidateColumns,
    Order,
    OrderReader,
    choosing_unit,
    find_candidate_columns,
    judges_both_orders,
    order_reader,
)
from verdict_cli.features.rank.contest import (
    Judgements,
    Leaderboard,
    Standing,
    StandingValue,
    ranked,
)
from verdict_cli.features.rank.leaderboard_section import ranking_tables
from verdict_cli.features.rank.ranks import significantly_better, standing_values
from verdict_cli.features.rank.strengths import Choice, choice_strengths
from verdict_cli.messages import JsonObject, NamedValues, Result
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.report.document import Note, ReportDocument, Section
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.outcome import Reward, reward_of
from verdict_cli.run.progress import Progress
from verdict_cli.run_facts import Counts
from verdict_cli.stats.columns.column import RowMask
from verdict_cli.stats.intervals.interval_methods import student

if TYPE_CHECKING:
    from verdict_cli.features.rank.command import RankOptions


class CountingJudge:
    """A judge that counts what it has judged. ``rows`` is the most that it will judge."""

    def __init__(
        self,
        session: JudgeSession,
        rows: int,
        concurrency: int,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.stats = Counts(rows)
        self._started = perf_counter()
        self._session = session
        self._concurrency = concurrency
        self._on_progress = on_progress
        self._next_row = 0

    async def judge(self, rows: Sequence[NamedValues]) -> list[Result]:
        """The rows' results, in their order. Row numbers continue over all calls."""
        first = self._next_row
        self._next_row += len(rows)
        return await self._session.judge_all(rows, self._count, self._concurrency, first)

    def _count(self, result: Result) -> Result:
        self.stats.add(result)
        limiters = self._session.client.limiters
        self._on_progress(Progress.since(self._started, self.stats, limiters))
        return result


def candidate_board(
    kind: str,
    metric: str,
    standings: Sequence[Standing],
    better: RowMask,
    **counts: Any,
) -> Leaderboard:
    """The candidates, best first. ``better`` says which (row) is significantly better than which (column)."""
    placed = tuple(
        standing
        if standing.values[metric].value is not None
        else structs.replace(standing, rank=None)
        for standing in ranked(standings, metric, better)
    )
    return Leaderboard((metric,), metric, placed, kind=kind, **counts)


def ranking_document(pipeline: str, board: Leaderboard, counts: Judgements) -> ReportDocument:
    """The candidates and how consistent the judge was; from a ranking and its counts."""
    best = next((standing for standing in board.standings if standing.rank is not None), None)
    parts = [*ranking_tables(board), *_consistency(board), counts.note()]
    return ReportDocument(
        pipeline,
        [Section("", parts)],
        kicker="Verdict ranking",
        data=lambda: {
            "pipeline": pipeline,
            "kind": board.kind,
            "best": None if best is None else {"index": best.index, "candidate": best.name},
            "ranking": board.standings_json(),
            "consistency": board.consistency,
            **structs.asdict(counts),
        },
        conclusion=board.conclusion(),
    )


def _consistency(ranking: Leaderboard) -> Iterator[Note]:
    counts = ranking.consistency
    if ranking.kind == "pairs":
        yield Note(
            f"consistency: {counts['intransitive']} of {counts['triples']} triples intransitive · "
            f"{counts['ties']} of {plural(counts['pairs'], 'pair')} tied · "
            f"the first position won {counts['first_place_wins']} of {counts['decided']}"
        )
        if counts["flips"] is not None:
            yield Note(
                f"order: {counts['flips']} of {plural(counts['pairs_in_both_orders'], 'pair')} changed with it"
            )
    if ranking.kind == "groups":
        yield Note(f"wins by position: {', '.join(map(str, counts['wins_by_place']))}")


_ROUNDING = 1e-12


async def rank_by_score(
    judge: CountingJudge,
    reward: Reward,
    columns: CandidateColumns | None,
    shared: NamedValues,
    candidates: Sequence[Candidate],
    samples: int,
    field: str | None,
) -> Leaderboard:
    """Rank candidates by their mean score. With several samples, two differ if they do by the tests of Games and Howell
    (1976), for scores that vary unequally, and of Tukey, whose common variance is also that of a candidate whose few scores
    happen to be equal: of equal candidates at most 5% of rankings separate any two. One sample does not show how much a
    score varies.

    ``columns`` None: each candidate is an object whose fields are columns of the row.
    """
    rows = []
    for candidate in candidates:
        if columns is not None:
            row = columns.row(shared, [candidate.text(field)])
        else:
            assert isinstance(candidate.value, Mapping)
            row = {**shared, **candidate.value}
        rows += [row] * samples
    scores: list[list[float]] = [[] for _ in candidates]
    for index, result in enumerate(await judge.judge(rows)):
        with suppress(RowError):
            if result.failure is None:
                scores[index // samples].append(reward(result))
    pooled = _pooled(scores)
    standings = [
        Standing(
            candidate.label,
            len(values),
            {"score": _mean_score(values, pooled, len(scores))},
            index=index,
            failed=samples - len(values),
        )
        for index, (candidate, values) in enumerate(zip(candidates, scores, strict=True))
    ]
    better = np.array([[_is_better(one, other, pooled) for other in scores] for one in scores])
    missing = sum(standing.failed for standing in standings)
    return candidate_board("scores", "score", standings, better, rows=len(rows), missing=missing)


class Pooled(Struct, frozen=True):
    """The variance of a score within candidates, its degrees of freedom, and how many candidates have scores."""

    variance: float
    freedom: int
    candidates: int


def _pooled(scores: Sequence[Sequence[float]]) -> Pooled | None:
    """None where no candidate has two samples."""
    sampled_scores = [values for values in scores if values]
    freedom = sum(len(values) - 1 for values in sampled_scores)
    if not freedom:
        return None
    squares = sum(_variance(values) * (len(values) - 1) for values in sampled_scores)
    return Pooled(squares / freedom, freedom, len(sampled_scores))


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1)


def _mean_score(values: Sequence[float], pooled: Pooled | None, family: int) -> StandingValue:
    """The mean, and with several samples an interval that holds for all candidates together (Šidák, 1967)."""
    if not values:
        return StandingValue(None, reason="every judgement failed")
    mean = fmean(values)
    if pooled is None:
        return StandingValue(mean)
    quantile = student(_LEVEL ** (1 / family), pooled.freedom)
    reach = quantile * math.sqrt(pooled.variance / len(values))
    return StandingValue(mean, mean - reach, mean + reach)


def _is_better(one: Sequence[float], other: Sequence[float], pooled: Pooled | None) -> bool:
    """Whether both tests find the first candidate better; the one of Games and Howell needs two samples of each."""
    if pooled is None or not one or not other:
        return False
    away = fmean(one) - fmean(other) - _ROUNDING
    if away <= 0:
        return False
    return all(
        away
        > _studentized_range_point(pooled.candidates, max(1, int(freedom))) * math.sqrt(error / 2)
        for error, freedom in _errors_of_difference(one, other, pooled)
    )


def _errors_of_difference(
    one: Sequence[float], other: Sequence[float], pooled: Pooled
) -> Iterator[tuple[float, float]]:
    """The variance of a difference of means, with its degrees of freedom: Tukey's, and that of Games and Howell."""
    yield pooled.variance * (1 / len(one) + 1 / len(other)), pooled.freedom
    if min(len(one), len(other)) > 1:
        # A few scores that happen to be equal do not show that a score never varies.
        errors = [(_variance(values) or pooled.variance) / len(values) for values in (one, other)]
        total = sum(errors)
        if total:
            parts = zip(errors, (one, other), strict=True)
            yield total, total**2 / sum(error**2 / (len(values) - 1) for error, values in parts)


@cache
def _studentized_range_point(candidates: int, freedom: int) -> float:
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(_LEVEL, candidates, freedom))


_LEVEL = 0.95


def count_cycles(wins: RowMask) -> tuple[int, int]:
    """The number of triples with three decided pairs, and of those that are cycles; ``wins[i, j]``: i beat j."""
    beat = wins.astype(np.int64)
    met = beat + beat.T
    return int(np.trace(met @ met @ met)) // 6, int(np.trace(beat @ beat @ beat)) // 3


ROUND_ROBIN = 12
"""By default, up to so many candidates play a round robin: 66 pairs."""
GROUP_ROUNDS = 3
"""Each candidate is then in three groups, which link all candidates for the fit."""

Contest = tuple[int, ...]
"""The candidates in one row, in this order."""


def swiss_rounds(count: int) -> int:
    """Rounds of a Swiss tournament: those that find one winner, and two more for the order below it."""
    return min(count - 1, math.ceil(math.log2(count)) + 2)


def round_robin(count: int, seed: int) -> list[Contest]:
    """Every pair once; which candidate is first is drawn."""
    draw = random.Random(seed)
    return [pair if draw.random() < 0.5 else pair[::-1] for pair in combinations(range(count), 2)]


def swiss_round(points: Mapping[int, float], met: set[frozenset[int]], seed: int) -> list[Contest]:
    """One round: candidates with equal points meet, none meets the same twice; ties are broken by a seeded draw."""
    draw = random.Random(seed)
    unpaired = sorted(points, key=lambda candidate: (-points[candidate], draw.random()))
    pairs: list[Contest] = []
    while len(unpaired) > 1:
        one = unpaired.pop(0)
        other = next(
            (candidate for candidate in unpaired if frozenset((one, candidate)) not in met), None
        )
        if other is None:
            continue
        unpaired.remove(other)
        pairs.append((one, other) if draw.random() < 0.5 else (other, one))
    return pairs


def group_contests(count: int, size: int, rounds: int, seed: int) -> list[Contest]:
    """In each round every candidate is in one group of this size; the last group is filled up from the others."""
    draw = random.Random(seed)
    contests = []
    for _ in range(rounds):
        order = draw.sample(range(count), count)
        for start in range(0, count, size):
            group = order[start : start + size]
            contests.append((*group, *draw.sample(order[:start], size - len(group))))
    return contests


def both_orders(contests: Sequence[Contest]) -> list[Contest]:
    """Each contest, followed by the same in the reversed order."""
    return [order for contest in contests for order in (contest, contest[::-1])]


@dataclass
class Tournament:
    """Judges contests and counts their outcomes. ``both``: each pair is judged in both orders, as one comparison."""

    judge: CountingJudge
    read: OrderReader
    columns: CandidateColumns
    shared: NamedValues
    candidates: Sequence[Candidate]
    texts: Sequence[str]
    both: bool
    judgements: int = 0
    failures: Counter[int] = field(default_factory=Counter)
    contests: Counter[int] = field(default_factory=Counter)
    position_wins: Counter[int] = field(default_factory=Counter)

    async def rank_pairs(self, rounds: int | None, seed: int) -> Leaderboard:
        """Rank by pairs: a round robin, or so many Swiss rounds."""
        outcomes: dict[Contest, list[float]] = {}
        choices = []
        count = len(self.candidates)
        points = dict.fromkeys(range(count), 0.0)
        wins = np.zeros((count, count), dtype=bool)
        for number in range(rounds or 1):
            pairs = round_robin(count, seed)
            if rounds is not None:
                pairs = swiss_round(points, set(map(frozenset, outcomes)), seed + number)
            judged = await self._first_wins(pairs)
            outcomes |= judged
            for (one, other), won in judged.items():
                share = fmean(won)
                wins[one, other], wins[other, one] = share > 0.5, share < 0.5
                points[one] += share
                points[other] += 1 - share
                choices.append(Choice(one, (one, other), share))
                choices.append(Choice(other, (one, other), 1 - share))
        triples, intransitive = count_cycles(wins)
        in_both = [won for won in outcomes.values() if len(won) == 2]
        consistency = {
            "pairs": len(outcomes),
            "ties": sum(fmean(won) == 0.5 for won in outcomes.values()),
            "pairs_in_both_orders": len(in_both) if self.both else None,
            "flips": sum(len(set(won)) for won in in_both) - len(in_both) if self.both else None,
            "triples": triples,
            "intransitive": intransitive,
            "first_place_wins": self.position_wins[0],
            "decided": self.position_wins.total(),
        }
        return self._ranking("pairs", choices, points, consistency)

    async def _first_wins(self, pairs: Sequence[Contest]) -> dict[Contest, list[float]]:
        """The outcomes of each pair that has any: 1 if its first candidate won, 0 if its second did, one half for a tie."""
        contests = both_orders(pairs) if self.both else pairs
        outcomes: dict[Contest, list[float]] = {pair: [] for pair in pairs}
        for contest, order in zip(contests, await self._judge(contests), strict=True):
            pair = contest if contest in outcomes else contest[::-1]
            if order:
                outcomes[pair].append(float(contest[order[0]] == pair[0]))
            elif order is not None:
                outcomes[pair].append(0.5)
        return {pair: won for pair, won in outcomes.items() if won}

    async def rank_groups(self, rounds: int, seed: int) -> Leaderboard:
        """Rank by groups as large as the judge takes, each candidate in so many of them."""
        contests = group_contests(len(self.candidates), self.columns.count, rounds, seed)
        choices = []
        points = dict.fromkeys(range(len(self.candidates)), 0.0)
        for contest, order in zip(contests, await self._judge(contests), strict=True):
            # A ranking is a sequence of choices, each among the candidates not yet chosen (Plackett-Luce).
            remaining = list(contest)
            for position in (order or ())[: len(contest) - 1]:
                chosen = contest[position]
                choices.append(Choice(chosen, tuple(remaining)))
                remaining.remove(chosen)
            if order:
                points[contest[order[0]]] += 1
        wins = [self.position_wins[position] for position in range(self.columns.count)]
        return self._ranking(
            "groups", choices, points, {"groups": len(contests), "wins_by_place": wins}
        )

    async def _judge(self, contests: Sequence[Contest]) -> list[Order | None]:
        """The order that each contest ends in; None if it failed."""
        texts = [[self.texts[candidate] for candidate in contest] for contest in contests]
        results = await self.judge.judge([self.columns.row(self.shared, row) for row in texts])
        self.judgements += len(contests)
        orders = []
        for contest, its_texts, result in zip(contests, texts, results, strict=True):
            order = self.read(result, its_texts)
            self.contests.update(contest)
            if order is None:
                self.failures.update(contest)
            elif order:
                self.position_wins[order[0]] += 1
            orders.append(order)
        return orders

    def _ranking(
        self,
        kind: str,
        choices: Sequence[Choice],
        points: Mapping[int, float],
        consistency: JsonObject,
    ) -> Leaderboard:
        count = len(self.candidates)
        strengths = choice_strengths(count, choices)
        values = standing_values(strengths, count)
        metric = "bradley_terry" if kind == "pairs" else "plackett_luce"
        standings = [
            Standing(
                candidate.label,
                self.contests[index] // (2 if self.both else 1),
                {metric: values[index]},
                index=index,
                wins=points[index],
                failed=self.failures[index],
            )
            for index, candidate in enumerate(self.candidates)
        ]
        return candidate_board(
            kind,
            metric,
            standings,
            significantly_better(strengths, count),
            rows=self.judgements,
            # A failed contest counts for each of its candidates.
            missing=self.failures.total() // self.columns.count,
            consistency=consistency,
        )


SAMPLED_CANDIDATES = 20
"""Candidates from which the cost is estimated."""


class RankingWork(Struct, frozen=True):
    """How candidates are ranked, in words; the most rows that it takes, and a few of them; and the function that ranks."""

    text: str
    rows: int
    sample: Sequence[NamedValues]
    rank: Callable[[CountingJudge], Coroutine[Any, Any, Leaderboard]]


class RankingTask(Struct, frozen=True):
    """The arguments of `verdict rank`."""

    plan: Plan
    shared: NamedValues
    candidates: tuple[Candidate, ...]
    options: RankOptions
    seed: int

    def plan_work(self) -> RankingWork:
        """Return the ranking to run. UsageError if the pipeline or an option does not fit."""
        options = self.options
        column_names = (
            [name.strip() for name in options.columns.split(",")] if options.columns else []
        )
        are_rows = not any(isinstance(candidate.value, str) for candidate in self.candidates)
        whole = are_rows and not column_names and options.field is None
        if whole and choosing_unit(self.plan) is None:
            return self._score(None)
        where = find_candidate_columns(self.plan, self.shared, column_names)
        if where.count == 1:
            return self._score(where)
        if options.samples > 1 or options.reward is not None:
            raise UsageError(
                "--samples and --reward need a judge that scores", hint="this one compares"
            )
        return self._compare(where)

    def _sample(self, where: CandidateColumns | None) -> list[NamedValues]:
        """Rows of a few candidates, as the judge reads them."""
        if where is None:
            few = self.candidates[:SAMPLED_CANDIDATES]
            return [
                {**self.shared, **candidate.value}
                for candidate in few
                if not isinstance(candidate.value, str)
            ]
        texts = [
            candidate.text(self.options.field)
            for candidate in self.candidates[: SAMPLED_CANDIDATES + where.count - 1]
        ]
        starts = range(max(1, len(texts) - where.count + 1))
        return [where.row(self.shared, texts[start : start + where.count]) for start in starts]

    def _score(self, where: CandidateColumns | None) -> RankingWork:
        options = self.options
        if (options.tournament, options.rounds, options.choice) != ("auto", None, None):
            raise UsageError(
                "--tournament, --rounds and --choice need a judge that compares",
                hint="this one scores",
            )
        reward = reward_of(self.plan, options.reward)
        count, samples = len(self.candidates), options.samples
        times = "" if samples == 1 else f", {samples} judgements each"
        return RankingWork(
            f"{plural(count, 'candidate')} scored{times}",
            count * samples,
            self._sample(where),
            lambda judging: rank_by_score(
                judging, reward, where, self.shared, self.candidates, samples, options.field
            ),
        )

    def _compare(self, where: CandidateColumns) -> RankingWork:
        options = self.options
        count, size = len(self.candidates), where.count
        read = order_reader(self.plan, options.choice, size)
        texts = [candidate.text(options.field) for candidate in self.candidates]
        twice = size == 2 and not judges_both_orders(self.plan)

        def tournament(judging: CountingJudge) -> Tournament:
            return Tournament(judging, read, where, self.shared, self.candidates, texts, twice)

        if size > 2:
            if count < size:
                raise UsageError(
                    f"the judge chooses among {size}, but there are {plural(count, 'candidate')}",
                    hint=f"give at least {size}",
                )
            if options.tournament != "auto":
                raise UsageError(
                    "--tournament needs a judge of pairs",
                    hint="--rounds sets how many rounds of groups are judged",
                )
            times = options.rounds or GROUP_ROUNDS
            return RankingWork(
                f"{plural(count, 'candidate')} in groups of {size}, {times} rounds",
                times * -(-count // size),
                self._sample(where),
                lambda judging: tournament(judging).rank_groups(times, self.seed),
            )
        if options.tournament == "round-robin" and options.rounds is not None:
            raise UsageError(
                "--rounds needs a Swiss tournament", hint="remove --tournament or --rounds"
            )
        rounds = options.rounds
        if options.tournament == "swiss" or (options.tournament == "auto" and count > ROUND_ROBIN):
            rounds = rounds or swiss_rounds(count)
        pairs, form = math.comb(count, 2), "all pairs"
        if rounds is not None:
            pairs, form = rounds * (count // 2), f"a Swiss tournament of {rounds} rounds"
        return RankingWork(
            f"{plural(count, 'candidate')}, {form}, {plural(pairs, 'pair')} in both orders",
            pairs * (2 if twice else 1),
            self._sample(where),
            lambda judging: tournament(judging).rank_pairs(rounds, self.seed),
        )
