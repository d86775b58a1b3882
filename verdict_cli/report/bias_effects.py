"""What should not decide a verdict and may: the length of the text that is judged, and an option's place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from verdict_cli.plan.node import LLMNode, Node
from verdict_cli.report.page.chart_values import ChartPlace, ChartPoint, Dots, Scatter, Series
from verdict_cli.report.report_context import ReportContext
from verdict_cli.report.result_vectors import lengths, number_vector
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.evaluation_results import Bin, RowScores, means_by_bin, proportions_by_bin, quantiles

LEAST_ROWS = 20
"""Fewer rows show nothing in five bins."""
MOST_NODES = 4


def effects(behind: ReportContext) -> list[Dots | Scatter]:
    """Charts of position and length effects, where they apply."""
    choosing = [node for node in behind.plan.nodes if isinstance(node.work, LLMNode) and node.work.letters]
    wanted = behind.texts()
    for node in choosing:
        wanted += [f"source.{path[1]}" for path in _plain(node) if f"source.{path[1]}" not in wanted]
    long = lengths(behind.results, wanted)
    found: list[Dots | Scatter] = []
    for node in choosing[:MOST_NODES]:
        found += _of_choice(behind, node, long)
    if long:
        found += _of_length(behind, long)
    return found


def _plain(node: Node) -> list[tuple[str | int, ...]]:
    """The options that are a column of the dataset as it stands."""
    assert isinstance(node.work, LLMNode)
    found = [option.paths[0] for _, option in node.work.options if len(option.paths) == 1]
    plain: list[tuple[str | int, ...]] = [path for path in found if len(path) == 2 and path[0] == "source"]
    return plain if len(plain) == len(node.work.options) else []


def _of_choice(behind: ReportContext, node: Node, long: dict[str, Floats]) -> Iterator[Dots | Scatter]:
    from verdict_cli.stats.intervals.interval_methods import wilson
    from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL

    choices = _choices(behind, node)
    known = [choice for choice in choices if choice is not None]
    if not known:
        return
    spots = []
    for letter in dict.fromkeys((*node.work.letters, *sorted(set(known)))):  # type: ignore[union-attr]
        hits = known.count(letter)
        spots.append(
            ChartPoint(
                letter, hits / len(known), *wilson(hits, len(known), CONFIDENCE_LEVEL), f"{hits:,} of {len(known):,}"
            )
        )
    yield Dots(
        f"{node.id}: how often each option is chosen",
        spots,
        "share of rows",
        (0, 1),
        caption="As the dataset gives the options; where their order says nothing, equal shares are expected.",
    )
    ways = [f"source.{path[1]}" for path in _plain(node)]
    if len(ways) != 2 or not all(way in long for way in ways):
        return
    longer = long[ways[0]] - long[ways[1]]
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


def _choices(behind: ReportContext, node: Node) -> list[str | None]:
    from verdict_cli.storage.tables.reader import read_table, table_columns

    column = f"{node.id}.choice"
    if column not in table_columns(behind.results):
        return []
    found: list[str | None] = []
    for batch in read_table(behind.results, [column]):
        found += [value if isinstance(value, str) and len(value) <= 3 else None for value in batch[column]]
    return found


def _of_length(behind: ReportContext, long: dict[str, Floats]) -> Iterator[Scatter]:
    total = np.sum(list(long.values()), axis=0)
    told = ", ".join(name.removeprefix("source.") for name in long)
    told = f"Fifths of the rows by the length of what the prompts show of them ({told})."
    for scored in behind.study.scored[:1]:
        if chart := _outcome(scored, total[scored.at], told):
            yield chart
        if not scored.labelled:
            return
    fields = [f"output.{name}" for name in _output_fields(behind)]
    for name, values in list(number_vector(behind.results, fields).items())[:1]:
        kept = np.isfinite(values)
        if kept.sum() >= LEAST_ROWS and np.ptp(values[kept]) > 0 and np.ptp(total[kept]) > 0:
            yield _scatter(
                f"{name} by length", _binned(total[kept], values[kept]), "characters", f"mean {name}", None, told
            )


def _output_fields(behind: ReportContext) -> Sequence[str]:
    node = behind.plan.output_node
    return [] if node is None else list(node.output.fields)


def _outcome(scored: RowScores, length: Floats, told: str) -> Scatter | None:
    kept = np.isfinite(scored.scores)
    if kept.sum() < LEAST_ROWS or np.ptp(length[kept]) == 0:
        return None
    length, scores = length[kept], scored.scores[kept]
    if scored.labels:
        bins = proportions_by_bin(length, scores, quantiles(length))
        return _scatter(
            f"{scored.name}: right answers by length", bins, "characters", "share that is right", (0, 1), told
        )
    if not scored.labelled:
        return _scatter(f"{scored.name} by length", _binned(length, scores), "characters", "mean value", None, told)
    distance = "mean distance from the target"
    return _scatter(f"{scored.name}: error by length", _binned(length, -scores), "characters", distance, None, told)


def _binned(x: Floats, y: Floats) -> tuple[Bin, ...]:
    """Means by fifths of `x`."""
    edges = quantiles(x)
    place = np.searchsorted(edges[1:-1], x, side="left")
    return tuple(
        Bin(one.n, float(x[place == at].mean()), one.y, one.low, one.high)
        for at in np.unique(place)
        for one in means_by_bin(np.zeros(int((place == at).sum())), y[place == at])
    )


def _scatter(
    title: str, bins: Sequence[Bin], x: str, y: str, y_range: tuple[float, float] | None, caption: str
) -> Scatter:
    places = [ChartPlace(one.x, one.y, one.low, one.high, label=f"{one.n:,} rows") for one in bins]
    return Scatter(title, (Series("", places, joined=True),), x, y, y_range=y_range or (None, None), caption=caption)
