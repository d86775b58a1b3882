"""Read candidates: JSONL and JSON files of texts or objects, and text files of one candidate each."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.storage.datasets.files import open_bytes

_NAMES = ("id", "name", "label")


@dataclass(frozen=True)
class Candidate:
    """One candidate: its label, and its text or its columns."""

    label: str
    value: str | Mapping[str, Any]

    def text(self, field: str | None) -> str:
        """The text that is judged: the value itself, or one field of it. UsageError if there is none."""
        if isinstance(self.value, str):
            return self.value
        texts = [name for name, value in self.value.items() if isinstance(value, str) and name not in _NAMES]
        name = field or (texts[0] if len(texts) == 1 else None)
        text = None if name is None else self.value.get(name)
        if not isinstance(text, str):
            has = ", ".join(map(repr, self.value))
            raise UsageError(
                f"which text of candidate {self.label!r} is meant? It has {has}",
                hint="name the field: --field response",
            )
        return text


def read_candidates(paths: Sequence[str]) -> tuple[Candidate, ...]:
    """The candidates of all files, in order; `-` is JSONL on standard input.

    DataError for a value that is no candidate, UsageError for fewer than two.
    """
    everyone = [candidate for path in paths for candidate in _read_file(path)]
    if len(everyone) < 2:
        raise UsageError(
            f"{len(everyone)} candidate{'' if len(everyone) == 1 else 's'}: a ranking needs at least 2",
            hint="give a JSONL or JSON file with several, or several text files",
        )
    labels = {candidate.label for candidate in everyone}
    if len(labels) == len(everyone):
        return tuple(everyone)
    return tuple(Candidate(f"{candidate.label}#{index}", candidate.value) for index, candidate in enumerate(everyone))


def _read_file(path: str) -> list[Candidate]:
    if path == "-":
        return _lines(sys.stdin.buffer.read(), "standard input")
    file = Path(path)
    name = file.name.removesuffix(".gz").removesuffix(".zst")
    with open_bytes(file) as stream:
        content = stream.read()
    if name.endswith((".jsonl", ".ndjson")):
        return _lines(content, path)
    if name.endswith(".json"):
        return _array(content, path)
    try:
        return [Candidate(file.stem, content.decode("utf-8").strip())]
    except UnicodeDecodeError:
        raise DataError(Problem("bad-encoding", "a candidate's text is not UTF-8", "save it as UTF-8", path)) from None


def _lines(content: bytes, name: str) -> list[Candidate]:
    candidates: list[Candidate] = []
    for line, text in enumerate(content.splitlines(), 1):
        if text.strip():
            candidates.append(_candidate(_json(text, name, line), len(candidates), name, line))
    return candidates


def _array(content: bytes, name: str) -> list[Candidate]:
    items = _json(content, name, 0)
    if not isinstance(items, list):
        raise DataError(Problem("not-a-list", "candidates in JSON are a list", 'write `["…", "…"]`', name))
    return [_candidate(item, index, name, 0) for index, item in enumerate(items)]


def _json(text: bytes, name: str, line: int) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        at = line or error.lineno
        raise DataError(Problem("broken-json", f"not valid JSON: {error.msg}", "", name, at, error.colno)) from None


def _candidate(value: Any, index: int, name: str, line: int) -> Candidate:
    if isinstance(value, str):
        return Candidate(str(index), value)
    if not isinstance(value, dict):
        raise DataError(
            Problem("not-a-candidate", f"candidate {index} is {value!r:.60}", "a text or an object", name, line)
        )
    label = next((str(value[key]) for key in _NAMES if isinstance(value.get(key), str | int)), str(index))
    return Candidate(label, value)
