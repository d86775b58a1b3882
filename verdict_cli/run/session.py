"""Open a run, decide whether it resumes, and execute it: the one path from options to a result.

The command line, Python and every feature that judges rows take it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from types import TracebackType

from msgspec import structs

from verdict_cli.errors import JournalError, UsageError
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.providers.recorded_calls import recorded_file
from verdict_cli.plan.node import Plan
from verdict_cli.run.digests import check_digests, with_spec_digest
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.job import RunJob, RunOptions, Stop
from verdict_cli.run.load_run import RunResult, restore_run
from verdict_cli.run.local import run_alone, run_client, run_within
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.process import calls_at_once, check_space
from verdict_cli.run.progress import Progress
from verdict_cli.run.run_directory import RunDirectory, reused_database
from verdict_cli.run.run_metadata import first_facts, resumed_facts, run_directory, with_ids_of
from verdict_cli.run.validate_run import check_rows
from verdict_cli.run_facts import RunFacts

Show = Callable[[Progress], None]


def open_run(options: RunOptions) -> Session:
    """The run with its directory, which an earlier run may have begun.

    A directory in a store is locked until the session is closed. Raises JournalError where it belongs to another run, UsageError
    where the run cannot be made with these options.
    """
    facts = first_facts(options)
    directory = run_directory(options.out, facts)
    own = (directory.calls.resolve(), directory.database.resolve())
    if options.replay is not None and recorded_file(options.replay).resolve() in own:
        raise UsageError(
            f"{directory.display_name} holds the recording itself", hint="choose another --out"
        )
    if any(reused_database(run).resolve() == directory.database.resolve() for run in options.reuse):
        raise UsageError(
            "--reuse names the run itself, which finds its own replies", hint="leave --reuse out"
        )
    for hooks in options.hooks.values():
        hooks.check(options)
    with ExitStack() as stack:
        stack.enter_context(directory.lock())
        earlier = None
        if not options.fresh and directory.facts() is not None:
            _check_identifiable(options.plan, directory)
            earlier = directory.earlier_run(facts)
            options, facts = with_ids_of(options, facts, earlier)
        start = resumed_facts(facts, earlier)
        for hooks in options.hooks.values():
            hooks.check_resumed(options, directory, start)
        return Session(options, directory, start, earlier, stack.pop_all())


def import_table_writer() -> None:
    """Import what writes the tables, before a call is paid. UsageError where it cannot be imported."""
    try:
        import pyarrow.parquet  # noqa: F401
    except (
        ImportError,
        AttributeError,
    ) as error:  # what pyarrow raises with a numpy of another major version
        raise UsageError(
            f"the tables of a run cannot be written: {error}",
            hint="pip install --upgrade 'numpy>=2' pyarrow",
        ) from None


def _check_identifiable(plan: Plan, directory: RunDirectory) -> None:
    """JournalError where the fingerprint cannot tell whether the directory's run is this one."""
    for node in plan.nodes:
        for code in node.code:
            if not code.traceable:
                raise JournalError(
                    f"{directory.path} holds a run, and whether it is this one cannot be told: "
                    f"the source of {code.name} in the unit {node.id!r} is not known",
                    hint="define the function in a file or a notebook, or choose another `out`",
                )


