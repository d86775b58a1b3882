"""Rows of equal content told apart, so that each has calls of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from verdict_cli.journal.index import Index
from verdict_cli.values import Row


def told_apart(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows, each copy of an earlier one with its number behind its key: `.1` the first copy, `.2` the next.

    Copies are interchangeable: whichever of them moves or goes, the others keep all calls but those of the last
    number. A row takes 18 to 36 bytes of memory.
    """
    seen = Index("I")
    for row in rows:
        short = int(row.key[:16], 16)
        copies = seen.count(short)
        yield replace(row, key=f"{row.key}.{copies}") if copies else row
