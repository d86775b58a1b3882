"""Charts of possible biases: verdicts by the length of the judged text, and by the position of an option."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from verdict_cli.plan.node import LLMNode, Node
from verdict_cli.plural import plural
from verdict_cli.report.charts import ChartPoint, Dots, PlanePoint, Scatter, Series
from verdict_cli.report.evaluation_results import Bin, means_by_bin, proportions_by_bin, quantiles
from verdict_cli.report.report_context import ReportContext, number_vectors, text_lengths
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.row_scores import RowScores

LEAST_ROWS = 20
"""Five bins of fewer rows have intervals too wide to show an effect."""
MOST_NODES = 4


def bias_effects(context: ReportContext) -> list[Dots | Scatter]:
    """Charts of position and length effects, where they apply."""
    choosing = [node for node in context.plan.nodes if isinstance(node.work, LLMNode) and node.work.letters]
    columns = context.text_columns()
    for node in choosing:
        columns += [f"source.{path[1]}" for path in _option_columns(node) if f"source.{path[1]}" not in columns]
    lengths = text_lengths(context.results, columns)
    charts: list[Dots | Scatter] = []
    for node in choosing[:MOST_NODES]:
        charts += _choice_charts(context, node, lengths)
    if lengths:
        charts += _length_charts(context, lengths)
    return charts


def _option_columns(node: Node) -> list[tuple[str | int, ...]]:
    """The paths of the options, if each is an unchanged column of the dataset."""
    assert isinstance(node.work, LLMNode)
    paths = [option.paths[0] for _, option in node.work.options if len(option.paths) == 1]
    plain: list[tuple[str | int, ...]] = [path for path in paths if len(path) == 2 and path[0] == "source"]
    return plain if len(plain) == len(node.work.options) else []


def _choice_charts(context: ReportContext, node: Node, lengths: dict[str, Floats]) -> Iterator[Dots | Scatter]:
    from verdict_cli.stats.intervals.interval_methods import wilson
    from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL

    choices = _choices(context, node)
    known = [choice for choice in choices if choice is not None]
    if not known:
        return
    points = []
    for letter in dict.fromkeys((*node.work.letters, *sorted(set(known)))):  # type: ignore[union-attr]
        hits = known.count(letter)
        points.append(
            ChartPoint(
                letter, hits / len(known), *wilson(hits, len(known), CONFIDENCE_LEVEL), f"{hits:,} of {len(known):,}"
            )
        )
    yield Dots(
        f"{node.id}: how often each option is chosen",
        points,
        "share of rows",
        (0, 1),
        caption="By position in the dataset; if the order is arbitrary, equal shares are expected.",
    )
    options = [f"source.{path[1]}" for path in _option_columns(node)]
    if len(options) != 2 or not all(option in lengths for option in options):
        return
    longer = lengths[options[0]] - lengths[options[1]]
    which = np.array([{"A": 1.0, "B": -1.0}.get(choice or "", np.nan) for choice in choices])
    kept = np.flatnonzero(np.isfinite(which) & (longer != 0))
    if len(kept) < LEAST_ROWS:
        return
    distance = np.abs(longer[kept])
    hits = (np.sign(longer[kept]) == which[kept]).astype(np.float64)
    yield _scatter(
        f"{node.id}: how often the longer option is chosen",
        proportions_by_bin(distance, hits, quantiles(distance)),
        "characters more",
        "share that chooses the longer",
        (0, 1),
        "Fifths of the rows by the difference in length; ties and equal lengths are left out.",
    )


def _choices(context: ReportContext, node: Node) -> list[str | None]:
    from verdict_cli.storage.tables.reader import read_table, table_columns

    column = f"{node.id}.choice"
    if column not in table_columns(context.results):
        return []
    choices: list[str | None] = []
    for batch in read_table(context.results, [column]):
        choices += [value if isinstance(value, str) and len(value) <= 3 else None for value in batch[column]]
    return choices


def _length_charts(context: ReportContext, lengths: dict[str, Floats]) -> Iterator[Scatter]:
    total = np.sum(list(lengths.values()), axis=0)
    shown = ", ".join(name.removeprefix("source.") for name in lengths)
    caption = f"Fifths of the rows by the length of what the prompts show of them ({shown})."
    for scored in context.study.scored[:1]:
        if chart := _outcome_chart(scored, total[scored.at], caption):
            yield chart
        if not scored.labelled:
            return
    fields = [f"output.{name}" for name in _output_fields(context)]
    for name, values in list(number_vectors(context.results, fields).items())[:1]:
        kept = np.isfinite(values)
        if kept.sum() >= LEAST_ROWS and np.ptp(values[kept]) > 0 and np.ptp(total[kept]) > 0:
            yield _scatter(
                f"{name} by length", _binned(total[kept], values[kept]), "characters", f"mean {name}", None, caption
            )


def _output_fields(context: ReportContext) -> Sequence[str]:
    node = context.plan.output_node
    return [] if node is None else list(node.result.fields)


def _outcome_chart(scored: RowScores, length: Floats, caption: str) -> Scatter | None:
    kept = np.isfinite(scored.scores)
    if kept.sum() < LEAST_ROWS or np.ptp(length[kept]) == 0:
        return None
    length, scores = length[kept], scored.scores[kept]
    if scored.labels:
        bins = proportions_by_bin(length, scores, quantiles(length))
        return _scatter(
            f"{scored.name}: share of correct rows by length", bins, "characters", "share correct", (0, 1), caption
        )
    if not scored.labelled:
        return _scatter(f"{scored.name} by length", _binned(length, scores), "characters", "mean value", None, caption)
    distance = "mean distance from the target"
    return _scatter(f"{scored.name}: error by length", _binned(length, -scores), "characters", distance, None, caption)


def _binned(x: Floats, y: Floats) -> tuple[Bin, ...]:
    """Means by fifths of `x`."""
    edges = quantiles(x)
    fifth = np.searchsorted(edges[1:-1], x, side="left")
    return tuple(
        Bin(mean.n, float(x[fifth == at].mean()), mean.y, mean.low, mean.high)
        for at in np.unique(fifth)
        for mean in means_by_bin(np.zeros(int((fifth == at).sum())), y[fifth == at])
    )


def _scatter(
    title: str, bins: Sequence[Bin], x: str, y: str, y_range: tuple[float, float] | None, caption: str
) -> Scatter:
    points = [PlanePoint(each.x, each.y, each.low, each.high, label=plural(each.n, "row")) for each in bins]
    return Scatter(title, (Series("", points, joined=True),), x, y, y_range=y_range or (None, None), caption=caption)
