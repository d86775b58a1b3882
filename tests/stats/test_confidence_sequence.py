"""The confidence sequence of `verdict watch`: no false alarms under daily looks, drops found, and the boundary itself."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from verdict_cli.stats.confidence_sequence import drift_intervals, stitched_boundary

FILE = Path(__file__).parents[2] / "benchmarks" / "drift.py"
spec = importlib.util.spec_from_file_location("drift", FILE)
simulation = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = simulation
spec.loader.exec_module(simulation)


def test_the_boundary_is_that_of_the_paper() -> None:
    """Howard et al. (2021), equation 2: for eta = 2, s = 1.4 and no range it is 1.7 sqrt(v (log log 2v + 0.72 log(5.2 / a)))."""
    variance, alpha = np.array([1e6, 1e8, 1e10]), 0.025
    rounded = 1.7 * np.sqrt(variance * (np.log(np.log(2 * variance)) + 0.72 * math.log(5.2 / alpha)))
    assert stitched_boundary(variance, np.full(3, alpha)) == pytest.approx(rounded, rel=0.02)


def test_a_random_walk_stays_below_the_boundary() -> None:
    """Steps of plus and minus one half, watched at each of 3,000 steps: a crossing is allowed in 5% of the walks."""
    rng = np.random.default_rng(0)
    steps = rng.choice([-0.5, 0.5], (400, 3000))
    limit = stitched_boundary(np.arange(1, 3001) * 0.25, np.full(3000, 0.05))
    assert (np.cumsum(steps, axis=1) > limit).any(axis=1).mean() <= 0.05


@pytest.mark.parametrize("judge", simulation.JUDGES)
def test_a_judge_that_never_changes_is_never_said_to_drift_and_a_drop_is_found(judge: str) -> None:
    alarms, found = 0, 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        alarms += any(each.drifted for each in drift_intervals(simulation.looks(rng, judge, 200, 0.0, days=120), 5))
        drop = drift_intervals(simulation.looks(rng, judge, 200, 0.05, days=200), 5)
        first = next((each for each in drop if each.drifted), None)
        found += first is not None and first.look >= simulation.DAY and first.high < 0
    assert (alarms, found) == (0, 6)


def test_the_noise_of_the_first_run_is_no_drift() -> None:
    """The reference alone was lucky: every later look is lower by its luck, however many looks there are."""
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(40):
        scores = (rng.random((200, 60)) < 0.5).astype(float)
        alarms += any(each.drifted for each in drift_intervals(scores))
    assert alarms <= 2


def test_missing_scores_are_left_out_and_few_looks_give_nothing() -> None:
    scores = np.ones((6, 300))
    scores[:, 10:20] = np.nan
    scores[3:, 50:200] = 0.0
    scores[4, 200:] = np.nan
    found = drift_intervals(scores)
    assert [each.drifted for each in found] == [False, False, True, True, True]
    assert found[2].change == pytest.approx(-150 / 290)
    assert found[2].low <= -150 / 290 <= found[2].high
    assert drift_intervals(scores[:1]) == []
    assert drift_intervals(scores[:2], reference=2) == []
    empty = drift_intervals(np.full((3, 4), np.nan))
    assert [(each.low, each.high) for each in empty] == [(-1.0, 1.0)] * 2
