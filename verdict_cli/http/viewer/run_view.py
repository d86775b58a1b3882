"""One finished run: its columns, and any page of its rows."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from verdict_cli.errors import VerdictError
from verdict_cli.http.viewer.query import Query, RowPositions, matching
from verdict_cli.http.viewer.runs import RunEntry
from verdict_cli.report.compress import encoded
from verdict_cli.report.report_context import prompt_columns
from verdict_cli.report.row_details import row_details
from verdict_cli.run.load_run import load_run
from verdict_cli.stats.evaluation_results import RowScores, scored_rows
from verdict_cli.storage.datasets.parquet import open_parquet
from verdict_cli.storage.tables.arrow_vectors import truths
from verdict_cli.storage.tables.human_labels import FILE, NOTHING, add_label, label_key, read_labels
from verdict_cli.storage.tables.reader import read_arrow, read_rows

PER_PAGE = 50
MOST_CELL = 300
MOST_CELL_TEXT = 2_000_000
"""Characters of one text that a row's story shows."""
_KEPT_QUERIES = 12
_SHOWN_FIELDS, _SHOWN_TEXTS = 3, 2
_MOST_ANSWERS = 20
_FACTS = ("outcome", "prediction", "target", "score", "status", "calls", "cost_usd")


@dataclass(frozen=True, slots=True)
class JudgedColumn:
    """What the first evaluation says of each row: columns that the table has not, one value a row.

    `answers` are the predictions and targets that occur, none where they are many.
    """

    columns: Mapping[str, Any]
    name: str = ""
    answers: tuple[Any, ...] = ()
    trouble: str = ""


