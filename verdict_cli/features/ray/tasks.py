"""A run in shards that are tasks of a Ray cluster, as the process sees it that merges them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from msgspec import structs

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import execute_or_exit, resumable, resume_hint
from verdict_cli.cli.progress import show_progress
from verdict_cli.cli.run import RunCommand
from verdict_cli.errors import BudgetError, UsageError, VerdictError
from verdict_cli.features.ray.cluster import connected
from verdict_cli.features.ray.worker import End, Message, Segment, ShardTask, judge_shard
from verdict_cli.messages import sum_usd
from verdict_cli.regex import regex
from verdict_cli.run.job import Stop
from verdict_cli.run.load_run import RunResult
from verdict_cli.run.preflight import models_of
from verdict_cli.run.progress import Progress
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.session import Session, open_run
from verdict_cli.run.shards import check_shardable, merge_shards, shard_of
from verdict_cli.run_facts import Counts
from verdict_cli.storage.database.segments import add_segment, create_database

MOST_DEATHS = 3
"""So often in a row a shard's worker may die before it has sent a segment."""
WAIT_S = 0.25
"""How long to wait for a message before the progress is shown again."""
_SHOWN = ("rows", "done", "failed", "calls", "recalled", "cached")
"""The counts of shards that are shown together."""
_PART = 8_000_000
"""Bytes of a database that are sent as one object."""
_SENT_ALONG = regex(r"VERDICT_.*|.*_(API_KEY|API_BASE|BASE_URL)")
"""The environment variables that workers get."""


class ShardError(VerdictError):
    """A shard that failed on its worker, or whose workers die."""

    kind = "worker"

    def __init__(self, message: str, *, hint: str = "", exit_code: int = 4) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


def run_on_ray(
    count: int | None, session: Session, stop: Stop, how: RowOptions, command: RunCommand
) -> RunResult:
    """Run the session's rows in so many shards on Ray, merge them, and finish in this process what they have left.

    Where the directory holds the merged run already, only the latter.
    """
    options = session.options
    if session.earlier is None:
        check_shardable(options.plan)
        _check_places(session)
        with session.directory.writing():
            shards = _judge_shards(count, session, how, command)
        session.directory.database.unlink(missing_ok=True)  # of a merge that was killed
        merge_shards([shard.path for shard in shards], session.directory.path, partial=True)
    shutil.rmtree(_shards_folder(session), ignore_errors=True)
    with open_run(options) as merged:
        return execute_or_exit(merged, stop, how, as_json=command.as_json)


def _check_places(session: Session) -> None:
    """UsageError for data or a directory that workers cannot share."""
    if session.directory.remote is not None:
        raise UsageError(
            "--engine ray merges its shards on this machine", hint="name a path by --out"
        )
    source = session.options.source
    if source == "-" or Path(source).is_fifo():
        raise UsageError(
            f"--engine ray: every worker reads the data, and {source} can be read once",
            hint="write the rows to a file that every node has at the same path",
        )


def _shards_folder(session: Session) -> Path:
    return session.directory.path / "shards"


def _judge_shards(
    count: int | None, session: Session, how: RowOptions, command: RunCommand
) -> list[Shard]:
    """The shards, each judged until it is finished or its part of the budget is spent."""
    with connected() as ray, show_progress(quiet=how.quiet) as show:
        rows = session.options.data.selection.taken
        cpus = int(ray.cluster_resources().get("CPU", 0))
        count = _begun_shards(session, count) or count or max(2, min(cpus, rows))
        shards = [_shard(number, count, session, how, command) for number in range(count)]
        tasks = Tasks(ray, [shard for shard in shards if not shard.is_finished])
        try:
            with resumable(None):
                tasks.run(lambda: show(_total([shard.progress for shard in shards])))
        except KeyboardInterrupt:
            print_error(f"stopped: what its workers have sent is in {_shards_folder(session)}")
            print_error(resume_hint())
            raise typer.Exit(130) from None
        finally:
            tasks.cancel()
    return shards


def _begun_shards(session: Session, wanted: int | None) -> int:
    """How many shards the run has that an earlier process began; 0 without one. UsageError where others are wanted."""
    folder = _shards_folder(session)
    first = next(folder.iterdir(), None) if folder.exists() else None
    count = int(first.name.rpartition("-")[2]) if first else 0
    if first and wanted not in (None, count):
        raise UsageError(
            f"{folder} has a run in {count} shards",
            hint=f"give --shards {count}, or another --out",
        )
    return count


def _shard(
    number: int, count: int, session: Session, how: RowOptions, command: RunCommand
) -> Shard:
    options = session.options
    start = structs.replace(
        session.start,
        shard=f"{number}/{count}",
        rows=shard_of(options.data, number, count).rows,
    )
    directory = RunDirectory(_shards_folder(session) / f"{number}-of-{count}")
    directory.prepare()
    facts = directory.earlier_run(start)
    if facts is None:
        facts = start
        directory.write_facts(start)
    task = ShardTask(
        config=options.config,
        data=options.source,
        how=replace(how, quiet=True),
        command=replace(command, shard=facts.shard, yes=True),
        hooks=options.chosen_hooks,
        folder=str(Path.cwd()),
        environment=_environment(session),
    )
    return Shard(
        directory,
        f"shard {facts.shard}",
        task,
        Progress(facts),
        is_finished=facts.status == "finished",
    )


