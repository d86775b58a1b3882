"""The report of a run as a document. `SECTIONS` lists its sections: a new one is a file and a line there.

Charts show possible biases: verdicts by the length of the judged text, and by the position of an option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from verdict_cli.language.metric_registry import find_metric
from verdict_cli.plan.node import LLMNode, Node
from verdict_cli.plural import plural
from verdict_cli.registry import Registry
from verdict_cli.report import formatting, run_notes
from verdict_cli.report.call_stats import UnitCalls, by_unit
from verdict_cli.report.charts import Bars, ChartPoint, Dots, Range, Scatter, Series
from verdict_cli.report.conclusions import run_conclusion
from verdict_cli.report.document import (
    PAGE_FORMATS,
    TEXT_FORMATS,
    CodeBlock,
    FactList,
    Failures,
    Gates,
    Group,
    Links,
    Note,
    Only,
    Part,
    Picture,
    ReportDocument,
    Section,
    Table,
    Tile,
    Tiles,
    failed_section,
)
from verdict_cli.report.plan_graph import as_svg
from verdict_cli.report.report import Report, full_json, scalar_metrics
from verdict_cli.report.report_context import (
    Bin,
    ReportContext,
    bin_points,
    means_by_fifth,
    number_vectors,
    proportions_by_bin,
    quantiles,
    text_lengths,
)
from verdict_cli.report.row_table import row_table
from verdict_cli.report.run_notes import cached_share, prompt_cache_facts, version_notices
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.intervals.interval_methods import MetricValue, clopper_pearson
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.row_scores import RowScores
from verdict_cli.storage.tables.reader import table_columns, table_rows

MOST_TILES = 8
SectionMaker = Callable[[Report, ReportContext | None], Iterator[Section]]


def run_document(report: Report, context: ReportContext | None = None) -> ReportDocument:
    """The document of a run. `context` adds what only a page shows: distributions, units, the graph, the spec, the rows.

    Each section is created on its own: one that fails is replaced by a note that names it.
    """
    sections = []
    for title in SECTIONS.names():
        try:
            made = [*SECTIONS[title](report, context)]
        except Exception as error:
            made = [failed_section(title, error)]
        sections += made
    facts = report.facts
    rows = (
        f"{plural(facts.rows, 'row')} of {facts.dataset}"
        if facts.dataset
        else plural(facts.rows, "row")
    )
    lead = f"{rows}, {facts.status} in {formatting.format_duration(facts.wall_s)}"
    return ReportDocument(
        facts.name,
        sections,
        lead=lead,
        data=partial(full_json, report),
        conclusion=run_conclusion(report),
        started=facts.started,
        seconds=facts.wall_s,
    )


def _opening(report: Report, context: ReportContext | None) -> Iterator[Section]:
    notices = [*run_notes.notices(report), *version_notices(report.facts)]
    parts: list[Part] = [Note(notice, warning=True) for notice in notices]
    evaluations = len(report.measures)
    tiles = [
        _tile(name if evaluations > 1 else "", metric, value)
        for name in report.measures
        for metric, value in _headline(report, name)
    ]
    metrics = [
        metric for measures in report.measures.values() for metric in measures.values.values()
    ]
    tiles += [
        _tile(node, "flips", rate)
        for node, rate in report.flips.items()
        if rate.value is not None and rate not in metrics
    ]
    facts = report.facts
    tiles += [*_coverage_tile(report)]
    if tiles:
        tiles = [
            *tiles[: MOST_TILES - 1],
            Tile("cost", formatting.money(facts.cost_usd), note=plural(facts.calls, "call")),
        ]
        parts.append(Tiles(tiles))
    details = [
        ("tokens", f"{facts.prompt_tokens:,} in, {facts.completion_tokens:,} out"),
        ("configuration", facts.config),
        ("started", facts.started.replace("T", " ").replace("+00:00", " UTC")),
        ("version", f"{facts.version}, seed {facts.seed}"),
    ]
    summary = [*run_notes.summary_facts(report), *prompt_cache_facts(facts)]
    beside = [(name, text) for name, text in summary if name not in _ON_TILES] if tiles else summary
    parts += [
        Only(TEXT_FORMATS, [FactList(summary, details)]),
        Only(PAGE_FORMATS, [FactList(beside, details)]),
    ]
    yield Section("", parts, essential=True)


_ON_TILES = ("rows", "failed", "calls", "cost")
"""Facts that the tiles of coverage and cost have, or the line above them."""


def _headline(report: Report, name: str) -> Iterator[tuple[str, MetricValue]]:
    """The primary metric of an evaluation; of one or two evaluations, one more that says something else."""
    first = report.primary_metric(name)
    if first is None:
        return
    yield first
    others = [
        (metric, value)
        for metric, value in scalar_metrics(report.measures[name].values).items()
        if metric != first[0] and value.value is not None
    ]
    if others and len(report.measures) <= 2:
        yield next((other for other in others if is_beyond_chance(other[0])), others[0])


def is_beyond_chance(metric: str) -> bool:
    """Whether the metric says more than a share of rows: agreement beyond chance, or order."""
    definition = find_metric(metric)
    return definition is not None and definition.beyond_chance


def _coverage_tile(report: Report) -> Iterator[Tile]:
    """The share of the labelled rows with a prediction; of several evaluations, or of none, that of rows with a result."""
    facts = report.facts
    measured = [measure for measure in report.measures.values() if measure.coverage is not None]
    if len(report.measures) == len(measured) == 1:
        labelled = measured[0].rows - measured[0].unlabelled
        yield Tile(
            "coverage",
            formatting.format_number(measured[0].coverage),
            note=f"n={labelled:,}, {facts.failed:,} failed",
        )
    elif report.measures and facts.rows:
        share = (facts.rows - facts.failed) / facts.rows
        yield Tile(
            "coverage",
            formatting.format_number(share),
            note=f"rows with a result, n={facts.rows:,}, {facts.failed:,} failed",
        )


def _tile(name: str, metric: str, value: MetricValue) -> Tile:
    shares = None
    if value.low is not None and value.high is not None and value.low >= 0 and value.high <= 1:
        shares = (value.low, value.value, value.high)
    return Tile(
        f"{name}: {metric}" if name else metric,
        *formatting.number_cells(value),
        f"{'' if value.low is None else f'{formatting.interval_header(value.level)}, '}n={value.n:,}",
        shares,
        value.reason,
    )


def _gates(report: Report, context: ReportContext | None) -> Iterator[Section]:
    if report.gates:
        yield Section("Gates", [Gates(report.gates)], essential=True)


def _rows(report: Report, context: ReportContext | None) -> Iterator[Section]:
    if context is not None:
        yield Section("Rows", [row_table(context)], formats=PAGE_FORMATS)


def _bias_effects(report: Report, context: ReportContext | None) -> Iterator[Section]:
    if context is not None and (charts := bias_effects(context, report.facts.done)):
        yield Section("Position and length", [Group(charts)], formats=PAGE_FORMATS)


def _unit_costs(report: Report, context: ReportContext | None) -> Iterator[Section]:
    """A table and charts of the run's units; no section for a run without calls."""
    units = {} if context is None else by_unit(context.calls)
    if not units:
        return
    headers = (
        "unit",
        "calls",
        "failed",
        "tokens in",
        "cached",
        "tokens out",
        "cost",
        "median",
        "95%",
    )
    table = Table(
        headers,
        [(name, *_unit_cells(unit)) for name, unit in units.items()],
        (1, 2, 3, 4, 5, 6, 7, 8),
    )
    charts = [*_unit_charts(units)]
    yield Section(
        "Cost and time", [table, *([Group(charts)] if charts else [])], formats=PAGE_FORMATS
    )


