"""The sections of a run's evaluations: metrics, confusion matrix, groups, published rows, calibration, distributions,
annotators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from verdict_cli.plural import plural
from verdict_cli.report import formatting, run_notes
from verdict_cli.report.charts import Bars, ChartPoint, Dots, Matrix, Scatter, Series
from verdict_cli.report.document import (
    PAGE_FORMATS,
    TEXT_FORMATS,
    Group,
    MetricList,
    Note,
    Only,
    Part,
    Section,
    Table,
    isolated_parts,
)
from verdict_cli.report.report import PublishedComparison, Report, scalar_metrics
from verdict_cli.report.report_context import (
    Distributions,
    Histogram,
    ReportContext,
    bin_points,
    histogram,
    number_vectors,
)
from verdict_cli.stats.annotators import ADVANTAGE, Annotator, AnnotatorPair, AnnotatorStudy
from verdict_cli.stats.columns.column import MISSING
from verdict_cli.stats.intervals.interval_methods import MetricValue

OPEN_EVALUATIONS = 3
"""A page shows so many evaluations in full; if there are more, each is folded below an overview."""
MOST_LABELS_IN_MATRIX = 30
"""A larger confusion matrix cannot be read."""
MOST_GROUPS_PRINTED = 12
MOST_CHART_FIELDS = 3


def evaluation_sections(report: Report, context: ReportContext | None) -> Iterator[Section]:
    """A section for each evaluation; of many, one section on a page."""
    if not report.measures:
        return
    folded = len(report.measures) > OPEN_EVALUATIONS
    groups = []
    for name, measures in report.measures.items():
        make = partial(_evaluation, report, name, context)
        parts = isolated_parts(f"The evaluation {name}", make)
        if folded:
            flat = [
                inner
                for part in parts
                for inner in (part.parts if isinstance(part, Group) else [part])
            ]
            groups.append(
                Group(
                    flat,
                    f"{name} ({formatting.kind_text(measures.kind)})" if measures.kind else name,
                )
            )
        yield Section(
            name,
            parts,
            formatting.kind_text(measures.kind),
            formats=TEXT_FORMATS if folded else (*TEXT_FORMATS, *PAGE_FORMATS),
        )
    if folded:
        rows = [(name, *_overview(report, name)) for name in report.measures]
        overview = Table(
            ("evaluation", "metric", "value", formatting.interval_header(report.level), "n"),
            rows,
            (2, 3, 4),
        )
        yield Section("Evaluations", [overview, *groups], formats=PAGE_FORMATS)


def _overview(report: Report, name: str) -> tuple[str, str, str, str]:
    first = report.primary_metric(name)
    return ("–", "–", "", "0") if first is None else (first[0], *formatting.metric_cells(first[1]))


def _evaluation(report: Report, name: str, context: ReportContext | None) -> Iterator[Part]:
    measures, comparison = report.measures[name], report.comparisons.get(name)
    averages = {key: f"{key} ({average})" for key, average in measures.averages.items()}
    shown = scalar_metrics(measures.values)
    metrics = MetricList([(averages.get(key, key), metric) for key, metric in shown.items()])
    matrix = measures.values.get("confusion")
    if matrix is None or matrix.value is None:
        yield metrics
    else:
        yield from _with_confusion(metrics, matrix)
    for line in run_notes.coverage_notes(measures):
        yield Note(line)
    for line in measures.warnings:
        yield Note(line, warning=True)
    if measures.annotators is not None:
        yield from annotator_parts(measures.annotators)
    if comparison is not None:
        published = _published_chart(comparison)
        yield Only(
            TEXT_FORMATS,
            [Note(f"{published.title}, {comparison.place}"), published.table(folded=False)],
        )
        if comparison.caveat:
            yield Note(comparison.caveat, warning=True)
    charts = isolated_parts("The charts", partial(_charts, report, name, context))
    if charts:
        yield Only(PAGE_FORMATS, [Group(charts)])
    first = report.primary_metric(name)
    for expression, groups in measures.groups.items():
        if first is not None:
            chart = _group_chart(expression, groups, first)
            yield Only(
                ("terminal",),
                [Note(chart.title), chart.table(folded=False, most_rows=MOST_GROUPS_PRINTED)],
            )
        yield _groups_table(expression, groups)


def _groups_table(expression: str, groups: Mapping[str, Mapping[str, MetricValue]]) -> Table:
    rows = [
        (value, name, *formatting.metric_cells(metric), metric.reason)
        for value, metrics in groups.items()
        for name, metric in scalar_metrics(metrics).items()
    ]
    headers = (expression, "metric", "value", "interval", "n", "")
    return Table(headers, rows, (2, 3, 4), folded=f"All metrics by {expression}", most_rows=200)


def _charts(report: Report, name: str, context: ReportContext | None) -> Iterator[Part]:
    if name in report.comparisons:
        yield _published_chart(report.comparisons[name])
    first = report.primary_metric(name)
    if first is not None:
        for expression, groups in report.measures[name].groups.items():
            yield _group_chart(expression, groups, first)
    if context is not None:
        yield from _distribution_charts(context.study.distributions[name])
        yield from _output_charts(name, context)


def _published_chart(comparison: PublishedComparison) -> Dots:
    """This run among the published rows."""
    points = [
        ChartPoint.of(
            row.judge,
            row,
            run_notes.row_origin(row),
            row.ours,
            (comparison.shown(row.value), comparison.shown_interval(row)),
        )
        for row in comparison.standings
    ]
    return Dots(
        f"Compared with {comparison.source}",
        points,
        comparison.metric,
        caption=f"{comparison.metric}, {comparison.place}; published rows have no intervals.",
    )


def _group_chart(
    expression: str,
    groups: Mapping[str, Mapping[str, MetricValue]],
    overall: tuple[str, MetricValue],
) -> Dots:
    """One metric for each value of an expression, with its value over all rows as a line."""
    name, over_all_rows = overall
    points = [
        ChartPoint.of(value, metric, f"n={metric.n}")
        for value, metrics in groups.items()
        if (metric := metrics.get(name)) is not None
    ]
    bounded = all((point.low or 0) >= 0 and (point.high or 0) <= 1 for point in points)
    return Dots(
        f"{name} by {expression}",
        points,
        name,
        (0, 1) if bounded else (None, None),
        over_all_rows.value,
        "The dashed line is the value over all rows.",
    )


def _with_confusion(metrics: MetricList, matrix: MetricValue) -> Iterator[Part]:
    """The metrics beside rows by target and prediction: in text a table, on a page a picture with it."""
    labels, counts = matrix.value["labels"], matrix.value["counts"]
    if len(labels) > MOST_LABELS_IN_MATRIX:
        yield Group(
            [
                metrics,
                Note(f"the confusion matrix of {plural(len(labels), 'label')} is in report.json"),
            ]
        )
        return
    confusion = Matrix(
        "Confusion matrix",
        [formatting.label(label) for label in labels],
        counts,
        "The area of a square is its share of the rows with that target.",
    )
    yield Only(TEXT_FORMATS, [Group([metrics, confusion.table(caption=confusion.title)])])
    yield Only(PAGE_FORMATS, [Group([metrics, confusion])])


def _distribution_charts(distributions: Distributions) -> Iterator[Bars | Scatter]:
    """Calibration, and the distribution of predictions."""
    if distributions.reliability:
        yield Scatter(
            "Reliability",
            (Series("", bin_points(distributions.reliability), joined=True),),
            "mean probability",
            "share of positive targets",
            (0, 1),
            (0, 1),
            diagonal=True,
            caption="Ten bins of the probability; a calibrated judge is on the dashed line.",
        )
    if distributions.probabilities:
        yield _histogram_chart(
            "Probabilities by target", distributions.probabilities, "probability"
        )
    if distributions.predictions:
        yield _histogram_chart("Predictions", distributions.predictions, "prediction")
    if distributions.by_target:
        yield Scatter(
            "Prediction against target",
            (Series("", bin_points(distributions.by_target)),),
            "target",
            "mean prediction",
            diagonal=True,
            caption="Mean predictions with their 95% intervals; on the dashed line they equal the target.",
        )


def _output_charts(name: str, context: ReportContext) -> Iterator[Bars]:
    """The numeric outputs of the pipeline by target, if the evaluation compares labels."""
    scores = next(
        (scores for scores in context.study.scored if scores.name == name and scores.labels), None
    )
    node = context.plan.output_node
    if scores is None or node is None:
        return
    data = scores.data
    labelled = data.target != MISSING
    columns = number_vectors(context.results, [f"output.{field}" for field in node.result.fields])
    for column, vector in list(columns.items())[:MOST_CHART_FIELDS]:
        values = vector[scores.at]
        indices = np.flatnonzero(np.isfinite(values) & labelled)
        if len(indices) and np.ptp(values[indices]) > 0:
            counts = histogram(values[indices], data.target[indices], data.labels)
            yield _histogram_chart(f"{column} by target", counts, column)


def _histogram_chart(title: str, bins: Histogram, x: str) -> Bars:
    """A histogram whose bins are labelled with their middle."""
    middles = [(low + high) / 2 for low, high in zip(bins.edges, bins.edges[1:], strict=False)]
    labels = [str(int(middle)) if middle == int(middle) else f"{middle:.3g}" for middle in middles]
    return Bars(title, labels, bins.counts, x, "rows", joined=True)


_SHOWN_DISAGREEMENTS = 3


def _not_shown(annotator: Annotator) -> str:
    return "" if annotator.p is None or annotator.wins else " (not shown)"


def annotator_parts(study: AnnotatorStudy) -> Iterator[Part]:
    """A conclusion, a table of the annotators, and a folded one of their pairs."""
    yield Note(_agreement_conclusion(study))
    yield Note(_replacement(study))
    rows = [
        (
            formatting.visible_text(annotator.name or "unnamed"),
            f"{annotator.rows:,}",
            f"{annotator.skipped:,}",
            _number(annotator.with_others),
            _number(annotator.with_judge),
            f"{formatting.p_value(annotator.p)}{_not_shown(annotator)}",
        )
        for annotator in study.annotators
    ]
    yield Table(
        (
            "annotator",
            "labels",
            "skipped",
            "agrees with others",
            "with the judge",
            "p (judge as good)",
        ),
        rows,
        (1, 2, 3, 4, 5),
    )
    if study.nominal:
        yield Only(PAGE_FORMATS, [agreement_chart(study)])
    pairs = [
        (
            f"{formatting.visible_text(pair.first or 'unnamed')} and {formatting.visible_text(pair.second or 'unnamed')}",
            f"{pair.rows:,}",
            _number(pair.agreement),
            _disagreements(pair),
        )
        for pair in study.pairs
    ]
    headers = ("annotators", "rows", "agreement", "most frequent disagreements")
    yield Table(headers, pairs, (1, 2), folded="Pairs of annotators", most_rows=200)


def agreement_chart(study: AnnotatorStudy) -> Dots:
    """How often two people agree, and the judge with a person: in all, then for each person."""
    points = [
        ChartPoint.of(name, metric, f"n={metric.n:,}", strong=True)
        for name, metric in (("two people", study.ceiling), ("judge and a person", study.judge))
    ]
    points += [
        ChartPoint(f"{annotator.name or 'unnamed'}, {other}", value, note=f"n={annotator.rows:,}")
        for annotator in study.annotators
        for other, value in (("others", annotator.with_others), ("judge", annotator.with_judge))
    ]
    known = [point for point in points if point.value is not None]
    return Dots(
        "Agreement",
        known,
        "share of rows",
        (0, 1),
        caption="The judge cannot agree with people more than they do.",
    )


def _agreement_conclusion(study: AnnotatorStudy) -> str:
    people, judge, difference = (
        formatting.number_with_interval(metric)
        for metric in (study.ceiling, study.judge, study.difference)
    )
    kind = "agree on" if study.nominal else "have an agreement (minus the distance) of"
    return (
        f"people {kind} {people}, the judge and a person {judge}, on {plural(study.ceiling.n, 'row')} with two labels: "
        f"difference {difference}"
    )


def _replacement(study: AnnotatorStudy) -> str:
    if study.winning_rate is None:
        return f"alternative annotator test: not done, {study.untested}"
    share = f"the judge wins against {study.winning_rate:.0%} of the annotators (advantage {ADVANTAGE:g})"
    end = (
        "it may replace them"
        if study.winning_rate >= 0.5
        else "it has not been shown that it may replace them"
    )
    return f"alternative annotator test: {share}; {end}"


def _number(value: float | None) -> str:
    return "–" if value is None else formatting.format_number(value)


def _disagreements(pair: AnnotatorPair) -> str:
    counted = [
        (
            count,
            f"{formatting.label(pair.labels[row])} / {formatting.label(pair.labels[column])}: {count:,}",
        )
        for row, counts in enumerate(pair.counts)
        for column, count in enumerate(counts)
        if row != column and count
    ]
    return ", ".join(
        text for _, text in sorted(counted, key=lambda entry: -entry[0])[:_SHOWN_DISAGREEMENTS]
    )
