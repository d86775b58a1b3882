"""Rank by contests: pairings, seeded and bounded in number, and strengths by Bradley-Terry."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from verdict_cli.errors import RowError
from verdict_cli.messages import Result
from verdict_cli.stats.bradley_terry import Choice, count_cycles, fit_ratings
from verdict_cli.studies.rank.candidate_columns import CandidateColumns, Order
from verdict_cli.studies.rank.candidates import Candidate
from verdict_cli.studies.rank.standings import CandidateResult, Judging, Ranking, rank_candidates

ROUND_ROBIN = 12
"""Candidates up to which everybody meets everybody unless something else is asked for: 66 pairs."""
GROUP_ROUNDS = 3

Contest = tuple[int, ...]
"""The candidates that stand in one row, in this order."""


def swiss_rounds(count: int) -> int:
    """Rounds of a Swiss tournament: those that find one winner, and two more for the order below him."""
    return min(count - 1, math.ceil(math.log2(count)) + 2)


def round_robin(count: int, seed: int) -> list[Contest]:
    """Every pair once, who stands first drawn."""
    draw = random.Random(seed)
    return [pair if draw.random() < 0.5 else pair[::-1] for pair in combinations(range(count), 2)]


def swiss_round(points: Mapping[int, float], met: set[frozenset[int]], seed: int) -> list[Contest]:
    """One round: those with equal points meet, nobody meets the same twice; ties are broken by a seeded draw."""
    draw = random.Random(seed)
    left = sorted(points, key=lambda one: (-points[one], draw.random()))
    pairs: list[Contest] = []
    while len(left) > 1:
        one = left.pop(0)
        other = next((each for each in left if frozenset((one, each)) not in met), None)
        if other is None:
            continue
        left.remove(other)
        pairs.append((one, other) if draw.random() < 0.5 else (other, one))
    return pairs


def group_contests(count: int, size: int, rounds: int, seed: int) -> list[Contest]:
    """In each round everybody stands in one group of so many; the last group is filled up from the others."""
    draw = random.Random(seed)
    made: list[Contest] = []
    for _ in range(rounds):
        order = draw.sample(range(count), count)
        for start in range(0, count, size):
            group = order[start : start + size]
            rest = order[:start]
            made.append(tuple(group + draw.sample(rest, size - len(group)) if len(group) < size else group))
    return made


def both_ways(contests: Sequence[Contest]) -> list[Contest]:
    """Each contest, and after it the same the other way round."""
    return [order for contest in contests for order in (contest, contest[::-1])]


Read = Callable[[Result, Sequence[str]], Order]


@dataclass
class Tournament:
    """Contests as they are judged. ``twice``: each pair stands in both orders, which count as one comparison."""

    judging: Judging
    read: Read
    places: CandidateColumns
    shared: Mapping[str, Any]
    candidates: Sequence[Candidate]
    texts: Sequence[str]
    twice: bool
    judgements: int = 0
    failures: Counter[int] = field(default_factory=Counter)
    contests: Counter[int] = field(default_factory=Counter)
    first: Counter[int] = field(default_factory=Counter)

    async def pairs(self, rounds: int | None, seed: int) -> Ranking:
        """Everybody against everybody, or so many Swiss rounds."""
        outcomes: dict[Contest, float] = {}
        flips = whole = 0
        count = len(self.candidates)
        points = dict.fromkeys(range(count), 0.0)
        for number in range(rounds or 1):
            met = {frozenset(pair) for pair in outcomes}
            pairs = round_robin(count, seed) if rounds is None else swiss_round(points, met, seed + number)
            asked = both_ways(pairs) if self.twice else pairs
            orders = await self._judged(asked)
            step = 2 if self.twice else 1
            for at, pair in enumerate(pairs):
                values = [
                    _value(pair, contest, order)
                    for contest, order in zip(
                        asked[at * step : at * step + step], orders[at * step : at * step + step], strict=True
                    )
                    if order is not None
                ]
                if not values:
                    continue
                if len(values) == 2:
                    whole += 1
                    flips += values[0] != values[1]
                share = sum(values) / len(values)
                outcomes[pair] = share
                points[pair[0]] += share
                points[pair[1]] += 1 - share
        choices = [
            Choice(one, pair, weight)
            for pair, share in outcomes.items()
            for one, weight in ((pair[0], share), (pair[1], 1 - share))
        ]
        wins = np.zeros((count, count), dtype=bool)
        for (one, other), share in outcomes.items():
            wins[one, other], wins[other, one] = share > 0.5, share < 0.5
        triples, circles = count_cycles(wins)
        consistency = {
            "pairs": len(outcomes),
            "ties": sum(share == 0.5 for share in outcomes.values()),
            "pairs_in_both_orders": whole if self.twice else None,
            "flips": flips if self.twice else None,
            "triples": triples,
            "intransitive": circles,
            "first_place_wins": self.first[0],
            "decided": self.first.total(),
        }
        return self._ranking("pairs", choices, points, consistency)

    async def groups(self, rounds: int, seed: int) -> Ranking:
        """Groups as large as the judge takes, everybody in so many of them."""
        contests = group_contests(len(self.candidates), self.places.count, rounds, seed)
        orders = await self._judged(contests)
        choices: list[Choice] = []
        points = dict.fromkeys(range(len(self.candidates)), 0.0)
        for contest, order in zip(contests, orders, strict=True):
            left = list(contest)
            for place in (order or ())[: len(contest) - 1]:
                chosen = contest[place]
                choices.append(Choice(chosen, tuple(left)))
                left.remove(chosen)
            if order:
                points[contest[order[0]]] += 1
        by_place = [self.first[place] for place in range(self.places.count)]
        return self._ranking("groups", choices, points, {"groups": len(contests), "wins_by_place": by_place})

    async def _judged(self, contests: Sequence[Contest]) -> list[Order | None]:
        """Who won each contest; None where that failed."""
        texts = [[self.texts[one] for one in contest] for contest in contests]
        results = await self.judging.all([self.places.row(self.shared, each) for each in texts])
        self.judgements += len(contests)
        orders: list[Order | None] = []
        for contest, each, result in zip(contests, texts, results, strict=True):
            order: Order | None = None
            if result.failure is None:
                try:
                    order = self.read(result, each)
                except RowError:
                    order = None
            self.contests.update(contest)
            if order is None:
                self.failures.update(contest)
            elif order:
                self.first[order[0]] += 1
            orders.append(order)
        return orders

    def _ranking(
        self, kind: str, choices: Sequence[Choice], points: Mapping[int, float], consistency: dict[str, Any]
    ) -> Ranking:
        count = len(self.candidates)
        known = {one for choice in choices for one in choice.among}
        fitted = fit_ratings(count, choices)
        found = []
        for one in range(count):
            value, low, high = None, None, None
            if one in known:
                value, (low, high) = float(fitted.strengths[one]), fitted.interval(one)
            met = self.contests[one] // (2 if self.twice else 1)
            found.append(CandidateResult(value, low, high, points[one], met, self.failures[one]))
        size = self.places.count
        failed = self.failures.total() // size
        return Ranking(
            kind, rank_candidates(self.candidates, found, fitted.differ), self.judgements, failed, consistency
        )


def _value(pair: Contest, contest: Contest, order: Order) -> float:
    """1 where the pair's first won, 0 where its second did, one half for a tie."""
    if not order:
        return 0.5
    return 1.0 if contest[order[0]] == pair[0] else 0.0
