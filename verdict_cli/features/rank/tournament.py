"""Rank by contests: seeded pairings of a bounded number, and strengths by the Bradley-Terry model."""

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
from verdict_cli.features.rank.bradley_terry import Choice, count_cycles, fit_ratings
from verdict_cli.features.rank.candidates import Candidate, CandidateColumns, Order
from verdict_cli.features.rank.standings import CandidateResult, CountingJudge, Ranking, rank_candidates
from verdict_cli.messages import Result

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
    unpaired = sorted(points, key=lambda each: (-points[each], draw.random()))
    pairs: list[Contest] = []
    while len(unpaired) > 1:
        one = unpaired.pop(0)
        other = next((each for each in unpaired if frozenset((one, each)) not in met), None)
        if other is None:
            continue
        unpaired.remove(other)
        pairs.append((one, other) if draw.random() < 0.5 else (other, one))
    return pairs


def group_contests(count: int, size: int, rounds: int, seed: int) -> list[Contest]:
    """In each round every candidate is in one group of this size; the last group is filled up from the others."""
    draw = random.Random(seed)
    contests: list[Contest] = []
    for _ in range(rounds):
        order = draw.sample(range(count), count)
        for start in range(0, count, size):
            group = order[start : start + size]
            rest = order[:start]
            contests.append(tuple(group + draw.sample(rest, size - len(group)) if len(group) < size else group))
    return contests


def both_orders(contests: Sequence[Contest]) -> list[Contest]:
    """Each contest, followed by the same in the reversed order."""
    return [order for contest in contests for order in (contest, contest[::-1])]


OrderReader = Callable[[Result, Sequence[str]], Order]


@dataclass
class Tournament:
    """Judges contests and counts their outcomes. ``both``: each pair is judged in both orders, as one comparison."""

    judge: CountingJudge
    read: OrderReader
    columns: CandidateColumns
    shared: Mapping[str, Any]
    candidates: Sequence[Candidate]
    texts: Sequence[str]
    both: bool
    judgements: int = 0
    failures: Counter[int] = field(default_factory=Counter)
    contests: Counter[int] = field(default_factory=Counter)
    position_wins: Counter[int] = field(default_factory=Counter)

    async def rank_pairs(self, rounds: int | None, seed: int) -> Ranking:
        """Rank by pairs: a round robin, or so many Swiss rounds."""
        shares: dict[Contest, float] = {}
        flips = complete = 0
        count = len(self.candidates)
        points = dict.fromkeys(range(count), 0.0)
        orders_each = 2 if self.both else 1
        for number in range(rounds or 1):
            met = {frozenset(pair) for pair in shares}
            pairs = round_robin(count, seed) if rounds is None else swiss_round(points, met, seed + number)
            contests = both_orders(pairs) if self.both else pairs
            outcomes = list(zip(contests, await self._judge(contests), strict=True))
            for index, pair in enumerate(pairs):
                of_pair = outcomes[index * orders_each : (index + 1) * orders_each]
                values = [_first_wins(pair, contest, order) for contest, order in of_pair if order is not None]
                if not values:
                    continue
                if len(values) == 2:
                    complete += 1
                    flips += values[0] != values[1]
                share = sum(values) / len(values)
                shares[pair] = share
                points[pair[0]] += share
                points[pair[1]] += 1 - share
        choices = [
            Choice(winner, pair, weight)
            for pair, share in shares.items()
            for winner, weight in ((pair[0], share), (pair[1], 1 - share))
        ]
        wins = np.zeros((count, count), dtype=bool)
        for (one, other), share in shares.items():
            wins[one, other], wins[other, one] = share > 0.5, share < 0.5
        triples, intransitive = count_cycles(wins)
        consistency = {
            "pairs": len(shares),
            "ties": sum(share == 0.5 for share in shares.values()),
            "pairs_in_both_orders": complete if self.both else None,
            "flips": flips if self.both else None,
            "triples": triples,
            "intransitive": intransitive,
            "first_place_wins": self.position_wins[0],
            "decided": self.position_wins.total(),
        }
        return self._ranking("pairs", choices, points, consistency)

    async def rank_groups(self, rounds: int, seed: int) -> Ranking:
        """Rank by groups as large as the judge takes, each candidate in so many of them."""
        contests = group_contests(len(self.candidates), self.columns.count, rounds, seed)
        choices: list[Choice] = []
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
        return self._ranking("groups", choices, points, {"groups": len(contests), "wins_by_place": wins})

    async def _judge(self, contests: Sequence[Contest]) -> list[Order | None]:
        """The order that each contest ends in; None if it failed."""
        texts = [[self.texts[candidate] for candidate in contest] for contest in contests]
        results = await self.judge.judge([self.columns.row(self.shared, each) for each in texts])
        self.judgements += len(contests)
        orders: list[Order | None] = []
        for contest, its_texts, result in zip(contests, texts, results, strict=True):
            order: Order | None = None
            if result.failure is None:
                try:
                    order = self.read(result, its_texts)
                except RowError:
                    order = None
            self.contests.update(contest)
            if order is None:
                self.failures.update(contest)
            elif order:
                self.position_wins[order[0]] += 1
            orders.append(order)
        return orders

    def _ranking(
        self, kind: str, choices: Sequence[Choice], points: Mapping[int, float], consistency: dict[str, Any]
    ) -> Ranking:
        count = len(self.candidates)
        compared = {candidate for choice in choices for candidate in choice.among}
        fitted = fit_ratings(count, choices)
        results = []
        for candidate in range(count):
            value, low, high = None, None, None
            if candidate in compared:
                value, (low, high) = float(fitted.strengths[candidate]), fitted.interval(candidate)
            contests = self.contests[candidate] // (2 if self.both else 1)
            results.append(CandidateResult(value, low, high, points[candidate], contests, self.failures[candidate]))
        # A failed contest counts for each of its candidates.
        failed = self.failures.total() // self.columns.count
        standings = rank_candidates(self.candidates, results, fitted.differ)
        return Ranking(kind, standings, self.judgements, failed, consistency)


def _first_wins(pair: Contest, contest: Contest, order: Order) -> float:
    """1 if the pair's first candidate won, 0 if its second did, one half for a tie."""
    if not order:
        return 0.5
    return 1.0 if contest[order[0]] == pair[0] else 0.0
