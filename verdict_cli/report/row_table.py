"""The table of rows of a page, which rows it shows, and the details it opens, within a budget of bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from verdict_cli.report.page.components import Browser, TableColumn
from verdict_cli.report.page.compress import NESTED, encoded, packed, packed_bytes
from verdict_cli.report.report_context import ReportContext
from verdict_cli.report.row_details import row_details
from verdict_cli.stats.columns.column import Ints
from verdict_cli.stats.evaluation_results import RowScores
from verdict_cli.storage.tables.arrow_vectors import scalar, truths
from verdict_cli.storage.tables.reader import read_arrow, read_rows, table_columns

ROWS_BYTES = 1_000_000
"""What the packed table may take of a page."""
STORIES_BYTES = 1_400_000
"""What the packed stories may take of it."""
TOLD_BYTES = 8_000_000
"""What they may hold before they are packed, which takes time."""
TEXT_CHARACTERS = 1_500_000
"""Characters of the dataset's texts in the table, over all rows."""
PER = 25
"""Stories packed together: what the script unpacks to show one."""
ROWS_PER = 1000
MOST_TEXTS = 2
MOST_TABLE_FIELDS = 3
_LONG = frozenset({str, *NESTED})
MANY_ROWS = 6
"""So many columns leave room for one text."""


def row_table(behind: ReportContext) -> Browser:
    """The table of a run's rows."""
    some = select_rows(behind)
    told, where = _stories(behind, some.stories)
    columns = _columns(behind, some)
    lists = [values for _, values in columns]
    pieces: list[str] = []
    shown = taken = 0
    for start in range(0, len(some.rows), ROWS_PER):
        if taken > ROWS_BYTES:
            break
        places = some.rows[start : start + ROWS_PER].tolist()
        cells = zip(*(values[start : start + ROWS_PER] for values in lists), strict=True)
        pieces.append(packed([[*row, where.get(place)] for row, place in zip(cells, places, strict=True)]))
        taken += len(pieces[-1])
        shown += len(places)
    note = _note(some, shown, len(where))
    return Browser([column for column, _ in columns], pieces, told, PER, shown, note)


def _note(some: RowSelection, shown: int, told: int) -> str:
    """What the page leaves out, and where it is."""
    if shown == told == some.total:
        return ""
    rows = f"all {some.total:,} rows" if shown == some.total else f"{shown:,} of {some.total:,} rows"
    which = "" if shown == some.total else ": failed and wrong ones first, then a sample of the rest"
    trouble = len(some.failed) + len(some.wrong)
    stories = f"the whole story of {told:,} of them"
    if trouble and told >= trouble:
        stories += ", every failed or wrong one among them,"
    return (
        f"This file has {rows}{which}; and {stories}; the first characters of each text can be searched. "
        "`verdict view RUN` shows and searches everything."
    )


def _stories(behind: ReportContext, places: Ints) -> tuple[list[str], dict[int, int]]:
    """Packed stories, and the number of each row's: as many as there is room for, rows in trouble first."""
    pieces: list[str] = []
    where: dict[int, int] = {}
    held: list[bytes] = []
    told = taken = 0
    for place, story in row_details(behind.results, behind.calls, places):
        if told > TOLD_BYTES or taken > STORIES_BYTES:
            break
        where[place] = len(where)
        held.append(encoded(story))
        told += len(held[-1])
        if len(held) == PER:
            taken += _pack(pieces, held)
    if held:
        _pack(pieces, held)
    return pieces, where


def _pack(pieces: list[str], held: list[bytes]) -> int:
    """Packs what is held; how long it is."""
    pieces.append(packed_bytes(b"[" + b",".join(held) + b"]"))
    held.clear()
    return len(pieces[-1])


def _columns(behind: ReportContext, some: RowSelection) -> list[tuple[TableColumn, list[Any]]]:
    """Each column of the table with its cells, in the order of the rows."""
    held = _held(behind, some.rows)
    found: list[tuple[TableColumn, list[Any]]] = [(TableColumn("id", "Row"), held.pop("id"))]
    status, failure = held.pop("status"), held.pop("failure.kind")
    outcome = ["none" if one == "ok" else one for one in status]
    for place, scored in enumerate(behind.study.scored):
        said, target, scores = _scored(scored, some.rows)
        if place or not scored.labelled:
            if len(behind.study.measures) > len(behind.study.scored):
                continue
            found.append((_column(f"said{place}", scored.name, said), said))
            continue
        found += [
            (_column("prediction", "Prediction" if scored.data.predictions.types else "Probability", said), said),
            (_column("target", "Target", target), target),
        ]
        if scored.labels:
            outcome = [
                known if known != "none" or score is None else "right" if score else "wrong"
                for known, score in zip(outcome, scores, strict=True)
            ]
        else:
            error = [None if score is None else -score for score in scores]
            found.append((TableColumn("error", "Error", "number"), error))
    if set(outcome) != {"none"}:
        found.insert(0, (TableColumn("outcome", "Outcome", "outcome"), outcome))
    if any(failure):
        found.append((TableColumn("failure", "Failure"), failure))
    for name, values in held.items():
        if (
            name.startswith("output.")
            and len(found) < MANY_ROWS
            and not _nested(behind, name)
            and not any(values == other for _, other in found)
        ):
            found.append((_column(name, name, values), values))
    texts = [(name, values) for name, values in held.items() if name.startswith("source.")]
    found += [
        (TableColumn(name, name.removeprefix("source."), "text", wide=True), values)
        for name, values in texts[: MOST_TEXTS if len(found) < MANY_ROWS else 1]
    ]
    return found


