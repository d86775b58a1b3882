"""Split the run's journal into partitions before they run, and merge their journals when they have ended.

A partition's journal begins with the lines that the run's journal has of its rows; a file next to it has their size in
bytes. So partitions may differ each time the run is resumed, and only new lines go back into the run's journal.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from verdict_cli.errors import JournalError
from verdict_cli.messages import Row
from verdict_cli.storage.journal.digest_index import DigestIndex
from verdict_cli.storage.journal.entry import PINNED, JournalEntry, decode_entry
from verdict_cli.storage.journal.journal import JOURNAL, Journal, lock_file
from verdict_cli.storage.paths import output_errors
from verdict_cli.storage.stores import StoreFolder

PARTS = "parts"
"""The folder of the parts of a run's directory, and of the partitions that workers run."""
COPIED = "copied"
"""The file with the size of what a partition's journal began with."""
_FOLDER = re.compile(rf"[0-9]{{6,}}|{PINNED}")
LEFT_S = 20.0
"""How long workers whose run was killed may still write."""
_POLL_S = 0.1
_BUFFER_BYTES = 1 << 25


def part_name(part: int) -> str:
    return f"{part:06}"


def partition_journal(
    journal: Path,
    parts: Path,
    rows: Iterable[Row],
    size: int,
    nodes: Mapping[str, str],
    only: Container[str] | None = None,
) -> float:
    """Copy the journal's lines to the partitions of ``size`` rows, or to those named; return what the calls of the rows have
    cost in USD.

    A row takes 18 to 36 bytes of memory meanwhile. Calls inside `each` of rows that are no longer there go to all partitions:
    a changed row may be in any of them.
    """
    partitions = DigestIndex("I")
    number = -1
    for number, row in enumerate(rows):
        partitions.put(_digest(row.key), number // size)
    every = [name for name in map(part_name, range(number // size + 1)) if only is None or name in only]
    spent, buffer, buffered = 0.0, defaultdict[str, list[bytes]](list), 0
    with journal.open("rb") as file:
        for line in file:
            try:
                entry = decode_entry(line)
            except ValueError:
                continue
            part = partitions.get(_digest(entry.row))
            if part is None and entry.row != PINNED:
                for name in every if entry.item else ():
                    buffer[name].append(line)
                    buffered += len(line)
                continue
            spent += _cost(entry, nodes)
            name = PINNED if part is None else part_name(part)
            if only is None or name in only:
                buffer[name].append(line)
                buffered += len(line)
            if buffered > _BUFFER_BYTES:
                _write_lines(parts, buffer)
                buffered = 0
    _write_lines(parts, buffer)
    return spent


async def merge_partitions(
    run: Path, store: StoreFolder | None, into: Journal, *, of_parts: bool = False, only: str = "*"
) -> None:
    """Append to the journal of the run in a directory, and a store, the lines that are new in the partitions', or all lines of its parts; of one partition where
    ``only`` is its name."""
    for folder in sorted((run / PARTS).glob(only)):
        if not _FOLDER.fullmatch(folder.name):
            continue
        await wait_for_workers(folder / JOURNAL)
        into.include(_new_lines(folder))
    if store is not None:
        remote = store.below(PARTS)
        # A finished part has its lines in one object. That of another partition has what the run's journal has.
        sent = re.compile(r"[^/]+/journal(/|\.jsonl$)" if of_parts else r"[^/]+/journal/")
        for content in remote.read_all(filter(sent.match, remote.names(only.strip("*")))):
            into.include(content.splitlines(keepends=True))
    await into.flush()


async def wait_for_workers(journal: Path) -> None:
    """Wait until no worker writes to a partition's journal: an engine may take a moment to end the workers of a dead run."""
    with journal.open("ab") as file:
        for _ in range(round(LEFT_S / _POLL_S)):
            if lock_file(file.fileno()):
                return
            await asyncio.sleep(_POLL_S)
    raise JournalError(
        f"a worker of an earlier run is still writing to {journal.parent}",
        hint="wait until the engine has ended it, and give the same command again",
    )


def clear_partition(run: Path, store: StoreFolder | None, name: str) -> None:
    with output_errors(run):
        shutil.rmtree(run / PARTS / name, ignore_errors=True)
    if store is not None:
        store.remove_folder(f"{PARTS}/{name}")


def clear_partitions(run: Path, store: StoreFolder | None, tables: Iterable[str]) -> None:
    """Remove the partitions, and the tables of a run that had several parts."""
    names = (PARTS, *tables)
    with output_errors(run):
        for folder in map(run.joinpath, names):
            if folder.is_dir():
                shutil.rmtree(folder)
    if store is not None:
        for name in names:
            store.remove_folder(name)


def _write_lines(parts: Path, buffer: dict[str, list[bytes]]) -> None:
    for name, lines in buffer.items():
        folder = parts / name
        with output_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / JOURNAL).open("ab") as file:
                file.writelines(lines)
                end = file.tell()
            (folder / COPIED).write_text(str(end))
    buffer.clear()


def paid_usd(lines: Iterable[bytes], nodes: Mapping[str, str]) -> float:
    """What the calls of a journal's lines have cost, of units that are as they were."""
    spent = 0.0
    for line in lines:
        with suppress(ValueError):
            spent += _cost(decode_entry(line), nodes)
    return spent


def _cost(entry: JournalEntry, nodes: Mapping[str, str]) -> float:
    if entry.reply is None or nodes.get(entry.node) != entry.fingerprint:
        return 0.0
    return entry.reply.cost_usd or 0.0


def _new_lines(folder: Path) -> Iterator[bytes]:
    copied = folder / COPIED
    journal = folder / JOURNAL
    if not journal.exists():
        return
    with journal.open("rb") as file:
        file.seek(int(copied.read_text()) if copied.exists() else 0)
        yield from file


def _digest(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little")
