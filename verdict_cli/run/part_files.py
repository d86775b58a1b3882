"""The parts of a run on disk: where the journal and the tables of each are, and the mark of a finished one.

Every run has parts. A small one has one, whose files are those of the run itself; it has no mark, because it is finished when
the run is.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from verdict_cli.errors import OutputError
from verdict_cli.messages import Row
from verdict_cli.run.progress import Counts
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.fingerprint import reading_settings
from verdict_cli.storage.journal.journal import JOURNAL, Journal, sync_directory
from verdict_cli.storage.journal.partition import PARTS, part_name
from verdict_cli.storage.paths import output_errors
from verdict_cli.storage.tables.column_types import ColumnKind

PART_TABLES = ("results.parquet", "calls.parquet")
ROWS_A_PART = 10_000
"""The default: the most rows that are made again from the journal when a run is resumed."""
MOST_ROWS_IN_ONE_PART = 50_000
"""Runs of up to so many rows have one part, and one file for each table, unless `--part-rows` says otherwise."""
LEAST_ROWS_A_PART = 1_000
"""Each open part has a journal and two tables: so many rows keep the open ones few at any concurrency."""
_NAME = re.compile(r"[0-9]{6,}")
_JOURNAL = re.compile(r"parts/([0-9]{6,})/journal(?:\.jsonl$|/)")
"""The objects of a part's journal in a store."""


def rows_a_part(rows: int, wanted: int | None) -> int:
    """The rows of each part of a new run of so many rows, 0 if it has one part. ``wanted`` is what the user asks for."""
    if wanted is None:
        return ROWS_A_PART if rows > MOST_ROWS_IN_ONE_PART else 0
    return wanted if rows > wanted else 0