def _unit_cells(unit: UnitCalls) -> tuple[str, ...]:
    seconds = ["–" if value is None else f"{value:.3g} s" for value in (unit.median_s, unit.p95_s)]
    counts = [f"{count:,}" for count in (unit.calls, unit.failed, unit.prompt_tokens)]
    share = cached_share(unit.cached_tokens, unit.prompt_tokens)
    return (
        *counts,
        share,
        f"{unit.completion_tokens:,}",
        formatting.money(unit.cost_usd),
        *seconds,
    )


def _unit_charts(units: dict[str, UnitCalls]) -> Iterator[Bars]:
    names = list(units)
    if any(unit.cost_usd for unit in units.values()):
        yield Bars(
            "Cost by unit",
            names,
            {"": [unit.cost_usd or 0.0 for unit in units.values()]},
            "unit",
            "US dollars",
        )
    elif any(unit.prompt_tokens for unit in units.values()):
        tokens = {
            "in": [float(unit.prompt_tokens) for unit in units.values()],
            "out": [float(unit.completion_tokens) for unit in units.values()],
        }
        yield Bars("Tokens by unit", names, tokens, "unit", "tokens")
    if any(unit.median_s for unit in units.values()):
        yield Bars(
            "Time of a call by unit",
            names,
            {
                "median": [unit.median_s or 0.0 for unit in units.values()],
                "median to 95%": [
                    (unit.p95_s or 0.0) - (unit.median_s or 0.0) for unit in units.values()
                ],
            },
            "unit",
            "seconds",
        )


