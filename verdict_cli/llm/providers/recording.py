"""Recordings of calls, and the provider that answers from them (language.md, section 12)."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING

from verdict_cli.errors import DataError, Problem, Rejected, recorded_error
from verdict_cli.llm.model_families import REPLAY_PREFIX
from verdict_cli.llm.providers.recorded_calls import (
    RECORDING_HINT,
    RecordedCall,
    RecordedColumns,
    RecordedLines,
    RecordedRun,
    RecordKey,
    RecordSource,
    check_reply,
    read_key,
    read_recorded,
    recorded_file,
    row_name,
)
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model

if TYPE_CHECKING:
    from verdict_cli.llm.providers import TokenCallback

_NO_REPLY = frozenset({"refused", "content-filter"})
"""Failures whose recorded text is not the model's answer, whatever it contains."""


_SOURCES: dict[str, type[RecordSource]] = {
    ".parquet": RecordedColumns,
    ".db": RecordedRun,
}

_Place = tuple[str, int, int, str]
"""Unit, call, attempt, and the number of the entry inside `each`."""
_Name = str | int | tuple[int, str]
"""A row's id; its number where it has no id; both where records of several rows have the same id."""


class Recording:
    """Recorded calls by row or id, unit, call, attempt and entry. Only their positions in the source are held in memory.

    ``other_prompts`` counts the calls that were found and had another prompt.
    """

    def __init__(self, source: RecordSource) -> None:
        """Read the key of every record. Raises DataError with file and line at the first invalid or duplicate record."""
        self._source = source
        self.other_prompts = 0
        self._aliases: dict[str, str] = {}
        self._positions: dict[_Place, dict[_Name, int]] = {}
        for position, record in source:
            try:
                name = read_key(record)
                check_reply(record)
                self._add(name, position)
            except ValueError as error:
                raise self._invalid(position, error) from None

    @classmethod
    def load(cls, path: Path) -> Recording:
        """The recording at a run directory, its ``run.db`` or ``calls.parquet``, or a JSONL file (``.gz`` allowed)."""
        file = recorded_file(path)
        try:
            return cls(_SOURCES.get(file.suffix, RecordedLines)(file))
        except OSError as error:
            message = f"the recording cannot be read: {error.strerror or error}"
            raise DataError(Problem("recording", message, RECORDING_HINT, file=str(file))) from None

    def find(self, request: Request) -> RecordedCall | None:
        """The recorded outcome of this call, None where there is none. Raises DataError for an invalid record."""
        position = self._position(request, request.attempt)
        if position is None:
            return None
        try:
            record = self._source.read(position)
            recorded = read_recorded(record, request.model.name, request.questions)
        except ValueError as error:
            raise self._invalid(position, error) from None
        prompt = tuple([(message.role, message.content) for message in request.messages])
        if recorded.prompt not in ((), prompt):
            self.other_prompts += 1
        return recorded

    def attempts(self, request: Request) -> int:
        """How many attempts before this one are recorded for the same call."""
        return sum(
            self._position(request, attempt) is not None for attempt in range(request.attempt)
        )

    def units(self) -> tuple[str, ...]:
        """The units that have a recorded call."""
        return tuple(sorted({unit for unit, *_ in self._positions}))

    def close(self) -> None:
        self._source.close()

    def _invalid(self, position: int, error: ValueError) -> DataError:
        source = self._source
        line = source.line(position)
        return DataError(Problem("recording", str(error), file=str(source.path), line=line))

    def _position(self, request: Request, attempt: int) -> int | None:
        key = (self._recorded_name(request.node), request.call, attempt, request.row.item)
        positions = self._positions.get(key, {})
        name, row = row_name(request.row.id) or "", request.row.index
        names: tuple[_Name, ...] = ((row, name), name, row)
        return next((positions[name] for name in names if name in positions), None)

    def _recorded_name(self, node: str) -> str:
        """The unit's recorded name: `judge` and `judge[0]` are equal, as a pipeline may have one copy or several."""
        if node not in self._aliases:
            units = self.units()
            bare = node.removesuffix("[0]")
            alias = bare if bare != node else f"{node}[0]"
            self._aliases[node] = alias if node not in units and alias in units else node
        return self._aliases[node]

    def _add(self, name: RecordKey, position: int) -> None:
        """Index a record. One with an id is found by it, whatever its row, so that a dataset may be reordered or cut; the row
        decides only between records of the same id."""
        positions = self._positions.setdefault((name.unit, name.call, name.attempt, name.item), {})
        row_or_id: _Name = (name.row or 0) if name.id is None else intern(name.id)
        first = positions.setdefault(row_or_id, position)
        if first != position and name.id is not None and name.row is not None:
            row = read_key(self._source.read(first)).row
            if row not in (None, name.row):
                first = positions.setdefault((name.row, name.id), position)
        if first != position:
            raise ValueError(_duplicate(name, self._source.line(first)))


def _duplicate(name: RecordKey, first: int) -> str:
    row = f"row {name.row}" if name.id is None else f"id {name.id!r}"
    entry = f"entry {name.item}, " if name.item else ""
    return (
        f"unit {name.unit}, {row}, {entry}call {name.call}, attempt {name.attempt} is a duplicate: "
        f"line {first} has it already"
    )


class ReplayProvider:
    """Answers ``replay/PATH`` from the recording at that path, and every call from ``recording`` where one is given.

    A call whose recording is a failure fails in the same way, so that a replayed run takes the same path.
    """

    def __init__(
        self, on_token: TokenCallback | None = None, *, recording: Recording | None = None
    ) -> None:
        self._recording = recording
        self._by_name: dict[str, Recording] = {}

    @staticmethod
    def serves(model: Model) -> bool:
        return model.name.startswith(REPLAY_PREFIX)

    @staticmethod
    def check(model: Model) -> str | None:
        path = Path(model.name.removeprefix(REPLAY_PREFIX))
        return None if path.exists() else f"model {model.name}: there is no recording at {path}"

    async def ask(self, request: Request) -> Reply:
        recording = self._recording or self._load(request.model.name)
        try:
            recorded = recording.find(request)
        except DataError as error:
            raise Rejected(error.message) from None
        if recorded is None:
            raise _not_recorded(request, recording)
        reply = recorded.reply
        if (
            reply is None
            or recorded.failure in _NO_REPLY
            or (recorded.failure and not reply.text.strip())
        ):
            message = recorded.error or f"the recorded call failed: {recorded.failure}"
            raise recorded_error(recorded.failure, message, reply)
        return reply

    async def close(self) -> None:
        for recording in filter(None, (self._recording, *self._by_name.values())):
            recording.close()

    def _load(self, name: str) -> Recording:
        if name not in self._by_name:
            self._by_name[name] = Recording.load(Path(name.removeprefix(REPLAY_PREFIX)))
        return self._by_name[name]


def _not_recorded(request: Request, recording: Recording) -> Rejected:
    row = request.row
    message = (
        f"the recording has no reply for unit {request.node}, row {row.index} (id {row.id!r}), "
        f"{f'entry {row.item}, ' if row.item else ''}"
        f"call {request.call}, attempt {request.attempt}"
    )
    units = recording.units()
    hint = ""
    if request.node not in units:
        near = get_close_matches(request.node, units, n=1)
        hint = f"it has calls of {', '.join(near or units[:8]) or 'no unit'}"
    elif before := recording.attempts(request):
        hint = f"its {before} earlier attempt{'s' if before > 1 else ''} had no usable reply"
    return Rejected(message, hint=hint, kind="not-recorded")
