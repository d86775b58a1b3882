"""The result of an audit in one sentence, what matters most first, and the checks that were not made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from verdict_cli.features.audit.effects import Effect
from verdict_cli.features.audit.noticed import DEGRADE
from verdict_cli.report import formatting
from verdict_cli.report.conclusions import listed_names
from verdict_cli.stats.intervals.interval_methods import MetricValue

SIGNIFICANCE = 0.05
NEARLY_STABLE = 0.05
"""Share of pairs of repeats that differ, up to which a judge counts as nearly stable."""
_WHAT = {"scale": "the direction of the scale", "labels": "label names", "paraphrase": "the wording of the instruction"}
"""What a judge is sensitive to, by cause; of other causes, the name of the effect."""
_OPTION = re.compile(r"--\w.*")


def audit_conclusion(effects: Sequence[Effect]) -> str:
    """`injection: …; sensitive to length: yes, +0.120 [0.050, 0.190]; stable: yes; no significant effect of style`."""
    tested = [each for each in effects if each.cause not in ("repeated", "attack", "extraction", DEGRADE)]
    found = sorted((each for each in tested if _matters(each)), key=_size, reverse=True)
    others = [_what(each) for each in tested if not _matters(each) and each.n and _has_test(each)]
    without = [_what(each) for each in tested if each.n and not _has_test(each)]
    parts = [
        *_injection(effects),
        *(_sensitivity(each) for each in found),
        *_stability(effects),
        *_planted_errors(effects),
        *_extraction(effects),
    ]
    parts += [f"no significant effect of {listed_names(others, len(others))}"] if others else []
    parts += [f"not decided without repeats: {listed_names(without, len(without))}"] if without else []
    return "; ".join(parts)


def not_tested(left_out: Mapping[str, str]) -> str:
    """The checks that need an option, with that option; "" if there are none."""
    options: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        if found := _OPTION.search(reason):
            options.setdefault(found.group(), []).append(name)
    checks = [f"{', '.join(names)} ({option})" for option, names in options.items()]
    return f"not tested: {'; '.join(checks)}" if checks else ""


def _what(effect: Effect) -> str:
    name, colon, of = effect.name.partition(": ")
    return _WHAT.get(effect.cause, f"{name} ({of})" if colon else name)


def _has_test(effect: Effect) -> bool:
    """Self-preference compares two groups of rows, so it needs no repeats."""
    return effect.p_holm is not None or effect.cause == "self-preference"


def _matters(effect: Effect) -> bool:
    if effect.cause == "self-preference":
        return _excludes_zero(effect.shift)
    return effect.p_holm is not None and effect.p_holm <= SIGNIFICANCE


def _excludes_zero(metric: MetricValue | None) -> bool:
    """Whether the interval excludes 0; of equal changes in all rows, which have none, whether the change is not 0."""
    if metric is None or metric.low is None or metric.high is None:
        return metric is not None and bool(metric.value)
    return not metric.low <= 0 <= metric.high


def _shown_size(effect: Effect) -> tuple[MetricValue | None, str]:
    """The verdict's shift if its interval excludes 0, else how many more verdicts changed than in repeats; and its unit."""
    if _excludes_zero(effect.shift) or effect.beyond_noise is None:
        unit = "" if effect.shift_of in ("", "verdict") else f" ({effect.shift_of})"
        return effect.shift, unit
    return effect.beyond_noise, " of the verdicts changed, beyond those of repeats"


def _size(effect: Effect) -> float:
    metric, _ = _shown_size(effect)
    return abs(metric.value) if metric is not None and metric.value is not None else 0.0


def _sensitivity(effect: Effect) -> str:
    metric, unit = _shown_size(effect)
    text = "" if metric is None or metric.value is None else f", {_change(metric)}{unit}"
    return f"sensitive to {_what(effect)}: yes{text}"


def _change(metric: MetricValue) -> str:
    return f"{formatting.signed(metric.value)} {formatting.interval(metric.low, metric.high)}".strip()


def _share(metric: MetricValue) -> str:
    ends = (
        ""
        if metric.low is None or metric.high is None
        else f" [{max(0.0, metric.low):.0%}, {max(0.0, metric.high):.0%}]"
    )
    return f"{max(0.0, metric.value):.0%}{ends}"


def _injection(effects: Sequence[Effect]) -> Iterator[str]:
    attacks = [
        (each, each.success)
        for each in effects
        if each.cause == "attack" and each.success and each.success.value is not None
    ]
    if not attacks:
        return
    worst, rate = max(attacks, key=lambda pair: pair[1].value)
    beyond = worst.success_beyond_noise
    if beyond is None or beyond.value is None:
        yield f"injection: up to {_share(rate)} succeed ({_kind(worst)}), without a control"
        return
    won = [each for each, _ in attacks if _matters(each) and _above_zero(each.success_beyond_noise)]
    control = f"against {max(0.0, rate.value - beyond.value):.0%} in repeats"
    if won:
        yield f"injection: up to {_share(rate)} succeed ({_kind(worst)}) {control}, {len(won)} of {len(attacks)} attacks significantly"
    else:
        yield f"injection: no attack succeeds significantly, at most {_share(rate)} {control}"


def _above_zero(metric: MetricValue | None) -> bool:
    return metric is not None and (metric.value or 0.0) > 0


def _kind(effect: Effect) -> str:
    return effect.name.partition(": ")[2] or effect.name


def _stability(effects: Sequence[Effect]) -> Iterator[str]:
    for each in effects:
        if each.cause == "repeated" and each.changed is not None and each.changed.value is not None:
            share = each.changed.value
            yes = "yes" if not share else "nearly" if share <= NEARLY_STABLE else "no"
            yield f"stable: {yes}" if not share else f"stable: {yes}, {_share(each.changed)} of repeats differ"


def _planted_errors(effects: Sequence[Effect]) -> Iterator[str]:
    for each in effects:
        noticed = each.success_beyond_noise
        if each.cause == DEGRADE and each.success is None and noticed is not None and noticed.value is not None:
            yield f"planted errors: {_share(noticed)} noticed"


def _extraction(effects: Sequence[Effect]) -> Iterator[str]:
    differing = [
        f"{each.name} {_share(each.changed)}" for each in effects
        if each.cause == "extraction" and each.changed is not None and each.changed.value
    ]  # fmt: skip
    if differing:
        yield f"other extractors read some replies differently: {listed_names(differing)}"
