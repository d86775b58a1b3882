"""The runs and studies below a folder; and one finished run: its columns, any page of its rows, its metrics with human labels."""

from __future__ import annotations

import html
import os
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from verdict_cli.errors import JournalError, VerdictError
from verdict_cli.features.viewer.query import (
    EvaluationColumns,
    Query,
    RowPositions,
    evaluation_columns,
    find_rows,
    to_text,
)
from verdict_cli.language.evaluations import Evaluation, Gold, label_evaluations
from verdict_cli.language.metric_registry import GOLD_ESTIMATES
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.report.document import TableColumn
from verdict_cli.report.evaluation_section import agreement_chart
from verdict_cli.report.report import metric_json
from verdict_cli.report.report_context import first_prediction, prompt_columns
from verdict_cli.report.row_columns import (
    failed_rows,
    read_cells,
    short_cell,
    shown_columns,
    stored_columns,
    table_column,
)
from verdict_cli.report.row_details import row_details
from verdict_cli.run.load_run import load_run
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.annotators import AnnotatorStudy
from verdict_cli.stats.measure import Measures, measure
from verdict_cli.stats.row_scores import MOST_SCORED, scored_rows
from verdict_cli.storage.datasets.parquet import count_rows
from verdict_cli.storage.tables.human_labels import (
    FILE,
    NOTHING,
    HumanLabel,
    RowLabels,
    add_label,
    label_key,
    read_annotations,
    row_label,
)
from verdict_cli.storage.tables.label_queue import QUEUE_FILE
from verdict_cli.storage.tables.reader import read_arrow, read_rows

KINDS = ("sweep", "audit", "align", "paper", "comparison")
"""The kinds of study. Each writes a page of this name, and all but a comparison a JSON file."""
_MOST_BYTES = 20_000_000
_HEAD_CHARACTERS = 100_000
"""The style sheet and the first lines of a page."""


class StudyEntry(Struct, frozen=True):
    """A study: its kind, the relative name of its folder, and its page."""

    kind: str
    name: str
    page: Path

    def as_json(self) -> JsonObject:
        """The study as the list shows it; `conclusion` is "" where its file does not say anything."""
        try:
            changed = self.page.stat().st_mtime
        except OSError:
            changed = None
        content = _content(self.page.with_suffix(".json"))
        conclusion = content.get("conclusion") or _page_conclusion(self.page)
        return {
            "kind": self.kind,
            "folder": self.name,
            "pipeline": str(content.get("pipeline") or ""),
            "dataset": str(content.get("dataset") or ""),
            "conclusion": str(conclusion),
            "changed": changed,
        }


def find_studies(root: Path) -> list[StudyEntry]:
    """Every study below the directory, by name, never through links."""
    studies = (
        StudyEntry(kind, _relative_name(root, folder), folder / f"{kind}.html")
        for folder, files in _folders(root)
        for kind in KINDS
        if f"{kind}.html" in files and not (folder / f"{kind}.html").is_symlink()
    )
    return list(islice(studies, MOST_RUNS))


def _folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """The directory and the folders below it with their files, but none that is hidden, within a run, or deeper than `DEEPEST`."""
    for folder, subfolders, files in os.walk(root):
        current = Path(folder)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if "run.json" in files or len(current.relative_to(root).parts) >= DEEPEST:
            subfolders.clear()
        yield current, files


def _relative_name(root: Path, folder: Path) -> str:
    return root.name if folder == root else folder.relative_to(root).as_posix()


def study_page(root: Path, kind: str, name: str) -> Path | None:
    """The page of that study; None where there is none. The names are compared, never used as a path."""
    return next(
        (study.page for study in find_studies(root) if (study.kind, study.name) == (kind, name)),
        None,
    )


def _content(file: Path) -> NamedValues:
    try:
        if file.is_symlink() or file.stat().st_size > _MOST_BYTES:
            return {}
        content = orjson.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _page_conclusion(page: Path) -> str:
    """The conclusion that the page shows; "" where there is none."""
    try:
        with page.open(encoding="utf-8", errors="replace") as file:
            conclusion = re.search(
                r'<p class="conclusion">([^<]*)</p>', file.read(_HEAD_CHARACTERS)
            )
    except OSError:
        return ""
    return "" if conclusion is None else html.unescape(conclusion[1]).strip()


