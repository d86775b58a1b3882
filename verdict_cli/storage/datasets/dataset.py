"""A dataset: its files, the columns that a pipeline uses, the result of a scan, and the key of a row's content."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import orjson
from msgspec import Struct, field

from verdict_cli.errors import Problem
from verdict_cli.messages import JsonObject, NamedValues, Row


class Dataset(Struct, frozen=True):
    """The files of a dataset, and how a record of a file becomes a row of the pipeline.

    ``files`` are read in order and their rows numbered through. ``columns`` maps a name in the pipeline to
    the name in the file; every other column keeps its own name. ``id`` and ``required`` are names in the
    pipeline. ``cast`` returns the row with the schema's types, or raises ValueError with the reason; ``keep``
    says whether the row passes ``where``, and may raise a VerdictError. ``hints`` has hints for missing required
    columns. ``rules`` is the text of ``cast`` and ``keep``
    as the user wrote them, which stands for both in the fingerprint. ``delimiter`` is that of CSV files, None: that of the header.
    ``blank`` says what becomes of a row in which one of ``blank_columns``, which prompts need, is blank; ``unlabelled`` are
    columns of metrics that no row has, and that are read as null.
    ``is_id_optional``: without the column ``id``, rows are identified as if none were named. ``origins`` are the URLs and so on of files that are copies, for messages.
    """

    files: tuple[Path, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    required: tuple[str, ...] = ()
    hints: Mapping[str, str] = field(default_factory=dict)
    cast: Callable[[NamedValues], NamedValues] | None = None
    keep: Callable[[NamedValues], bool] | None = None
    rules: str = ""
    skip_bad_rows: bool = False
    delimiter: str | None = None
    is_id_optional: bool = False
    blank: Literal["fail", "skip", "judge"] = "fail"
    blank_columns: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()
    origins: Mapping[Path, str] = field(default_factory=dict)

    def name_of(self, path: Path) -> str:
        """The file as the user knows it."""
        return self.origins.get(path, str(path))


USUAL_IDS = (
    "id",
    "_id",
    "uid",
    "uuid",
    "question_id",
    "prompt_id",
    "example_id",
    "row_id",
    "pair_id",
)
"""Columns that identify rows where no column is named and their values are unique, the first such one."""
UNDECIDED = ""


class Selection(Struct, frozen=True):
    """Which of the rows that pass ``where`` are taken: ``sample`` of the first ``limit``; None: all of them.

    ``kept`` is the number of rows that are sampled from, ``id`` the column that identifies rows (None: their numbers do);
    `scan` finds both. Of the rows that are taken, those of the ``shard`` are read: each ``shards``-th.
    """

    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    kept: int = 0
    id: str | None = UNDECIDED
    shard: int = 0
    shards: int = 1

    @property
    def taken(self) -> int:
        """The number of rows that are taken, of all shards."""
        return self.kept if self.sample is None else min(self.sample, self.kept)


def is_blank(value: Any) -> bool:
    """Whether a value is null, NaN, or a text without a visible character."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or value != value  # noqa: PLR0124 - NaN


def fill_blanks(dataset: Dataset, source: NamedValues) -> NamedValues | tuple[()]:
    """The row with its blank columns as ``dataset.blank`` says; an empty tuple for one that is left out."""
    if dataset.unlabelled:
        source = {**dict.fromkeys(dataset.unlabelled), **source}
    blanks = [name for name in dataset.blank_columns if is_blank(source.get(name))]
    if not blanks:
        return source
    if dataset.blank == "skip":
        return ()
    return {**source, **dict.fromkeys(blanks, "" if dataset.blank == "judge" else None)}


class DatasetFacts(Struct, frozen=True):
    """The result of a `scan`.

    ``rows``: number of selected rows. ``total``: rows read, which ends where ``limit`` is reached.
    ``skipped``: bad rows among them, which were skipped. ``columns``: names in the pipeline, from the first
    good row. ``fingerprint``: 32 hex digits over the files' bytes and everything that selects or changes rows.
    ``selection`` makes `stream_rows` return the same rows. ``stamps`` are the `file_stamps` before the scan. ``drawn`` are
    random rows among those that could be selected, in their order, if the scan was to draw some. ``notes`` are what the
    user is told: rows and sheets that are left out, the column that identifies rows. ``warnings`` are what a check of the
    pipeline against the rows found; a run keeps them.
    """

    rows: int
    total: int
    skipped: int
    columns: tuple[str, ...]
    fingerprint: str
    selection: Selection
    files_fingerprint: str = ""
    stamps: tuple[tuple[int, ...], ...] = ()
    drawn: tuple[Row, ...] = ()
    notes: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    blanks: Mapping[str, int] = field(default_factory=dict)
    """The rows in which a column that prompts need is blank, by the column; under "" the rows with any."""
    unseen: tuple[str, ...] = ()
    """Columns that prompts need and that no row has."""

    @property
    def of_files(self) -> str:
        """The fingerprint of the files as read, also where a study changes their rows afterwards."""
        return self.files_fingerprint or self.fingerprint


def rename_columns(columns: Mapping[str, str], values: NamedValues) -> JsonObject:
    """The values under their pipeline names. A mapped name hides a column of the file with that name."""
    own = {name: value for name, value in values.items() if name not in columns.values()}
    return own | {name: values[column] for name, column in columns.items() if column in values}


def required_columns(dataset: Dataset) -> dict[str, str]:
    """The columns that every row needs: name in the pipeline -> name in the file. A path to an id is found in the row."""
    names = (
        dataset.required
        if dataset.id is None or "." in dataset.id
        else (*dataset.required, dataset.id)
    )
    return {name: dataset.columns.get(name, name) for name in names}


def missing_required(dataset: Dataset, columns: Collection[str]) -> tuple[Problem, ...]:
    """The problem of each required column that is not among ``columns`` (the file's names)."""
    absent = {
        name: column for name, column in required_columns(dataset).items() if column not in columns
    }
    problems = [
        missing_column(
            column,
            columns,
            "" if column == name else f" ({name!r} in the pipeline)",
            dataset.hints.get(name, ""),
            listed=at == len(absent),
        )
        for at, (name, column) in enumerate(absent.items(), 1)
    ]
    return tuple(problems)


def missing_column(
    column: str, columns: Collection[str], also: str = "", hint: str = "", *, listed: bool = True
) -> Problem:
    """The problem of a missing column; ``also`` adds its other name, ``hint`` what else could be done. ``listed``: the hint
    lists the columns that there are."""
    near = difflib.get_close_matches(column, columns, n=1)
    hints = [
        _separator_hint(columns) or (f"did you mean {near[0]!r}?" if near else ""),
        hint and f"{hint};",
    ]
    if listed:
        hints.append(f"the columns are: {', '.join(columns) or 'none'}")
    return Problem(
        "missing-column",
        f"there is no column {column!r}{also}",
        " ".join(filter(None, hints)).rstrip(";"),
    )


def _separator_hint(columns: Collection[str]) -> str:
    """A hint if the only column is a whole header with another separator."""
    (name,) = columns if len(columns) == 1 else ("",)
    for mark, name_of_mark in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if mark in name:
            return f"its cells are separated by {name_of_mark}: save it with commas, or with tabs as .tsv."
    return ""


def content_key(record: NamedValues) -> str:
    """32 hex digits (BLAKE2b) over the record as JSON, its columns sorted. Equal records share it."""
    try:
        text = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # integers beyond 64 bits, halves of surrogate pairs
        text = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return blake2b(text, digest_size=16).hexdigest()