def _failures(report: Report, context: ReportContext | None) -> Iterator[Section]:
    kinds = run_notes.failure_kinds(report.facts)
    tolerated = any(gate.metric == "run.coverage" and gate.passed for gate in report.gates)
    failures = Failures(kinds, report.facts.rows, report.facts.reasons, tolerated)
    if not kinds:
        yield Section("", [failures], formats=("junit",))
        return
    counts = {"": [float(count) for _, count in kinds]}
    chart = Bars("Failed rows by kind", [kind for kind, _ in kinds], counts, "kind", "rows")
    yield Section("Failed rows", [failures, Only(PAGE_FORMATS, [chart])], essential=True)


def _pipeline(report: Report, context: ReportContext | None) -> Iterator[Section]:
    if context is not None:
        drawing = Picture(
            as_svg(context.plan), "Units and links; units with heavy frames give the output."
        )
        yield Section(
            "Pipeline",
            [drawing, CodeBlock("The resolved spec", context.plan.yaml)],
            formats=PAGE_FORMATS,
        )


def _files(report: Report, context: ReportContext | None) -> Iterator[Section]:
    yield Section("Files", [Note(f"in {report.run}"), Links(report.files)], essential=True)


SECTIONS: Registry[SectionMaker] = Registry(
    "verdict_cli.report",
    {
        "": _opening,
        "Gates": _gates,
        "Evaluations": "evaluation_section.evaluation_sections",
        "Rows": _rows,
        "Position and length": _bias_effects,
        "Cost and time": _unit_costs,
        "Failed rows": _failures,
        "Pipeline": _pipeline,
        "Files": _files,
    },
    "verdict_cli.sections",
)
"""The function of each section by its title, in the order of the page. The title names a section that fails."""


LEAST_ROWS = 20
"""Five bins of fewer rows have intervals too wide to show an effect."""
MOST_NODES = 4


def bias_effects(context: ReportContext, rows: int) -> list[Dots | Scatter]:
    """Charts of position and length effects in so many rows, where they apply."""
    choosing = [(node, work) for node, work in context.plan.llm_nodes if work.letters]
    columns = context.text_columns
    columns += [column for _, work in choosing for column in _option_columns(work)]
    columns = list(dict.fromkeys(columns))
    lengths = text_lengths(context.results, columns) if rows >= LEAST_ROWS else {}
    charts: list[Dots | Scatter] = []
    for node, work in choosing[:MOST_NODES]:
        charts += _choice_charts(context, node, work, lengths)
    if lengths:
        charts += _length_charts(context, lengths)
    return charts


def _option_columns(work: LLMNode) -> list[str]:
    """The options in the results, if each is an unchanged column of the dataset."""
    columns = work.option_columns
    return [] if None in columns else [f"source.{column}" for column in columns]


