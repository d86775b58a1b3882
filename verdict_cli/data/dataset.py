"""What is to be read, and what a first reading found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Dataset:
    """The files of a dataset, and how a record of a file becomes a row of the pipeline.

    ``files`` are read in order and their rows numbered through. ``columns`` maps a name in the pipeline to
    the name in the file; every other column keeps its own name. ``id`` and ``required`` are names in the
    pipeline. ``cast`` returns the row with the schema's types, or raises ValueError with the reason; ``keep``
    says whether the row passes ``where``, and may raise a VerdictError. ``rules`` spells ``cast`` and ``keep``
    as the user wrote them: all that the fingerprint knows of the two.
    """

    files: tuple[Path, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    required: tuple[str, ...] = ()
    cast: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    keep: Callable[[Mapping[str, Any]], bool] | None = None
    rules: str = ""
    skip_bad_rows: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of the rows that pass ``where`` are taken: ``sample`` of the first ``limit``; None: all of them.

    ``kept`` is the number of rows that are sampled from; `scan` finds it.
    """

    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """What `scan` found.

    ``rows``: number of selected rows. ``total``: rows read, which ends where ``limit`` is reached.
    ``skipped``: bad rows among them that were left out. ``columns``: names in the pipeline, from the first
    good row. ``fingerprint``: 32 hex digits over the files' bytes and everything that selects or changes rows.
    ``selection`` makes `rows` give the same rows again.
    """

    rows: int
    total: int
    skipped: int
    columns: tuple[str, ...]
    fingerprint: str
    selection: Selection
