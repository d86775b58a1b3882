"""A run's report as one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verdict_cli.evaluate import Figure, Measures
from verdict_cli.report import drawn, isolation, words
from verdict_cli.report.behind import Behind
from verdict_cli.report.browser import browser
from verdict_cli.report.effects import effects
from verdict_cli.report.graph import as_svg
from verdict_cli.report.page import (
    Bars,
    Code,
    Facts,
    Group,
    Links,
    Note,
    Part,
    Picture,
    Section,
    Table,
    Tile,
    Tiles,
)
from verdict_cli.report.report import Comparison, Report
from verdict_cli.report.units import units
from verdict_cli.report.vectors import numbers

MOST_TILES = 8
OPEN = 3
"""Evaluations shown in full; where there are more, each is folded."""
SIGNS = {"passed": "✓ passed", "failed": "✗ failed", "inconclusive": "? inconclusive"}


def html(report: Report, behind: Behind | None = None) -> str:
    """The file. `behind` gives what only this format shows: distributions, units, the graph, the spec, the rows."""
    sections = [
        *isolation.sections("", lambda: [Section("", [*_opening(report)], listed=False)]),
        *isolation.sections("Gates", lambda: _gates(report)),
        *isolation.sections("Evaluations", lambda: _evaluations(report, behind)),
    ]
    if behind is not None:
        sections += isolation.sections("Rows", lambda: [Section("Rows", [browser(behind)])])
        sections += isolation.sections("Position and length", lambda: _effects(behind))
        sections += isolation.sections("Cost and time", lambda: units(behind))
    sections += isolation.sections("Failures", lambda: _failures(report))
    if behind is not None:
        sections += isolation.sections("Pipeline", lambda: _pipeline(behind))
    sections.append(Section("Files", [Note(f"in {report.run}"), Links(report.files)]))
    return isolation.laid_out(report.facts.name, sections, lead=_lead(report))


def _lead(report: Report) -> str:
    facts = report.facts
    rows = f"{facts.rows:,} rows of {facts.dataset}" if facts.dataset else f"{facts.rows:,} rows"
    return f"{rows}, {facts.status} in {words.duration(facts.wall_s)}"


def _opening(report: Report) -> Iterator[Part]:
    for notice in words.notices(report):
        yield Note(notice, warning=True)
    tiles = [
        _tile(name if len(report.measures) > 1 else "", metric, figure)
        for name, measures in report.measures.items()
        for metric, figure in _headline(measures, report.comparisons.get(name), len(report.measures))
    ]
    shown = [figure for measures in report.measures.values() for figure in measures.figures.values()]
    tiles += [
        _tile(node, "flips", figure)
        for node, figure in report.flips.items()
        if figure.value is not None and figure not in shown
    ]
    if tiles:
        yield Tiles(tiles[:MOST_TILES])
    facts = report.facts
    yield Facts(
        [
            *words.facts(facts),
            ("tokens", f"{facts.prompt_tokens:,} in, {facts.completion_tokens:,} out"),
            ("configuration", facts.config),
            ("started", facts.started.replace("T", " ").replace("+00:00", " UTC")),
            ("version", f"{facts.version}, seed {facts.seed}"),
        ]
    )


def _headline(
    measures: Measures, comparison: Comparison | None, evaluations: int
) -> list[tuple[str, Figure]]:
    """The first figure of each evaluation; of one or two, the first few."""
    first = drawn.primary(measures, comparison)
    if first is None:
        return []
    rest = [
        each
        for each in words.plain(measures.figures.items())
        if each[0] != first[0] and each[1].value is not None
    ]
    return [first, *rest[: 3 if evaluations == 1 else 1 if evaluations == 2 else 0]]


def _tile(name: str, metric: str, figure: Figure) -> Tile:
    at = None
    if figure.low is not None and figure.high is not None and figure.low >= 0 and figure.high <= 1:
        at = (figure.low, figure.value, figure.high)
    return Tile(
        f"{name}: {metric}" if name else metric,
        words.number(figure.value),
        words.interval(figure.low, figure.high),
        f"{'' if figure.low is None else '95% interval, '}n={figure.n:,}",
        at,
    )


def _gates(report: Report) -> Iterator[Section]:
    if report.gates:
        rows = [
            (
                SIGNS[gate.verdict],
                gate.metric,
                words.number(gate.value),
                words.interval(gate.low, gate.high),
                gate.rule,
                words.why(gate),
            )
            for gate in report.gates
        ]
        table = Table(("outcome", "figure", "value", "95% interval", "limit", "why"), rows, (2, 3))
        yield Section("Gates", [table])


def _evaluations(report: Report, behind: Behind | None) -> Iterator[Section]:
    if not report.measures:
        return
    parts: list[Part | Group] = []
    folded = len(report.measures) > OPEN
    for name, measures in report.measures.items():
        kind = f"{name} ({measures.kind})" if measures.kind else name
        shown = isolation.parts(
            f"The evaluation {name}",
            partial(_evaluation, name, measures, report.comparisons.get(name), behind),
        )
        if folded:
            parts.append(
                Group(
                    [part for each in shown for part in (each.parts if isinstance(each, Group) else [each])],
                    kind,
                )
            )
        else:
            yield Section(name, [*([Note(measures.kind)] if measures.kind else []), *shown])
    if folded:
        rows = [
            (name, *_overview(measures, report.comparisons.get(name)))
            for name, measures in report.measures.items()
        ]
        overview = Table(("evaluation", "figure", "value", "95% interval", "n"), rows, (2, 3, 4))
        yield Section("Evaluations", [overview, *parts])


def _overview(measures: Measures, comparison: Comparison | None) -> tuple[str, str, str, str]:
    first = drawn.primary(measures, comparison)
    if first is None:
        return ("–", "–", "", "0")
    metric, figure = first
    return metric, words.number(figure.value), words.interval(figure.low, figure.high), f"{figure.n:,}"


def _evaluation(
    name: str, measures: Measures, comparison: Comparison | None, behind: Behind | None
) -> list[Part | Group]:
    parts: list[Part | Group] = [Note(line) for line in words.coverage(measures)]
    parts += [Note(line, warning=True) for line in measures.warnings]
    shown = words.plain(measures.figures.items())
    table = drawn.figures(shown)
    confusion = measures.figures.get("confusion")
    matrix = None if confusion is None or confusion.value is None else drawn.confusion(confusion)
    parts.append(table if matrix is None else Group([table, matrix]))
    parts += drawn.reasons(shown)
    if comparison is not None and comparison.caveat:
        parts.append(Note(comparison.caveat, warning=True))
    charts = isolation.parts("The charts", lambda: _charts(name, measures, comparison, behind))
    if charts:
        parts.append(Group(charts))
    for expression, values in measures.groups.items():
        rows = [
            (
                value,
                metric,
                words.number(one.value),
                words.interval(one.low, one.high),
                f"{one.n:,}",
                one.reason,
            )
            for value, figures in values.items()
            for metric, one in words.plain(figures.items())
        ]
        headers = (expression, "figure", "value", "95% interval", "n", "")
        parts.append(Table(headers, rows, (2, 3, 4), folded=f"All figures by {expression}"))
    return parts


def _charts(
    name: str, measures: Measures, comparison: Comparison | None, behind: Behind | None
) -> Iterator[Part]:
    if comparison is not None:
        yield drawn.standings(comparison)
    first = drawn.primary(measures, comparison)
    if first is not None:
        yield from (drawn.groups(text, values, first) for text, values in measures.groups.items())
    if behind is not None:
        yield from drawn.shapes(behind.study.pictured[name])
        yield from _scores(name, behind)


def _scores(name: str, behind: Behind) -> list[Bars]:
    """The numbers of the output by target, where the evaluation itself compares labels."""
    scored = next((each for each in behind.study.scored if each.name == name and each.labels), None)
    node = behind.plan.output_node
    if scored is None or node is None:
        return []
    return [
        *drawn.scores(scored, numbers(behind.results, [f"output.{field}" for field in node.output.fields]))
    ]


def _pipeline(behind: Behind) -> Iterator[Section]:
    drawing = Picture(as_svg(behind.plan), "Units and links; results come from the heavy frames.")
    yield Section("Pipeline", [drawing, Code("The resolved spec", behind.spec)])


def _effects(behind: Behind) -> Iterator[Section]:
    if found := effects(behind):
        yield Section("Position and length", [Group(found)])


def _failures(report: Report) -> Iterator[Section]:
    kinds = words.failures(report.facts)
    if kinds:
        rows = [(kind, f"{count:,}") for kind, count in kinds]
        chart = Bars(
            "Failed rows by kind",
            [kind for kind, _ in kinds],
            {"": [float(count) for _, count in kinds]},
            "kind",
            "rows",
        )
        yield Section("Failures", [Group([Table(("kind", "rows"), rows, (1,)), chart])])