MOST_RUNS = 2_000
DEEPEST = 4


class RunEntry(Struct, frozen=True):
    """A run: its name, its directory and its facts."""

    name: str
    directory: RunDirectory
    facts: RunFacts

    @property
    def live(self) -> bool:
        """Whether the run has no results yet."""
        return not self.directory.results.exists()

    @property
    def stamp(self) -> tuple[int, int]:
        """Changes when the table of results changes."""
        try:
            stat = self.directory.results.stat()
        except FileNotFoundError:
            return 0, 0
        return stat.st_mtime_ns, stat.st_size


class Runs:
    """The runs below a directory, or the run that the directory is."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._facts: dict[Path, tuple[int, RunFacts]] = {}

    @property
    def single(self) -> bool:
        """Whether the directory is itself a run."""
        return (self.root / "run.json").is_file()

    def all(self) -> list[RunEntry]:
        """All runs, the newest first."""
        entries = [entry for path in self._paths() if (entry := self._entry(path)) is not None]
        return sorted(entries, key=lambda entry: entry.facts.started, reverse=True)

    def get(self, name: str) -> RunEntry | None:
        """The run of that name, or None. The name is compared with those found, never used as a path."""
        path = next(
            (path for path in self._paths() if _relative_name(self.root, path) == name), None
        )
        return None if path is None else self._entry(path)

    def _paths(self) -> Iterator[Path]:
        runs = (folder for folder, files in _folders(self.root) if "run.json" in files)
        return islice(runs, MOST_RUNS)

    def _entry(self, path: Path) -> RunEntry | None:
        directory = RunDirectory(path)
        try:
            modified = (path / "run.json").stat().st_mtime_ns
            entry = self._facts.get(path)
            if entry is None or entry[0] != modified:
                facts = directory.facts()
                if facts is None:
                    return None
                entry = self._facts[path] = (modified, facts)
        except (JournalError, OSError):
            return None
        return RunEntry(_relative_name(self.root, path), directory, entry[1])


DRAWN = Gold(target="human.label", weight="human.inclusion")
"""The labels of a queue, each with the probability with which its row was drawn."""


def label_metrics(view: RunView) -> JsonObject:
    """The metrics of the first evaluations with a target, and what the labels are of.

    Of each metric, `given` is that of the run, `relabelled` that with the human labels in place of the targets, and `human` that
    of the labelled rows alone. `estimates` are corrected by a random sample of labels (`gold`), where the pipeline or a queue
    gives one. `error` says why there is nothing.
    """
    _, facts, plan = load_run(view.run.directory.path)
    drawn = (view.run.directory.path / QUEUE_FILE).is_file()
    names = [
        name
        for name, evaluation in plan.evaluations.items()
        if evaluation.target is not None and evaluation.items is None
    ]
    evaluations = {name: plan.evaluations[name] for name in names[:MOST_SCORED]}
    gold_evaluations = {
        name: _with_gold(evaluation, drawn=drawn) for name, evaluation in evaluations.items()
    }
    content = {
        **_labelled_rows(view),
        "drawn": drawn,
        "evaluations": [],
        "error": "",
    }
    try:
        every = {**gold_evaluations, **label_evaluations(evaluations)}
        measures = measure(every, view.results, seed=facts.seed, level=plan.interval_level)
    except VerdictError as error:
        return content | {"error": str(error)}
    content["evaluations"] = [_evaluation(name, measures) for name in gold_evaluations]
    return content


def _with_gold(evaluation: Evaluation, *, drawn: bool) -> Evaluation:
    """The evaluation with the queue's labels as its sample, where it has none of its own and can use one."""
    if (
        evaluation.gold is not None
        or not drawn
        or (evaluation.positive is None and evaluation.value is None)
    ):
        return evaluation
    return evaluation.model_copy(update={"gold": DRAWN})


