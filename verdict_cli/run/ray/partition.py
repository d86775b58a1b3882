"""The run's journal dealt out to parts before they run, and gathered from them when they have ended.

A part's journal begins with the lines that the run's journal has of its rows; how many bytes these are stands beside it.
So parts may be cut anew each time the run goes on, and only what is new goes back into the run's journal.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path

from verdict_cli.errors import JournalError
from verdict_cli.messages import Row
from verdict_cli.run.job import RunJob
from verdict_cli.run.row import PINNED_ROW
from verdict_cli.run.run_directory import RunDirectory, refusing
from verdict_cli.storage.journal.digest_index import DigestIndex
from verdict_cli.storage.journal.entry import decode_entry
from verdict_cli.storage.journal.journal import Journal
from verdict_cli.storage.journal.segments import lock_file

PARTITION_FOLDER = "parts"
DEALT = "dealt"
PINNED = "pinned"
"""The part that asks the pinned units."""
_SENT = re.compile(r"[^/]+/journal/")
"""The objects of lines that parts in a store have sent."""
LEFT_S = 20.0
"""How long workers whose run was killed may still write."""
_LOOK_S = 0.1
_HELD = 1 << 25
"""Bytes that are held before they are written to their parts."""


def partition_name(part: int) -> str:
    """The name of a part's folder."""
    return f"{part:06}"


def partition_journal(journal: Path, parts: Path, rows: Iterable[Row], size: int, nodes: Mapping[str, str]) -> float:
    """What the calls have cost in USD that the journal has of the rows, once their parts have the lines.

    Each part has ``size`` rows. A row takes 18 to 36 bytes of memory meanwhile.
    """
    places = DigestIndex("I")
    for place, row in enumerate(rows):
        places.put(_short(row.key), place // size)
    spent, held, bytes_held = 0.0, defaultdict[str, list[bytes]](list), 0
    with journal.open("rb") as file:
        for line in file:
            try:
                entry = decode_entry(line)
            except ValueError:
                continue
            part = places.get(_short(entry.row))
            if part is None and entry.row != PINNED_ROW.key:
                continue
            if entry.reply is not None and nodes.get(entry.node) == entry.fingerprint:
                spent += entry.reply.cost_usd or 0.0
            held[PINNED if part is None else partition_name(part)].append(line)
            bytes_held += len(line)
            if bytes_held > _HELD:
                _hand_out(parts, held)
                bytes_held = 0
    _hand_out(parts, held)
    return spent


async def recover_partitions(job: RunJob, journal: Journal) -> None:
    """Puts into the run's journal what parts have that an earlier run left behind, and removes them."""
    if not job.fresh:
        await merge_partitions(job.directory, journal)
    clear_partitions(job.directory)


async def merge_partitions(run: RunDirectory, into: Journal) -> None:
    """Puts into the run's journal what the parts' have beyond what was dealt to them."""
    for folder in sorted((run.path / PARTITION_FOLDER).glob("*")):
        with RunDirectory(folder).journal.open("ab") as journal:
            await _let_go(journal.fileno(), folder)
            into.include(_news(folder))
    if run.away:
        place = run.away.place.below(PARTITION_FOLDER)
        for content in place.read_all(filter(_SENT.match, place.names())):
            into.include(content.splitlines(keepends=True))
    await into.settle()


async def _let_go(journal: int, folder: Path) -> None:
    """Returns once nobody writes to the part any more: Ray may take a moment to end the workers of a dead run."""
    for _ in range(round(LEFT_S / _LOOK_S)):
        if lock_file(journal):
            return
        await asyncio.sleep(_LOOK_S)
    raise JournalError(
        f"a worker of an earlier run is still writing to {folder}",
        hint="wait until Ray has ended it (`ray list tasks`), and give the same command again",
    )


def clear_partitions(run: RunDirectory) -> None:
    """Removes the parts."""
    parts = run.path / PARTITION_FOLDER
    with refusing(parts):
        if parts.exists():
            shutil.rmtree(parts)
    if run.away:
        place = run.away.place.below(PARTITION_FOLDER)
        place.remove(place.names())


def _hand_out(parts: Path, held: dict[str, list[bytes]]) -> None:
    for name, lines in held.items():
        folder = parts / name
        with refusing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with RunDirectory(folder).journal.open("ab") as file:
                file.writelines(lines)
                end = file.tell()
            (folder / DEALT).write_text(str(end))
    held.clear()


def _news(folder: Path) -> Iterator[bytes]:
    count = folder / DEALT
    journal = RunDirectory(folder).journal
    if not journal.exists():
        return
    with journal.open("rb") as file:
        file.seek(int(count.read_text()) if count.exists() else 0)
        yield from file


def _short(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little")
