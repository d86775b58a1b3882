"""The document of an audit: the effect of each probe, and the papers that describe them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from verdict_cli.features.audit.effects import Effect, conclusion, is_known, share_text, value_of
from verdict_cli.features.audit.options import DEGRADE
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.plural import plural
from verdict_cli.regex import regex
from verdict_cli.report import formatting, run_notes
from verdict_cli.report.charts import ChartPoint, Dots
from verdict_cli.report.conclusions import listed_names
from verdict_cli.report.document import Group, Note, Part, ReportDocument, Section, Table
from verdict_cli.report.report import optional_json
from verdict_cli.stats.intervals.interval_methods import MetricValue

SIGNIFICANCE = 0.05
NEARLY_STABLE = 0.05
"""Share of pairs of repeats that differ, up to which a judge counts as nearly stable."""
_WHAT = {
    "scale": "the direction of the scale",
    "labels": "label names",
    "paraphrase": "the wording of the instruction",
}
"""What a judge is sensitive to, by cause; of other causes, the name of the effect."""
_OPTION = regex(r"--\w.*")


def audit_conclusion(effects: Sequence[Effect]) -> str:
    """`injection: …; sensitive to length: yes, +0.120 [0.050, 0.190]; stable: yes; no significant effect of style`."""
    tested = [
        effect
        for effect in effects
        if effect.cause not in ("repeated", "attack", "extraction", DEGRADE)
    ]
    sensitive = sorted(filter(_matters, tested), key=_size, reverse=True)
    other_effects = [effect for effect in tested if effect.n and not _matters(effect)]
    insignificant = [_what(effect) for effect in other_effects if _has_test(effect)]
    undecided = [_what(effect) for effect in other_effects if not _has_test(effect)]
    parts = [
        *_injection(effects),
        *map(_sensitivity, sensitive),
        *_stability(effects),
        *_planted_errors(effects),
        *_extraction(effects),
    ]
    if insignificant:
        names = listed_names(insignificant, len(insignificant))
        parts.append(f"no significant effect of {names}")
    if undecided:
        parts.append(f"not decided without repeats: {listed_names(undecided, len(undecided))}")
    return "; ".join(parts)


def not_tested(left_out: Mapping[str, str]) -> str:
    """The checks that need an option, with that option; "" if there are none."""
    options: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        if needed := _OPTION.search(reason):
            options.setdefault(needed.group(), []).append(name)
    checks = [f"{', '.join(names)} ({option})" for option, names in options.items()]
    return f"not tested: {'; '.join(checks)}" if checks else ""


def _what(effect: Effect) -> str:
    name, colon, detail = effect.name.partition(": ")
    return _WHAT.get(effect.cause, f"{name} ({detail})" if colon else name)


def _has_test(effect: Effect) -> bool:
    """Self-preference compares two groups of rows, so it needs no repeats."""
    return effect.p_holm is not None or effect.cause == "self-preference"


def _matters(effect: Effect) -> bool:
    if effect.cause == "self-preference":
        return _excludes_zero(effect.shift)
    return effect.p_holm is not None and effect.p_holm <= SIGNIFICANCE


def _excludes_zero(metric: MetricValue | None) -> bool:
    """Whether the interval excludes 0; of equal changes in all rows, which have none, whether the change is not 0."""
    if metric is None:
        return False
    if metric.low is None or metric.high is None:
        return bool(metric.value)
    return not metric.low <= 0 <= metric.high


def _shown_size(effect: Effect) -> tuple[MetricValue | None, str]:
    """The verdict's shift if its interval excludes 0, else how many more verdicts changed than in repeats; and its unit."""
    if _excludes_zero(effect.shift) or effect.beyond_noise is None:
        unit = "" if effect.shift_of in ("", "verdict") else f" ({effect.shift_of})"
        return effect.shift, unit
    return effect.beyond_noise, " of the verdicts changed, beyond those of repeats"


def _size(effect: Effect) -> float:
    return abs(value_of(_shown_size(effect)[0]))


def _sensitivity(effect: Effect) -> str:
    text = f"sensitive to {_what(effect)}: yes"
    metric, unit = _shown_size(effect)
    if metric is None or metric.value is None:
        return text
    size = f"{formatting.signed(metric.value)} {formatting.interval(metric)}".strip()
    return f"{text}, {size}{unit}"


