"""A recorded case: what one run reproduces, and how its inputs are read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file, `.gz` allowed."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]
