"""A run's report as one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verdict_cli.report import evaluation_charts, formatting, isolation
from verdict_cli.report.bias_effects import effects
from verdict_cli.report.page.chart_values import Bars
from verdict_cli.report.page.components import (
    CodeBlock,
    FactList,
    Group,
    Links,
    Note,
    PagePart,
    Picture,
    Section,
    Tile,
    Tiles,
)
from verdict_cli.report.page.page_table import PageTable
from verdict_cli.report.plan_graph import as_svg
from verdict_cli.report.report import PublishedComparison, Report
from verdict_cli.report.report_context import ReportContext
from verdict_cli.report.result_vectors import number_vector
from verdict_cli.report.row_table import row_table
from verdict_cli.report.unit_table import unit_table
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.measure import Measures

MOST_TILES = 8
OPEN_SECTIONS = 3
"""Evaluations shown in full; where there are more, each is folded."""
HTML_SIGNS = {"passed": "✓ passed", "failed": "✗ failed", "inconclusive": "? inconclusive"}


def report_html(report: Report, behind: ReportContext | None = None) -> str:
    """The file. `behind` gives what only this format shows: distributions, units, the graph, the spec, the rows."""
    sections = [
        *isolation.sections("", lambda: [Section("", [*_opening(report)], listed=False)]),
        *isolation.sections("Gates", lambda: _gates(report)),
        *isolation.sections("Evaluations", lambda: _evaluations(report, behind)),
    ]
    if behind is not None:
        sections += isolation.sections("Rows", lambda: [Section("Rows", [row_table(behind)])])
        sections += isolation.sections("Position and length", lambda: _effects(behind))
        sections += isolation.sections("Cost and time", lambda: unit_table(behind))
    sections += isolation.sections("Failures", lambda: _failures(report))
    if behind is not None:
        sections += isolation.sections("Pipeline", lambda: _pipeline(behind))
    sections.append(Section("Files", [Note(f"in {report.run}"), Links(report.files)]))
    return isolation.laid_out(report.facts.name, sections, lead=_lead(report))


def _lead(report: Report) -> str:
    facts = report.facts
    rows = f"{facts.rows:,} rows of {facts.dataset}" if facts.dataset else f"{facts.rows:,} rows"
    return f"{rows}, {facts.status} in {formatting.format_duration(facts.wall_s)}"


def _opening(report: Report) -> Iterator[PagePart]:
    for notice in formatting.notices(report):
        yield Note(notice, warning=True)
    tiles = [
        _tile(name if len(report.measures) > 1 else "", metric, figure)
        for name, measures in report.measures.items()
        for metric, figure in _headline(measures, report.comparisons.get(name), len(report.measures))
    ]
    shown = [figure for measures in report.measures.values() for figure in measures.values.values()]
    tiles += [
        _tile(node, "flips", figure)
        for node, figure in report.flips.items()
        if figure.value is not None and figure not in shown
    ]
    if tiles:
        yield Tiles(tiles[:MOST_TILES])
    facts = report.facts
    yield FactList(
        [
            *formatting.facts(facts),
            ("tokens", f"{facts.prompt_tokens:,} in, {facts.completion_tokens:,} out"),
            ("configuration", facts.config),
            ("started", facts.started.replace("T", " ").replace("+00:00", " UTC")),
            ("version", f"{facts.version}, seed {facts.seed}"),
        ]
    )


def _headline(
    measures: Measures, comparison: PublishedComparison | None, evaluations: int
) -> list[tuple[str, MetricValue]]:
    """The first figure of each evaluation; of one or two, the first few."""
    first = evaluation_charts.primary(measures, comparison)
    if first is None:
        return []
    rest = [
        each
        for each in formatting.plain_text(measures.values.items())
        if each[0] != first[0] and each[1].value is not None
    ]
    return [first, *rest[: 3 if evaluations == 1 else 1 if evaluations == 2 else 0]]


def _tile(name: str, metric: str, figure: MetricValue) -> Tile:
    at = None
    if figure.low is not None and figure.high is not None and figure.low >= 0 and figure.high <= 1:
        at = (figure.low, figure.value, figure.high)
    return Tile(
        f"{name}: {metric}" if name else metric,
        formatting.format_number(figure.value),
        formatting.interval(figure.low, figure.high),
        f"{'' if figure.low is None else '95% interval, '}n={figure.n:,}",
        at,
    )


def _gates(report: Report) -> Iterator[Section]:
    if report.gates:
        rows = [
            (
                HTML_SIGNS[gate.verdict],
                gate.metric,
                formatting.format_number(gate.value),
                formatting.interval(gate.low, gate.high),
                gate.rule,
                formatting.why(gate),
            )
            for gate in report.gates
        ]
        table = PageTable(("outcome", "figure", "value", "95% interval", "limit", "why"), rows, (2, 3))
        yield Section("Gates", [table])


def _evaluations(report: Report, behind: ReportContext | None) -> Iterator[Section]:
    if not report.measures:
        return
    parts: list[PagePart | Group] = []
    folded = len(report.measures) > OPEN_SECTIONS
    for name, measures in report.measures.items():
        kind = f"{name} ({measures.kind})" if measures.kind else name
        shown = isolation.isolated_parts(
            f"The evaluation {name}", partial(_evaluation, name, measures, report.comparisons.get(name), behind)
        )
        if folded:
            parts.append(
                Group([part for each in shown for part in (each.parts if isinstance(each, Group) else [each])], kind)
            )
        else:
            yield Section(name, [*([Note(measures.kind)] if measures.kind else []), *shown])
    if folded:
        rows = [
            (name, *_overview(measures, report.comparisons.get(name))) for name, measures in report.measures.items()
        ]
        overview = PageTable(("evaluation", "figure", "value", "95% interval", "n"), rows, (2, 3, 4))
        yield Section("Evaluations", [overview, *parts])


def _overview(measures: Measures, comparison: PublishedComparison | None) -> tuple[str, str, str, str]:
    first = evaluation_charts.primary(measures, comparison)
    if first is None:
        return ("–", "–", "", "0")
    metric, figure = first
    return (
        metric,
        formatting.format_number(figure.value),
        formatting.interval(figure.low, figure.high),
        f"{figure.n:,}",
    )


def _evaluation(
    name: str, measures: Measures, comparison: PublishedComparison | None, behind: ReportContext | None
) -> list[PagePart | Group]:
    parts: list[PagePart | Group] = [Note(line) for line in formatting.coverage(measures)]
    parts += [Note(line, warning=True) for line in measures.warnings]
    shown = formatting.plain_text(measures.values.items())
    table = evaluation_charts.metric_chart(shown)
    confusion = measures.values.get("confusion")
    matrix = None if confusion is None or confusion.value is None else evaluation_charts.confusion(confusion)
    parts.append(table if matrix is None else Group([table, matrix]))
    parts += evaluation_charts.reasons(shown)
    if comparison is not None and comparison.caveat:
        parts.append(Note(comparison.caveat, warning=True))
    charts = isolation.isolated_parts("The charts", lambda: _charts(name, measures, comparison, behind))
    if charts:
        parts.append(Group(charts))
    for expression, values in measures.groups.items():
        rows = [
            (
                value,
                metric,
                formatting.format_number(one.value),
                formatting.interval(one.low, one.high),
                f"{one.n:,}",
                one.reason,
            )
            for value, figures in values.items()
            for metric, one in formatting.plain_text(figures.items())
        ]
        headers = (expression, "figure", "value", "95% interval", "n", "")
        parts.append(PageTable(headers, rows, (2, 3, 4), folded=f"All figures by {expression}"))
    return parts


def _charts(
    name: str, measures: Measures, comparison: PublishedComparison | None, behind: ReportContext | None
) -> Iterator[PagePart]:
    if comparison is not None:
        yield evaluation_charts.published_chart(comparison)
    first = evaluation_charts.primary(measures, comparison)
    if first is not None:
        yield from (evaluation_charts.group_chart(text, values, first) for text, values in measures.groups.items())
    if behind is not None:
        yield from evaluation_charts.shapes(behind.study.distributions[name])
        yield from _scores(name, behind)


def _scores(name: str, behind: ReportContext) -> list[Bars]:
    """The numbers of the output by target, where the evaluation itself compares labels."""
    scored = next((each for each in behind.study.scored if each.name == name and each.labels), None)
    node = behind.plan.output_node
    if scored is None or node is None:
        return []
    return [
        *evaluation_charts.scores(
            scored, number_vector(behind.results, [f"output.{field}" for field in node.output.fields])
        )
    ]


def _pipeline(behind: ReportContext) -> Iterator[Section]:
    drawing = Picture(as_svg(behind.plan), "Units and links; results come from the heavy frames.")
    yield Section("Pipeline", [drawing, CodeBlock("The resolved spec", behind.spec)])


def _effects(behind: ReportContext) -> Iterator[Section]:
    if found := effects(behind):
        yield Section("Position and length", [Group(found)])


def _failures(report: Report) -> Iterator[Section]:
    kinds = formatting.failures(report.facts)
    if kinds:
        rows = [(kind, f"{count:,}") for kind, count in kinds]
        chart = Bars(
            "Failed rows by kind",
            [kind for kind, _ in kinds],
            {"": [float(count) for _, count in kinds]},
            "kind",
            "rows",
        )
        yield Section("Failures", [Group([PageTable(("kind", "rows"), rows, (1,)), chart])])