def _evaluation(name: str, measures: Mapping[str, Measures]) -> JsonObject:
    target_values, relabelled, human = (
        measures[key].values for key in (name, f"{name}_relabelled", f"{name}_human")
    )
    metrics = [metric for metric in target_values if metric != "confusion" and metric in relabelled]
    return {
        "name": name,
        "agreement": _agreement(measures[key].annotators for key in (f"{name}_human", name)),
        "metrics": [
            {
                "metric": metric,
                "given": metric_json(target_values[metric]),
                "relabelled": metric_json(relabelled[metric]),
                "human": metric_json(human[metric]),
            }
            for metric in metrics
        ],
        "estimates": [
            {
                "metric": metric,
                **metric_json(target_values[metric]),
                "reason": target_values[metric].reason,
            }
            for metric in GOLD_ESTIMATES
            if metric in target_values
        ],
    }


def _agreement(studies: Iterable[AnnotatorStudy | None]) -> JsonObject | None:
    """The chart of the first study of annotators, with its numbers as texts; None where there is none."""
    study = next((study for study in studies if study is not None and study.nominal), None)
    if study is None:
        return None
    chart = agreement_chart(study)
    rows = [[point.label, *point.as_texts(), point.note] for point in chart.points]
    return {**chart.script_data(), "height": chart.height, "caption": chart.caption, "rows": rows}


def _labelled_rows(view: RunView) -> dict[str, int]:
    """How many rows have a label, how many of those the judge got wrong, and how many have another target than label."""
    labels = view.label_columns()["human.label"]
    outcomes, targets = (view.evaluation.values.get(name) for name in ("outcome", "target"))
    positions = [position for position, label in enumerate(labels.to_pylist()) if label is not None]
    texts = [to_text(labels[position].as_py()) for position in positions]
    return {
        "labelled": len(positions),
        "wrong": 0
        if outcomes is None
        else sum(outcomes[position].as_py() == "wrong" for position in positions),
        "changed": 0
        if targets is None
        else sum(
            _same_text(targets[position].as_py()) != text
            for position, text in zip(positions, texts, strict=True)
        ),
    }


def _same_text(target: Any) -> str | None:
    """A target as the text of a label: 3.0 is the label 3."""
    return to_text(int(target) if isinstance(target, float) and target.is_integer() else target)


PER_PAGE = 50
MOST_CELL_TEXT = 2_000_000
"""Characters of a text in the details of a row; longer texts are cut."""
_KEPT_QUERIES = 12
ORDER = "outcome.order"
_FACTS = ("outcome", "prediction", "target", "error", "status", "calls", "cost_usd")


