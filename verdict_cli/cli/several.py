"""Runs that one command makes one after another, with a cache and a budget for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from verdict_cli.cli.resume import resumable, resume
from verdict_cli.cli.streams import complain, say

if TYPE_CHECKING:
    from verdict_cli.calls import Store
    from verdict_cli.engines import Job, Stop
    from verdict_cli.engines.several import Prepared
    from verdict_cli.values import RunFacts


@dataclass(frozen=True)
class Made:
    """A run that was made."""

    name: str
    job: Job
    facts: RunFacts


def carried_out(runs: Sequence[Prepared], stop: Stop, store: Store | None, *, quiet: bool) -> list[Made]:
    """Every run, in order; says how the command goes on and exits where one could not be finished."""
    from verdict_cli.cli.progress import showing
    from verdict_cli.engines.several import run_several

    left = [one for one in runs if one.finished is None]
    if len(left) < len(runs) and not quiet:
        say(f"{len(runs) - len(left)} of {len(runs)} runs are finished already")
    paid = sum(one.finished.cost_usd or 0.0 for one in runs if one.finished is not None)
    jobs = [replace(one.job, store=store) for one in left]
    for job in jobs:
        job.directory.prepare()
    with resumable(store), showing(quiet=quiet) as watch:
        done = run_several(jobs, stop, watch, paid_usd=paid)
    if any(facts.status != "finished" for facts in done) or len(done) < len(jobs):
        complain(
            f"stopped: {len(runs) - len(left) + len(done) - 1} of {len(runs)} runs are finished, in {runs[0].job.directory.path.parent}"
        )
        complain(resume())
        raise typer.Exit(130)
    facts = iter(done)
    return [Made(one.name, one.job, one.finished or next(facts)) for one in runs]


def opened_cache(runs: Sequence[Prepared], folder: Path, *, shared: bool) -> Store | None:
    """The replies that the runs share: the user's, else (not `shared`) those of this folder alone; None where no model
    may use any."""
    from verdict_cli.calls import Store
    from verdict_cli.cli.cache import opened_store
    from verdict_cli.engines.ready import keeps

    plans = [one.job.plan for one in runs if one.finished is None and one.job.recording is None]
    plan = next((plan for plan in plans if keeps(plan)), None)
    if plan is None:
        return None
    if shared:
        return opened_store(plan, wanted=True)
    return Store.open(folder / "replies.sqlite3")
