"""The report for a terminal, 80 columns wide. Signs, not colours alone, tell what passed."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from verdict_cli.report import formatting
from verdict_cli.report.report import PublishedComparison, Report
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.measure import Measures

MOST_TERMINAL_LABELS = 8
"""Wider confusion matrices stand in the other reports only."""
MOST_TERMINAL_GROUPS = 12

TERMINAL_SIGNS = {"passed": ("✓", "bold blue"), "failed": ("✗", "bold red"), "inconclusive": ("?", "bold yellow")}


def report_terminal(report: Report) -> Group:
    """What `rich` prints; data is never read as markup."""
    parts: list[RenderableType] = [Text(formatting.visible_text(report.facts.name), style="bold")]
    parts += [Text(f"! {notice}", style="yellow") for notice in formatting.notices(report)]
    parts.append(Text(" · ".join(f"{name} {text}" for name, text in formatting.summary_line(report))))
    for name, measures in report.measures.items():
        parts += [Text(), *_evaluation(name, measures, report.comparisons.get(name))]
    if report.gates:
        parts += [Text(), Text("gates", style="bold")]
        for gate in report.gates:
            sign, style = TERMINAL_SIGNS[gate.verdict]
            line = Text(f"  {sign} ", style=style)
            line.append(
                formatting.visible_text(f"{gate.metric} {formatting.format_number(gate.value)} {gate.rule}", 300),
                style="default",
            )
            parts.append(line)
            if why := formatting.why(gate):
                parts.append(Padding(Text(formatting.visible_text(why, 300)), (0, 0, 0, 4), expand=False))
    if failed := formatting.failures(report.facts):
        parts += [
            Text(),
            Text("failed rows", style="bold"),
            _grid([(kind, str(count)) for kind, count in failed]),
            *(
                Padding(Text(formatting.visible_text(f"{kind}: {why}", 300)), (0, 0, 0, 2), expand=False)
                for kind, why in report.facts.reasons.items()
            ),
            *(
                [Padding(Text(formatting.NOBODY), (0, 0, 0, 4), expand=False)]
                if "unavailable" in report.facts.reasons
                else []
            ),
        ]
    parts += [Text(), Text(f"files in {formatting.visible_text(report.run)}", style="bold")]
    if report.files:
        parts.append(
            Padding(Text(", ".join(formatting.visible_text(file) for file in report.files)), (0, 0, 0, 2), expand=False)
        )
    return Group(*parts)


def _evaluation(name: str, measures: Measures, comparison: PublishedComparison | None) -> list[RenderableType]:
    kind = f" ({measures.kind})" if measures.kind else ""
    parts: list[RenderableType] = [Text(f"{formatting.visible_text(name, 60)}{kind}", style="bold")]
    parts.append(_grid([(metric, _said(figure)) for metric, figure in formatting.plain_text(measures.values.items())]))
    parts += [Padding(Text(line), (0, 0, 0, 2), expand=False) for line in formatting.coverage(measures)]
    parts += [
        Padding(Text(f"! {formatting.visible_text(line, 300)}", style="yellow"), (0, 0, 0, 2), expand=False)
        for line in measures.warnings
    ]
    if "confusion" in measures.values:
        parts += _confusion(measures.values["confusion"])
    for expression, groups in measures.groups.items():
        parts.append(Text(f"  by {formatting.visible_text(expression, 60)}"))
        parts.append(_groups(groups))
    if comparison is not None:
        parts.append(_standings(comparison))
        if comparison.caveat:
            parts.append(Padding(Text(f"! {comparison.caveat}", style="yellow"), (0, 0, 0, 2), expand=False))
    return parts


def _said(figure: MetricValue) -> str:
    return f"{formatting.sentence(figure)}  {figure.reason}" if figure.reason else formatting.sentence(figure)


def _grid(rows: list[tuple[str, str]]) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(Text(name), Text(formatting.visible_text(text, 300)))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def _confusion(figure: MetricValue) -> list[RenderableType]:
    if figure.value is None:
        return []
    labels, counts = figure.value["labels"], figure.value["counts"]
    if len(labels) > MOST_TERMINAL_LABELS:
        return [Text(f"  confusion: {len(labels)} labels, shown in report.html")]
    table = Table(box=None, padding=(0, 1))
    table.add_column("")
    for name in labels:
        table.add_column(Text(formatting.visible_text(formatting.label(name), 12)), justify="right", overflow="fold")
    for name, row in zip(labels, counts, strict=True):
        table.add_row(Text(formatting.visible_text(formatting.label(name), 24)), *(Text(str(count)) for count in row))
    return [Text("  target ↓  prediction →"), Padding(table, (0, 0, 0, 2), expand=False)]


def _groups(groups: object) -> RenderableType:
    assert isinstance(groups, dict)
    rows = []
    for value, figures in list(groups.items())[:MOST_TERMINAL_GROUPS]:
        first = next(iter(formatting.plain_text(figures.items())), None)
        rows.append((formatting.visible_text(value, 30), f"{first[0]} {_said(first[1])}" if first else ""))
    if len(groups) > MOST_TERMINAL_GROUPS:
        rows.append(("…", f"{len(groups) - MOST_TERMINAL_GROUPS} more in report.html"))
    return Padding(_grid(rows), (0, 0, 0, 2), expand=False)


def _standings(comparison: PublishedComparison) -> RenderableType:
    title = f"{comparison.metric} beside {formatting.visible_text(comparison.source, 200)}, {formatting.visible_text(comparison.place, 80)}"
    table = Table(box=None, padding=(0, 1), title=Text(title), title_justify="left", title_style="")
    for header, justify in (
        ("", "left"),
        ("judge", "left"),
        (comparison.metric, "right"),
        ("95% interval", "left"),
        ("", "left"),
    ):
        table.add_column(header, justify="right" if justify == "right" else "left", overflow="fold")
    for row in comparison.standings:
        table.add_row(
            Text("►" if row.ours else ""),
            Text(formatting.visible_text(row.judge, 40)),
            Text(formatting.format_number(row.value)),
            Text(formatting.interval(row.low, row.high)),
            Text(formatting.standing(row)),
            style="bold" if row.ours else "",
        )
    return Padding(table, (0, 0, 0, 2), expand=False)
