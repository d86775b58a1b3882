"""Logs of other tools as rows of a dataset: one row a sample or trace, read without loading the document.

A row has `id`, `input`, `output`, `messages` where there is a conversation, `target`, `scores` (the other tool's, by name),
`model` and `metadata`. What a log does not have is null.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import chain, takewhile
from pathlib import Path
from typing import IO, Any

import orjson
from msgspec import Struct

from verdict_cli.errors import DataError, Problem
from verdict_cli.language.conversation import (
    ConversationError,
    answer_text,
    looks_like_conversation,
    read_conversation,
)
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.registry import Registry
from verdict_cli.storage.datasets.files import open_bytes
from verdict_cli.storage.datasets.json_files import jsonl_records, parse_json_line

LogRow = JsonObject
LogReader = Callable[[Path], Iterator[LogRow]]

LOG_FORMATS: Registry[LogReader] = Registry(
    __package__,
    {
        "inspect": "log_formats.inspect_samples",
        "promptfoo": "log_formats.promptfoo_results",
        "deepeval": "log_formats.deepeval_cases",
        "lm-eval": "log_formats.lm_eval_samples",
        "langfuse": "log_formats.langfuse_traces",
        "otlp": "otlp.otlp_traces",
        "openai-chat": "log_formats.chat_lines",
        "label-studio": "people_labels.label_studio",
        "argilla": "people_labels.argilla",
        "labels-csv": "people_labels.labels_csv",
    },
    "verdict_cli.importers",
)
"""The functions that read a file of each format."""


def read_logs(log_format: str, paths: Sequence[Path]) -> Iterator[LogRow]:
    """The rows of the files, streamed.

    Raises:
        DataError: a file is not of the format, with the place.
    """
    for path in paths:
        is_read = False
        for row in LOG_FORMATS[log_format](path):
            is_read = True
            yield row
        if not is_read:
            raise not_in_format(
                path,
                f"nothing in it is read as a row of {log_format}",
                "check the format's name and the file",
            )


class LogPlace(Struct, frozen=True):
    """A place in a log, as errors name it: a sample, a trace, a value within one."""

    path: Path
    name: str

    def within(self, inner: str) -> LogPlace:
        """A place within this one."""
        return LogPlace(self.path, f"{self.name}.{inner}")

    def error(self, message: str, hint: str = "") -> DataError:
        """The error for a place that is not what the format says."""
        return not_in_format(self.path, f"{self.name}: {message}", hint)

    @contextmanager
    def known_shape(self) -> Iterator[None]:
        """Turn what goes wrong with a value of another kind than the format has into a DataError that names the place."""
        try:
            yield
        except (
            AttributeError,
            TypeError,
            ValueError,
            LookupError,
            ArithmeticError,
            RecursionError,
        ) as error:
            message = f"a value in it is not of the kind that the format has there: {error!s:.100}"
            raise self.error(message) from None

    def required(self, mapping: Any, key: str, kind: type | tuple[type, ...]) -> Any:
        """A required value, checked for its kind. Raises DataError."""
        value = mapping.get(key) if isinstance(mapping, Mapping) else None
        if not isinstance(value, kind):
            names = " or ".join(
                _KIND_NAMES[expected] for expected in (kind if isinstance(kind, tuple) else (kind,))
            )
            actual = "nothing" if value is None else f"{value!r:.60}"
            raise not_in_format(self.path, f"{self.name}.{key}: expected {names}, found {actual}")
        return value

    def row(
        self,
        *,
        identity: Any,
        model: Any = None,
        input: Any = None,  # noqa: A002 - the column's name
        output: Any = None,
        messages: Any = None,
        target: Any = None,
        scores: NamedValues | None = None,
        metadata: NamedValues | None = None,
        **more: Any,
    ) -> LogRow:
        """A row with the columns of every format. `messages` may be in any API's form; input and output that are missing
        are taken from them."""
        conversation = None
        if messages:
            try:
                conversation = read_conversation(messages)
            except ConversationError as error:
                raise not_in_format(self.path, f"{self.name}: messages{error}") from None
            input = input if input is not None else _last_text(conversation, "user")  # noqa: A001
            output = output if output is not None else _last_text(conversation, "assistant")
        return {
            "id": identity
            if isinstance(identity, int | str) and not isinstance(identity, bool)
            else str(identity),
            "input": input,
            "output": output,
            "messages": conversation,
            "target": target,
            "scores": dict(scores or {}),
            "model": model,
            "metadata": dict(metadata or {}),
            **more,
        }


RowMaker = Callable[[LogPlace, JsonObject, int], LogRow | None]

_KIND_NAMES = {dict: "an object", list: "a list", str: "a text", int: "a number"}


def _last_text(messages: Sequence[NamedValues], role: str) -> str | None:
    return next(
        (
            answer_text(message["content"])
            for message in reversed(messages)
            if message["role"] == role
        ),
        None,
    )


def conversation_or_text(value: Any) -> tuple[Any, Any]:
    """(messages, text) of an input that is either."""
    return (value, None) if looks_like_conversation(value) else (None, value)


def parsed(value: Any, starts: Collection[str] = ("[", "{")) -> Any:
    """A JSON text that starts with one of the characters as its value; any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in starts:
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def as_text(value: Any) -> str:
    """A text as it is, any other value as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def not_in_format(path: Path, message: str, hint: str = "", line: int = 0) -> DataError:
    """A file, or a place in it, that is not what the format says."""
    return DataError(Problem("bad-log", message, hint, str(path), line))


def object_rows(*lists: str) -> Callable[[RowMaker], LogReader]:
    """Make a reader of a file from a function that makes a row of one object, its place and its number. The objects are
    lines, or the items of the first of the `lists` that the document has. None is no row."""

    def reader(row: RowMaker) -> LogReader:
        @wraps(row)
        def rows(path: Path) -> Iterator[LogRow]:
            for index, (name, item) in enumerate(log_objects(path, *lists)):
                place = LogPlace(path, name)
                with place.known_shape():
                    record = row(place, item, index)
                if record is not None:
                    yield record

        return rows

    return reader


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, with `_2`, `_3` … behind those that came before."""
    counts: dict[str, int] = {}
    numbered = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        numbered.append(name if counts[name] == 1 else f"{name}_{counts[name]}")
    return numbered


