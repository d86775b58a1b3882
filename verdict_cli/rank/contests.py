"""Who meets whom: everybody everybody, Swiss rounds, or groups. Seeded; the number of contests is known beforehand."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from itertools import combinations

ROUND_ROBIN = 12
"""Candidates up to which everybody meets everybody unless something else is asked for: 66 pairs."""
GROUP_ROUNDS = 3

Contest = tuple[int, ...]
"""The candidates that stand in one row, in this order."""


def swiss_rounds(count: int) -> int:
    """Rounds of a Swiss tournament: those that find one winner, and two more for the order below him."""
    return min(count - 1, math.ceil(math.log2(count)) + 2)


def everybody(count: int, seed: int) -> list[Contest]:
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


def groups(count: int, size: int, rounds: int, seed: int) -> list[Contest]:
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
