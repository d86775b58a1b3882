"""Execute runs of one command, with a shared cache and budget, and say how stopped ones resume."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.errors import JournalError, VerdictError
from verdict_cli.plural import plural

if TYPE_CHECKING:
    from verdict_cli.cli.model_options import RowOptions
    from verdict_cli.llm.middleware.cache_store import CacheStore
    from verdict_cli.run.job import Stop
    from verdict_cli.run.load_run import RunResult
    from verdict_cli.run.session import Session


def execute_or_exit(session: Session, stop: Stop, how: RowOptions) -> RunResult:
    """The finished run. Where it is stopped, say how it resumes and exit."""
    from verdict_cli.cli.progress import show_progress

    if session.is_finished:
        return session.execute()
    store = how.store(session.options.plan)
    with resumable(store), show_progress(quiet=how.quiet) as show:
        result = session.execute(stop, show, store=store)
    facts = result.facts
    for hooks in session.options.hooks.values():
        for notice in hooks.notices(facts, result.directory.display_name, resume_hint()):
            print_error(notice)
    if facts.status == "waiting":
        raise typer.Exit(5)
    if facts.status == "interrupted":
        print_error(
            f"stopped: {facts.done:,} of {plural(facts.rows, 'row is|rows are')} done, their results are in "
            f"{result.directory.display_name}"
        )
        print_error(resume_hint())
        raise typer.Exit(130)
    return result


def execute_all_or_exit(sessions: Sequence[Session], folder: Path, stop: Stop, how: RowOptions) -> list[RunResult]:
    """Every run finished, in order. Where one is stopped, say how the command resumes and exit."""
    from verdict_cli.cli.progress import show_progress
    from verdict_cli.run.session import execute_all

    finished = sum(session.is_finished for session in sessions)
    if finished and not how.quiet:
        print_message(f"{finished} of {plural(len(sessions), 'run is|runs are')} finished already")
    store = _shared_cache(sessions, folder, shared=not how.no_cache)
    with resumable(store), show_progress(quiet=how.quiet) as show:
        results = execute_all(sessions, stop, show, store=store)
    done = sum(result.facts.status == "finished" for result in results)
    if done < len(sessions):
        finished = sum(session.is_finished for session in sessions[len(results) :])
        print_error(f"stopped: {done + finished} of {plural(len(sessions), 'run is|runs are')} finished, in {folder}")
        print_error(resume_hint())
        raise typer.Exit(130)
    return results


def _shared_cache(sessions: Sequence[Session], folder: Path, *, shared: bool) -> CacheStore | None:
    """The cache of the runs: the user's, or one of this folder alone. None where no model may use any."""
    from verdict_cli.cli.cache import opened_store
    from verdict_cli.llm.middleware.cache_store import CacheStore
    from verdict_cli.run.preflight import may_cache

    plans = [
        session.options.plan
        for session in sessions
        if not session.is_finished and session.options.recording is None and may_cache(session.options.plan)
    ]
    if not plans:
        return None
    return opened_store(plans[0], wanted=True) if shared else CacheStore.open(folder / "replies.sqlite3")


@contextmanager
def resumable(store: CacheStore | None) -> Iterator[None]:
    """Where an error stops the runs, print it with how they resume, and exit. Closes the cache in any case."""
    try:
        yield
    except JournalError:
        raise
    except VerdictError as error:
        print_error(str(error))
        print_error(resume_hint())
        raise typer.Exit(error.exit_code) from None
    finally:
        if store is not None:
            store.close()
            if store.error:
                print_error(f"warning: replies could not be written to the cache: {store.error}")


def resume_hint() -> str:
    """How the user resumes the runs."""
    words = [word for word in sys.argv[1:] if word != "--fresh"]
    return f"the same command resumes the run: {shlex.join(['verdict', *words])}"
