"""The statistics of pools and of the filters `mean`, `median`, `mode`, `variance`, `stdev`, and the filters of one number."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from verdict_cli.errors import RowError


def as_numbers(values: Iterable[Any], subject: str) -> list[float]:
    """The values as finite floats; booleans count 1 and 0. RowError for another value, or without values."""
    numbers = []
    for value in values:
        if not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
            raise RowError(f"{subject} needs numbers, found {value!r:.80}")
        numbers.append(float(value))
    if not numbers:
        raise RowError(f"{subject} of no values")
    return numbers


def mean(values: Iterable[Any]) -> float:
    """The arithmetic mean."""
    numbers = as_numbers(values, "mean")
    return _finite("mean", statistics.fmean, numbers)


def median(values: Iterable[Any]) -> float:
    """The middle value, the mean of the two middle ones for an even count."""
    numbers = as_numbers(values, "median")
    return _finite("median", statistics.median, numbers)


def log(value: Any) -> float:
    """The natural logarithm of a number above 0."""
    return _of_number("log", math.log, value)


def exp(value: Any) -> float:
    """The exponential of a number."""
    return _of_number("exp", math.exp, value)


def sqrt(value: Any) -> float:
    """The square root of a number from 0."""
    return _of_number("sqrt", math.sqrt, value)


def _of_number(name: str, function: Callable[[float], float], value: Any) -> float:
    (number,) = as_numbers([value], name)
    try:
        return function(number)
    except (ValueError, OverflowError):
        raise RowError(f"`{name}` has no value for {number:g}") from None


def mode(values: Iterable[Any]) -> Any:
    """The most frequent value; the first of several. Values of any kind."""
    choices = list(values)
    return weighted_mode(choices, [1.0] * len(choices))


def weighted_mode(values: Sequence[Any], weights: Sequence[float]) -> Any:
    """The value whose weights sum to most; the first of several. RowError when there is none."""
    return max(tally(values, weights), key=lambda vote: vote[1])[0]


def tally(values: Sequence[Any], weights: Sequence[float]) -> list[tuple[Any, float]]:
    """Each value with the sum of its weights, in order of occurrence. RowError for no values."""
    votes: list[tuple[Any, float]] = []
    for value, weight in zip(values, weights, strict=True):
        index = next((index for index, (other, _) in enumerate(votes) if other == value), None)
        if index is None:
            votes.append((value, weight))
        else:
            votes[index] = (value, votes[index][1] + weight)
    if not votes:
        raise RowError("mode of no values")
    return votes


def variance(values: Iterable[Any]) -> float:
    """The sample variance (n - 1); 0 for one value."""
    numbers = as_numbers(values, "variance")
    return _finite("variance", statistics.variance, numbers) if len(numbers) > 1 else 0.0


def stdev(values: Iterable[Any]) -> float:
    """The square root of the sample variance."""
    return math.sqrt(variance(values))


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """The mean with weights that need not sum to 1. RowError when they sum to 0."""
    total = _finite("sum of the weights", math.fsum, weights)
    if total == 0:
        raise RowError("the weights of the values that are left sum to 0")
    products = [value * weight for value, weight in zip(values, weights, strict=True)]
    return _finite("mean", lambda terms: math.fsum(terms) / total, products)


def _finite(
    statistic: str, compute: Callable[[Sequence[float]], float], numbers: Sequence[float]
) -> float:
    """What `compute` gives. RowError when it is too large for a float."""
    try:
        result = compute(numbers)
    except (OverflowError, ValueError):
        result = math.inf
    if not math.isfinite(result):
        raise RowError(f"the {statistic} of these values is too large")
    return result