Event = tuple[str, Any]

MOST_LEVELS = 200
"""Levels of nesting: a line of 100,000 brackets would build a value that Python cannot print or free safely."""
LONGEST_FIRST_LINE = 1 << 20
"""Bytes of a first line that is parsed to see whether a file without an ending of JSON lines has lines."""
_STARTS = ("start_map", "start_array")
_ENDS = ("end_map", "end_array")


def items_at(path: Path, keys: str) -> Iterator[tuple[int, Any]]:
    """The items of the list at a path such as `results.results`, each with its position; of the document's own list for
    an empty path. An object at the path is one item.

    Raises:
        DataError: the file is not JSON, is nested too deeply, or has neither a list nor an object at the path.
    """
    with _events(path) as events:
        kind = _seek(events, keys)
        if kind not in _STARTS:
            message = f"{keys or 'the document'} is neither a list nor an object"
            if kind is None:
                message = f"there is nothing at {keys!r}"
            hint = "a path names keys from the outside, such as `results.results`"
            raise not_in_format(path, message, hint)
        if kind == "start_map":
            yield 0, _value(events, (kind, None))
        else:
            starts = takewhile(lambda event: event[0] != "end_array", events)
            yield from enumerate(_value(events, start) for start in starts)
        for _ in events:  # a truncated document is an error even where its rows are complete
            pass


def lists_at(path: Path, paths: list[str]) -> list[str]:
    """Those of the places at which the document has a list or an object, in their order. Raises DataError for what is
    not an object in JSON."""
    first = first_character(path)
    if first != "{":
        raise not_in_format(path, "the document is not an object" if first else "the file is empty")
    return [inner for inner in paths if _start(path, inner) in _STARTS]


def log_objects(path: Path, *lists: str) -> Iterator[tuple[str, JsonObject]]:
    """The objects of a log, each with its place: JSON lines, or the items of a document's list at the first of the
    `places` that the document has.

    Raises:
        DataError: the file is empty, is not JSON, has none of the places, or an item is not an object.
    """
    first = first_character(path)
    if first not in ("{", "["):
        raise not_in_format(
            path, "the file is neither JSON nor JSON lines" if first else "the file is empty"
        )
    if first == "{" and _is_lines(path):
        yield from _line_objects(path)
        return
    keys = "" if first == "[" else next(iter(lists_at(path, list(lists))), None)
    if keys is None:
        raise not_in_format(
            path, f"the document has no {' and no '.join(f'`{name}`' for name in lists)}"
        )
    for index, item in items_at(path, keys):
        if not isinstance(item, dict):
            raise not_in_format(path, f"{keys}[{index}] is not an object")
        yield f"{keys}[{index}]", item


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
        return (
            line.endswith(b"\n")
            and isinstance(parse_json_line(line), dict)
            and bool(stream.readline(2).strip())
        )


def _line_objects(path: Path) -> Iterator[tuple[str, JsonObject]]:
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
            reason = str(error)
            if isinstance(error.args[0], bytes):  # where a byte is not UTF-8
                reason = error.args[0].decode("utf-8", "replace")
            message = f"not valid JSON: {reason.splitlines()[0]:.200}"
            hint = "the file may be truncated, not UTF-8, or have what JSON has not, such as NaN"
            raise not_in_format(path, message, hint) from None


def _bounded(path: Path, stream: IO[bytes]) -> Iterator[Event]:
    import ijson

    depth = 0
    # Not ijson's own `items`: the prefixes that it builds take memory in the square of the depth.
    for event, value in ijson.basic_parse(stream, use_float=True):
        if event in _STARTS:
            depth += 1
            if depth > MOST_LEVELS:
                raise not_in_format(path, f"it is nested more than {MOST_LEVELS} levels deep")
        elif event in _ENDS:
            depth -= 1
        yield event, value


def _start(path: Path, keys: str) -> str | None:
    with _events(path) as events:
        return _seek(events, keys)


def _seek(events: Iterator[Event], keys: str) -> str | None:
    """The event that begins the value at the place, None where there is none."""
    event = next(events, (None, None))
    for key in keys.split(".") if keys else ():
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


def _pass_value(events: Iterator[Event], first: Event, use: Callable[[str, Any], None]) -> None:
    """Give each event of the value that begins with this one to a function."""
    depth = 0
    for kind, value in chain([first], events):
        use(kind, value)
        depth += (kind in _STARTS) - (kind in _ENDS)
        if not depth:
            return


def _skip(events: Iterator[Event], first: Event) -> None:
    _pass_value(events, first, lambda _kind, _value: None)


def _value(events: Iterator[Event], first: Event) -> Any:
    """The value that begins with this event."""
    from ijson import ObjectBuilder

    builder = ObjectBuilder()
    _pass_value(events, first, builder.event)
    return builder.value
