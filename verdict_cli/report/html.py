"""A run's report as one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Iterator

from verdict_cli.evaluate import Figure, Measures, UnitCalls, by_unit
from verdict_cli.report import drawn, words
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
    page,
)
from verdict_cli.report.report import Comparison, Report
from verdict_cli.report.vectors import numbers

MOST_TILES = 8
OPEN = 3
"""Evaluations shown in full; where there are more, each is folded."""
SIGNS = {"passed": "✓ passed", "failed": "✗ failed", "inconclusive": "? inconclusive"}


def html(report: Report, behind: Behind | None = None) -> str:
    """The file. `behind` gives what only this format shows: distributions, units, the graph, the spec, the rows."""
    sections = [
        Section("", [*_opening(report)], listed=False),
        *_gates(report),
        *_evaluations(report, behind),
    ]
    if behind is not None:
        sections += [*_rows(behind), *_effects(behind), *_units(behind)]
    sections += [*_failures(report)]
    if behind is not None:
        sections += [
            Section(
                "Pipeline",
                [
                    Picture(as_svg(behind.plan), "Units and links; results come from the heavy frames."),
                    Code("The resolved spec", behind.spec),
                ],
            ),
        ]
    sections.append(Section("Files", [Note(f"in {report.run}"), Links(report.files)]))
    return page(report.facts.name, sections, lead=_lead(report))


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
        shown = _evaluation(name, measures, report.comparisons.get(name), behind)
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
    charts: list[Part] = []
    if comparison is not None:
        charts.append(drawn.standings(comparison))
    first = drawn.primary(measures, comparison)
    if first is not None:
        charts += [drawn.groups(text, values, first) for text, values in measures.groups.items()]
    if behind is not None:
        charts += drawn.shapes(behind.study.pictured[name])
        charts += _scores(name, behind)
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


def _scores(name: str, behind: Behind) -> list[Bars]:
    """The numbers of the output by target, where the evaluation itself compares labels."""
    scored = next((each for each in behind.study.scored if each.name == name and each.labels), None)
    node = behind.plan.output_node
    if scored is None or node is None:
        return []
    return [
        *drawn.scores(scored, numbers(behind.results, [f"output.{field}" for field in node.output.fields]))
    ]


def _rows(behind: Behind) -> Iterator[Section]:
    yield Section("Rows", [browser(behind)])


def _effects(behind: Behind) -> Iterator[Section]:
    if found := effects(behind):
        yield Section("Position and length", [Group(found)])


def _units(behind: Behind) -> Iterator[Section]:
    units = by_unit(behind.calls)
    if not units:
        return
    rows = [(name, *_unit(one)) for name, one in units.items()]
    headers = ("unit", "calls", "failed", "tokens in", "tokens out", "cost", "median", "95%")
    charts = [*_unit_charts(units)]
    yield Section(
        "Cost and time", [Table(headers, rows, (1, 2, 3, 4, 5, 6, 7)), *([Group(charts)] if charts else [])]
    )


def _unit(one: UnitCalls) -> tuple[str, ...]:
    seconds = ["–" if value is None else f"{value:.3g} s" for value in (one.median_s, one.p95_s)]
    counts = (one.calls, one.failed, one.prompt_tokens, one.completion_tokens)
    return (*(f"{count:,}" for count in counts), words.money(one.cost_usd), *seconds)


def _unit_charts(units: dict[str, UnitCalls]) -> Iterator[Bars]:
    names = list(units)
    if any(one.cost_usd for one in units.values()):
        yield Bars(
            "Cost by unit", names, {"": [one.cost_usd or 0.0 for one in units.values()]}, "unit", "US dollars"
        )
    elif any(one.prompt_tokens for one in units.values()):
        tokens = {
            "in": [float(one.prompt_tokens) for one in units.values()],
            "out": [float(one.completion_tokens) for one in units.values()],
        }
        yield Bars("Tokens by unit", names, tokens, "unit", "tokens")
    if any(one.median_s for one in units.values()):
        yield Bars(
            "Time of a call by unit",
            names,
            {
                "median": [one.median_s or 0.0 for one in units.values()],
                "from there to 95%": [(one.p95_s or 0.0) - (one.median_s or 0.0) for one in units.values()],
            },
            "unit",
            "seconds",
        )


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
