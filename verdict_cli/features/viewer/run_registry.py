"""The runs that the viewer has open, their comparisons, and its background tasks."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from sqlite3 import Error
from threading import Lock
from time import time
from typing import TYPE_CHECKING, Any, get_args

import orjson
from msgspec import Struct, convert, to_builtins
from starlette.exceptions import HTTPException

from verdict_cli.errors import DataError
from verdict_cli.features.viewer.run_view import PER_PAGE, RunEntry, Runs, RunView, label_metrics
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.report import formatting
from verdict_cli.report.comparison import compare_finished, has_own_unit
from verdict_cli.report.conclusions import metric_direction, wrong_rows
from verdict_cli.report.run_document import is_beyond_chance
from verdict_cli.run.load_run import load_run
from verdict_cli.stats.columns.row_identities import row_identities
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.row_scores import Cell, PairedOutcomes
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import StoredCall
from verdict_cli.storage.database.schema import DamagedError, database_files
from verdict_cli.storage.tables.label_queue import next_rows, read_queue

if TYPE_CHECKING:
    from starlette.requests import Request

    from verdict_cli.stats.compare import RunComparison


MOST_COMPARED = 12
EXPLANATIONS = (".explanation", ".thinking")
"""Fields of units that say why a verdict is as it is."""
MOST_OUTPUTS = 4
"""Columns of a run's outputs, and of the dataset, that a row of the page shows."""

HIDDEN = "this queue is blind: the verdicts are shown once your part of it is labelled"


def hides_verdicts(view: RunView) -> bool:
    """Whether the judge's verdicts are hidden: a blind queue still has rows for this annotator."""
    if not view.annotator:
        return False
    queue = read_queue(view.run.directory.path)
    return (
        queue is not None
        and queue.blind
        and bool(next_rows(queue, view.annotations(), view.annotator))
    )


def check_shown(view: RunView) -> None:
    """HTTPException 403 where the verdicts are hidden."""
    if hides_verdicts(view):
        raise HTTPException(403, HIDDEN)


class RunsCompared(Struct, frozen=True):
    """The document of a comparison; of two runs also the outcomes of each row, and its position in each run by key."""

    document: NamedValues
    comparison: RunComparison | None = None
    positions: tuple[Mapping[str, int], ...] = ()


def compare_entries(entries: Sequence[RunEntry]) -> RunsCompared:
    """Compare two runs or more, with the same numbers as `verdict compare`. UsageError if they share no evaluation."""
    runs = [load_run(entry.directory.path) for entry in entries]
    names = [entry.name for entry in entries]
    document, comparison = compare_finished(runs, names=names)
    if len(runs) > 2:
        return RunsCompared(document.as_json())
    keys = row_identities([run.directory.results for run in runs]).keys
    positions = tuple({key: index for index, key in enumerate(of_run)} for of_run in keys)
    return RunsCompared(document.as_json(), comparison, positions)


