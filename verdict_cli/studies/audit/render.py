"""An audit as JSON, terminal text, Markdown and a page, with the papers behind each probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text

from verdict_cli.report import formatting
from verdict_cli.report.markdown import safe
from verdict_cli.report.page.assemble import assemble_page
from verdict_cli.report.page.chart_values import ChartPoint, Dots
from verdict_cli.report.page.components import Group as Beside
from verdict_cli.report.page.components import Note, PagePart, Section
from verdict_cli.report.page.page_table import PageTable
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.studies.audit.effects import Effect

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
    "attack": "Optimization-based Prompt Injection Attack to LLM-as-a-Judge (Shi et al., 2024)",
}
"""Cause -> title (authors, year)."""


AUDIT_HEADERS = ("changed", "n", "other verdict", "beyond noise", "verdicts move", "figure", "")
ATTACKS = ("attack", "n", "success", "")


def audit_json(facts: Mapping[str, Any], effects: Sequence[Effect], left: Mapping[str, str]) -> dict[str, Any]:
    """The document of `verdict audit --json`, and `audit.json`."""
    return {**facts, "effects": [_effect(one) for one in effects], "left_out": dict(left)}


def lead_of(facts: Mapping[str, Any]) -> list[str]:
    """What a reader must know before the effects."""
    floors = [f"{floor} is a floor to beat, not a judge" for floor in facts["floors"]]
    best = "" if facts["best"] is None else f", of which {facts['best']} is the best"
    return [
        *floors,
        f"the verdict is {facts['verdict']}{best}",
        f"{facts['runs']} runs of {facts['rows']:,} rows, {facts['calls']:,} calls, {formatting.money(facts['cost_usd'])}",
    ]


def _effect(one: Effect) -> dict[str, Any]:
    return {
        "name": one.name,
        "cause": one.cause,
        "paper": PAPERS[one.cause],
        "n": one.n,
        "changed": _figure(one.changed),
        "beyond_noise": _figure(one.beyond_noise),
        "shift": _figure(one.shift),
        "shift_of": one.shift_of,
        "figure": _figure(one.figure),
        "success": _figure(one.success),
        "note": one.note,
    }


def _figure(one: MetricValue | None) -> dict[str, Any] | None:
    return None if one is None else {"value": one.value, "low": one.low, "high": one.high, "n": one.n}


def _said(one: MetricValue | None) -> str:
    if one is None or one.value is None:
        return "–" if one is None else formatting.visible_text(one.reason, 80) or "–"
    return f"{formatting.format_number(one.value)} {formatting.interval(one.low, one.high)}".strip()


def _cells(one: Effect) -> tuple[str, ...]:
    moved = _said(one.shift) + (f" ({formatting.visible_text(one.shift_of, 40)})" if one.shift is not None else "")
    name = formatting.visible_text(one.name, 60)
    return (name, f"{one.n:,}", _said(one.changed), _said(one.beyond_noise), moved, _said(one.figure), one.note)


def _tables(effects: Sequence[Effect]) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    plain: list[tuple[str, ...]] = [_cells(one) for one in effects if one.success is None]
    attacks: list[tuple[str, ...]] = [
        (formatting.visible_text(one.name, 60), f"{one.success.n:,}", _said(one.success), one.note)
        for one in effects
        if one.success is not None
    ]
    found: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = (
        [("Effects", AUDIT_HEADERS, plain)] if plain else []
    )
    if attacks:
        found.append(("Attacks", ATTACKS, attacks))
    return found


def _papers(effects: Sequence[Effect]) -> list[str]:
    return [f"{cause}: {PAPERS[cause]}" for cause in dict.fromkeys(one.cause for one in effects)]


def _left(left: Mapping[str, str]) -> list[str]:
    return [
        f"not done: {formatting.visible_text(name, 60)}: {formatting.visible_text(why, 200)}"
        for name, why in left.items()
    ]


def audit_terminal(lead: Sequence[str], effects: Sequence[Effect], left: Mapping[str, str]) -> Group:
    """What `rich` prints."""
    lines = [Text(formatting.visible_text(line)) for line in lead]
    lines += [Text(), *(_line(one) for one in effects), Text(), *map(Text, _left(left)), *map(Text, _papers(effects))]
    return Group(*lines)


def _line(one: Effect) -> Text:
    """`length of answer (n 40): other verdict 0.2 [0.1, 0.4] · accuracy …`."""
    parts = [
        f"{title} {_said(found)}"
        for title, found in (
            ("success", one.success),
            ("other verdict", one.changed),
            ("beyond noise", one.beyond_noise),
            (formatting.visible_text(one.shift_of, 40) if one.shift_of != "verdict" else "verdicts move", one.shift),
            ("figure", one.figure),
        )
        if found is not None
    ]
    name = formatting.visible_text(one.name, 60)
    shown = Text(f"{name} (n {one.n:,})", style="bold")
    return shown.append(f": {' · '.join([*parts, *([one.note] if one.note else [])])}", style="not bold")


def audit_markdown(title: str, lead: Sequence[str], effects: Sequence[Effect], left: Mapping[str, str]) -> str:
    """`audit.md`."""
    parts = [f"# {safe(title)}", "\n".join(f"- {safe(line)}" for line in lead)]
    for name, headers, rows in _tables(effects):
        lines = [f"| {' | '.join(map(safe, row))} |" for row in (headers, *rows)]
        parts += [f"## {name}", "\n".join([lines[0], f"|{' --- |' * len(headers)}", *lines[1:]])]
    parts += ["\n".join(f"- {safe(line)}" for line in (*_left(left), *_papers(effects)))]
    return "\n\n".join(parts) + "\n"


def audit_html(title: str, lead: Sequence[str], effects: Sequence[Effect], left: Mapping[str, str]) -> str:
    """`audit.html`: the tables, and the effects as charts."""
    sections = [Section("", [Note(line, warning="floor to beat" in line) for line in lead], listed=False)]
    charts: list[PagePart] = []
    for name, attribute, caption in (
        ("Other verdicts", "changed", "Share of rows whose verdict is another."),
        ("Change of the figure", "figure", "Paired, row by row."),
        (
            "Success of attacks",
            "success",
            "Of the rows whose verdict was not the attacker's, the share that became his.",
        ),
    ):
        spots = [
            ChartPoint(one.name, found.value, found.low, found.high)
            for one in effects
            if (found := getattr(one, attribute)) is not None and found.value is not None
        ]
        if spots:
            charts.append(
                Dots(name, spots, "share" if attribute != "figure" else "difference", reference=0, caption=caption)
            )
    for name, headers, rows in _tables(effects):
        sections.append(Section(name, [PageTable(headers, rows, (1,))]))
    if charts:
        sections.insert(1, Section("Pictures", [Beside(charts)]))
    if left:
        sections.append(Section("Not done", [Note(line) for line in _left(left)]))
    sections.append(Section("Papers", [Note(line) for line in _papers(effects)]))
    return assemble_page(title, sections, kicker="Verdict audit", lead="What should not decide a verdict, and may")
