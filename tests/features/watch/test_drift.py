"""The confidence sequence of `verdict watch`: no false alarms under daily looks, drops found, and the boundary itself."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from verdict_cli.features.watch.drift import drift_intervals

FILE = Path(__file__).parents[3] / "benchmarks" / "drift.py"
spec = importlib.util.spec_from_file_location("drift", FILE)
simulation = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = simulation
spec.loader.exec_module(simulation)


@pytest.mark.parametrize(("anchors", "noise"), [(100, 0.05), (100, 0.3), (50, 0.1)])
def test_a_shift_of_one_noise_width_is_found_within_20_looks(anchors: int, noise: float) -> None:
    """100 anchors, noise and shift of 0.05 from look 10 on: found in 25 to 28% of histories."""
    rng, found = np.random.default_rng(4), 0
    for _ in range(20):
        scores = np.clip(rng.uniform(0.2, 0.8, anchors) + rng.normal(0, noise, (30, anchors)), 0, 1)
        scores[10:] = np.clip(scores[10:] + noise, 0, 1)
        found += any(each.drifted and each.look >= 10 for each in drift_intervals(scores))
    assert found >= 17


@pytest.mark.parametrize("turned", [0.001, 0.02])
def test_answers_that_rarely_turn_are_no_drift(turned: float) -> None:
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(40):
        scores = np.repeat((rng.random(100) < 0.7).astype(float)[None], 30, axis=0)
        scores = np.where(rng.random(scores.shape) < turned, 1 - scores, scores)
        alarms += any(each.drifted for each in drift_intervals(scores))
    assert alarms <= 3


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
