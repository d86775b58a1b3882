"""The interval of a pilot's estimate, by simulation."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from verdict_cli.run.pilot_estimate import margins

SIMULATIONS = 600


def covered(draw: Callable[[Random], float], rows: int, count: int) -> float:
    """How often the 95% interval from ``rows`` of ``count`` costs contains their total."""
    held = 0
    for seed in range(SIMULATIONS):
        random = Random(seed)
        costs = [draw(random) for _ in range(count)]
        estimate, around = count * sum(costs[:rows]) / rows, margins(costs[:rows], count, 0.95)
        assert around is not None
        held += estimate - around[0] <= sum(costs) <= estimate + around[1]
    return held / SIMULATIONS


@pytest.mark.parametrize("sigma", [0.4, 0.8, 1.0, 1.2])
def test_the_interval_of_heavy_tailed_costs_holds_in_93_percent(sigma: float) -> None:
    assert covered(lambda random: random.lognormvariate(0, sigma), 20, 300) >= 0.93 - 0.01  # its standard error is 0.01


def test_that_of_other_costs_holds_too() -> None:
    assert covered(lambda random: random.gauss(5, 1), 20, 300) >= 0.93
    assert covered(lambda random: random.expovariate(1), 20, 300) >= 0.93


def test_symmetric_costs_have_a_symmetric_interval_and_equal_ones_none() -> None:
    below, above = margins([1.0, 2.0, 3.0], 10, 0.95) or (0.0, 0.0)
    assert below == pytest.approx(above)
    assert margins([2.0] * 5, 10, 0.95) == margins([1.0, 2.0], 2, 0.95) == (0.0, 0.0)
    assert margins([1.0], 10, 0.95) is None


def test_costs_below_zero_widen_the_upper_end_as_well() -> None:
    below, above = margins([-0.1, 0.0, 0.1, 0.2, 5.0], 100, 0.95) or (0.0, 0.0)
    assert above > 1.2 * below