def comparison_page(request: Request, registry: RunRegistry) -> JsonObject:
    """The content of the page: of two runs (`a` and `b`, or `run` twice) with a page of rows, of more runs without."""
    params = request.query_params
    names = params.getlist("run") or [params.get("a", ""), params.get("b", "")]
    if not 2 <= len(dict.fromkeys(names)) == len(names) <= MOST_COMPARED:
        raise HTTPException(422, f"give two to {MOST_COMPARED} different runs to compare")
    entries = [registry.run(name) for name in names]
    views = [registry.view(entry) for entry in entries if not entry.live]
    for view in views:
        check_shown(view)
    done, compared = registry.compare(entries)
    if not done:
        return {"ready": False}
    document = dict(compared.document)
    evaluations = document.pop("evaluations")
    name = params.get("evaluation", "") or next(iter(evaluations))
    if name not in evaluations:
        raise HTTPException(404, "the runs do not share this evaluation")
    evaluation = {key: value for key, value in evaluations[name].items() if key != "flipped"}
    content = {
        "ready": True,
        "runs": names,
        **document,
        "names": list(evaluations),
        "evaluation": name,
        "compared": evaluation,
        "own_units": [*filter(has_own_unit, evaluation["figures"])],
    }
    if compared.comparison is None:
        return content
    outcomes = compared.comparison.evaluations[name].outcomes
    if outcomes is None:
        return {**content, "counts": None, "total": 0, "per": PER_PAGE, "rows": []}
    which = params.get("which", "")
    cell = next((name for name in get_args(Cell) if name == which), None)
    indices = outcomes.indices(cell)
    page = whole_number(params.get("page", "0"))
    start = min(page, max(0, len(indices) - 1) // PER_PAGE) * PER_PAGE
    page_indices = indices[start : start + PER_PAGE]
    rows = _rows(outcomes, page_indices.tolist(), compared.positions, views)
    return {
        **content,
        "counts": outcomes.counts,
        "total": len(indices),
        "per": PER_PAGE,
        "rows": rows,
    }


def whole_number(text: str) -> int:
    """A number of a URL. HTTPException 422 for another text."""
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise HTTPException(422, "not a whole number")
    return int(text)


def _rows(
    outcomes: PairedOutcomes,
    indices: Sequence[int],
    positions: Sequence[Mapping[str, int]],
    views: Sequence[RunView],
) -> list[JsonObject]:
    """Each pair with its predictions, its target, its position in each run, and the texts that a reader compares."""
    import numpy as np

    flips = outcomes.flips(np.array(indices, dtype=np.int64))
    keys = [outcomes.pairs.key(index) for index in indices]
    run_positions = [[_position(key, places) for key in keys] for places in positions]
    outputs = [
        _texts(view, places, _compared_outputs(view.stored))
        for view, places in zip(views, run_positions, strict=True)
    ]
    sources = _texts(views[1], run_positions[1], views[1].prompt_columns[:MOST_OUTPUTS])
    return [
        {
            "id": flip.id,
            "a": flip.first,
            "b": flip.second,
            "target": flip.target,
            "gain": flip.gain,
            "at": [places[index] for places in run_positions],
            "outputs": [texts[index] for texts in outputs],
            "source": sources[index],
        }
        for index, flip in enumerate(flips)
    ]


def _compared_outputs(columns: Iterable[str]) -> list[str]:
    """The output's columns; where it has no text that explains it, also the explanations of the units."""
    outputs = [name for name in columns if name.startswith("output.")]
    if not any(name.endswith(EXPLANATIONS) for name in outputs):
        outputs += [
            name
            for name in columns
            if name.endswith(EXPLANATIONS) and not name.startswith("source.")
        ]
    return outputs[:MOST_OUTPUTS]


def _position(key: str, positions: Mapping[str, int]) -> int | None:
    """The row of a pair; of an entry under `items`, that of its list. None for a pair of groups."""
    return positions.get(key, positions.get(key.rpartition("[")[0]))


def _texts(view: RunView, places: Sequence[int | None], columns: Sequence[str]) -> list[JsonObject]:
    """The cells of the rows at these positions, in this order."""
    row_positions = list(dict.fromkeys(position for position in places if position is not None))
    cells = {row["position"]: row["cells"] for row in view.cells(row_positions, columns)}
    return [{} if position is None else cells[position] for position in places]


_MOST_BYTES = 20_000_000


class _Ends(Struct, frozen=True):
    """A value with its interval; that of a confusion matrix is a mapping."""

    value: float | JsonObject | None = None
    low: float | None = None
    high: float | None = None


class _Figure(_Ends, frozen=True):
    n: int = 0
    reason: str = ""


class _Gate(_Ends, frozen=True):
    metric: str = ""
    verdict: str = ""
    rule: str = ""
    reason: str = ""
    passed: bool = False
    implied: bool = False


class _Published(Struct, frozen=True):
    metric: str = ""


class _Evaluation(Struct, frozen=True):
    """An evaluation; a leaderboard has `ranked_by` and `systems`, which `_leaderboard` checks."""

    figures: dict[str, _Figure] = {}
    kind: str = ""
    of: str = "rows"
    coverage: float | None = None
    warnings: list[str] = []
    groups: dict[str, dict[str, dict[str, _Figure]]] = {}
    ranked_by: Any = ""
    systems: Any = ()


class _ReportFile(Struct, frozen=True):
    """What the viewer shows of a `report.json`."""

    evaluations: dict[str, _Evaluation] = {}
    published: dict[str, _Published] = {}
    gates: list[_Gate] = []
    level: float = CONFIDENCE_LEVEL
    conclusion: str = ""


class RunSummaries:
    """The summaries of many runs. A `report.json` is read again only when it changes."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int], JsonObject]] = {}

    def get(self, folder: Path) -> JsonObject:
        """The summary of the run in this folder; an empty one without a report that can be read."""
        path = folder / "report.json"
        try:
            stat = path.stat()
        except OSError:
            return run_summary({})
        stamp = (stat.st_mtime_ns, stat.st_size)
        entry = self._known.get(path)
        if entry is None or entry[0] != stamp:
            report = None
            if stat.st_size <= _MOST_BYTES:
                with suppress(OSError, ValueError):
                    report = orjson.loads(path.read_bytes())
            entry = self._known[path] = (stamp, run_summary(report))
        return entry[1]


def run_summary(content: Any) -> JsonObject:
    """The summary of a `report.json`; an empty one of what verdict did not write. A leaderboard of another form is left out.

    `main` is the first metric of the first evaluation (of a leaderboard, that of its first system), `second` one that
    is corrected for chance, `gates` are their outcomes, `evaluations` have all metrics and the main one by slice.
    """
    try:
        report = convert(content, _ReportFile)
        evaluations = [
            _evaluation(name, evaluation, report.published.get(name, _Published()).metric)
            for name, evaluation in report.evaluations.items()
            if evaluation.figures
        ]
    except (LookupError, TypeError, ValueError):
        return run_summary({})
    boards = []
    for name, evaluation in report.evaluations.items():
        if evaluation.ranked_by:
            with suppress(LookupError, TypeError, ValueError):
                boards.append(_leaderboard(name, evaluation))
    measured = next((each for each in evaluations if each["main"]), None)
    return {
        "main": _of_leaderboards(boards) if measured is None else measured["main"],
        "second": None if measured is None else measured["second"],
        "coverage": None if measured is None else measured["coverage"],
        "gates": to_builtins(report.gates),
        "evaluations": evaluations,
        "leaderboards": boards,
        "level": report.level,
        "conclusion": formatting.visible_text(report.conclusion, 400),
    }


def _evaluation(name: str, evaluation: _Evaluation, published: str) -> JsonObject:
    """One evaluation: its metrics, the main one with its slices, and one corrected for chance."""
    figures = evaluation.figures
    metrics = [
        {"metric": metric, **to_builtins(value)}
        for metric, value in figures.items()
        if metric != "confusion"
    ]
    defined = [metric for metric in metrics if metric["value"] is not None]
    main = next((metric for metric in defined if metric["metric"] == published), None)
    if main is None and defined:
        main = defined[0]
    second = next((metric for metric in defined if is_beyond_chance(metric["metric"])), None)
    slices = []
    if main is not None:
        slices = [*_slices(main["metric"], evaluation.groups)]
        wrong = wrong_rows(figures)
        main = {"evaluation": name, **main, "of": evaluation.of, "wrong": wrong}
    is_main = main is not None and second is not None and second["metric"] == main["metric"]
    return {
        "name": name,
        "kind": formatting.kind_text(evaluation.kind),
        "metrics": metrics,
        "main": main,
        "second": None if second is None or is_main else {"evaluation": name, **second},
        "coverage": evaluation.coverage,
        "warnings": evaluation.warnings,
        "slices": slices,
    }


def _slices(
    metric: str, groups: Mapping[str, Mapping[str, Mapping[str, _Figure]]]
) -> Iterator[JsonObject]:
    """The metric for each value of each expression, the worst value first."""
    sign = metric_direction(metric) or 1
    for expression, values in groups.items():
        rows = [
            {"slice": value, "metric": metric, **to_builtins(metrics[metric])}
            for value, metrics in values.items()
            if metric in metrics
        ]
        rows.sort(key=lambda row: (row["value"] is None, sign * (row["value"] or 0)))
        yield {"by": expression, "rows": rows}


def _leaderboard(name: str, evaluation: _Evaluation) -> JsonObject:
    """The metric of the ranks and the systems, best first."""
    metric = evaluation.ranked_by
    systems = [
        {
            **{key: system[key] for key in ("system", "n", "rank")},
            **to_builtins(convert(system[metric], _Ends)),
        }
        for system in evaluation.systems
    ]
    return {"evaluation": name, "metric": metric, "systems": systems}


def _of_leaderboards(boards: list[JsonObject]) -> JsonObject | None:
    """The metric of the first system."""
    board = next((board for board in boards if board["systems"]), None)
    if board is None:
        return None
    system = board["systems"][0]
    return {
        "evaluation": board["evaluation"],
        "metric": f"{board['metric']} of {system['system']}",
        **{key: system[key] for key in ("value", "low", "high", "n")},
        "of": "rows",
        "wrong": None,
    }


LATEST = 30
_MOST_CALLS = 20_000
"""The most calls per reading; the next one reads on."""


class LiveRun:
    """Counts the finished calls in a run's database, in short transactions."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._last = 0
        self._answered: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._rows: set[int] = set()
        self._cost: float | None = 0.0
        self._tokens = [0, 0]
        self._latest: deque[JsonObject] = deque(maxlen=LATEST)

    def state(self) -> JsonObject:
        """Read on, and return calls by unit, started rows, cost, tokens, and the latest calls, newest first."""
        with self._lock:
            self._read()
            return {
                "started": len(self._rows),
                "units": [
                    {"unit": unit, "answered": self._answered[unit], "failed": self._failed[unit]}
                    for unit in dict.fromkeys([*self._answered, *self._failed])
                ],
                "cost_usd": self._cost,
                "tokens": list(self._tokens),
                "idle_s": self._idle_s(),
                "latest": list(reversed(self._latest)),
            }

    def _idle_s(self) -> float | None:
        """Seconds since the last call was written."""
        times = [file.stat().st_mtime for file in database_files(self._path)]
        return max(0.0, time() - max(times)) if times else None

    def _read(self) -> None:
        if not self._path.exists():
            return
        with (
            suppress(DataError, DamagedError, Error),
            Database.open_foreign(self._path) as database,
        ):
            for call in database.calls_after(self._last, _MOST_CALLS):
                self._last = call.number
                self._count(call)

    def _count(self, call: StoredCall) -> None:
        self._rows.add(call.row)
        (self._failed if call.failure else self._answered)[call.unit] += 1
        reply = call.content.reply
        if reply is not None:
            self._tokens[0] += reply.usage.prompt_tokens
            self._tokens[1] += reply.usage.completion_tokens
            has_cost = self._cost is not None and reply.cost_usd is not None
            self._cost = (self._cost or 0.0) + (reply.cost_usd or 0.0) if has_cost else None
        self._latest.append(
            {
                "unit": call.unit,
                "model": "" if reply is None else reply.model,
                "reply": "" if reply is None else reply.text[:300],
                "failure": call.failure,
                "seconds": call.content.latency_s,
            }
        )


MOST_OPEN = 4
LARGE = 50_000
"""With this many rows, a page is shown before the evaluation is computed."""


class BackgroundTasks:
    """Run tasks in at most `threads` threads, and keep the latest `most_results` results."""

    def __init__(self, threads: int, most_results: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "view")
        self._most_results = most_results
        self._futures: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, task: Callable[[], Any], wait_s: float = 0.0) -> tuple[bool, Any]:
        """Start the task if it is new, wait up to `wait_s`, and return whether it is done, and its result or exception."""
        with self._lock:
            future = self._futures.get(key)
            if future is None:
                future = self._futures[key] = self._pool.submit(task)
            self._futures.move_to_end(key)
            for old in list(self._futures):
                if len(self._futures) <= self._most_results:
                    break
                if self._futures[old].done():
                    del self._futures[old]
        try:
            return True, future.result(wait_s)
        except TimeoutError:
            if future.done():
                raise
            return False, None

    def close(self) -> None:
        """Cancel what has not started, without waiting."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class RunRegistry:
    """The runs of a directory, those that are open, and their tasks."""

    def __init__(self, runs: Runs, annotator: str = "") -> None:
        self.runs = runs
        self.annotator = annotator
        self.summaries = RunSummaries()
        self._evaluations = BackgroundTasks(threads=2, most_results=MOST_OPEN)
        self._comparisons = BackgroundTasks(threads=1, most_results=2)
        self._label_metrics = BackgroundTasks(threads=1, most_results=MOST_OPEN)
        self._views: OrderedDict[str, RunView] = OrderedDict()
        self._live: OrderedDict[str, LiveRun] = OrderedDict()
        self._lock = Lock()

    def run(self, name: str) -> RunEntry:
        """The run of that name. HTTPException 404 if there is none."""
        run = self.runs.get(name)
        if run is None:
            raise HTTPException(404, "no such run")
        return run

    def view(self, run: RunEntry) -> RunView:
        """Open the table of a run. HTTPException 409 if it has none yet."""
        if run.live:
            raise HTTPException(409, "this run has no results yet")
        with self._lock:
            view = self._views.get(run.name)
            if view is None or view.stamp != run.stamp:
                view = self._views[run.name] = RunView(run, self.annotator)
            view.run = run
            self._views.move_to_end(run.name)
            while len(self._views) > MOST_OPEN:
                self._views.popitem(last=False)
        return view

    def evaluate(self, view: RunView, wait_s: float = 0.0) -> bool:
        """Start the evaluation of a run, wait up to `wait_s`, and return whether it is done."""
        key = (view.run.name, view.stamp, view.labels_version)
        ready, columns = self._evaluations.get(key, view.evaluate, wait_s)
        if ready:
            view.evaluation = columns
        return ready

    def evaluate_for_page(self, view: RunView) -> bool:
        """As `evaluate`; a large run is evaluated once its first page is shown."""
        if view.shown_once:
            return self.evaluate(view)
        return view.rows <= LARGE and self.evaluate(view, wait_s=1.0)

    def label_metrics(self, view: RunView) -> tuple[bool, Any]:
        """Start measuring the run against its human labels, and return whether it is done, and the metrics."""
        self.evaluate(view, wait_s=5.0)
        key = (view.run.name, view.stamp, view.labels()[0], bool(view.evaluation.columns))
        return self._label_metrics.get(key, lambda: label_metrics(view), 2.0)

    def live(self, run: RunEntry) -> LiveRun:
        """The calls of a running run."""
        with self._lock:
            live = self._live.setdefault(run.name, LiveRun(run.directory.database))
            while len(self._live) > MOST_OPEN:
                self._live.popitem(last=False)
            return live

    def compare(self, entries: Sequence[RunEntry]) -> tuple[bool, RunsCompared]:
        """Start the comparison of runs, and return whether it is done, and its result."""
        if any(entry.live for entry in entries):
            raise HTTPException(409, "a run without results cannot be compared")
        key = tuple((entry.name, entry.stamp) for entry in entries)
        return self._comparisons.get(key, lambda: compare_entries(entries), 0.5)

    def close(self) -> None:
        """Cancel what has not started, without waiting."""
        self._evaluations.close()
        self._comparisons.close()
        self._label_metrics.close()
