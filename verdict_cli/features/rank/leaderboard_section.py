"""The leaderboards of a run: systems with their ranks and intervals, and who won against whom."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.report.charts import ChartPoint, Dots
from verdict_cli.report.document import (
    PAGE_FORMATS,
    Note,
    Only,
    Part,
    Section,
    Table,
    isolated_parts,
)
from verdict_cli.report.report import Report
from verdict_cli.report.report_context import ReportContext

if TYPE_CHECKING:  # it imports scipy, and this module is part of every report
    from verdict_cli.features.rank.contest import Leaderboard

MOST_SYSTEMS_IN_MATRIX = 30


def leaderboard_sections(report: Report, context: ReportContext | None) -> Iterator[Section]:
    """A section for each leaderboard."""
    for name, study in report.studies.items():
        if study.kind != "arena":
            continue
        board = cast("Leaderboard", study)
        parts = isolated_parts(f"The leaderboard {name}", partial(_parts, board))
        yield Section(name, parts, "leaderboard", essential=True)


def _parts(board: Leaderboard) -> Iterator[Part]:
    yield from ranking_tables(board)
    metrics = defined_metrics(board)
    yield Note(
        f"{plural(board.items, 'item')}. Intervals are 95% for all systems together; a rank is the range that the data allow, "
        f"95% for all pairs together, by {board.ranked_by}."
    )
    for name, slope in board.slopes.items():
        effect = f"one more unit of {name} adds {slope:.3g} to {board.metrics[0]}"
        yield Note(
            f"control: {effect}. The values are those at equal ones of it; uncontrolled are those without the control."
        )
    if board.missing:
        yield Note(
            f"{board.missing:,} of {plural(board.rows, 'row has|rows have')} no result and are left out",
            warning=True,
        )
    for warning in board.warnings:
        yield Note(warning, warning=True)
    if metrics:
        yield Only(PAGE_FORMATS, [_chart(board, metrics[0])])
    if 1 < len(board.standings) <= MOST_SYSTEMS_IN_MATRIX:
        yield _matrix(board)


def ranking_tables(board: Leaderboard) -> Iterator[Table]:
    """The ranks by the first metric that is defined, and the other metrics."""
    metrics = defined_metrics(board)
    if metrics:
        yield _ranks(board, metrics[0])
    if metrics[1:]:
        yield _further(board, metrics[1:])


def defined_metrics(board: Leaderboard) -> list[str]:
    """The metrics of which a value is known."""
    return [
        metric
        for metric in board.metrics
        if any(standing.values[metric].value is not None for standing in board.standings)
    ]


def rank_text(rank: tuple[int, int] | None) -> str:
    """`3` or `3–5`."""
    if rank is None:
        return "–"
    return str(rank[0]) if rank[0] == rank[1] else f"{rank[0]}–{rank[1]}"


def _ranks(board: Leaderboard, metric: str) -> Table:
    """The standings by their ranks, with the metric that they are ranked by, and what only some contests have."""
    more = {}
    values = [standing.values[metric] for standing in board.standings]
    if any(value.uncontrolled is not None for value in values):
        more["uncontrolled"] = [formatting.format_number(value.uncontrolled) for value in values]
    if any(standing.wins is not None for standing in board.standings):
        more["won"] = [f"{standing.wins or 0:g}" for standing in board.standings]
    if any(standing.failed for standing in board.standings):
        more["failed"] = [f"{standing.failed:,}" for standing in board.standings]
    headers = ("rank", board.noun, metric, "95% interval", *more, "n")
    rows = [
        (
            rank_text(standing.rank),
            standing.name,
            *formatting.number_cells(standing.values[metric]),
            *(cells[index] for cells in more.values()),
            f"{standing.n:,}",
        )
        for index, standing in enumerate(board.standings)
    ]
    return Table(headers, rows, tuple(range(2, len(headers))))


def _further(board: Leaderboard, metrics: list[str]) -> Table:
    """The other metrics of each system."""
    headers = (board.noun, *(header for metric in metrics for header in (metric, "95% interval")))
    rows = [
        (
            standing.name,
            *(
                cell
                for metric in metrics
                for cell in formatting.number_cells(standing.values[metric])
            ),
        )
        for standing in board.standings
    ]
    return Table(headers, rows, tuple(range(1, len(headers))), "Other metrics")


def _chart(board: Leaderboard, metric: str) -> Dots:
    points = [
        ChartPoint.of(standing.name, value, f"rank {rank_text(standing.rank)}")
        for standing in board.standings
        if (value := standing.values[metric]).value is not None
    ]
    return Dots(
        f"{metric} by system", points, metric, caption="Intervals are 95% for all systems together."
    )


def _matrix(board: Leaderboard) -> Table:
    """Shares of battles that the row's system won against the column's."""
    rows, heat = [], []
    for index, (standing, wins, met) in enumerate(
        zip(board.standings, board.wins, board.battles, strict=True), 1
    ):
        shares = [
            won / battles if battles else None for won, battles in zip(wins, met, strict=True)
        ]
        rows.append(
            (
                f"{index} {standing.name}",
                *("" if share is None else f"{share:.2f}" for share in shares),
            )
        )
        heat.append([share or 0.0 for share in shares])
    headers = ("row beats column", *(str(index) for index in range(1, len(rows) + 1)))
    right = tuple(range(1, len(headers)))
    return Table(headers, rows, right, "Share of battles won, ties as one half", heat=heat)
