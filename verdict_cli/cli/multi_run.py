"""Several runs of one command, with a shared cache and budget, and how stopped ones resume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from verdict_cli.cli.console import print_error, print_message

if TYPE_CHECKING:
    from verdict_cli.llm.middleware.cache_store import CacheStore
    from verdict_cli.messages import RunFacts
    from verdict_cli.run.batch import PreparedRun
    from verdict_cli.run.job import RunJob, Stop
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from verdict_cli.errors import JournalError, VerdictError

if TYPE_CHECKING:
    from verdict_cli.llm.middleware.cache_store import CacheStore


@dataclass(frozen=True)
class FinishedRun:
    """A run that was made."""

    name: str
    job: RunJob
    facts: RunFacts


def run_all(runs: Sequence[PreparedRun], stop: Stop, store: CacheStore | None, *, quiet: bool) -> list[FinishedRun]:
    """Every run, in order; says how the command goes on and exits where one could not be finished."""
    from verdict_cli.cli.progress import show_progress
    from verdict_cli.run.batch import run_several

    left = [one for one in runs if one.finished is None]
    if len(left) < len(runs) and not quiet:
        print_message(f"{len(runs) - len(left)} of {len(runs)} runs are finished already")
    paid = sum(one.finished.cost_usd or 0.0 for one in runs if one.finished is not None)
    jobs = [replace(one.job, store=store) for one in left]
    for job in jobs:
        job.directory.prepare()
    with resumable(store), show_progress(quiet=quiet) as watch:
        done = run_several(jobs, stop, watch, paid_usd=paid)
    if any(facts.status != "finished" for facts in done) or len(done) < len(jobs):
        print_error(
            f"stopped: {len(runs) - len(left) + len(done) - 1} of {len(runs)} runs are finished, in {runs[0].job.directory.path.parent}"
        )
        print_error(resume())
        raise typer.Exit(130)
    facts = iter(done)
    return [FinishedRun(one.name, one.job, one.finished or next(facts)) for one in runs]


def opened_cache(runs: Sequence[PreparedRun], folder: Path, *, shared: bool) -> CacheStore | None:
    """The replies that the runs share: the user's, else (not `shared`) those of this folder alone; None where no model
    may use any."""
    from verdict_cli.cli.cache import opened_store
    from verdict_cli.llm.middleware.cache_store import CacheStore
    from verdict_cli.run.preflight import keeps

    plans = [one.job.plan for one in runs if one.finished is None and one.job.recording is None]
    plan = next((plan for plan in plans if keeps(plan)), None)
    if plan is None:
        return None
    if shared:
        return opened_store(plan, wanted=True)
    return CacheStore.open(folder / "replies.sqlite3")


@contextmanager
def resumable(store: CacheStore | None) -> Iterator[None]:
    """Of what stops the runs within, says how the command goes on and exits; closes the cache whatever happened."""
    try:
        yield
    except JournalError:
        raise
    except VerdictError as error:
        print_error(str(error))
        print_error(resume())
        raise typer.Exit(error.exit_code) from None
    finally:
        if store is not None:
            store.close()
            if store.error:
                print_error(f"warning: replies could not be kept in the cache: {store.error}")


def resume() -> str:
    """How the user goes on."""
    words = [word for word in sys.argv[1:] if word != "--fresh"]
    return f"the same command goes on: {shlex.join(['verdict', *words])}"