@dataclass
class Session:
    """A run that is open."""

    options: RunOptions
    directory: RunDirectory
    start: RunFacts
    """Its facts before it is executed."""
    earlier: RunFacts | None
    """The facts of the run that it resumes."""
    lock: ExitStack
    """Keeps other processes out of a directory in a store until the session is closed."""

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.lock.__exit__(kind, error, trace)

    @property
    def is_finished(self) -> bool:
        """Whether the earlier run has left nothing to do."""
        earlier = self.earlier
        if earlier is None or earlier.status != "finished":
            return False
        return not (self.options.retry_failed and earlier.failed)

    def execute(
        self,
        stop: Stop | None = None,
        show: Show = lambda _: None,
        *,
        store: CacheStore | None = None,
    ) -> RunResult:
        """Run what is left, and return the run as it then stands; its facts' status is `finished` or `interrupted`.

        The tables hold what is done whatever stops the run, unless the disk refuses. Raises Refused, BudgetError,
        PinnedError, OutputError, DataError, JournalError.
        """
        if self.is_finished:
            return self._finished_result()
        job, stop = self._job(store), stop or Stop()
        return self._result(run_alone(job, stop, show))

    async def execute_within(self, client: ModelClient, stop: Stop, show: Show) -> RunResult:
        """As `execute`, in the running event loop, with a client whose limits, budget and cache others share."""
        if self.is_finished:
            return self._finished_result()
        return self._result(await run_within(self._job(client.store), stop, show, client))

    def reuse(self, others: Sequence[Session]) -> None:
        """Look for replies in the databases of these runs, which are finished, too."""
        databases = (other.directory.database for other in others)
        files = tuple(database for database in databases if database.is_file())
        self.options = replace(self.options, reuse=(*self.options.reuse, *files))

    def _job(self, store: CacheStore | None) -> RunJob:
        import_table_writer()
        self.directory.prepare()
        check_space(self.directory.path)
        chosen = {field.name: getattr(self.options, field.name) for field in fields(RunOptions)}
        at_once = calls_at_once(self.options.concurrency)
        if at_once < self.options.concurrency:
            self.options.warn(
                f"{at_once} calls run at once, not {self.options.concurrency}: the process may open no more files; "
                "raise the limit with `ulimit -n`"
            )
            chosen["concurrency"] = at_once
        return RunJob(**chosen, directory=self.directory, start=self.start, store=store)

    def _finished_result(self) -> RunResult:
        # Evaluations, gates and the report's settings may have changed: no fingerprint covers them.
        self.directory.write_spec(self.options.plan)
        earlier = restore_run(self.directory, self.earlier)
        assert earlier is not None
        earlier = self.earlier = with_spec_digest(self.directory, earlier)
        if earlier.status != "finished":
            raise JournalError(
                f"{self.directory.database} has {earlier.done:,} of {earlier.rows:,} rows, and the run was finished",
                hint="put its run.db back; or give the same command again, which judges the other rows",
            )
        warnings = tuple(dict.fromkeys((*self.earlier.warnings, *self.start.warnings)))
        result = self._result(structs.replace(self.earlier, warnings=warnings))
        check_rows(result.directory.results, self.earlier)
        check_digests(result.directory, self.earlier)
        return result

    def _result(self, facts: RunFacts) -> RunResult:
        if facts.status == "finished":
            self.directory.get_tables()
        return RunResult(self.directory, facts, self.options.plan)


def execute_all(
    sessions: Sequence[Session],
    stop: Stop,
    show: Show = lambda _: None,
    *,
    store: CacheStore | None = None,
) -> list[RunResult]:
    """The result of each run, in order; where one was interrupted, it is the last.

    The runs share limits, budget and cache, and the replies in each other's databases. Concurrency, recording and budget are those of the first; what finished
    runs have cost counts. Raises what `Session.execute` raises; runs that were finished before stay.
    """

    async def work(options: RunOptions) -> list[RunResult]:
        results: list[RunResult] = []
        async with run_client(options, store) as client:
            client.spending.spent_usd += sum(_costs(sessions))
            for session in sessions:
                finished = [other for other in sessions[len(results) + 1 :] if other.is_finished]
                session.reuse([*sessions[: len(results)], *finished])
                results.append(await session.execute_within(client, stop, show))
                if results[-1].facts.status != "finished":
                    break
        return results

    if not sessions:
        return []
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work(sessions[0].options))


def _costs(sessions: Sequence[Session]) -> Iterable[float]:
    """What the finished ones have cost, in USD."""
    return (
        session.earlier.cost_usd or 0.0
        for session in sessions
        if session.earlier and session.is_finished
    )
