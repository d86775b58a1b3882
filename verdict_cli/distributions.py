"""Distributions of one number: the normal, Student's, the beta and the binomial.

scipy has them, too, but takes longer to import than a small report takes. Oracle: scipy.

- The incomplete beta function is its continued fraction (Lentz) times a density. The density of large parameters is Loader's
  (2000), which loses no digits to differences of log-gamma functions.
- A quantile is found by Newton's method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from statistics import NormalDist

NORMAL = NormalDist()
_NEARLY_NORMAL = 2000.0
"""Degrees of freedom from which Hill's normal score has all digits."""
_HALVINGS = 60
_MOST_STEPS = 100
"""Rounding may keep a quantile from ever standing still."""


def normal_cdf(value: float) -> float:
    """The share of a standard normal distribution below a value."""
    return math.erfc(-value / math.sqrt(2)) / 2


def student_cdf(freedom: float, value: float) -> float:
    """The share of Student's distribution below a value; the degrees of freedom need not be whole."""
    tail = _student_tail(freedom, _Beta(freedom / 2, 0.5), abs(value))
    return tail if value < 0 else 1 - tail


def student_quantile(freedom: float, share: float) -> float:
    """The value below which such a share of Student's distribution lies."""
    if share < 0.5:
        return -student_quantile(freedom, 1 - share)
    value = NORMAL.inv_cdf(share)
    if math.isinf(freedom) or share == 0.5:
        return value
    # The tail is convex, and the start lies before the root: each step falls short of it.
    tail, beta = 1 - share, _Beta(freedom / 2, 0.5)
    while True:
        squares = freedom + value * value
        density = beta.power(freedom / squares, value * value / squares) / value
        above = value + (_student_tail(freedom, beta, value) - tail) / density
        if above <= value * (1 + 1e-15):
            return value
        value = above


def _student_tail(freedom: float, beta: _Beta, value: float) -> float:
    if freedom >= _NEARLY_NORMAL:
        return normal_cdf(-_normal_score(freedom, value))
    squares = freedom + value * value
    return beta.share(freedom / squares, value * value / squares) / 2


def _normal_score(freedom: float, value: float) -> float:
    """The normal score with the same tail (Hill, 1970)."""
    if math.isinf(freedom):
        return value
    a = freedom - 0.5
    b = 48 * a * a
    y = a * math.log1p(value * value / freedom)
    correction = (((-0.4 * y - 3.3) * y - 24) * y - 85.5) / (0.8 * y * y + 100 + b)
    return math.sqrt(y) * ((correction + y + 3) / b + 1)


def last_passing(condition: Callable[[float], bool], most: float) -> float:
    """The value from 0 to the largest one up to which a condition holds; 0 where it holds nowhere."""
    low, high = 0.0, most
    if not condition(low):
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if condition(middle) else (low, middle)
    return low


def beta_cdf(a: float, b: float, value: float) -> float:
    """The share of a beta distribution below a value: the regularised incomplete beta function."""
    return _Beta(a, b).share(value, 1 - value)


def beta_quantile(a: float, b: float, share: float) -> float:
    """The value below which such a share of a beta distribution lies."""
    beta = _Beta(a, b)
    low, high, value = 0.0, 1.0, a / (a + b)
    for _ in range(_MOST_STEPS):
        if value in (0.0, 1.0):
            break  # no number lies between the quantile and this end
        excess = beta.share(value, 1 - value) - share
        low, high = (low, value) if excess > 0 else (value, high)
        slope = beta.power(value, 1 - value) / (value * (1 - value))
        following = value - excess / slope if slope > 1e-300 else low
        if abs(following - value) <= 1e-15 * value:
            break
        value = following if low < following < high else (low + high) / 2
    return value


def binomial_cdf(successes: float, trials: float, share: float) -> float:
    """The probability of at most so many successes."""
    if successes >= trials:
        return 1.0
    return _Beta(trials - successes, successes + 1).share(1 - share, share)


class _Beta:
    """A beta distribution at x, where ``y`` is 1 - x without loss of digits."""

    def __init__(self, a: float, b: float) -> None:
        self._a, self._b, self._n = a, b, a + b
        self._errors = _stirling_error(self._n) - _stirling_error(a) - _stirling_error(b)
        self._factor = math.sqrt(a * b / self._n / math.tau)

    def share(self, x: float, y: float) -> float:
        """The regularised incomplete beta function."""
        if x <= 0 or y <= 0:
            return float(x > 0)
        if x > (self._a + 1) / (self._n + 2):
            return 1 - self._mirrored.share(y, x)
        return self.power(x, y) / self._a * _beta_fraction(self._a, self._b, x)

    @cached_property
    def _mirrored(self) -> _Beta:
        return _Beta(self._b, self._a)

    def power(self, x: float, y: float) -> float:
        """x ** a * y ** b over the beta function, by Loader's way to compute a binomial probability."""
        deviance = _deviance(self._a, self._n * x) + _deviance(self._b, self._n * y)
        return math.exp(self._errors - deviance) * self._factor


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    # It has so many digits after as many steps as the root of the larger parameter.
    for m in range(1, 40 + int(4 * math.sqrt(max(a, b)))):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / (1 + even * d)
        c = 1 + even / c
        fraction *= c * d
        d = 1 / (1 + odd * d)
        c = 1 + odd / c
        fraction *= c * d
        if c * d == 1:
            break
    return fraction


def _stirling_error(n: float) -> float:
    """The logarithm of n! over Stirling's formula of it."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - math.log(math.tau) / 2
    square = n * n
    series = (1 / 1260 - (1 / 1680 - (1 / 1188 - 691 / 360360 / square) / square) / square) / square
    return (1 / 12 - (1 / 360 - series) / square) / n


def _deviance(count: float, mean: float) -> float:
    """count * log(count / mean) + mean - count, also where the two are close."""
    difference = count - mean
    if abs(difference) > 0.1 * (count + mean):
        return count * math.log(count / mean) - difference
    v = difference / (count + mean)
    total, power, index = difference * v, 2 * count * v, 1
    while True:
        power *= v * v
        index += 2
        following = total + power / index
        if following == total:
            return total
        total = following
