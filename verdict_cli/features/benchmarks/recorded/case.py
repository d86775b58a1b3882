"""A recorded case: what one run reproduces, and how its inputs are read."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from verdict_cli.errors import DataError, Problem

CaseRows = Iterable[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PublishedValue:
    """A published value: its name, the run's metric (``evaluation.metric``), the value and its decimals.

    ``note`` says why ours may differ; ``convert`` turns the run's metric into the published unit.
    """

    name: str
    metric: str
    value: float
    decimals: int
    note: str = ""
    convert: Callable[[float], float] = float


@dataclass(frozen=True, slots=True)
class Case:
    """A pipeline of `configs/reproductions`, a dataset, a recording, and the values that the run must reproduce.

    ``origin``: the values are ``published``, or were ``recomputed`` by the people who collected the recordings.
    """

    name: str
    pipeline: str
    inputs: Callable[[], tuple[CaseRows, CaseRows]]
    values: tuple[PublishedValue, ...]
    settings: tuple[str, ...] = ()
    origin: str = "published"


@contextmanager
def open_recorded_file(path: Path) -> Iterator[TextIO]:
    """A file of the recordings, opened as text, `.gz` allowed. DataError naming it where it is missing or unreadable."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
                yield file
        else:
            with path.open(encoding="utf-8", newline="") as file:
                yield file
    except FileNotFoundError:
        hint = "`verdict datasets rebuild` makes the folder of recordings"
        raise DataError(Problem("file-not-found", "this file of the recordings is missing", hint, str(path))) from None
    except (OSError, EOFError, zlib.error, ValueError) as fault:
        hint = "copy the file again, or make it with `verdict datasets rebuild`"
        raise DataError(Problem("bad-recording", f"the recording cannot be read: {fault}", hint, str(path))) from None


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file of the recordings."""
    with open_recorded_file(path) as file:
        return [json.loads(line) for line in file]
