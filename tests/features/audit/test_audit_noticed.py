"""Planted errors: what a judge notices is what it does beyond its own noise."""

from __future__ import annotations

import numpy as np
import pytest

from verdict_cli.features.audit.effects import (
    Control,
    all_noticed,
    conclusion,
    notice_effect,
    with_family,
)
from verdict_cli.features.audit.probes import verdict_rank

BOOL = "- {unit: JudgeUnit, name: judge, scale: boolean, prompt: '{source.answer}'}"
WORDS = "- {unit: JudgeUnit, name: judge, scale: {type: discrete, values: [bad, fair, good], ordered: true}, prompt: '{source.answer}'}"
NUMBERS = "- {unit: JudgeUnit, name: judge, prompt: '{source.answer}'}"
LABELS = (
    "- {unit: CategoricalJudgeUnit, name: judge, categories: [x, y], prompt: '{source.answer}'}"
)


@pytest.mark.parametrize(
    ("steps", "better", "worse"), [(BOOL, True, False), (WORDS, "good", "fair"), (NUMBERS, 5, 2)]
)
def test_the_scale_says_which_verdict_is_worse(planned, steps, better, worse):
    rank = verdict_rank(planned(steps)[0], "score", None)
    assert rank(better) > rank(worse)


def test_a_choice_is_good_for_the_author_it_chooses_and_labels_are_not_ordered(planned):
    plan = planned(LABELS)[0]
    assert verdict_rank(plan, "choice", None) is None
    rank = verdict_rank(plan, "choice", "B")
    assert rank("B") > rank("A") == rank("tie")
    assert verdict_rank(planned(BOOL)[0], "score", False)(False) > verdict_rank(
        planned(BOOL)[0], "score", False
    )(True)
    assert verdict_rank(plan, "other", 1)(0.9) > verdict_rank(plan, "other", 1)(0.2)


def test_the_rate_of_the_repeats_is_not_noticing():
    before = [5] * 8 + [1] * 2
    after = [4] * 6 + [5] * 2 + [1] * 2
    repeats = [[4] * 4 + [5] * 4 + [1] * 2]
    effect, parts = notice_effect("planted: unit", Control(before, repeats), after, float)
    assert (effect.n, effect.success.value) == (8, 0.75)  # nothing is below 1
    assert effect.success_beyond_noise.value == pytest.approx(6 / 8 - 4 / 8)
    assert np.isfinite(parts).sum() == 8
    alone, _ = notice_effect("planted: unit", Control(before), after, float)
    assert (alone.p, alone.success_beyond_noise) == (None, None)
    assert "no repeats" in alone.note


def test_a_judge_that_ignores_the_text_notices_an_error_in_few_audits():
    rng = np.random.default_rng(1)
    false_alarms = 0
    for seed in range(60):
        before, *others = rng.integers(1, 6, (6, 40)).tolist()
        planted, repeats = others[:3], others[3:]
        effects = [
            notice_effect("k", Control(before, repeats, seed=seed), after, float)[0]
            for after in planted
        ]
        false_alarms += any(effect.p_holm <= 0.05 for effect in with_family(effects))
    assert false_alarms <= 7


def test_the_conclusion_names_the_kinds_that_were_missed():
    rng = np.random.default_rng(2)
    before = [5] * 40
    repeats = [[5] * 40, rng.choice([4, 5], 40).tolist()]
    control = Control(before, repeats)
    effects, parts = [], []
    for kind, after in (("number", [2] * 40), ("unit", [5] * 40)):
        effect, of_rows = notice_effect(f"planted: {kind}", control, after, float)
        parts.append(of_rows)
        effects.append(effect)
    effects = with_family([*effects, all_noticed(parts, effects, control)])
    text = conclusion(effects)
    assert "of 80 planted errors" in text
    assert text.endswith("not significantly: unit")
    assert conclusion([]) == ""
