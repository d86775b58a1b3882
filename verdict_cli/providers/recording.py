"""A recording: which call was answered with what (language.md, section 12)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from sys import intern
from typing import Any, Protocol

from verdict_cli.errors import DataError, Problem
from verdict_cli.providers.recorded import Name, Recorded, check_reply, read_name, read_recorded, row_name
from verdict_cli.values import Request

CALLS = "calls.parquet"


class Source(Protocol):
    """Where the records are: each is found again by its place."""

    def __iter__(self) -> Iterator[tuple[int, Any]]: ...

    def read(self, place: int) -> Any: ...

    def where(self, place: int) -> Problem: ...

    def close(self) -> None: ...


class Recording:
    """Recorded calls, found by row or id, unit, call and attempt. Only the places are held here."""

    def __init__(self, source: Source) -> None:
        """Reads every record's name. Raises DataError with file and line at the first record that is wrong,
        or that records a call a second time."""
        self._source = source
        self._aliases: dict[str, str] = {}
        self._by_id: dict[tuple[str, int, int], dict[str, int]] = {}
        self._by_row: dict[tuple[str, int, int], dict[int, int]] = {}
        self._by_both: dict[tuple[str, int, int], dict[tuple[int, str], int]] = {}
        for place, record in source:
            try:
                name = read_name(record)
                check_reply(record)
                self._add(name, place)
            except ValueError as problem:
                raise DataError(replace(source.where(place), message=str(problem))) from None

    @classmethod
    def load(cls, path: Path) -> Recording:
        """The recording at a run directory, a ``calls.parquet`` or a JSONL file (``.gz`` allowed)."""
        from verdict_cli.providers.recording_columns import Columns
        from verdict_cli.providers.recording_lines import Lines

        file = path / CALLS if path.is_dir() else path
        try:
            return cls(Columns(file) if file.suffix == ".parquet" else Lines(file))
        except OSError as problem:
            hint = "a recording is a run directory, its calls.parquet, or a JSONL file"
            message = f"the recording cannot be read: {problem.strerror or problem}"
            raise DataError(Problem("recording", message, hint, file=str(file))) from None

    def find(self, request: Request) -> Recorded | None:
        """What was recorded for this call, None where nothing was. Raises DataError for a record that is wrong."""
        place = self._place(request, request.attempt)
        if place is None:
            return None
        try:
            return read_recorded(self._source.read(place))
        except ValueError as problem:
            raise DataError(replace(self._source.where(place), message=str(problem))) from None

    def attempts(self, request: Request) -> int:
        """How many attempts before this one are recorded for the same call."""
        return sum(self._place(request, attempt) is not None for attempt in range(request.attempt))

    def units(self) -> tuple[str, ...]:
        """The units that have a recorded call."""
        return tuple(sorted({unit for index in (self._by_id, self._by_row) for unit, _, _ in index}))

    def close(self) -> None:
        self._source.close()

    def _place(self, request: Request, attempt: int) -> int | None:
        key = (self._named(request.node), request.call, attempt)
        name = row_name(request.row.id) or ""
        if key in self._by_both:
            place = self._by_both[key].get((request.row.index, name))
            if place is not None:
                return place
        place = self._by_id.get(key, {}).get(name)
        return self._by_row.get(key, {}).get(request.row.index) if place is None else place

    def _named(self, node: str) -> str:
        """The unit as it is recorded: `judge` and `judge[0]` are the same, as a pipeline has one copy or several."""
        if node not in self._aliases:
            known = self.units()
            bare = node.removesuffix("[0]")
            other = bare if bare != node else f"{node}[0]"
            self._aliases[node] = other if node not in known and other in known else node
        return self._aliases[node]

    def _add(self, name: Name, place: int) -> None:
        """A record with an id is found by it, whatever its row, so that a dataset may be reordered or cut;
        the row decides only between records of the same id."""
        key = (name.unit, name.call, name.attempt)
        if name.id is None:
            rows = self._by_row.setdefault(key, {})
            if name.row is not None and rows.setdefault(name.row, place) != place:
                raise ValueError(_twice(name, self._source.where(rows[name.row])))
            return
        ids = self._by_id.setdefault(key, {})
        first = ids.setdefault(intern(name.id), place)
        if first == place:
            return
        if name.row is None or read_name(self._source.read(first)).row in (None, name.row):
            raise ValueError(_twice(name, self._source.where(first)))
        both = self._by_both.setdefault(key, {})
        if both.setdefault((name.row, name.id), place) != place:
            raise ValueError(_twice(name, self._source.where(both[name.row, name.id])))


def _twice(name: Name, first: Problem) -> str:
    row = f"row {name.row}" if name.id is None else f"id {name.id!r}"
    return (
        f"unit {name.unit}, {row}, call {name.call}, attempt {name.attempt} is recorded a second time: "
        f"it stands in line {first.line} already"
    )