class RunView:
    """The table of a run as one annotator sees it. The registry opens it again when the file changes."""

    def __init__(self, run: RunEntry, annotator: str = "") -> None:
        self.run = run
        self.annotator = annotator
        self.results = run.directory.results
        self.stamp = run.stamp
        self.rows = count_rows(self.results)
        self.stored = stored_columns(self.results)
        self.evaluation = EvaluationColumns({}, {})
        self._queries: OrderedDict[tuple[Any, ...], RowPositions] = OrderedDict()
        self._lock = Lock()
        self._labels: tuple[int, dict[str, JsonObject]] = (-1, {})
        self._annotations: Mapping[str, RowLabels] = {}
        self.shown_once = False

    @property
    def labels_file(self) -> Path:
        """The file of human labels."""
        return self.run.directory.path / FILE

    @property
    def labels_version(self) -> int:
        """Changes with the human labels if an evaluation uses them; otherwise 0."""
        return self.labels()[0] if self._uses_labels else 0

    @cached_property
    def _uses_labels(self) -> bool:
        spec = self.run.directory.path / "spec.yaml"
        return spec.is_file() and b"human." in spec.read_bytes()

    def labels(self) -> tuple[int, dict[str, JsonObject]]:
        """A version number of the human labels, and the labels by row."""
        try:
            stamp = self.labels_file.stat().st_mtime_ns ^ self.labels_file.stat().st_size
        except FileNotFoundError:
            return 0, {}
        if self._labels[0] != stamp:
            self._annotations = read_annotations(self.labels_file)
            self._labels = (stamp, {key: row_label(row) for key, row in self._annotations.items()})
        return self._labels

    def annotations(self) -> Mapping[str, RowLabels]:
        """What each annotator said of each row, by `label_key`."""
        return self._annotations if self.labels()[0] else {}

    def judged_columns(self) -> list[str]:
        """The columns of the dataset that a person needs to label a row: those in prompts."""
        return [name for name in self.prompt_columns if name in self.stored]

    @cached_property
    def prompt_columns(self) -> list[str]:
        """The columns of the dataset that appear in prompts; all of them if the run has no readable spec."""
        try:
            return prompt_columns(load_run(self.run.directory.path).plan, self.results)
        except VerdictError:
            return [name for name in self.stored if name.startswith("source.")]

    def columns(self) -> dict[str, TableColumn]:
        """The columns that are shown, and by which rows are filtered and sorted."""
        human = {name: table_column(name, "text") for name in ("human.label", "human.note")}
        return {**self.evaluation.columns, **self.stored, **human}

    def default_columns(self) -> list[str]:
        """The columns that are shown by default, as in a report."""
        return shown_columns(
            self.stored,
            list(self.evaluation.columns),
            self.prompt_columns,
            self.evaluation.prediction,
            failures=bool(self.run.facts.failed),
        )

    def default_sort(self) -> tuple[str, bool]:
        """The column by which rows are sorted by default, and whether downwards, so that those to look at come first; "" for
        the file's order."""
        columns = self.evaluation.columns
        if "error" in columns:
            return "error", True
        return ("outcome", False) if "outcome" in columns else ("", False)

    def next_wrong(self, query: Query, position: int, by: int) -> int | None:
        """The next row of the query after (before, if `by` is negative) this one that failed or differs from its target."""
        is_wrong = self.evaluation.wrong_rows()
        if is_wrong is None:
            return None
        rows = self._rows_of(query)
        matches = np.flatnonzero(rows == position)
        wrong = np.flatnonzero(is_wrong[rows])
        start = int(matches[0]) if len(matches) else -1
        candidates = wrong[wrong > start] if by > 0 else wrong[wrong < start][::-1]
        return int(rows[candidates[0]]) if len(candidates) else None

    def page(
        self, query: Query, page: int, columns: Sequence[str]
    ) -> tuple[int, int, list[JsonObject]]:
        """The number of matching rows, the number of the page (the last one, if there are fewer), and its rows."""
        positions = self._rows_of(query)
        page = min(page, max(0, len(positions) - 1) // PER_PAGE)
        on_page = positions[page * PER_PAGE :][:PER_PAGE]
        return len(positions), page, self.cells(on_page.tolist(), columns)

    def _rows_of(self, query: Query) -> RowPositions:
        """The positions of the query's rows, in its order."""
        if query.everything:
            return np.arange(self.rows, dtype=np.uint32)
        return self._positions(query)

    def cells(self, positions: Sequence[int], columns: Sequence[str]) -> list[JsonObject]:
        """The rows at these positions, in this order: `position`, `id` and `cells`, with long texts cut."""
        rows = np.array(positions, dtype=np.int64)
        ids = read_cells(self.results, rows, ["id"], MOST_CELL_TEXT)["id"]
        values = read_cells(self.results, rows, [name for name in columns if name in self.stored])
        labels = self.labels()[1]
        row_cells = []
        for index, (position, row_id) in enumerate(zip(positions, ids, strict=True)):
            human = labels.get(label_key(row_id), NOTHING)
            cells = {}
            for name in columns:
                if name in values:
                    cells[name] = values[name][index]
                elif name in self.evaluation.values:
                    cells[name] = self.evaluation.values[name][position].as_py()
                else:
                    cells[name] = short_cell(human[name.removeprefix("human.")])
            label = self._own_label(row_id)["label"]
            row_cells.append(
                {"position": position, "id": short_cell(row_id), "cells": cells, "label": label}
            )
        return row_cells

    def details(self, position: int) -> JsonObject:
        """Everything about a row. KeyError if there is no such row."""
        row_id = self._id(position)
        ((_, story),) = row_details(
            self.results, self.run.directory.calls, np.array([position]), MOST_CELL_TEXT
        )
        columns = self.columns()
        cells = self.cells([position], [name for name in _FACTS if name in columns])[0]["cells"]
        facts = [
            [columns[name].title, value, columns[name].kind]
            for name, value in cells.items()
            if value is not None and (name, value) != ("status", "ok")
        ]
        return {
            "position": position,
            "id": row_id,
            "facts": facts,
            "story": story,
            "answers": list(self.evaluation.answers),
            "human": self._own_label(row_id),
            "others": self._other_labels(row_id),
        }

    def _own_label(self, row_id: Any) -> JsonObject:
        annotation = self.annotations().get(label_key(row_id), {}).get(self.annotator, HumanLabel())
        return {"label": annotation.label, "note": annotation.note, "at": annotation.at}

    def _other_labels(self, row_id: Any) -> JsonObject:
        row = self.annotations().get(label_key(row_id), {})
        return {
            by or "unnamed": label.label
            for by, label in row.items()
            if by != self.annotator and not label.skipped
        }

    def add_label(
        self,
        position: int,
        label: Any,
        note: str | UnsetType | None,
        timestamp: str,
        *,
        skipped: bool = False,
    ) -> None:
        """Store the annotator's label of a row; an unset note keeps the one that is there. KeyError if there is no such row."""
        row_id = self._id(position)
        stored_note = self._own_label(row_id)["note"] if note is UNSET else note
        add_label(
            self.labels_file, row_id, label, stored_note, timestamp, self.annotator, skipped=skipped
        )

    def is_row(self, position: int, page_id: Any) -> bool:
        """Whether the row at the position has this id, as a page shows it. KeyError if there is no such row."""
        row_id = self._id(position)
        if type(row_id) is int and isinstance(page_id, int | float):
            return float(row_id) == float(page_id)  # a browser rounds ids beyond 2^53
        return page_id in (row_id, short_cell(row_id))

    def position(self, row_id: str) -> int:
        """The position of the row with this id, compared as text. KeyError if there is no such row."""
        start = 0
        for batch in read_arrow(self.results, ["id"]):
            index = pc.index(
                batch.column("id").cast(pa.string()), pa.scalar(row_id, pa.string())
            ).as_py()
            if index >= 0:
                return int(start + index)
            start += batch.num_rows
        raise KeyError(row_id)

    def evaluate(self) -> EvaluationColumns:
        """Compute the columns of the first evaluation, which takes seconds for a large run."""
        try:
            _, _, plan = load_run(self.run.directory.path)
            scored = scored_rows(plan.evaluations, self.results)
        except VerdictError as error:
            return EvaluationColumns({}, {}, error=str(error))
        return evaluation_columns(scored, failed_rows(self.results), first_prediction(plan, scored))

    def _id(self, position: int) -> Any:
        """The id of the row at the position. KeyError if there is no such row."""
        if not 0 <= position < self.rows:
            raise KeyError(position)
        (batch,) = read_rows(self.results, [position], ["id"])
        return batch["id"][0]

    def _positions(self, query: Query) -> RowPositions:
        version, _ = self.labels()
        columns = self.columns()
        query_columns = {condition.column for condition in query.filters} | {query.sort}
        human = {name for name in query_columns if name.startswith("human.")}
        key = (query, tuple(self.evaluation.columns), version if human or query.words else 0)
        with self._lock:
            if key in self._queries:
                self._queries.move_to_end(key)
                return self._queries[key]
        virtual = dict(self.evaluation.values)
        if query.sort == "outcome":  # by rank, not by the alphabet
            virtual[ORDER] = pa.array(self.evaluation.order)
            query = replace(query, sort=ORDER)
        if human:
            virtual |= self.label_columns()
        texts = [
            name
            for name, column in columns.items()
            if name in self.stored
            and column.kind == "text"
            and (name.startswith(("source.", "output.")) or name == "id")
        ]
        texts += ["id"] if "id" not in texts else []
        positions = find_rows(self.results, texts, virtual, query)
        with self._lock:
            self._queries[key] = positions
            while len(self._queries) > _KEPT_QUERIES:
                self._queries.popitem(last=False)
        return positions

    def label_columns(self) -> JsonObject:
        """The human labels and notes as columns of texts, with one value per row."""
        labels = self.labels()[1]
        by_row = []
        for batch in read_arrow(self.results, ["id"]):
            by_row += [
                labels.get(label_key(row_id), NOTHING) for row_id in batch.column("id").to_pylist()
            ]
        return {
            f"human.{name}": pa.array([to_text(label[name]) for label in by_row], pa.string())
            for name in NOTHING
        }
