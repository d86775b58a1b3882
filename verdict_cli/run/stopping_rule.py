"""When a layer may stop early: the probability that its full vote, or mean, would have the same result.

A vote (Aggarwal et al., 2023, "Let's Sample Step by Step: Adaptive-Consistency", with the question put to the full
vote): the units' values are exchangeable, the shares of the values are drawn from a uniform Dirichlet distribution.
The votes of the units not called are then Dirichlet-multinomial, and the probability a fraction of whole numbers.
A mean: the t distribution of the mean of a finite population given a sample of it; the variance is shrunk to the
largest that the scale allows, which counts as one observation, so that equal first values do not count as certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from verdict_cli.messages import NamedValues
from verdict_cli.plan.early_stopping import EarlyStop, Mean
from verdict_cli.run.attempts import draw


def is_decided(early: EarlyStop, values: Sequence[NamedValues], left: int) -> bool:
    """Whether the result of the pool is the same with ``left`` more values, at the layer's confidence.

    ``values`` are those that are pooled, by field, in order of definition. Fewer than the pool's quorum decide nothing.
    """
    if not left:
        return True
    if len(values) < max(early.quorum, 1):
        return False
    if isinstance(early.rule, Mean):
        return _mean(
            early.rule, [float(value[early.rule.field]) for value in values], left, early.confidence
        )
    open_share = 0.0
    for field, count in early.rule.fields:
        open_share += 1 - vote(tuple(_counts([value[field] for value in values])), count, left)
    return 1 - open_share >= early.confidence


@lru_cache(maxsize=1024)
def first_batch(early: EarlyStop) -> int:
    """How many units are called before the first check: no fewer can decide the layer, even if all agree."""
    total = len(early.items)
    rule = early.rule
    if isinstance(rule, Mean):
        same = [{rule.field: end} for end in (rule.low, rule.high)]
    else:
        same = [{field: True for field, _ in rule.fields}]
    for asked in range(min(early.first, total), total):
        if any(is_decided(early, [values] * asked, total - asked) for values in same):
            return asked
    return total


@lru_cache(maxsize=1 << 16)
def vote(counts: tuple[int, ...], values: int | None, left: int) -> float:
    """The probability that the value that leads now wins the vote with ``left`` more.

    ``counts`` are the votes of the values seen, in order of first appearance, to which ties go. Of ``values`` that
    there are, those not seen yet count as well; where that is not known, they count as one.
    """
    unseen = 1 if values is None else max(values - len(counts), 0)
    first = max(range(len(counts)), key=counts.__getitem__)
    won = 0
    for more in range(left + 1):
        top = counts[first] + more
        ways = [1] + [0] * (left - more)
        for index, count in enumerate((*counts, *([0] * unseen))):
            if index == first:
                continue
            room = top - count - (index < first)
            ways = _spread(ways, [math.comb(count + extra, extra) for extra in range(room + 1)])
        won += math.comb(counts[first] + more, more) * ways[left - more]
    kinds = len(counts) + unseen
    return won / math.comb(sum(counts) + kinds + left - 1, left)


def _spread(ways: list[int], value_ways: list[int]) -> list[int]:
    """In how many ways this many votes can fall when one more value takes its part; ``value_ways`` are
    those for each number of its votes, [] where it must have none."""
    return [
        sum(
            value_ways[taken] * ways[total - taken]
            for taken in range(min(total, len(value_ways) - 1) + 1)
        )
        for total in range(len(ways))
    ]


def _counts(values: Sequence[Any]) -> list[int]:
    distinct: list[Any] = []
    counts: list[int] = []
    for value in values:
        if value in distinct:
            counts[distinct.index(value)] += 1
        else:
            distinct.append(value)
            counts.append(1)
    return counts


def _mean(rule: Mean, values: Sequence[float], left: int, confidence: float) -> bool:
    # Here, because it imports numpy, which the start of a run does without.
    from verdict_cli.distributions import student_cdf, student_quantile

    count = len(values)
    whole, total = count + left, math.fsum(values)
    low, high = (total + left * rule.low) / whole, (total + left * rule.high) / whole
    mean = total / count
    squares = (rule.high - rule.low) ** 2 / 4 + math.fsum((value - mean) ** 2 for value in values)
    error = math.sqrt(squares / count / count * left / whole)
    if rule.threshold is not None:
        if low >= rule.threshold or high < rule.threshold:
            return True
        return student_cdf(count, abs(mean - rule.threshold) / error) >= confidence
    assert rule.within is not None
    if max(high - mean, mean - low) <= rule.within:
        return True
    return confidence < 1 and student_quantile(count, (1 + confidence) / 2) * error <= rule.within


def is_audited(early: EarlyStop, seed: int, row: str | int) -> bool:
    """Whether all units are called at the row with this id, to see what stopping early would have missed."""
    return draw(seed, row, f"audit {early.pool}") < early.audit_share * 2**64


class EarlyStopState:
    """A layer that stops early at one row: how many items were started, and how many of these are not done.

    At an ``audited`` row it does not stop.
    """

    def __init__(self, early: EarlyStop, *, audited: bool = False) -> None:
        self.early = early
        self.audited = audited
        self.started = first_batch(early)
        self.open = self.started

    def waiting(self) -> list[int]:
        """The nodes of the items that wait for the answers of others."""
        return [index for item in self.early.items[self.started :] for index in item]

    def next_batch(self) -> list[int]:
        """The nodes of the items that are started next."""
        items = self.early.items[
            self.started : None if self.audited else self.started + self.early.batch
        ]
        self.started += len(items)
        self.open = len(items)
        return [index for item in items for index in item]