def _choice_charts(
    context: ReportContext, node: Node, work: LLMNode, lengths: dict[str, Floats]
) -> Iterator[Dots | Scatter]:
    choices = _choices(context, node)
    known = [choice for choice in choices if choice is not None]
    if not known:
        return
    points = []
    for letter in dict.fromkeys((*work.letters, *sorted(set(known)))):
        hits = known.count(letter)
        points.append(
            ChartPoint(
                letter,
                hits / len(known),
                *clopper_pearson(hits, len(known), CONFIDENCE_LEVEL),
                f"{hits:,} of {len(known):,}",
            )
        )
    yield Dots(
        f"{node.id}: how often each option is chosen",
        points,
        "share of rows",
        (0, 1),
        caption="By position in the dataset; if the order is arbitrary, equal shares are expected.",
    )
    options = _option_columns(work)
    if len(options) != 2 or not all(option in lengths for option in options):
        return
    longer = lengths[options[0]] - lengths[options[1]]
    which = np.array([{"A": 1.0, "B": -1.0}.get(choice or "", np.nan) for choice in choices])
    indices = np.flatnonzero(np.isfinite(which) & (longer != 0))
    if len(indices) < LEAST_ROWS:
        return
    distance = np.abs(longer[indices])
    hits = (np.sign(longer[indices]) == which[indices]).astype(np.float64)
    yield _scatter(
        f"{node.id}: how often the longer option is chosen",
        proportions_by_bin(distance, hits, quantiles(distance)),
        "characters more",
        "share that chooses the longer",
        "Rows in five equal groups by the difference in length, without ties and equal lengths.",
        (0, 1),
    )


def _choices(context: ReportContext, node: Node) -> list[str | None]:
    column = f"{node.id}.choice"
    if column not in table_columns(context.results):
        return []
    values = [value for (value,) in table_rows(context.results, [column])]
    return [value if isinstance(value, str) and len(value) <= 3 else None for value in values]


def _length_charts(context: ReportContext, lengths: dict[str, Floats]) -> Iterator[Scatter]:
    total = np.sum(list(lengths.values()), axis=0)
    columns = ", ".join(name.removeprefix("source.") for name in lengths)
    caption = f"Rows in five equal groups by the length of the judged text ({columns})."
    for scored in context.study.scored[:1]:
        if chart := _outcome_chart(scored, total[scored.at], caption):
            yield chart
        if not scored.labelled:
            return
    node = context.plan.output_node
    fields = [] if node is None else [f"output.{name}" for name in node.result.fields]
    for name, values in list(number_vectors(context.results, fields).items())[:1]:
        in_chart = np.isfinite(values)
        if (
            in_chart.sum() >= LEAST_ROWS
            and np.ptp(values[in_chart]) > 0
            and np.ptp(total[in_chart]) > 0
        ):
            yield _scatter(
                f"{name} by length",
                means_by_fifth(total[in_chart], values[in_chart]),
                "characters",
                f"mean {name}",
                caption,
            )


def _outcome_chart(scored: RowScores, length: Floats, caption: str) -> Scatter | None:
    finite = np.isfinite(scored.scores)
    if finite.sum() < LEAST_ROWS or np.ptp(length[finite]) == 0:
        return None
    length, scores = length[finite], scored.scores[finite]
    if scored.labels:
        bins = proportions_by_bin(length, scores, quantiles(length))
        title = f"{scored.name}: share of correct rows by length"
        return _scatter(title, bins, "characters", "share correct", caption, (0, 1))
    title, y = f"{scored.name} by length", "mean value"
    if scored.labelled:
        scores = -scores
        title, y = f"{scored.name}: error by length", "mean distance from the target"
    return _scatter(title, means_by_fifth(length, scores), "characters", y, caption)


def _scatter(
    title: str,
    bins: Sequence[Bin],
    x: str,
    y: str,
    caption: str,
    y_range: Range = (None, None),
) -> Scatter:
    series = Series("", bin_points(bins), joined=True)
    return Scatter(title, (series,), x, y, y_range=y_range, caption=caption)
