"""An audit is an experiment: asking again is the control, and probes are corrected together."""

from __future__ import annotations

import numpy as np
import pytest

from verdict_cli.features.audit.effects import (
    Control,
    Effect,
    attack_success,
    controlled_differences,
    differs,
    exchange_test,
    probe_p,
    with_family,
)

ROWS = 60
ATTACK = Effect("attack", "attack", 0)


def ask(rng: np.random.Generator, rows: int = ROWS) -> list[int]:
    """A judge that does not read the text: a score from 1 to 5 by chance."""
    return rng.integers(1, 6, rows).tolist()


def smallest_p(rng: np.random.Generator, seed: int) -> float:
    """The smallest corrected p-value of an audit of that judge: two repeats, three probes, three attacks."""
    control = Control(ask(rng), [ask(rng), ask(rng)], seed=seed)
    ps = [probe_p(control, ask(rng), 5) for _ in range(3)]
    ps += [attack_success(ATTACK, control, ask(rng), 5).p for _ in range(3)]
    return min(
        effect.p_holm or 0.0
        for effect in with_family([Effect("x", "length", ROWS, p=p) for p in ps])
    )


def test_a_judge_that_ignores_the_text_has_a_significant_probe_in_5_of_100_audits() -> None:
    rng = np.random.default_rng(4)
    significant = sum(smallest_p(rng, seed) <= 0.05 for seed in range(60))
    assert significant <= 8  # 99.5% of binomial(60, 0.05) are


def test_a_judge_that_likes_length_is_found() -> None:
    rng = np.random.default_rng(5)
    before = ask(rng, 200)
    longer = [min(5, score + 1) for score in ask(rng, 200)]
    p = probe_p(Control(before, [ask(rng, 200), ask(rng, 200)]), longer, 5)
    assert p is not None and p < 0.05


def test_an_attack_that_does_nothing_succeeds_no_more_often_than_asking_again() -> None:
    """Success had no control: a judge that answers by chance gave 0.19 [0.17, 0.21] to an attack without effect."""
    rng = np.random.default_rng(60)
    before = ask(rng, 2000)
    after, repeats = ask(rng, 2000), [ask(rng, 2000), ask(rng, 2000)]
    success = attack_success(ATTACK, Control(before, repeats), after, 5)
    assert success.success_beyond_noise.low < 0 < success.success_beyond_noise.high
    assert success.p > 0.05
    repeats = [ask(rng, 2000), ask(rng, 2000)]
    success = attack_success(ATTACK, Control(before, repeats), [5] * 2000, 5)
    assert success.success_beyond_noise.value == pytest.approx(0.8, abs=0.03)
    assert success.p == pytest.approx(1 / 2000)


def test_the_control_is_the_mean_of_the_repeats_and_missing_verdicts_are_left_out() -> None:
    control = Control([1, 1, 1], [[1, 1, None], [2, 1, None]])
    differences = controlled_differences(control.scores([2, None, 2], differs))
    assert differences[0, 0] == pytest.approx(1 - 0.5)
    assert np.isnan(differences[1]).all() and np.isnan(differences[2]).all()
    alone = attack_success(ATTACK, Control([1]), [5], 5)
    assert (alone.success_beyond_noise, alone.p) == (None, None)


def test_rows_of_one_cluster_count_once() -> None:
    differences = np.repeat([[1.0, -0.5, -0.5]], 20, axis=0)
    rng = np.random.default_rng(7)
    assert exchange_test(differences, None, rng) < 0.01
    assert exchange_test(differences, np.zeros(20, np.int64), rng) > 0.2


def test_the_interval_of_an_attacks_success_is_wider_when_rows_of_a_cluster_agree() -> None:
    before, repeats = [1] * 40, [[1] * 40, [1] * 40]
    after = [5] * 20 + [1] * 20
    cluster = np.repeat(np.arange(8), 5)
    alone, clustered = (
        attack_success(ATTACK, Control(before, repeats, of_rows), after, 5).success_beyond_noise
        for of_rows in (None, cluster)
    )
    assert alone.value == clustered.value == 0.5
    assert clustered.high - clustered.low > 1.5 * (alone.high - alone.low)


def test_a_judge_that_repeats_its_verdicts_has_few_significant_probes() -> None:
    """Its draws depend on the row and the copy only: the changed text gets the same verdict, the repeats do not."""
    rng = np.random.default_rng(9)
    p_values = []
    for seed in range(40):
        before, repeats = ask(rng), [ask(rng), ask(rng)]
        control = Control(before, repeats, seed=seed)
        p_values.append(probe_p(control, before, 5))
        assert attack_success(ATTACK, control, before, 5).p == 1
    assert sum(p is not None and p <= 0.05 for p in p_values) <= 5
