"""Read values from within JSON documents without loading the document: `verdict import --path`, and the readers of logs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

from verdict_cli.errors import DataError
from verdict_cli.features.imports.tool_logs import not_in_format
from verdict_cli.storage.datasets.files import open_bytes
from verdict_cli.storage.datasets.json_files import jsonl_records, parse_json_line

Event = tuple[str, Any]

MOST_LEVELS = 200
"""Levels of nesting: a line of 100,000 brackets would build a value that Python cannot print or free safely."""
LONGEST_FIRST_LINE = 1 << 20
"""Bytes of a first line that is parsed to see whether a file without an ending of JSON lines has lines."""
_STARTS = ("start_map", "start_array")


def items_at(path: Path, place: str) -> Iterator[tuple[int, Any]]:
    """The items of the list at a path such as `results.results`, each with its position; of the document's own list for
    an empty path. An object at the path is one item.

    Raises:
        DataError: the file is not JSON, is nested too deeply, or has neither a list nor an object at the path.
    """
    with _events(path) as events:
        found = _seek(events, place)
        if found not in _STARTS:
            message = (
                f"there is nothing at {place!r}"
                if found is None
                else f"{place or 'the document'} is neither a list nor an object"
            )
            raise not_in_format(path, message, "a path names keys from the outside, such as `results.results`")
        if found == "start_map":
            yield 0, _value(events, (found, None))
        else:
            starts = takewhile(lambda event: event[0] != "end_array", events)
            yield from enumerate(_value(events, start) for start in starts)
        for _ in events:  # to its end: a truncated document is an error even where its rows are complete
            pass


def lists_at(path: Path, places: list[str]) -> list[str]:
    """Those of the places at which the document has a list or an object, in their order. Raises DataError for what is
    not an object in JSON."""
    first = first_character(path)
    if first != "{":
        raise not_in_format(path, "the document is not an object" if first else "the file is empty")
    return [place for place in places if _start(path, place) in _STARTS]


def log_objects(path: Path, *places: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a log, each with its place: JSON lines, or the items of a document's list at the first of the
    `places` that the document has.

    Raises:
        DataError: the file is empty, is not JSON, has none of the places, or an item is not an object.
    """
    first = first_character(path)
    if first not in ("{", "["):
        raise not_in_format(path, "the file is neither JSON nor JSON lines" if first else "the file is empty")
    if first == "{" and _is_lines(path):
        yield from _line_objects(path)
        return
    place = "" if first == "[" else next(iter(lists_at(path, list(places))), None)
    if place is None:
        raise not_in_format(path, f"the document has no {' and no '.join(f'`{each}`' for each in places)}")
    for index, item in items_at(path, place):
        if not isinstance(item, dict):
            raise not_in_format(path, f"{place}[{index}] is not an object")
        yield f"{place}[{index}]", item


def first_character(path: Path) -> str:
    """The first character of the file that is no white space, an empty string for an empty file."""
    with open_bytes(path) as stream:
        while chunk := stream.read(4096):
            if text := chunk.lstrip():
                return chr(text[0])
    return ""


def _is_lines(path: Path) -> bool:
    """Whether the name says so, or the first line is an object of its own and another line follows."""
    if any(end in (".jsonl", ".ndjson") for end in path.suffixes):
        return True
    with open_bytes(path) as stream:
        line = stream.readline(LONGEST_FIRST_LINE)
        return line.endswith(b"\n") and isinstance(parse_json_line(line), dict) and bool(stream.readline(2).strip())


def _line_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for line, record in jsonl_records(path):
        if not isinstance(record, dict):
            raise DataError(record.at(str(path), line, record.column, ""))
        yield f"line {line}", record


@contextmanager
def _events(path: Path) -> Iterator[Iterator[Event]]:
    import ijson

    with open_bytes(path) as stream:
        try:
            yield _bounded(path, stream)
        except (ijson.JSONError, UnicodeDecodeError) as error:
            message = f"not valid JSON: {str(error).splitlines()[0]:.200}"
            raise not_in_format(path, message, "the file may be truncated") from None


def _bounded(path: Path, stream: IO[bytes]) -> Iterator[Event]:
    import ijson

    depth = 0
    # Not ijson's own `items`: the prefixes that it builds take memory in the square of the depth.
    for event, value in ijson.basic_parse(stream, use_float=True):
        if event in _STARTS:
            depth += 1
            if depth > MOST_LEVELS:
                raise not_in_format(path, f"it is nested more than {MOST_LEVELS} levels deep")
        elif event in ("end_map", "end_array"):
            depth -= 1
        yield event, value


def _start(path: Path, place: str) -> str | None:
    with _events(path) as events:
        return _seek(events, place)


def _seek(events: Iterator[Event], place: str) -> str | None:
    """The event that begins the value at the place, None where there is none."""
    event = next(events, (None, None))
    for key in place.split(".") if place else ():
        if event[0] != "start_map":
            return None
        for kind, name in events:
            if kind == "end_map":
                return None
            inner = next(events)
            if kind == "map_key" and name == key:
                event = inner
                break
            _skip(events, inner)
    return event[0]


def _skip(events: Iterator[Event], first: Event) -> None:
    depth = int(first[0] in _STARTS)
    while depth:
        kind, _ = next(events)
        depth += (kind in _STARTS) - (kind in ("end_map", "end_array"))


def _value(events: Iterator[Event], first: Event) -> Any:
    """The value that begins with this event."""
    kind, value = first
    if kind == "start_map":
        made: dict[str, Any] = {}
        for inner, name in events:
            if inner == "end_map":
                break
            made[name] = _value(events, next(events))
        return made
    if kind == "start_array":
        items = []
        for event in events:
            if event[0] == "end_array":
                break
            items.append(_value(events, event))
        return items
    return value
