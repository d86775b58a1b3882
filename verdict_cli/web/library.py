"""What the viewer has open: a few runs, their live journals, and comparisons that are being made."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

from starlette.exceptions import HTTPException

from verdict_cli.engines.saved import saved
from verdict_cli.errors import UsageError
from verdict_cli.evaluate import compare, latency
from verdict_cli.report import Beside, comparison_json
from verdict_cli.web.jobs import Jobs
from verdict_cli.web.live import Live
from verdict_cli.web.opened import Opened
from verdict_cli.web.runs import Found, Runs

MOST_OPEN = 4
LARGE = 50_000
"""So many rows are shown before they are judged."""


class Library:
    """The runs of a directory, and what is open of them."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self._jobs = Jobs(at_once=2, kept=MOST_OPEN)
        self._comparisons = Jobs(at_once=1, kept=2)
        self._opened: OrderedDict[str, Opened] = OrderedDict()
        self._live: OrderedDict[str, Live] = OrderedDict()
        self._lock = Lock()

    def run(self, name: str) -> Found:
        """The run of that name. HTTPException 404 where there is none."""
        found = self.runs.get(name)
        if found is None:
            raise HTTPException(404, "there is no such run")
        return found

    def opened(self, run: Found) -> Opened:
        """The run's table."""
        if run.live:
            raise HTTPException(409, "this run has no results yet")
        with self._lock:
            opened = self._opened.get(run.name)
            if opened is None or opened.stamp != run.stamp:
                opened = self._opened[run.name] = Opened(run)
            opened.run = run
            self._opened.move_to_end(run.name)
            while len(self._opened) > MOST_OPEN:
                self._opened.popitem(last=False)
        return opened

    def judged(self, opened: Opened, wait_s: float = 0.0) -> bool:
        """Whether its rows are judged yet; begins with it, and waits for `wait_s` at most."""
        key = (opened.run.name, opened.stamp, opened.judged_by)
        ready, judged = self._jobs.get(key, opened.judge, wait_s)
        if ready:
            opened.judged = judged
        return ready

    def live(self, run: Found) -> Live:
        """What the run's journal says."""
        with self._lock:
            live = self._live.setdefault(run.name, Live(run.directory.journal))
            while len(self._live) > MOST_OPEN:
                self._live.popitem(last=False)
            return live

    def compared(self, first: Found, second: Found) -> tuple[bool, Any]:
        """Whether the comparison is made, and its document."""
        if first.live or second.live:
            raise HTTPException(409, "a run that has no results yet cannot be compared")
        key = (first.name, first.stamp, second.name, second.stamp)
        return self._comparisons.get(key, lambda: _compared(first, second), 0.5)

    def close(self) -> None:
        """Waits for nothing more."""
        self._jobs.close()
        self._comparisons.close()


def _compared(first: Found, second: Found) -> dict[str, Any]:
    runs = [saved(run.directory.path) for run in (first, second)]
    known = [plan.evaluations for _, _, plan in runs]
    shared = {name: (known[0][name], known[1][name]) for name in known[1] if name in known[0]}
    if not shared:
        raise UsageError("these runs share no evaluation")
    made = compare(shared, (runs[0][0].results, runs[1][0].results), seed=runs[1][1].seed)
    sides = [
        Beside(run.name, facts, latency(directory.calls))
        for run, (directory, facts, _) in zip((first, second), runs, strict=True)
    ]
    return comparison_json((sides[0], sides[1]), made)
