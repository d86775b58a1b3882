"""Execute the runs of one command: tell what they cost, share a cache and a budget, stop at Ctrl-C, say how they resume."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from verdict_cli.cli import console
from verdict_cli.cli.console import print_error, print_message
from verdict_cli.errors import BudgetError, JournalError, VerdictError
from verdict_cli.plural import plural
from verdict_cli.run.job import Stop

if TYPE_CHECKING:
    from verdict_cli.cli.model_options import RowOptions
    from verdict_cli.llm.middleware.cache_store import CacheStore
    from verdict_cli.model import Model
    from verdict_cli.plan.node import Plan
    from verdict_cli.run.estimate import Line
    from verdict_cli.run.job import RunOptions
    from verdict_cli.run.load_run import RunResult
    from verdict_cli.run.session import Session


def tell_cost(sessions: Sequence[Session], *, yes: bool, quiet: bool) -> bool:
    """Warn of what the models lack, tell the estimate of all runs, and ask on a terminal. Exits where the answer is no.

    Nothing is told of runs that are finished or replayed, or that call free models only; nothing is asked of ones that
    call models without a price on this machine only. Several runs share equal calls, so theirs is the most.

    Returns:
        Whether there was something to tell.
    """
    from verdict_cli.run.model_warnings import (
        capability_warnings,
        context_warnings,
        sampled_dry_run,
    )
    from verdict_cli.run.preflight import SAMPLE

    warnings: dict[str, None] = {}
    estimates: dict[tuple[str, int], Sequence[Line]] = {}
    runs: list[tuple[RunOptions, int, Sequence[Line]]] = []
    for session in sessions:
        options = session.options
        if session.is_finished or options.recording is not None or not _paid(options.plan):
            continue
        row_count = options.data.rows
        if session.earlier is not None:
            row_count = max(0, row_count - session.earlier.done)
        key = (options.plan.fingerprint, row_count)
        if key not in estimates:
            dry = sampled_dry_run(options.plan, options.dataset, options.data, options.seed)
            problems = (
                *capability_warnings(options.plan),
                *context_warnings(options.plan, dry.longest),
            )
            warnings |= dict.fromkeys(map(str, problems))
            estimates[key] = dry.lines(row_count)
        if row_count:  # else there are only retries of failed calls, which cannot be estimated
            runs.append((options, row_count, estimates[key]))
    for warning in warnings:
        print_error(f"warning: {warning}")
    if not runs:
        return False
    rows = max(count for _, count, _ in runs)
    subject = f"{len(runs)} runs of {rows:,} rows" if len(runs) > 1 else f"{rows:,} rows"
    subject += f", estimated from {SAMPLE} of them" if rows > SAMPLE else ""
    phrase = None
    if len(runs) == 1:
        options, _, lines = runs[0]
        hook_estimates = [hooks.estimate(options.plan, lines) for hooks in options.hooks.values()]
        phrases = [estimate.phrase for estimate in hook_estimates if estimate is not None]
        phrase = next(filter(None, phrases), None)
    ask_to_spend(
        subject,
        [lines for _, _, lines in runs],
        [options.plan for options, _, _ in runs],
        phrase=phrase,
        yes=yes,
        quiet=quiet,
    )
    return True


def ask_to_spend(
    subject: str,
    runs: Sequence[Sequence[Line]],
    plans: Sequence[Plan],
    *,
    phrase: str | None = None,
    at_most: bool = False,
    yes: bool,
    quiet: bool,
) -> None:
    """Tell the calls and the cost of these runs, and ask on a terminal. Exits where the answer is no.

    Args:
        what: What is judged, such as `40 rows`.
        runs: The estimate of each run. Of several, equal calls are shared: their sum is the most.
        plans: The plans whose models are called.
        phrase: The cost in words, where it is not the sum.
        at_most: The calls of one run are a bound too.
    """
    from verdict_cli.report.formatting import money
    from verdict_cli.run.estimate import total

    paid = [model for plan in plans for model in _paid(plan)]
    if not paid:
        return
    whole = total((line for lines in runs for line in lines), "", "")
    bound = at_most or len(runs) > 1
    least = max(sum(line.least for line in lines) for lines in runs)
    calls = f"{whole.calls:,}" if least >= whole.calls else f"{least:,} to {whole.calls:,}"
    calls = f"at most {whole.calls:,}" if bound else calls
    cost = (
        "cost unknown"
        if whole.cost_usd is None
        else f"{'up to' if bound else 'about'} {money(whole.cost_usd)}"
    )
    names = ", ".join(dict.fromkeys(model.name for model in paid))
    spends = (
        whole.cost_usd != 0
        if whole.cost_usd is not None
        else not all(map(_is_on_this_machine, paid))
    )
    asks = spends and not yes and console.is_interactive()
    if asks or not quiet:
        print_message(f"{subject}: {calls} calls of {names}, {phrase or cost}")
    if asks and not typer.confirm("Continue?", default=True, err=True):
        print_error("stopped: no call was made")
        raise typer.Exit(130)


def _paid(plan: Plan) -> list[Model]:
    """The models of a plan that may cost something."""
    from verdict_cli.llm.model_families import is_local
    from verdict_cli.run.preflight import models_of

    return [model for model in models_of(plan) if not is_local(model.name)]


def _is_on_this_machine(model: Model) -> bool:
    """Whether the model is served by this machine, where calls without a price cost nothing."""
    from verdict_cli.language.model_address import LOOPBACK
    from verdict_cli.llm.model_families import host_called

    host = host_called(model, os.environ) or ""
    return any(host == local_host or host.startswith(f"{local_host}:") for local_host in LOOPBACK)


_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    # `nohup` ignores SIGHUP, and it stays ignored; Windows has none.
    if hasattr(signal, name)
    and not (name == "SIGHUP" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
]


@contextmanager
def stopping(stop: Stop) -> Iterator[None]:
    """Pass signals to `stop` while calls are in flight. Before and after, they end the program."""

    def handle(number: int, frame: FrameType | None) -> None:
        if not stop.bound:
            raise KeyboardInterrupt
        if stop.requested:
            os._exit(130)
        stop.request()
        with suppress(OSError):  # the terminal may be closed
            print_message(
                "Stopping: what is answered is on the disk. Press Ctrl-C again to quit now."
            )

    previous = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def execute_or_exit(
    session: Session, stop: Stop, how: RowOptions, *, as_json: bool = False
) -> RunResult:
    """The finished run. Where it is stopped, say how it resumes and exit; ``as_json``: print its document, without metrics."""
    from verdict_cli.cli.progress import show_progress

    if session.is_finished:
        return session.execute()
    store = how.store(session.options.plan)
    with resumable(store), show_progress(quiet=how.quiet) as show:
        result = session.execute(stop, show, store=store)
    facts = result.facts
    if as_json and facts.status != "finished":
        from verdict_cli.cli.show_report import show_report
        from verdict_cli.report.report import Report

        show_report(Report(result.directory.display_name, facts, {}, (), {}), as_json=True)
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


def execute_all_or_exit(
    sessions: Sequence[Session], folder: Path, stop: Stop, how: RowOptions
) -> list[RunResult]:
    """Every run finished, in order. Where one is stopped, say how the command resumes and exit."""
    from verdict_cli.cli.progress import show_progress
    from verdict_cli.run.session import execute_all

    finished = sum(session.is_finished for session in sessions)
    if finished and not how.quiet:
        print_message(f"{finished} of {plural(len(sessions), 'run is|runs are')} finished already")
    store = None if how.no_cache else _shared_cache(sessions)
    with resumable(store), show_progress(quiet=how.quiet) as show:
        results = execute_all(sessions, stop, show, store=store)
    done = sum(result.facts.status == "finished" for result in results)
    if done < len(sessions):
        finished = sum(session.is_finished for session in sessions[len(results) :])
        print_error(
            f"stopped: {done + finished} of {plural(len(sessions), 'run is|runs are')} finished, in {folder}"
        )
        print_error(resume_hint())
        raise typer.Exit(130)
    return results


def _shared_cache(sessions: Sequence[Session]) -> CacheStore | None:
    """The user's cache. None where no run may use it."""
    from verdict_cli.cli.cache import opened_store
    from verdict_cli.run.preflight import may_cache

    plans = [
        session.options.plan
        for session in sessions
        if not session.is_finished
        and session.options.recording is None
        and may_cache(session.options.plan)
    ]
    return opened_store(plans[0]) if plans else None


@contextmanager
def resumable(store: CacheStore | None) -> Iterator[None]:
    """Where an error stops the runs, print it with how they resume, and exit. Closes the cache in any case."""
    try:
        yield
    except JournalError:
        raise
    except VerdictError as error:
        print_error(str(error))
        if not isinstance(error, BudgetError):  # the same budget would only be spent again
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
