"""What one run of the command line reproduces, and how its inputs are read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CaseRows = Iterable[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A figure as it was given: what it says, where a run has it (`evaluation.metric`), its value and decimals.

    `note` says why ours may differ; `made` makes the given figure of the run's, where that is another one.
    """

    what: str
    at: str
    given: float
    decimals: int
    note: str = ""
    made: Callable[[float], float] = float


@dataclass(frozen=True, slots=True)
class Case:
    """A pipeline of `configs/reproductions`, a dataset, a recording, and the figures that the run must give.

    `origin` says who gives the figures: `published`, or `recomputed` by those who collected the recordings.
    """

    name: str
    pipeline: str
    inputs: Callable[[], tuple[CaseRows, CaseRows]]
    figures: tuple[PublishedFigure, ...]
    settings: tuple[str, ...] = ()
    origin: str = "published"


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file, `.gz` allowed."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]