def _environment(session: Session) -> dict[str, str]:
    keys = {model.api_key_env for model in models_of(session.options.plan)}
    return {
        name: value
        for name, value in os.environ.items()
        if name in keys or _SENT_ALONG.fullmatch(name)
    }


@dataclass(eq=False)
class Shard:
    """A shard of the run: its directory here, and what its worker has told last."""

    directory: RunDirectory
    name: str
    task: ShardTask
    progress: Progress
    is_finished: bool
    series: str = ""
    """The segments that its worker sends."""
    deaths: int = 0

    @property
    def path(self) -> Path:
        return self.directory.path

    def parts(self) -> Iterator[bytes]:
        """The file of the database, in parts."""
        if self.directory.database.exists():
            with self.directory.database.open("rb") as file:
                yield from iter(lambda: file.read(_PART), b"")

    def take(self, message: Message) -> None:
        """Note a message of its worker. ShardError where an error ended the shard; the budget's end is none."""
        if isinstance(message, Progress):
            self.progress = message
        elif isinstance(message, Segment):
            self.deaths = 0
            self._add(message)
        else:
            self._end(message)

    def _add(self, segment: Segment) -> None:
        part, database = self.path / "segment.db", self.directory.database
        part.write_bytes(segment.content)
        if segment.series == self.series:
            add_segment(part, database)
        else:
            fresh = self.path / "fresh.db"
            fresh.unlink(missing_ok=True)
            create_database(fresh)
            add_segment(part, fresh)
            fresh.replace(database)
            self.series = segment.series
        part.unlink()

    def _end(self, end: End) -> None:
        if end.facts:
            self.directory.write("run.json", end.facts)
        if end.error is None:
            return
        kind, exit_code, text = end.error
        if kind != BudgetError.kind:
            raise ShardError(f"{self.name}: {text}", exit_code=exit_code)


class Tasks:
    """The tasks of shards, each of which is a stream of messages. The messages of a former worker are never read."""

    def __init__(self, ray: Any, shards: Sequence[Shard]) -> None:
        self._ray = ray
        self._judge = ray.remote(max_retries=0)(judge_shard)
        self._streams: dict[Any, Shard] = {}
        for shard in shards:
            self._start(shard)

    def _start(self, shard: Shard) -> None:
        parts = [self._ray.put(part) for part in shard.parts()]
        shard.series = ""
        self._streams[self._judge.remote(shard.task, *parts)] = shard

    def run(self, show: Callable[[], None]) -> None:
        """Read the messages until every stream has ended. ShardError where one cannot be brought to its end."""
        while self._streams:
            ready, _ = self._ray.wait(list(self._streams), num_returns=1, timeout=WAIT_S)
            for stream in ready:
                self._read(stream)
            show()

    def _read(self, stream: Any) -> None:
        """Take the next message of a stream."""
        shard, errors = self._streams[stream], self._ray.exceptions
        try:
            shard.take(self._ray.get(next(stream)))
        except StopIteration:
            del self._streams[stream]
        except errors.RayTaskError as error:
            raise ShardError(
                f"{shard.name}: {str(error.cause).strip().splitlines()[0]}",
                hint="every node of the cluster needs this verdict, and the files at the same paths",
            ) from None
        except errors.RayError as error:
            del self._streams[stream]
            self._restart(shard, error)

    def _restart(self, shard: Shard, error: Exception) -> None:
        shard.deaths += 1
        if shard.deaths == MOST_DEATHS:
            raise ShardError(
                f"{shard.name}: its worker died {MOST_DEATHS} times before it sent anything: {type(error).__name__}",
                hint="see the logs of Ray; its nodes may have too little memory",
            ) from None
        print_message(f"{shard.name}: its worker died, another one continues from its last segment")
        self._start(shard)

    def cancel(self) -> None:
        """Stop the workers that are still at work."""
        for stream in self._streams:
            with suppress(Exception):  # the cluster may be gone
                self._ray.cancel(stream, force=True)


def _total(shards: Sequence[Progress]) -> Progress:
    """The progress of all shards."""
    counts = Counts(
        **{name: sum(getattr(shard.counts, name) for shard in shards) for name in _SHOWN},
        cost_usd=sum_usd(*[shard.counts.cost_usd for shard in shards]),
    )
    return Progress(
        counts,
        earlier=sum(shard.earlier for shard in shards),
        elapsed_s=max(shard.elapsed_s for shard in shards),
        waiting=sum(shard.waiting for shard in shards),
        running=sum(shard.running for shard in shards),
    )
