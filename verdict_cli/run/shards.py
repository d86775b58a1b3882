"""A run in shards: each has every n-th row and a directory of its own; merged, they are one run."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct, structs

from verdict_cli.errors import UsageError
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.run.load_run import StoredRun, restore_run, stored_run
from verdict_cli.run.run_directory import LOCK, RunDirectory, difference
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.database.append import append
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.schema import (
    DamagedError,
    connect,
    create,
    damage_raised,
    open_foreign,
    refused,
    unreadable,
)
from verdict_cli.storage.datasets.dataset import DatasetFacts
from verdict_cli.storage.file_lock import is_locked
from verdict_cli.storage.paths import replacing

_COPIED = ("run", "checked")
"""What the merged database has beside calls and rows: see `start_run`."""


def parse_shard(text: str) -> tuple[int, int]:
    """Which shard `i/n` names, and of how many. UsageError for anything else."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    shard, shards = (int(match[1]), int(match[2])) if match else (0, 0)
    if shard >= shards or shards == 1:
        raise UsageError(
            f"{text!r:.40} names no shard of several",
            hint="count from 0: the shards 0/4, 1/4, 2/4 and 3/4 are one run",
        )
    return shard, shards


def check_shardable(plan: Plan) -> None:
    """UsageError for a pipeline that cannot be run in shards."""
    for node in plan.nodes:
        if node.pinned:
            raise UsageError(
                f"--shard: every row reads the output of the pinned unit {node.id!r}, and each shard would ask it again",
                hint="leave --shard out, or `pin` out of the unit",
            )
        if node.code:
            raise UsageError(
                f"--shard: the unit {node.id!r} is Python code, which the directory of a shard does not hold",
                hint="leave --shard out",
            )


def shard_of(data: DatasetFacts, shard: int, shards: int) -> DatasetFacts:
    """The facts of a shard's rows. UsageError where there are more shards than rows."""
    taken = data.selection.taken
    if shards > taken:
        raise UsageError(
            f"--shard: {plural(taken, 'row')} cannot be cut into {shards} shards",
            hint="use fewer shards",
        )
    selection = structs.replace(data.selection, shard=shard, shards=shards)
    return structs.replace(data, rows=len(range(shard, taken, shards)), selection=selection)


class _Shard(Struct, frozen=True):
    """A shard's directory: it is the shard of this number, from 0, of so many."""

    path: Path
    facts: RunFacts
    stored: StoredRun
    number: int
    count: int
    done: int
    """Its finished rows."""

    @property
    def missing(self) -> int:
        return self.facts.rows - self.done


def merge_shards(paths: Sequence[Path], out: Path, *, partial: bool = False) -> None:
    """Make the shards in the directories ``paths`` one run in the directory ``out``.

    UsageError where they are not all shards of one run, and, unless ``partial``, where rows are missing.
    """
    shards = sorted((_read(path) for path in paths), key=lambda shard: shard.number)
    _check_same_run(shards)
    _check_complete(shards)
    unfinished = [shard for shard in shards if shard.missing]
    if unfinished and not partial:
        rows = ", ".join(
            f"{shard.path} lacks {shard.missing:,} of {shard.facts.rows:,} rows"
            for shard in unfinished
        )
        raise UsageError(
            f"unfinished: {rows}",
            hint="run the same command of each again, or merge what is there with --partial",
        )
    directory = RunDirectory(out)
    with directory.lock():
        if directory.database.exists() or directory.facts() is not None:
            raise UsageError(f"{out} holds a run already", hint="choose another --out")
        _write(shards, directory)
        restore_run(directory, None)