class RunView:
    """A run's table. It is opened anew when the file changes."""

    def __init__(self, run: RunEntry) -> None:
        self.run = run
        self.results = run.directory.results
        self.stamp = run.stamp
        with open_parquet(self.results) as file:
            self.rows: int = file.metadata.num_rows
            self.kinds = {field.name: _kind(field.type) for field in file.schema_arrow}
        self.judged = JudgedColumn({})
        self._queries: OrderedDict[tuple[Any, ...], RowPositions] = OrderedDict()
        self._lock = Lock()
        self._people: tuple[int, dict[str, dict[str, Any]]] = (-1, {})
        self._texts: list[str] | None = None
        self._looks: bool | None = None
        self.shown_once = False

    @property
    def labels(self) -> Path:
        """The file of what people said."""
        return self.run.directory.path / FILE

    @property
    def judged_by(self) -> int:
        """Changes with what people said, where evaluations look at it."""
        if self._looks is None:
            spec = self.run.directory.path / "spec.yaml"
            self._looks = spec.is_file() and b"human." in spec.read_bytes()
        return self.people()[0] if self._looks else 0

    def people(self) -> tuple[int, dict[str, dict[str, Any]]]:
        """What people said of its rows, and a number that changes with it."""
        try:
            stamp = self.labels.stat().st_mtime_ns ^ self.labels.stat().st_size
        except FileNotFoundError:
            return 0, {}
        if self._people[0] != stamp:
            self._people = (stamp, read_labels(self.labels))
        return self._people

    def texts(self) -> list[str]:
        """The columns of the dataset that prompts show; all where the run has no spec that says so."""
        if self._texts is None:
            try:
                self._texts = prompt_columns(load_run(self.run.directory.path)[2], self.results)
            except VerdictError:
                self._texts = [name for name in self.kinds if name.startswith("source.")]
        return self._texts

    def columns(self) -> dict[str, str]:
        """Every column by which rows are filtered and sorted: `text`, `number`, `truth` or `outcome`."""
        own = {name: kind for name, kind in self.kinds.items() if name != "row"}
        return {
            **{name: _kind_of(name, array) for name, array in self.judged.columns.items()},
            **own,
            "human.label": "text",
            "human.note": "text",
        }

    def shown(self) -> list[str]:
        """The columns that are shown where nobody chose others."""
        found = ["id", *self.judged.columns]
        if "outcome" in found:
            found = ["outcome", *(name for name in found if name not in ("outcome", "score"))]
        if self.run.facts.failed:
            found.append("failure.kind")
        outputs = [name for name in self.kinds if name.startswith("output.")]
        if "prediction" in found:  # which is mostly one of them
            outputs = [name for name in outputs if self.kinds[name] == "number"][:1]
        found += outputs[:_SHOWN_FIELDS]
        return [*found, *self.texts()[:_SHOWN_TEXTS], *(["human.label"] if self.people()[1] else [])]

    def page(self, query: Query, page: int, columns: Sequence[str]) -> tuple[int, list[dict[str, Any]]]:
        """How many rows are found, and those of the page: `place` and `cells`."""
        places = None if query.everything else self._places(query)
        total = self.rows if places is None else len(places)
        start = min(page * PER_PAGE, max(0, total - 1) // PER_PAGE * PER_PAGE)
        end = min(start + PER_PAGE, total)
        some = np.arange(start, end) if places is None else places[start:end].astype(np.int64)
        return total, self.lines(some.tolist(), columns)

    def lines(self, places: Sequence[int], columns: Sequence[str]) -> list[dict[str, Any]]:
        """The rows at these places, in this order, their texts cut."""
        own = list(dict.fromkeys(["id", *(name for name in columns if name in self.kinds)]))
        ascending = sorted(places)
        held: dict[str, list[Any]] = {name: [] for name in own}
        for batch in read_rows(self.results, ascending, own):
            for name, values in batch.items():
                held[name] += values
        people = self.people()[1]
        made = {}
        for at, place in enumerate(ascending):
            said = people.get(label_key(held["id"][at]), NOTHING)
            cells: dict[str, Any] = {}
            for name in columns:
                if name in own:
                    cells[name] = short(held[name][at])
                elif name.startswith("human."):
                    cells[name] = short(said[name[6:]])
                else:
                    cells[name] = short(self.judged.columns[name][place].as_py())
            made[place] = {"place": place, "id": short(held["id"][at]), "cells": cells}
        return [made[place] for place in places]

    def story(self, place: int) -> dict[str, Any]:
        """Everything about a row. KeyError where there is none."""
        if not 0 <= place < self.rows:
            raise KeyError(place)
        ((_, told),) = row_details(self.results, self.run.directory.calls, np.array([place]), MOST_CELL_TEXT)
        row_id = self._id(place)
        known = self.columns()
        facts = self.lines([place], [name for name in _FACTS if name in known])[0]["cells"]
        return {
            "place": place,
            "id": row_id,
            "facts": facts,
            "story": told,
            "answers": list(self.judged.answers),
            "human": dict(self.people()[1].get(label_key(row_id), NOTHING)),
        }

    def label(self, place: int, label: Any, note: str | None, at: str) -> None:
        """Keeps what somebody says of a row. KeyError where there is none."""
        if not 0 <= place < self.rows:
            raise KeyError(place)
        add_label(self.labels, self._id(place), label, note, at)

    def place(self, row_id: str) -> int:
        """The place of the row whose id reads so. KeyError where there is none."""
        start = 0
        for batch in read_arrow(self.results, ["id"]):
            found = pc.index(batch.column("id").cast(pa.string()), pa.scalar(row_id, pa.string())).as_py()
            if found >= 0:
                return int(start + found)
            start += batch.num_rows
        raise KeyError(row_id)

    def judge(self) -> JudgedColumn:
        """What the evaluations say, which takes a while for a large run."""
        try:
            _, _, plan = load_run(self.run.directory.path)
            scored = scored_rows(plan.evaluations, self.results)
        except VerdictError as error:
            return JudgedColumn({}, trouble=str(error))
        return _judged(scored[0], self.rows, self._failed()) if scored else JudgedColumn({})

    def _id(self, place: int) -> Any:
        (batch,) = read_rows(self.results, [place], ["id"])
        return batch["id"][0]

    def _failed(self) -> Any:
        status = read_arrow(self.results, ["status"])
        parts = [truths(pc.equal(batch.column("status"), "failed")) for batch in status]
        return np.concatenate(parts) if parts else np.zeros(0, bool)

    def _places(self, query: Query) -> RowPositions:
        version, people = self.people()
        columns = self.columns()
        named = {one.column for one in query.filters} | {query.sort}
        human = {name for name in named if name.startswith("human.")}
        key = (query, tuple(self.judged.columns), version if human or query.words else 0)
        with self._lock:
            if key in self._queries:
                self._queries.move_to_end(key)
                return self._queries[key]
        virtual = dict(self.judged.columns)
        if human:
            virtual |= self._said(people)
        texts = [
            name
            for name, kind in columns.items()
            if name in self.kinds and kind == "text" and (name.startswith(("source.", "output.")) or name == "id")
        ]
        texts += ["id"] if "id" not in texts else []
        found = matching(self.results, texts, virtual, query)
        with self._lock:
            self._queries[key] = found
            while len(self._queries) > _KEPT_QUERIES:
                self._queries.popitem(last=False)
        return found

    def _said(self, people: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        said: list[Mapping[str, Any]] = []
        for batch in read_arrow(self.results, ["id"]):
            said += [people.get(label_key(one), NOTHING) for one in batch.column("id").to_pylist()]
        return {f"human.{name}": pa.array([_word(one[name]) for one in said], pa.string()) for name in NOTHING}


def short(value: Any) -> Any:
    """A cell: long texts are cut, lists and mappings become text."""
    if isinstance(value, list | dict):
        value = encoded(value).decode()
    return f"{value[:MOST_CELL]}…" if isinstance(value, str) and len(value) > MOST_CELL else value


def _judged(scored: RowScores, rows: int, failed: Any) -> JudgedColumn:
    at = scored.at.tolist()
    said: list[Any] = [None] * rows
    target: list[Any] = [None] * rows
    score: list[float | None] = [None] * rows
    for row, place in enumerate(at):
        said[place], target[place] = _cell(scored.prediction(row)), _cell(scored.target(row))
        found = float(scored.scores[row])
        score[place] = found if math.isfinite(found) else None
    columns = {"prediction": _array(said)}
    if scored.labelled:
        columns["target"] = _array(target)
        columns["score"] = pa.array(score, pa.float64())
    if scored.labels and scored.labelled:
        words = {None: "none", 1.0: "right", 0.0: "wrong"}
        outcome = ["failed" if bad else words[one] for one, bad in zip(score, failed.tolist(), strict=True)]
        del columns["score"]
        columns = {"outcome": pa.array(outcome, pa.string()), **columns}
    return JudgedColumn(columns, scored.name, _answers(scored))


def _answers(scored: RowScores) -> tuple[Any, ...]:
    found = {
        (type(value).__name__, value): value
        for row in range(min(len(scored.at), 10_000))
        for value in (scored.prediction(row), scored.target(row))
        if isinstance(value, str | int | float)
    }
    return tuple(sorted(found.values(), key=str)) if len(found) <= _MOST_ANSWERS else ()


def _cell(value: Any) -> Any:
    return value[:MOST_CELL] if isinstance(value, str) else value


def _array(values: list[Any]) -> Any:
    """Numbers as numbers, whatever else as text."""
    if all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([_word(value) for value in values], pa.string())


def _word(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else encoded(value).decode()
    return text.encode("utf-8", "backslashreplace").decode()


def _kind(kind: Any) -> str:
    if pa.types.is_boolean(kind):
        return "truth"
    return "number" if pa.types.is_integer(kind) or pa.types.is_floating(kind) else "text"


def _kind_of(name: str, array: Any) -> str:
    return "outcome" if name == "outcome" else _kind(array.type)