class PartLayout(Struct, frozen=True):
    """The parts of ``rows`` rows, ``size`` in each; 0: there is one part, whose files are the run's own."""

    directory: RunDirectory
    size: int
    rows: int

    @property
    def count(self) -> int:
        """The number of parts."""
        return -(-self.rows // self.size) if self.size else 1

    def span(self, number: int) -> range:
        """The places of a part's rows among the selected rows."""
        return range(number * self.size, min(self.rows, (number + 1) * self.size)) if self.size else range(self.rows)

    def folder(self, number: int) -> Path:
        """The folder with the journal and the mark of a part."""
        return self.directory.path / PARTS / part_name(number)

    def journal(self, number: int) -> Path:
        return self.folder(number) / JOURNAL

    def mark(self, number: int) -> Path:
        return self.folder(number) / MARK

    def tables(self, number: int) -> dict[str, Path]:
        """The files of a part's tables, by the names of the tables."""
        if not self.size:
            return {name: self.directory.path / name for name in PART_TABLES}
        return {name: self._table_folder(name) / f"{part_name(number)}.parquet" for name in PART_TABLES}

    def _table_folder(self, name: str) -> Path:
        """The table's folder: below the parts until the run has ended for the first time, as it then has results. A store
        cannot rename, so that there it is where readers look for it from the start."""
        ended = self.directory.path / name
        return ended if self.directory.remote or ended.is_dir() else self.directory.path / PARTS / name

    def publish(self) -> None:
        """Move the tables to where readers look for them."""
        for name in () if self.directory.remote else reversed(PART_TABLES):
            folder = self.directory.path / PARTS / name
            with output_errors(folder):
                if folder.exists():
                    folder.replace(self.directory.path / name)

    def file_names(self, number: int) -> dict[str, Path]:
        """The files that a mark vouches for, by their names in the run's directory."""
        tables = {f"{name}/{path.name}": path for name, path in self.tables(number).items()}
        return {f"{PARTS}/{part_name(number)}/{JOURNAL}": self.journal(number), **tables}

    def open_journal(self, number: int, nodes: Mapping[str, str]) -> Journal:
        """Open a part's journal. Raises what `Journal.open` raises."""
        return self._part(number).open_journal(nodes)

    def _part(self, number: int) -> RunDirectory:
        """A part's folder, as the directory of a run."""
        return self.directory.below(f"{PARTS}/{part_name(number)}")

    def lines(self, number: int) -> Iterator[bytes]:
        """The lines of a part's journal."""
        if self.directory.remote:
            self.open_journal(number, {}).close()  # which fetches it
        if self.journal(number).exists():
            with self.journal(number).open("rb") as lines:
                yield from lines

    def journals(self) -> set[int]:
        """The numbers of the parts that have a journal."""
        if not self.size:
            return set()
        here = {number for number in self.existing() if self.journal(number).exists()}
        stored = (_JOURNAL.match(name) for name in self.directory.stored(PARTS))
        return here | {int(match[1]) for match in stored if match}

    def existing(self) -> list[int]:
        """The numbers of the parts that have a folder."""
        stored = (name.split("/")[1] for name in self.directory.stored(PARTS))
        return sorted(
            {*_numbers(self.directory.path / PARTS), *(int(name) for name in stored if _NAME.fullmatch(name))}
        )

    def marks(self, facts: RunFacts) -> dict[int, PartMark]:
        """The marks of the finished parts of the run with these facts."""
        marks = {}
        stored = {name for table in PART_TABLES for name in self.directory.stored(table)}
        for number in self.existing():
            mark = PartMark.read(self.mark(number)) if number < self.count else None
            tables = self.tables(number).items()
            if mark is None or not all(path.exists() or f"{name}/{path.name}" in stored for name, path in tables):
                continue
            made_of = (mark.spec_fingerprint, mark.data_fingerprint, mark.first, mark.rows)
            span = self.span(number)
            if made_of == (facts.spec_fingerprint, facts.data_fingerprint, span.start, len(span)):
                marks[number] = mark
        return marks

    def reopen(self, number: int) -> None:
        """Remove a part's mark, then its tables: its journal stays, from which it is made again."""
        self.remove_mark(number)
        tables = self.tables(number)
        with output_errors(self.folder(number)):
            for path in tables.values():
                path.unlink(missing_ok=True)
        self.directory.remove(f"{name}/{path.name}" for name, path in tables.items())

    def remove_mark(self, number: int) -> None:
        """Remove a part's mark: it does not count as finished."""
        with output_errors(self.folder(number)):
            self.mark(number).unlink(missing_ok=True)
        self.directory.remove([self._name(self.mark(number))])

    def write_mark(self, number: int, mark: PartMark) -> None:
        """Write a part's mark."""
        mark.write(self.mark(number))
        self.directory.put(self._name(self.mark(number)))

    def put(self, number: int) -> None:
        """Send what is here of a part's journal and tables to the store, where the run is in one. The journal is then only
        there."""
        self.put_tables(number)
        self.put_journal(number)

    def put_journal(self, number: int) -> None:
        """Send a part's journal to the store, where the run is in one, and remove it here."""
        if self.journal(number).exists():
            self._part(number).put_journal()

    def put_tables(self, number: int) -> None:
        """Send a part's tables to the store, where the run is in one."""
        self.directory.put(*(f"{name}/{path.name}" for name, path in self.tables(number).items()))

    def remove_strays(self, number: int) -> None:
        """Remove what workers have left of a finished part in the store, where the run is in one."""
        names = self.directory.stored(f"{PARTS}/{part_name(number)}")
        self.directory.remove(name for name in names if name.endswith(PART_TABLES))

    def get_tables(self, number: int) -> None:
        """Fetch a part's tables from the store, where the run is in one."""
        self.directory.get(f"{name}/{path.name}" for name, path in self.tables(number).items())

    def remove(self, number: int) -> None:
        """Remove all of a part."""
        self.reopen(number)
        with output_errors(self.folder(number)):
            shutil.rmtree(self.folder(number), ignore_errors=True)
        self.directory.remove(self.directory.stored(f"{PARTS}/{part_name(number)}"))

    def _name(self, path: Path) -> str:
        """The name of a file of the run, in its directory."""
        return path.relative_to(self.directory.path).as_posix()


def _numbers(folder: Path) -> Iterator[int]:
    if folder.is_dir():
        yield from (int(path.name) for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())


MARK = "done.json"
Columns = Mapping[str, tuple[ColumnKind, bool]]
"""The columns of a table: the kind of each, and whether each of its integers is exactly a float."""


class PartMark(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a part's ``done.json``, which is written last.

    ``first`` is the place of its first row among the selected rows. ``rows_digest`` is a `RowRange`'s. ``keys`` are the first
    64 bits of each row's key, by which copies in later parts are numbered. ``columns`` are those of the tables, ``digests``
    the SHA-256 of the journal and the tables, by their names in the run's directory.
    """

    first: int
    counts: Counts
    spec_fingerprint: str
    data_fingerprint: str
    rows_digest: str
    keys: str
    columns: dict[str, dict[str, tuple[ColumnKind, bool]]]
    digests: dict[str, str]

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return self.counts.rows

    def row_keys(self) -> array[int]:
        """The first 64 bits of each row's key."""
        keys = array("Q")
        keys.frombytes(b64decode(self.keys))
        return keys

    def write(self, path: Path) -> None:
        """Write the mark, completely or not at all, and bring it to the disk. OutputError if the disk refuses."""
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("wb") as file:
                file.write(msgspec.json.encode(self))
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            sync_directory(path.parent)
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror or error}",
                hint="free some space, check the permissions, or choose another --out; the same command resumes the run",
            ) from error

    @classmethod
    def read(cls, path: Path) -> PartMark | None:
        """The mark at the path; None where there is none, or it is damaged: the part is then made again from its journal."""
        try:
            return cls.decode(path.read_bytes())
        except OSError:
            return None

    @classmethod
    def decode(cls, content: bytes) -> PartMark | None:
        """The mark, None for anything else."""
        try:
            mark = msgspec.json.decode(content, type=cls)
            counted = len(b64decode(mark.keys, validate=True)) == 8 * mark.rows
        except (msgspec.DecodeError, ValueError):
            return None
        return mark if counted else None


class RowRange:
    """The fingerprint of consecutive rows: the settings by which they are read, their indices and their contents."""

    def __init__(self, dataset: Dataset) -> None:
        self._digest = hashlib.blake2b(reading_settings(dataset), digest_size=16)
        self.keys = array("Q")

    def add(self, row: Row) -> int:
        """Add a row as it is in the dataset; return the first 64 bits of its key."""
        self._digest.update(f"{row.index} {row.key}\n".encode())
        key = int(row.key[:16], 16)
        self.keys.append(key)
        return key

    @property
    def digest(self) -> str:
        """32 hex digits."""
        return self._digest.hexdigest()

    def encoded_keys(self) -> str:
        """The keys for a `PartMark`."""
        return b64encode(self.keys.tobytes()).decode()
