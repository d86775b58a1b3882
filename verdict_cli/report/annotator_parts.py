"""What a report says of a run's annotators: each person, the ceiling, the test, and who said what."""

from __future__ import annotations

from collections.abc import Iterator

from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.report.charts import ChartPoint, Dots
from verdict_cli.report.document import PAGE_FORMATS, Note, Only, Part, Table
from verdict_cli.stats.annotators import ADVANTAGE, AnnotatorPair, AnnotatorStudy
from verdict_cli.stats.intervals.interval_methods import MetricValue

_SHOWN_DISAGREEMENTS = 3


def annotator_parts(study: AnnotatorStudy) -> Iterator[Part]:
    """A conclusion, a table of the annotators, and a folded one of their pairs."""
    yield Note(_conclusion(study))
    yield Note(_replacement(study))
    rows = [
        (
            formatting.visible_text(each.name or "unnamed"),
            f"{each.rows:,}",
            f"{each.skipped:,}",
            _number(each.with_others),
            _number(each.with_judge),
            "–" if each.p is None else f"{each.p:.3g}{'' if each.wins else ' (not shown)'}",
        )
        for each in study.annotators
    ]
    yield Table(
        ("annotator", "labels", "skipped", "agrees with others", "with the judge", "p (judge as good)"),
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
        ChartPoint(name, metric.value, metric.low, metric.high, f"n={metric.n:,}", strong=True)
        for name, metric in (("two people", study.ceiling), ("judge and a person", study.judge))
    ]
    points += [
        ChartPoint(f"{each.name or 'unnamed'}, {other}", value, note=f"n={each.rows:,}")
        for each in study.annotators
        for other, value in (("others", each.with_others), ("judge", each.with_judge))
    ]
    known = [point for point in points if point.value is not None]
    return Dots(
        "Agreement", known, "share of rows", (0, 1), caption="The judge cannot agree with people more than they do."
    )


def _conclusion(study: AnnotatorStudy) -> str:
    kind = "agree on" if study.nominal else "have an agreement (minus the distance) of"
    return (
        f"people {kind} {_with_interval(study.ceiling)}, the judge and a person {_with_interval(study.judge)}, on "
        f"{plural(study.ceiling.n, 'row')} with two labels: difference {_with_interval(study.difference)}"
    )


def _replacement(study: AnnotatorStudy) -> str:
    if study.winning_rate is None:
        return f"alternative annotator test: not done, {study.untested}"
    share = f"the judge wins against {study.winning_rate:.0%} of the annotators (advantage {ADVANTAGE:g})"
    end = "it may replace them" if study.winning_rate >= 0.5 else "it has not been shown that it may replace them"
    return f"alternative annotator test: {share}; {end}"


def _with_interval(metric: MetricValue) -> str:
    if metric.value is None:
        return "–"
    return f"{formatting.format_number(metric.value)} {formatting.interval(metric.low, metric.high)}".strip()


def _number(value: float | None) -> str:
    return "–" if value is None else formatting.format_number(value)


def _disagreements(pair: AnnotatorPair) -> str:
    found = [
        (count, f"{formatting.label(pair.labels[row])} / {formatting.label(pair.labels[column])}: {count:,}")
        for row, counts in enumerate(pair.counts)
        for column, count in enumerate(counts)
        if row != column and count
    ]
    return ", ".join(text for _, text in sorted(found, key=lambda each: -each[0])[:_SHOWN_DISAGREEMENTS])