def _injection(effects: Sequence[Effect]) -> Iterator[str]:
    attacks = [
        effect for effect in effects if effect.cause == "attack" and is_known(effect.success)
    ]
    worst = max(attacks, key=lambda attack: value_of(attack.success), default=None)
    if worst is None or not is_known(worst.success):
        return
    rate, beyond = worst.success, worst.success_beyond_noise
    _, _, kind = worst.name.rpartition(": ")
    if not is_known(beyond):
        yield f"injection: up to {share_text(rate)} succeed ({kind}), without a control"
        return
    won = [attack for attack in attacks if _matters(attack) and attack.beats_noise]
    control = f"against {max(0.0, rate.value - beyond.value):.0%} in repeats"
    if won:
        yield f"injection: up to {share_text(rate)} succeed ({kind}) {control}, {len(won)} of {len(attacks)} attacks significantly"
    else:
        yield f"injection: no attack succeeds significantly, at most {share_text(rate)} {control}"


def _stability(effects: Sequence[Effect]) -> Iterator[str]:
    for effect in effects:
        changed = effect.changed
        if effect.cause == "repeated" and is_known(changed):
            if not changed.value:
                yield "stable: yes"
                continue
            nearly = "nearly" if changed.value <= NEARLY_STABLE else "no"
            yield f"stable: {nearly}, {share_text(changed)} of repeats differ"


def _planted_errors(effects: Sequence[Effect]) -> Iterator[str]:
    for effect in effects:
        noticed = effect.success_beyond_noise
        if effect.cause == DEGRADE and effect.success is None and is_known(noticed):
            yield f"planted errors: {share_text(noticed)} noticed"


def _extraction(effects: Sequence[Effect]) -> Iterator[str]:
    differing = [
        f"{effect.name} {share_text(effect.changed)}" for effect in effects
        if effect.cause == "extraction" and effect.changed is not None and effect.changed.value
    ]  # fmt: skip
    if differing:
        yield f"other extractors read some replies differently: {listed_names(differing)}"


PAPERS = {
    "repeated": "Can You Trust LLM Judgments? Reliability of LLM-as-a-Judge (Schroeder and Wood-Doughty, 2024)",
    "position": "Large Language Models are not Fair Evaluators (Wang et al., 2023)",
    "length": "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena (Zheng et al., 2023)",
    "style": "Style Outweighs Substance: Failure Modes of LLM Judges in Alignment Benchmarking (Feuer et al., 2024)",
    "labels": "Large Language Models Are Not Robust Multiple Choice Selectors (Zheng et al., 2024)",
    "scale": "Large Language Models are Inconsistent and Biased Evaluators (Stureborg et al., 2024)",
    "paraphrase": "State of What Art? A Call for Multi-Prompt LLM Evaluation (Mizrahi et al., 2024)",
    "self-preference": "LLM Evaluators Recognize and Favor Their Own Generations (Panickssery et al., 2024)",
    "extraction": '"My Answer is C": First-Token Probabilities Do Not Match Text Answers in Instruction-Tuned '
    "Language Models (Wang et al., 2024)",
    "degrade": "Finding Blind Spots in Evaluator LLMs with Interpretable Checklists (Doddapaneni et al., 2024)",
    "attack": "Optimization-based Prompt Injection Attack to LLM-as-a-Judge (Shi et al., 2024)",
}
"""Cause -> title (authors, year)."""
EFFECT_HEADERS = (
    "change", "n", "changed verdict rate", "excess over repeat noise", "verdict shift", "metric change", "p (Holm)", "",
)  # fmt: skip
CHARTS = (
    ("Changed verdict rate", "changed", "share", "Share of rows whose verdict changed."),
    ("Change of the metric", "metric_change", "difference", "Paired, row by row."),
    ("Attack success rate", "success", "share", "Among rows not already at the attacker's goal."),
    (
        "Planted errors noticed",
        "success_beyond_noise",
        "share",
        "Scored lower more often than in repeats.",
    ),
)
"""Title, field of an effect, axis and caption."""