def _read(path: Path) -> _Shard:
    directory = RunDirectory(path)
    if not directory.database.is_file():
        raise UsageError(
            f"{path} has no run.db", hint="name the --out of each `verdict run … --shard i/n`"
        )
    if is_locked(path / LOCK):
        raise UsageError(f"{path} is still being run", hint="wait for its end, or stop it")
    with Database.open_foreign(directory.database) as database:
        stored = stored_run(database, directory)
        if stored is None:
            raise UsageError(
                f"{path} holds no run",
                hint="its run stopped before it began: run its command again",
            )
        facts = directory.facts() or stored.facts
        if facts.status != "finished" and database.names_of("batches"):
            raise UsageError(
                f"{path} waits for batches", hint="run its command again until they are answered"
            )
        try:
            done = sum(row >= 0 for row, _ in database.check_rows())
        except DamagedError as error:
            raise unreadable(directory.database, error) from None
    if not facts.shard:
        raise UsageError(
            f"{path} holds a whole run", hint="name the --out of each `verdict run … --shard i/n`"
        )
    return _Shard(path, facts, stored, *parse_shard(facts.shard), done)


def _check_same_run(shards: Sequence[_Shard]) -> None:
    """UsageError where a shard is of another run than the first one."""
    first = shards[0]
    for shard in shards:
        other = difference(shard.facts, first.facts)
        if not other and shard.facts.id_column != first.facts.id_column:
            other = f"its rows are identified by {shard.facts.id_column}, not by {first.facts.id_column}"
        if not other and shard.count != first.count:
            other = f"it is one of {shard.count} shards, not of {first.count}"
        if other:
            raise UsageError(
                f"{shard.path} is not of the same run as {first.path}: {other}",
                hint="merge the shards of one run",
            )


def _check_complete(shards: Sequence[_Shard]) -> None:
    """UsageError where a shard is missing, or is there twice."""
    count = shards[0].count
    counts = Counter(shard.number for shard in shards)
    twice = [number for number, times in counts.items() if times > 1]
    if twice:
        raise UsageError(
            f"shard {twice[0]}/{count} is there twice", hint="name each directory once"
        )
    absent = [f"{number}/{count}" for number in range(count) if number not in counts]
    if absent:
        names = ", ".join(absent[:10]) + (" …" if len(absent) > 10 else "")
        raise UsageError(
            f"{len(absent)} of {count} shards are missing: {names}",
            hint=f"name their directories too, or run them: --shard {absent[0]}",
        )


def _write(shards: Sequence[_Shard], directory: RunDirectory) -> None:
    """Write the database of the merged run."""
    first = shards[0]
    with replacing(directory.database) as part:
        part.touch(mode=0o600)
        try:
            with closing(connect(part, "rw")) as target:
                create(target)
                for shard in shards:
                    _append(shard, target)
        except sqlite3.OperationalError as error:
            raise refused(directory.database, error) from error
        with Database.open_foreign(first.path / directory.database.name) as source:
            values = {name: source.get(name) for name in _COPIED}
        values["run"] = {**values["run"], "facts": _merged_facts(shards).as_json()}
        with Database.open(part) as database:
            for name, value in values.items():
                database.put(name, value)


def _append(shard: _Shard, target: sqlite3.Connection) -> None:
    path = RunDirectory(shard.path).database
    try:
        with damage_raised(), closing(open_foreign(path)) as source:
            append(source, target)
    except DamagedError as error:
        raise unreadable(path, error) from None


def _merged_facts(shards: Sequence[_Shard]) -> RunFacts:
    """The facts from which the merged run's are counted. Shards run side by side: the longest is the run's duration."""
    every = [shard.facts for shard in shards]
    warnings = [warning for facts in every for warning in facts.warnings]
    missing = sum(shard.missing for shard in shards)
    rows = sum(facts.rows for facts in every)
    if missing:
        warnings.append(
            f"merged before its shards were finished: {missing:,} of {rows:,} rows are missing"
        )
    return structs.replace(
        shards[0].stored.facts,
        shard="",
        rows=rows,
        started=min(facts.started for facts in every),
        wall_s=max(facts.wall_s for facts in every),
        warnings=tuple(dict.fromkeys(warnings)),
        other_prompts=sum(facts.other_prompts for facts in every),
    )
