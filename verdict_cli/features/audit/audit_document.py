"""An audit as a document: the effect of each probe, and the papers that describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verdict_cli.features.audit.audit_conclusion import audit_conclusion, not_tested
from verdict_cli.features.audit.effects import Effect
from verdict_cli.features.audit.noticed import DEGRADE, conclusion
from verdict_cli.report import formatting
from verdict_cli.report.charts import ChartPoint, Dots
from verdict_cli.report.document import Group, Note, Part, ReportDocument, Section, Table
from verdict_cli.report.report import metric_json
from verdict_cli.stats.intervals.interval_methods import MetricValue

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
    ("Planted errors noticed", "success_beyond_noise", "share", "Scored lower more often than in repeats."),
)
"""Title, field of an effect, axis and caption."""


def audit_document(facts: Mapping[str, Any], effects: Sequence[Effect], left_out: Mapping[str, str]) -> ReportDocument:
    """The document of an audit; `facts` are its directory, pipeline, dataset and counts, as its JSON has them."""
    best = "" if facts["best"] is None else f", its best value {facts['best']}"
    judged = ", ".join(f"source.{column}" for column in facts.get("judged", ()))
    counts = f"{facts['runs']} runs of {facts['rows']:,} rows, {facts['calls']:,} calls"
    opening: list[Part] = [Note(formatting.baseline_notice(model), warning=True) for model in facts["floors"]]
    opening += [Note(text) for text in [not_tested(left_out)] if text]
    opening += [
        Note(f"the verdict is {facts['verdict']}{best}"),
        *([Note(f"the judged text is {judged}; --text COLUMN names another")] if judged else []),
        Note(f"{counts}, {formatting.money(facts['cost_usd'])}"),
    ]
    sections = [Section("", opening, listed=False, essential=True)]
    if charts := _charts(effects):
        sections.append(Section("Charts", [Group(charts)], formats=("html",)))
    biases = [effect for effect in effects if effect.success is None and effect.cause != DEGRADE]
    attacks = [(effect, effect.success) for effect in effects if effect.success is not None and effect.cause != DEGRADE]
    planted = [effect for effect in effects if effect.cause == DEGRADE]
    if biases:
        table = Table(EFFECT_HEADERS, [_effect_cells(effect) for effect in biases], (1,), records=True)
        sections.append(Section("Effects", [table], essential=True))
    if attacks:
        rows = [
            (
                effect.name,
                f"{rate.n:,}",
                _metric_text(rate),
                _metric_text(effect.success_beyond_noise),
                _p_text(effect),
                effect.note,
            )
            for effect, rate in attacks
        ]
        headers = ("attack", "n", "success rate", "more than in repeats", "p (Holm)", "")
        table = Table(headers, rows, (1,), records=True)
        sections.append(Section("Attacks", [table], essential=True))
    if planted:
        rows = [
            (
                effect.name,
                f"{effect.n:,}",
                _metric_text(effect.success),
                _metric_text(effect.success_beyond_noise),
                _p_text(effect),
                effect.note,
            )
            for effect in planted
        ]
        table = Table(("error", "n", "scored lower", "noticed", "p (Holm)", ""), rows, (1,), records=True)
        notes = [Note(conclusion(effects))]
        if "planted_by" in facts:
            notes.append(Note(f"{facts['planted_by']} planted the errors: read some of them in planted/run"))
        sections.append(Section("Planted errors", [*notes, table], essential=True))
    if left_out:
        skipped = [Note(f"{name}: {reason}") for name, reason in left_out.items()]
        sections.append(Section("Skipped", skipped))
    papers = [Note(f"{cause}: {PAPERS[cause]}") for cause in dict.fromkeys(effect.cause for effect in effects)]
    sections.append(Section("Papers", papers))
    return ReportDocument(
        facts["pipeline"],
        sections,
        kicker="Verdict audit",
        lead="Bias, and robustness against prompt injection",
        elsewhere="in audit.html",
        data=lambda: audit_json(facts, effects, left_out),
        conclusion=audit_conclusion(effects),
    )


def audit_json(facts: Mapping[str, Any], effects: Sequence[Effect], left_out: Mapping[str, str]) -> dict[str, Any]:
    """The document of `verdict audit --json`, and `audit.json`."""
    planted = {"planted_errors": text} if (text := conclusion(effects)) else {}
    return {**facts, **planted, "effects": [_effect_json(effect) for effect in effects], "left_out": dict(left_out)}


def _effect_json(effect: Effect) -> dict[str, Any]:
    return {
        "name": effect.name,
        "cause": effect.cause,
        "paper": PAPERS[effect.cause],
        "n": effect.n,
        "changed": effect.changed and metric_json(effect.changed),
        "beyond_noise": effect.beyond_noise and metric_json(effect.beyond_noise),
        "shift": effect.shift and metric_json(effect.shift),
        "shift_of": effect.shift_of,
        "figure": effect.metric_change and metric_json(effect.metric_change),
        **_success_json(effect),
        "p": effect.p,
        "p_holm": effect.p_holm,
        "note": effect.note,
    }


def _success_json(effect: Effect) -> dict[str, Any]:
    """The share that an attack won, or that was scored lower for a planted error, and what of it repeats do not explain."""
    share, beyond = (each and metric_json(each) for each in (effect.success, effect.success_beyond_noise))
    if effect.cause == DEGRADE:
        return {"lowered": share, "noticed": beyond}
    return {"success": share, "success_beyond_noise": beyond}


def _metric_text(metric: MetricValue | None) -> str:
    if metric is None:
        return "–"
    if metric.value is None:
        return metric.reason or "–"
    return f"{formatting.format_number(metric.value)} {formatting.interval(metric.low, metric.high)}".strip()


def _p_text(effect: Effect) -> str:
    return "–" if effect.p_holm is None else f"{effect.p_holm:.3g}"


def _effect_cells(effect: Effect) -> tuple[str, ...]:
    shift = "–" if effect.shift is None else f"{_metric_text(effect.shift)} ({effect.shift_of})"
    metrics = (
        _metric_text(effect.changed),
        _metric_text(effect.beyond_noise),
        shift,
        _metric_text(effect.metric_change),
        _p_text(effect),
    )
    return (effect.name, f"{effect.n:,}", *metrics, effect.note)


def _charts(effects: Sequence[Effect]) -> list[Part]:
    charts: list[Part] = []
    for title, field, axis, caption in CHARTS:
        points = [
            ChartPoint(effect.name, metric.value, metric.low, metric.high)
            for effect in effects
            if (effect.cause == DEGRADE) == (field == "success_beyond_noise")
            and (metric := getattr(effect, field)) is not None
            and metric.value is not None
        ]
        if points:
            charts.append(Dots(title, points, axis, reference=0, caption=caption))
    return charts