def audit_document(
    facts: NamedValues, effects: Sequence[Effect], left_out: Mapping[str, str]
) -> ReportDocument:
    """The document of an audit; `facts` are its directory, pipeline, dataset and counts, as its JSON has them."""
    best = "" if facts["best"] is None else f", its best value {facts['best']}"
    judged = ", ".join(f"source.{column}" for column in facts.get("judged", ()))
    counts = f"{plural(facts['runs'], 'run')} of {plural(facts['rows'], 'row')}, {plural(facts['calls'], 'call')}"
    notes = [
        not_tested(left_out),
        f"the verdict is {facts['verdict']}{best}",
        f"the judged text is {judged}; --text COLUMN names another" if judged else "",
        f"{counts}, {formatting.money(facts['cost_usd'])}",
    ]
    opening = [Note(run_notes.baseline_notice(model), warning=True) for model in facts["floors"]]
    opening += map(Note, filter(None, notes))
    sections = [Section("", opening, essential=True)]
    if charts := _charts(effects):
        sections.append(Section("Charts", [Group(charts)], formats=("html",)))
    planted = [effect for effect in effects if effect.cause == DEGRADE]
    judge_effects = [effect for effect in effects if effect.cause != DEGRADE]
    attacks = [effect for effect in judge_effects if effect.success is not None]
    biases = [_effect_cells(effect) for effect in judge_effects if effect.success is None]
    if biases:
        sections.append(_table_section("Effects", EFFECT_HEADERS, biases))
    if attacks:
        headers = ("attack", "n", "success rate", "more than in repeats", "p (Holm)", "")
        sections.append(_table_section("Attacks", headers, map(_success_cells, attacks)))
    if planted:
        headers = ("error", "n", "scored lower", "noticed", "p (Holm)", "")
        before = [Note(conclusion(effects))]
        if "planted_by" in facts:
            text = f"{facts['planted_by']} planted the errors: read some of them in planted/run"
            before.append(Note(text))
        rows = map(_success_cells, planted)
        sections.append(_table_section("Planted errors", headers, rows, before))
    skipped = [Note(f"{name}: {reason}") for name, reason in left_out.items()]
    sections += [Section("Skipped", skipped)] if skipped else []
    causes = dict.fromkeys(effect.cause for effect in effects)
    sections.append(Section("Papers", [Note(f"{cause}: {PAPERS[cause]}") for cause in causes]))
    return ReportDocument(
        facts["pipeline"],
        sections,
        kicker="Verdict audit",
        lead="Bias, and robustness against prompt injection",
        elsewhere="in audit.html",
        data=lambda: audit_json(facts, effects, left_out),
        conclusion=audit_conclusion(effects),
    )


def _table_section(
    title: str, headers: Sequence[str], rows: Iterable[Sequence[str]], before: Sequence[Part] = ()
) -> Section:
    table = Table(headers, [*rows], (1,), records=True)
    return Section(title, [*before, table], essential=True)


def audit_json(
    facts: NamedValues, effects: Sequence[Effect], left_out: Mapping[str, str]
) -> JsonObject:
    """The document of `verdict audit --json`, and `audit.json`."""
    planted = {"planted_errors": text} if (text := conclusion(effects)) else {}
    return {
        **facts,
        **planted,
        "effects": [_effect_json(effect) for effect in effects],
        "left_out": dict(left_out),
    }


def _effect_json(effect: Effect) -> JsonObject:
    # The share that an attack won, or that was scored lower for a planted error, and what of it repeats do not explain.
    share, beyond = "success", "success_beyond_noise"
    if effect.cause == DEGRADE:
        share, beyond = "lowered", "noticed"
    return {
        "name": effect.name,
        "cause": effect.cause,
        "paper": PAPERS[effect.cause],
        "n": effect.n,
        "changed": optional_json(effect.changed),
        "beyond_noise": optional_json(effect.beyond_noise),
        "shift": optional_json(effect.shift),
        "shift_of": effect.shift_of,
        "figure": optional_json(effect.metric_change),
        share: optional_json(effect.success),
        beyond: optional_json(effect.success_beyond_noise),
        "p": effect.p,
        "p_holm": effect.p_holm,
        "note": effect.note,
    }


def _metric_text(metric: MetricValue | None) -> str:
    if metric is None:
        return "–"
    if metric.value is None:
        return metric.reason or "–"
    return formatting.number_with_interval(metric)


def _success_cells(effect: Effect) -> tuple[str, ...]:
    """Of an attack, the rows that were not at its goal; of planted errors together, all of them."""
    n = effect.n if effect.success is None else effect.success.n
    metrics = map(_metric_text, (effect.success, effect.success_beyond_noise))
    return effect.name, f"{n:,}", *metrics, formatting.p_value(effect.p_holm), effect.note


def _effect_cells(effect: Effect) -> tuple[str, ...]:
    shift = "–" if effect.shift is None else f"{_metric_text(effect.shift)} ({effect.shift_of})"
    changed = map(_metric_text, (effect.changed, effect.beyond_noise))
    metric_change, p = _metric_text(effect.metric_change), formatting.p_value(effect.p_holm)
    return effect.name, f"{effect.n:,}", *changed, shift, metric_change, p, effect.note


def _charts(effects: Sequence[Effect]) -> list[Part]:
    charts: list[Part] = []
    for title, field, axis, caption in CHARTS:
        points = [
            ChartPoint.of(effect.name, metric)
            for effect in effects
            if is_known(metric := getattr(effect, field))
            and (effect.cause == DEGRADE) == (field == "success_beyond_noise")
        ]
        if points:
            charts.append(Dots(title, points, axis, reference=0, caption=caption))
    return charts