def _nested(behind: ReportContext, name: str) -> bool:
    """Whether an output holds objects or lists, which a cell has no room for."""
    node = behind.plan.output_node
    kind = None if node is None else node.output.fields.get(name.removeprefix("output."))
    return kind is not None and kind.json_schema().get("type") in ("object", "array")


def _column(key: str, title: str, values: Sequence[Any]) -> TableColumn:
    numeric = all(value is None or type(value) in (int, float) for value in values)
    return TableColumn(key, title, "number" if numeric else "text")


def _held(behind: ReportContext, places: Ints) -> dict[str, list[Any]]:
    """The columns of the results that the table shows, in the order of the places."""
    known = table_columns(behind.results)
    texts = behind.texts()[:MOST_TEXTS]
    node = behind.plan.output_node
    named = [] if node is None else [f"output.{name}" for name in node.output.fields]
    wanted = ["id", "status", "failure.kind", *[name for name in named if name in known][:MOST_TABLE_FIELDS], *texts]
    most = max(60, min(300, TEXT_CHARACTERS // max(1, len(places) * len(texts))))
    found: dict[str, list[Any]] = {name: [] for name in wanted}
    order = np.argsort(places, kind="stable")
    for batch in read_rows(behind.results, places[order].tolist(), wanted):
        for name, values in batch.items():
            found[name] += values if _LONG.isdisjoint(map(type, values)) else [_short(v, most) for v in values]
    back = np.argsort(order, kind="stable").tolist()
    return {name: [values[at] for at in back] for name, values in found.items()}


def _short(value: Any, most: int) -> Any:
    if isinstance(value, NESTED):
        value = encoded(value).decode()
    return f"{value[:most]}…" if isinstance(value, str) and len(value) > most else value


def _scored(scored: RowScores, places: Ints) -> tuple[list[Any], list[Any], list[Any]]:
    """Prediction, target and score of each of these rows of the file; None where the evaluation has no such row."""
    at = np.searchsorted(scored.at, places)
    there = (
        (at < len(scored.at)) & (scored.at[np.minimum(at, len(scored.at) - 1)] == places) if len(scored.at) else at < 0
    )
    said: list[Any] = []
    target: list[Any] = []
    scores: list[Any] = []
    for row, known in zip(at.tolist(), there.tolist(), strict=True):
        score = float(scored.scores[row]) if known else float("nan")
        said.append(_short(scored.prediction(row), 200) if known else None)
        target.append(_short(scored.target(row), 200) if known else None)
        scores.append(None if math.isnan(score) else score)
    return said, target, scores


MOST_ROWS_SHOWN = 10_000
MOST_STORIES = 1_000
TROUBLE = 0.8
"""The share of places that rows in trouble may take."""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Places in `results.parquet`: `rows` in the order in which they are shown, `stories` some of them.

    `failed` are all failed rows, `wrong` all that the first labelled evaluation finds wrong; `total` counts the rows.
    """

    rows: Ints
    stories: Ints
    failed: Ints
    wrong: Ints
    total: int


def select_rows(behind: ReportContext) -> RowSelection:
    """The rows of a run, from its statuses and the scores of its first evaluation."""
    bad = _bad(behind)
    failed = np.flatnonzero(bad)
    scored = next(iter(behind.study.scored), None)
    trouble, wrong = failed, np.zeros(0, dtype=np.int64)
    if scored is not None and scored.labelled:
        order, wrong = _worst(scored)
        trouble = np.concatenate([failed, order[~bad[order]]])
    draw = np.random.default_rng([abs(behind.seed), 7])
    everything = np.arange(len(bad))
    rest = np.setdiff1d(everything, trouble, assume_unique=True)
    rows = _some(trouble, rest, MOST_ROWS_SHOWN, draw)
    shown = np.isin(trouble, rows)
    stories = _some(trouble[shown], np.intersect1d(rest, rows), MOST_STORIES, draw)
    return RowSelection(rows, stories, failed, wrong, len(bad))


def _bad(behind: ReportContext) -> npt.NDArray[np.bool_]:
    """Whether each row failed."""
    import pyarrow.compute as pc

    parts = [
        truths(pc.equal(batch.column("status"), scalar("failed", "str")))
        for batch in read_arrow(behind.results, ["status"])
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def _worst(scored: RowScores) -> tuple[Ints, Ints]:
    """Rows that are wrong, or off their target, the worst first; and those that are plainly wrong."""
    scores = scored.scores
    places = np.flatnonzero(np.isfinite(scores) & (scores < (1 if scored.labels else 0)))
    places = places[np.argsort(scores[places], kind="stable")]
    return scored.at[places], scored.at[places] if scored.labels else np.zeros(0, dtype=np.int64)


def _some(trouble: Ints, rest: Ints, most: int, draw: np.random.Generator) -> Ints:
    """At most so many: of both kinds where there are more, in their order."""
    room = max(int(most * TROUBLE), most - len(rest))
    first = trouble[:room]
    room = most - len(first)
    if len(rest) > room:
        rest = np.sort(draw.choice(rest, room, replace=False))
    return np.concatenate([first, rest])
