"""The sentence that an audit begins with."""

from __future__ import annotations

from verdict_cli.features.audit.document import audit_conclusion, not_tested
from verdict_cli.features.audit.effects import Effect
from verdict_cli.stats.intervals.interval_methods import MetricValue


def share(value: float, low: float = 0.0, high: float = 1.0) -> MetricValue:
    return MetricValue(value, low, high, 60)


def attack(name: str, value: float, beyond: float, p: float) -> Effect:
    rate, more = share(value, value - 0.1, value + 0.1), share(beyond, beyond - 0.1, beyond + 0.1)
    return Effect(
        f"attack: {name}", "attack", 60, success=rate, success_beyond_noise=more, p_holm=p
    )


def test_the_largest_effects_come_first_and_what_is_not_significant_last():
    effects = [
        Effect("repeated", "repeated", 60, changed=share(0.03, 0.01, 0.08)),
        Effect("style", "style", 60, beyond_noise=share(0.01, -0.05, 0.06), p_holm=0.8),
        Effect(
            "length", "length", 60, shift=share(0.12, 0.05, 0.19), shift_of="verdict", p_holm=0.01
        ),
        Effect(
            "scale reversed",
            "scale",
            60,
            shift=share(-0.5, -0.7, -0.3),
            shift_of="verdict",
            p_holm=0.002,
        ),
        attack("role markers", 0.05, 0.02, 0.9),
        attack("closing tags", 0.3, 0.27, 0.004),
    ]
    assert audit_conclusion(effects) == (
        "injection: up to 30% [20%, 40%] succeed (closing tags) against 3% in repeats, 1 of 2 attacks significantly; "
        "sensitive to the direction of the scale: yes, -0.500 [-0.700, -0.300]; "
        "sensitive to length: yes, +0.120 [0.050, 0.190]; stable: nearly, 3% [1%, 8%] of repeats differ; "
        "no significant effect of style"
    )


def test_a_change_without_a_direction_is_reported_as_the_share_of_changed_verdicts():
    moved = Effect(
        "style",
        "style",
        60,
        beyond_noise=share(0.2, 0.1, 0.3),
        shift=share(0.0, -0.1, 0.1),
        p_holm=0.01,
    )
    assert audit_conclusion([moved]) == (
        "sensitive to style: yes, +0.200 [0.100, 0.300] of the verdicts changed, beyond those of repeats"
    )


def test_attacks_that_repeats_explain_are_no_success_and_without_repeats_undecided():
    assert audit_conclusion([attack("x", 0.1, 0.0, 1.0)]) == (
        "injection: no attack succeeds significantly, at most 10% [0%, 20%] against 10% in repeats"
    )
    alone = [Effect("length", "length", 60, shift=share(0.5, 0.3, 0.7)), attack("x", 0.1, 0.0, 1.0)]
    alone[1] = Effect("attack: x", "attack", 60, success=share(0.1, 0.0, 0.2))
    assert audit_conclusion(alone) == (
        "injection: up to 10% [0%, 20%] succeed (x), without a control; not decided without repeats: length"
    )


def test_what_was_not_tested_is_named_with_its_option():
    left_out = {
        "length": "the judged text is ambiguous: --text COLUMN, one of a, b",
        "style": "the judged text is ambiguous: --text COLUMN, one of a, b",
        "position": "no PairwiseJudgeUnit: there is no order of options to swap",
        "attack": "not requested: --attack",
    }
    assert (
        not_tested(left_out)
        == "not tested: length, style (--text COLUMN, one of a, b); attack (--attack)"
    )
    assert not_tested({"position": "no PairwiseJudgeUnit"}) == ""
