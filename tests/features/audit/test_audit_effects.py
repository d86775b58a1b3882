"""Effects of a change on verdicts: each value by hand."""

from __future__ import annotations

import numpy as np
import pytest

from verdict_cli.features.audit.effects import (
    Control,
    Effect,
    attack_success,
    exact_rate,
    mean_share,
    measure_effect,
    measure_noise,
    self_preference,
)

ATTACK = Effect("attack", "attack", 0)


def test_a_rate_has_its_exact_interval_and_none_without_rows() -> None:
    rate = exact_rate(2, 8)
    assert (rate.value, rate.n) == (0.25, 8)
    assert (rate.low, rate.high) == (
        pytest.approx(0.0319, abs=1e-4),
        pytest.approx(0.6509, abs=1e-4),
    )
    assert exact_rate(0, 0).value is None


def test_the_mean_of_zeros_and_ones_is_a_rate_and_leaves_out_nan() -> None:
    share = mean_share(np.array([1.0, 0.0, np.nan, 1.0]), 0)
    assert (share.value, share.n) == (pytest.approx(2 / 3), 3)
    assert share == exact_rate(2, 3)


def test_noise_is_the_share_of_pairs_of_repeats_that_differ() -> None:
    noise = measure_noise([[1, 2, None, 4], [1, 3, 5, 4], [1, 3, 5, None]], 0)
    assert noise is not None and noise.repeats == 3
    assert noise.rows.tolist() == [0, pytest.approx(2 / 3), 0, 0]
    assert noise.disagreement.value == pytest.approx(1 / 6)
    variances = [0, 1 / 3, 0, 0]
    assert noise.variance is not None and noise.variance.value == pytest.approx(np.mean(variances))
    everything = [1, 1, 1, 2, 3, 3, 5, 5, 4, 4]
    assert noise.share == pytest.approx(np.mean(variances) / np.var(everything, ddof=1))


def test_noise_of_labels_has_no_variance_and_of_single_verdicts_does_not_exist() -> None:
    labels = measure_noise([["a", "b"], ["a", "c"]], 0)
    assert labels is not None and labels.variance is None and labels.disagreement.value == 0.5
    yes_no = measure_noise([[True, False], [True, True]], 0)
    assert yes_no is not None and yes_no.variance is None
    assert measure_noise([["a", None], [None, "b"]], 0) is None


def test_an_effect_on_numbers_is_counted_over_rows_with_both_verdicts() -> None:
    effect = measure_effect(
        "length", "length", Control([1, 2, 3, None, 5]), [2, 2, 5, 4, None], 5, None
    )
    assert (effect.n, effect.changed.value, effect.shift.value, effect.shift_of) == (
        3,
        pytest.approx(2 / 3),
        1,
        "verdict",
    )
    assert effect.beyond_noise is None


def test_an_effect_on_labels_is_the_change_of_the_share_of_the_goal() -> None:
    effect = measure_effect(
        "length", "length", Control(["A", "B", "B", "B"]), ["A", "A", "B", "tie"], "A", None
    )
    assert (effect.changed.value, effect.shift.value, effect.shift_of) == (0.5, 0.25, "share of A")
    without = measure_effect("length", "length", Control(["x"]), ["y"], None, None)
    assert (without.shift, without.shift_of) == (None, "")


def test_booleans_are_labels_not_numbers() -> None:
    effect = measure_effect("style", "style", Control([False, False]), [True, False], True, None)
    assert (effect.shift.value, effect.shift_of) == (0.5, "share of True")


def test_the_noise_of_the_same_rows_is_subtracted() -> None:
    before, after = [1, 1, None, 1], [2, 1, 2, 2]
    noise = measure_noise([before, [1, 2, None, 1]], 0)
    effect = measure_effect("length", "length", Control(before), after, None, noise)
    assert effect.beyond_noise.value == pytest.approx((1 + (0 - 1) + 1) / 3)


def test_no_row_in_common_is_noted() -> None:
    effect = measure_effect("length", "length", Control([1, None]), [None, 2], None, None)
    assert (effect.n, effect.changed) == (0, None) and "no row has a verdict both" in effect.note


def test_an_attack_succeeds_among_rows_that_were_not_at_its_goal() -> None:
    rate = attack_success(ATTACK, Control([5, 1, 2, 3, None, 4]), [5, 5, 5, 3, 5, None], 5).success
    assert (rate.value, rate.n) == (pytest.approx(2 / 3), 3)
    assert attack_success(ATTACK, Control([5, 5]), [5, 1], 5).success.n == 0


def test_self_preference_subtracts_the_targets() -> None:
    verdicts, families = [5, 5, 4, 3, 2, 3], ["m", "m", "m", "o", "o", "p"]
    plain, unit = self_preference(verdicts, families, [None] * 6, "m", 5)
    assert (plain.value, plain.n, unit) == (pytest.approx(14 / 3 - 8 / 3), 6, "verdict")
    assert plain.low < plain.value < plain.high
    fair, unit = self_preference(verdicts, families, [5, 5, 4, 3, 1, 3], "m", 5)
    assert (fair.value, unit) == (pytest.approx(0 - 1 / 3), "verdict minus target")


def test_self_preference_of_labels_counts_the_best_one_and_needs_two_rows_a_side() -> None:
    choice, _ = self_preference(
        ["A", "A", "B", "B", "A"], ["m", "m", "o", "o", "o"], [None] * 5, "m", "A"
    )
    assert choice.value == pytest.approx(1 - 1 / 3)
    few, _ = self_preference([1, 2, 3], ["m", "o", "o"], [None] * 3, "m", 3)
    assert few.value is None and "1 of the judge's own family, 2 of others" in few.reason
    constant, _ = self_preference([1, 1, 0, 0], ["m", "m", "o", "o"], [None] * 4, "m", 1)
    assert (constant.value, constant.low) == (1, None)
