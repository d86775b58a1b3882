"""What the viewer has open: a few runs, their live journals, and comparisons that are being made."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

from starlette.exceptions import HTTPException

from verdict_cli.errors import UsageError
from verdict_cli.http.viewer.background_tasks import BackgroundTasks
from verdict_cli.http.viewer.live_run import LiveRun
from verdict_cli.http.viewer.run_view import RunView
from verdict_cli.http.viewer.runs import RunEntry, Runs
from verdict_cli.report.comparison import ComparisonContext, comparison_json
from verdict_cli.run.load_run import load_run
from verdict_cli.stats.call_stats import latency
from verdict_cli.stats.compare import compare_runs

MOST_OPEN = 4
LARGE = 50_000
"""So many rows are shown before they are judged."""


class RunRegistry:
    """The runs of a directory, and what is open of them."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self._jobs = BackgroundTasks(at_once=2, kept=MOST_OPEN)
        self._comparisons = BackgroundTasks(at_once=1, kept=2)
        self._opened: OrderedDict[str, RunView] = OrderedDict()
        self._live: OrderedDict[str, LiveRun] = OrderedDict()
        self._lock = Lock()

    def run(self, name: str) -> RunEntry:
        """The run of that name. HTTPException 404 where there is none."""
        found = self.runs.get(name)
        if found is None:
            raise HTTPException(404, "there is no such run")
        return found

    def opened(self, run: RunEntry) -> RunView:
        """The run's table."""
        if run.live:
            raise HTTPException(409, "this run has no results yet")
        with self._lock:
            opened = self._opened.get(run.name)
            if opened is None or opened.stamp != run.stamp:
                opened = self._opened[run.name] = RunView(run)
            opened.run = run
            self._opened.move_to_end(run.name)
            while len(self._opened) > MOST_OPEN:
                self._opened.popitem(last=False)
        return opened

    def judged(self, opened: RunView, wait_s: float = 0.0) -> bool:
        """Whether its rows are judged yet; begins with it, and waits for `wait_s` at most."""
        key = (opened.run.name, opened.stamp, opened.judged_by)
        ready, judged = self._jobs.get(key, opened.judge, wait_s)
        if ready:
            opened.judged = judged
        return ready

    def live(self, run: RunEntry) -> LiveRun:
        """What the run's journal says."""
        with self._lock:
            live = self._live.setdefault(run.name, LiveRun(run.directory.journal))
            while len(self._live) > MOST_OPEN:
                self._live.popitem(last=False)
            return live

    def compared(self, first: RunEntry, second: RunEntry) -> tuple[bool, Any]:
        """Whether the comparison is made, and its document."""
        if first.live or second.live:
            raise HTTPException(409, "a run that has no results yet cannot be compared")
        key = (first.name, first.stamp, second.name, second.stamp)
        return self._comparisons.get(key, lambda: _compared(first, second), 0.5)

    def close(self) -> None:
        """Waits for nothing more."""
        self._jobs.close()
        self._comparisons.close()


def _compared(first: RunEntry, second: RunEntry) -> dict[str, Any]:
    runs = [load_run(run.directory.path) for run in (first, second)]
    known = [plan.evaluations for _, _, plan in runs]
    shared = {name: (known[0][name], known[1][name]) for name in known[1] if name in known[0]}
    if not shared:
        raise UsageError("these runs share no evaluation")
    made = compare_runs(shared, (runs[0][0].results, runs[1][0].results), seed=runs[1][1].seed)
    sides = [
        ComparisonContext(run.name, facts, latency(directory.calls))
        for run, (directory, facts, _) in zip((first, second), runs, strict=True)
    ]
    return comparison_json((sides[0], sides[1]), made)
