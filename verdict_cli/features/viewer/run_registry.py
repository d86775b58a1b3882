"""The runs that the viewer has open, and its background tasks: evaluations and comparisons."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

from starlette.exceptions import HTTPException

from verdict_cli.features.viewer.comparison import RunsCompared, compare_entries
from verdict_cli.features.viewer.label_metrics import label_metrics
from verdict_cli.features.viewer.live_run import LiveRun
from verdict_cli.features.viewer.run_summary import RunSummaries
from verdict_cli.features.viewer.run_view import RunView
from verdict_cli.features.viewer.runs import RunEntry, Runs

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

    def label_metrics(self, view: RunView) -> tuple[bool, Any]:
        """Start measuring the run against its human labels, and return whether it is done, and the metrics."""
        self.evaluate(view, wait_s=5.0)
        key = (view.run.name, view.stamp, view.labels()[0], bool(view.evaluation.columns))
        return self._label_metrics.get(key, lambda: label_metrics(view), 2.0)

    def live(self, run: RunEntry) -> LiveRun:
        """The journal of a running run."""
        with self._lock:
            live = self._live.setdefault(run.name, LiveRun(run.directory.journal))
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
