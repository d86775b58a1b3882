"""A shard as a Ray task: a run on the worker's disk, whose segments and progress go to the driver."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from msgspec import Struct

from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.run import RunCommand, checked_options
from verdict_cli.errors import VerdictError
from verdict_cli.run.hooks import RunHooks
from verdict_cli.run.job import Stop
from verdict_cli.run.load_run import restore_run
from verdict_cli.run.progress import Progress
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.session import open_run
from verdict_cli.storage.database.segments import INTERVAL_S, SegmentWriter

SHOW_S = 1.0
"""How often progress is sent, and the database looked at."""


class ShardTask(Struct, frozen=True):
    """What a worker needs to judge a shard: the command, and where it was called."""

    config: str
    data: str
    how: RowOptions
    command: RunCommand
    hooks: Mapping[str, RunHooks]
    folder: str
    environment: Mapping[str, str]


class Segment(Struct, frozen=True):
    """A segment of the shard's database. The first one of a series replaces what came before."""

    series: str
    content: bytes


class End(Struct, frozen=True):
    """The shard's `run.json`, and the error that stopped it: its kind, exit code and text."""

    facts: bytes
    error: tuple[str, int, str] | None = None


Message = Progress | Segment | End


def judge_shard(task: ShardTask, *database: bytes) -> Iterator[Message]:
    """Judge a shard; with the parts of a database's file, from what that holds."""
    os.environ.update(task.environment)
    with (
        TemporaryDirectory(prefix="verdict-") as scratch,
        chdir(task.folder),
        ThreadPoolExecutor(1) as thread,
    ):
        directory = RunDirectory(Path(scratch, "run"))
        directory.prepare()
        segments = SegmentWriter(directory.database)
        if database:
            with directory.database.open("wb") as file:
                file.writelines(database)
            segments.skip()
            restore_run(directory, None)
        stop = Stop()
        progress: deque[Progress] = deque(maxlen=1)
        running = thread.submit(_judge, task, directory, Path(scratch), stop, progress)
        try:
            yield from _follow(running, progress, segments, Path(scratch, "segment.db"))
        finally:
            stop.request()
        facts = directory.path / "run.json"
        yield End(facts.read_bytes() if facts.exists() else b"", running.result())


def _judge(
    task: ShardTask, directory: RunDirectory, scratch: Path, stop: Stop, progress: deque[Progress]
) -> tuple[str, int, str] | None:
    """Run the shard to its end; the error that stopped it."""
    try:
        options = checked_options(
            Path(task.config),
            task.data,
            task.how,
            task.command,
            task.hooks,
            scratch,
            out=directory.path,
        )
        with task.how.opened_store(options.plan) as store, open_run(options) as session:
            session.execute(stop, progress.append, store=store)
    except VerdictError as error:
        return error.kind, error.exit_code, str(error)
    return None


def _follow(
    running: Future[tuple[str, int, str] | None],
    progress: deque[Progress],
    segments: SegmentWriter,
    part: Path,
) -> Iterator[Message]:
    """The progress and the segments of a shard until its end."""
    sent, ended = monotonic(), False
    while not ended:
        ended = bool(wait([running], SHOW_S).done)
        if progress:
            yield progress.pop()
        is_due = ended or monotonic() - sent >= INTERVAL_S or segments.is_large()
        if is_due and segments.write(part, is_last=ended):
            yield Segment(segments.series, part.read_bytes())
            segments.confirm()
        if is_due:
            sent = monotonic()
