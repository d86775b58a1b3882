"""Rank by contests: seeded pairings of a bounded number, and strengths from them: Bradley-Terry for pairs (Bradley and Terry, 1952),
Plackett-Luce for larger groups (Luce, 1959; Plackett, 1975).

A contest is a choice of one among some; a ranking is a choice of the first, then of the second among the rest, and so on. A tie
of two counts as half a choice of each.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from verdict_cli.errors import RowError
from verdict_cli.features.rank.candidates import Candidate, CandidateColumns, Order
from verdict_cli.features.rank.standings import CandidateResult, CountingJudge, Ranking, rank_candidates
from verdict_cli.features.rank.strengths import largest_errors
from verdict_cli.messages import Result

SPREAD = 2.0
"""The standard deviation, in log-odds, of the normal prior on each strength: it keeps finite who won every contest."""
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Choice:
    """``chosen`` was preferred to the others ``among``, which holds it too."""

    chosen: int
    among: tuple[int, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class Ratings:
    """Strengths in log-odds against the average of the field (their mean is 0), and their covariance (Laplace's approximation)."""

    strengths: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def interval(self, candidate: int) -> tuple[float, float]:
        """The interval of a strength, at 95% for all candidates together."""
        half = self._quantiles[0] * math.sqrt(self.covariance[candidate, candidate])
        return float(self.strengths[candidate] - half), float(self.strengths[candidate] + half)

    def differ(self, first: int, second: int) -> bool:
        """Whether the interval of the difference, at 95% for all pairs together, leaves 0 out."""
        cov = self.covariance
        variance = cov[first, first] + cov[second, second] - 2 * cov[first, second]
        distance = abs(self.strengths[first] - self.strengths[second])
        return bool(distance > self._quantiles[1] * math.sqrt(max(0.0, variance)))

    @cached_property
    def _quantiles(self) -> tuple[float, float]:
        """The 95% points of the largest standardised error of a strength, and of a difference (max-T, seeded draws)."""
        return largest_errors(self.covariance, _LEVEL)


def fit_ratings(count: int, choices: Sequence[Choice], spread: float = SPREAD) -> Ratings:
    """The most probable strengths of `count` candidates. An infinite ``spread`` gives maximum likelihood, if it exists."""
    groups = _by_size(choices)
    shrink = 0.0 if math.isinf(spread) else 1 / spread**2
    ridge = shrink or 1e-9  # without a prior only differences are identified, and the Hessian is singular

    def negative_log_posterior(strengths: NDArray[np.float64]) -> float:
        total = shrink * float(strengths @ strengths) / 2
        for among, chosen, weights in groups:
            competing = strengths[among]
            total += float(weights @ (logsumexp(competing, axis=1) - strengths[chosen]))
        return total

    def gradient(strengths: NDArray[np.float64]) -> NDArray[np.float64]:
        slope = shrink * strengths
        for among, chosen, weights in groups:
            np.add.at(slope, among, softmax(strengths[among], axis=1) * weights[:, None])
            np.add.at(slope, chosen, -weights)
        return slope

    def hessian(strengths: NDArray[np.float64]) -> NDArray[np.float64]:
        curvature = np.eye(count) * ridge
        for among, _, weights in groups:
            p = softmax(strengths[among], axis=1)
            own = np.einsum("cs,st->cst", p, np.eye(among.shape[1])) - p[:, :, None] * p[:, None, :]
            np.add.at(curvature, (among[:, :, None], among[:, None, :]), own * weights[:, None, None])
        return curvature

    fitted = minimize(
        negative_log_posterior,
        np.zeros(count),
        jac=gradient,
        hess=hessian,
        method="trust-exact",
        options={"gtol": 1e-8},
    )
    centre = np.eye(count) - 1 / count
    covariance = centre @ np.linalg.inv(hessian(fitted.x)) @ centre
    return Ratings(fitted.x - fitted.x.mean(), covariance)


def count_cycles(wins: NDArray[np.bool_]) -> tuple[int, int]:
    """The number of triples with three decided pairs, and of those that are cycles; ``wins[i, j]``: i beat j."""
    beat = wins.astype(np.int64)
    met = beat + beat.T
    return int(np.trace(met @ met @ met)) // 6, int(np.trace(beat @ beat @ beat)) // 3


def _by_size(choices: Sequence[Choice]) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
    """The choices as arrays, grouped by the number of candidates."""
    sizes: dict[int, list[Choice]] = defaultdict(list)
    for choice in choices:
        if choice.weight:
            sizes[len(choice.among)].append(choice)
    return [
        (
            np.array([choice.among for choice in same]),
            np.array([choice.chosen for choice in same]),
            np.array([choice.weight for choice in same]),
        )
        for same in sizes.values()
    ]


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
        other = next((candidate for candidate in unpaired if frozenset((one, candidate)) not in met), None)
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
        results = await self.judge.judge([self.columns.row(self.shared, row_texts) for row_texts in texts])
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
