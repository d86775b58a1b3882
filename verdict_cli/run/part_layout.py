"""Where the parts of a run are: the journal and the mark of each, and its files in the folders of the tables."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from verdict_cli.run.part_mark import MARK, PartMark
from verdict_cli.run.remote_directory import JOURNAL
from verdict_cli.run.run_directory import RunDirectory, output_errors
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.journal.journal import Journal

PARTS = "parts"
PART_TABLES = ("results.parquet", "calls.parquet")
ROWS_A_PART = 10_000
"""The default: the most rows that are made again from the journal when a run is resumed."""
MOST_ROWS_IN_ONE_PART = 50_000
"""Runs of up to so many rows have one part, and one file for each table, unless `--part-rows` says otherwise."""
LEAST_ROWS_A_PART = 1_000
"""Each open part has a journal and two tables: so many rows keep the open ones few at any concurrency."""
_NAME = re.compile(r"[0-9]{6,}")


def rows_a_part(rows: int, wanted: int | None) -> int:
    """The rows of each part of a new run of so many rows, 0 if it has one part. ``wanted`` is what the user asks for."""
    if wanted is None:
        return ROWS_A_PART if rows > MOST_ROWS_IN_ONE_PART else 0
    return wanted if rows > wanted else 0


def part_name(number: int) -> str:
    """The name of a part, as of its folder."""
    return f"{number:06}"


@dataclass(frozen=True)
class PartLayout:
    """The parts of ``rows`` rows, ``size`` in each."""

    directory: RunDirectory
    size: int
    rows: int

    @property
    def count(self) -> int:
        """The number of parts."""
        return -(-self.rows // self.size)

    def span(self, number: int) -> range:
        """The places of a part's rows among the selected rows."""
        return range(number * self.size, min(self.rows, (number + 1) * self.size))

    def folder(self, number: int) -> Path:
        """The folder with the journal and the mark of a part."""
        return self.directory.path / PARTS / part_name(number)

    def journal(self, number: int) -> Path:
        return self.folder(number) / JOURNAL

    def mark(self, number: int) -> Path:
        return self.folder(number) / MARK

    def tables(self, number: int) -> dict[str, Path]:
        """The files of a part's tables, by the names of the tables."""
        return {name: self._table_folder(name) / f"{part_name(number)}.parquet" for name in PART_TABLES}

    def _table_folder(self, name: str) -> Path:
        """The table's folder: below the parts until the run has ended for the first time, as it then has results."""
        ended = self.directory.path / name
        return ended if ended.is_dir() else self.directory.path / PARTS / name

    def publish(self) -> None:
        """Move the tables to where readers look for them."""
        for name in reversed(PART_TABLES):
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
        return Journal.open(self.journal(number), nodes)

    def has_calls(self, number: int) -> bool:
        """Whether an earlier process made calls of the part."""
        path = self.journal(number)
        return path.exists() and path.stat().st_size > 0

    def existing(self) -> list[int]:
        """The numbers of the parts that have a folder."""
        return sorted(_numbers(self.directory.path / PARTS))

    def marks(self, facts: RunFacts) -> dict[int, PartMark]:
        """The marks of the finished parts of the run with these facts."""
        found = {}
        for number in self.existing():
            mark = PartMark.read(self.mark(number)) if number < self.count else None
            if mark is None or not all(path.exists() for path in self.tables(number).values()):
                continue
            made_of = (mark.spec_fingerprint, mark.data_fingerprint, mark.first, mark.rows)
            span = self.span(number)
            if made_of == (facts.spec_fingerprint, facts.data_fingerprint, span.start, len(span)):
                found[number] = mark
        return found

    def reopen(self, number: int) -> None:
        """Remove a part's mark, then its tables: its journal stays, from which it is made again."""
        with output_errors(self.folder(number)):
            self.mark(number).unlink(missing_ok=True)
            for path in self.tables(number).values():
                path.unlink(missing_ok=True)

    def remove(self, number: int) -> None:
        """Remove all of a part."""
        self.reopen(number)
        with output_errors(self.folder(number)):
            shutil.rmtree(self.folder(number), ignore_errors=True)


def _numbers(folder: Path) -> Iterator[int]:
    if folder.is_dir():
        yield from (int(path.name) for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())
