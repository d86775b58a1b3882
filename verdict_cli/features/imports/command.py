"""`verdict import`: logs of other tools, and rows from inside any JSON document."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_message
from verdict_cli.cli.progress import show_reading
from verdict_cli.errors import UsageError
from verdict_cli.features.imports.logs import LOG_FORMATS, not_in_format, read_logs
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.messages import JsonObject
from verdict_cli.plural import plural
from verdict_cli.storage.tables.human_labels import FILE as LABELS

Rows = Iterator[JsonObject]

ROWS_PER_GROUP = 1_000
"""Rows of a Parquet row group: what is in memory at once."""


def import_(
    log_format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT", help=f"{', '.join(LOG_FORMATS)}; json with --path for any document."
        ),
    ],
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The logs.")],
    out: Annotated[Path, typer.Option("--out", help="The .jsonl or .parquet to write.")],
    path: Annotated[
        str | None,
        typer.Option(
            "--path", help="json: the keys that lead to the list of rows, such as results.results."
        ),
    ] = None,
) -> None:
    """Convert logs of other tools to a dataset: one row a sample or trace.

    A row has id, input, output, messages, target, the other tool's scores by name, model and metadata. `verdict init`
    on the result proposes a comparison of those scores with a judge of yours. The formats label-studio, argilla and
    labels-csv are people's labels: write them to RUN/labels.jsonl.

    Example: verdict import promptfoo out.json --out rows.jsonl
    """
    if log_format != "json" and log_format not in LOG_FORMATS.names():
        hint = (
            nearest_spelling(log_format, [*LOG_FORMATS, "json"])
            or f"formats are {', '.join(LOG_FORMATS)} and json"
        )
        raise UsageError(f"unknown format {log_format!r}", hint=hint)
    if path is not None and log_format != "json":
        raise UsageError(
            "--path is for the format json", hint=f"`verdict import json … --path {path}`"
        )
    if out.suffix not in (".jsonl", ".parquet"):
        raise UsageError(
            f"--out {out} has another ending than .jsonl or .parquet", hint="choose one of them"
        )
    if out.name == LABELS and out.exists():
        raise UsageError(
            f"{out} has labels already",
            hint=f"give another --out, and append it: cat FILE >> {out}",
        )
    for file in files:
        if not file.is_file():
            raise UsageError(f"no such file: {file}", hint="give the paths of the logs")
        if file.resolve() == out.resolve():
            raise UsageError(f"--out {out} is one of the logs", hint="choose another name")
    read = partial(read_logs, log_format, files)
    if log_format == "json":
        read = partial(_rows_at, files, path or "")
    summary = _Found()
    with show_reading("importing"):
        count = _write(out, summary.noting(read()), read)
    suffix = f"; scores: {', '.join(summary.scores)}" if summary.scores else ""
    print_message(f"{plural(count, 'row')}: {out}{suffix}")
    if summary.unanswered:
        reason = f", such as: {summary.reason}" if summary.reason else ""
        print_message(
            f"warning: {plural(summary.unanswered, 'row has|rows have')} no output{reason}"
        )


def _rows_at(files: list[Path], path: str) -> Iterator[JsonObject]:
    from verdict_cli.features.imports.logs import items_at

    for file in files:
        for index, item in items_at(file, path):
            if not isinstance(item, dict):
                raise not_in_format(file, f"{path}[{index}] is not an object")
            yield item


class _Found:
    """What is told of imported rows: the names of scores, and how many have no output."""

    def __init__(self) -> None:
        self.scores: dict[str, None] = {}
        self.unanswered = 0
        self.reason = ""

    def noting(self, rows: Iterator[JsonObject]) -> Iterator[JsonObject]:
        """The rows, counted as they pass."""
        for row in rows:
            if isinstance(row.get("scores"), dict):
                self.scores |= dict.fromkeys(row["scores"])
            if "messages" in row and row.get("output") is None:
                self.unanswered += 1
                self.reason = self.reason or str(row.get("error") or "")[:200]
            yield row


def _write(out: Path, rows: Rows, read: Callable[[], Rows]) -> int:
    """Write the rows, whole or not at all: an error leaves no file. Returns their number. ``read`` gives the rows again."""
    from verdict_cli.storage.paths import replacing, write_rows

    if out.suffix == ".jsonl":
        return write_rows(out, rows)
    with replacing(out) as part:
        return _write_parquet(part, out, rows, read)


def _write_parquet(part: Path, out: Path, rows: Rows, read: Callable[[], Rows]) -> int:
    """Write the rows in groups. Their columns are those of all groups, so they are read twice."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("id", pa.string())])
    count = 0
    try:
        for group in _groups(rows):
            schemas = [schema] if count else []
            names = dict.fromkeys(name for row in group for name in row)
            table = pa.table({name: [row.get(name) for row in group] for name in names})
            schema = pa.unify_schemas([*schemas, table.schema], promote_options="permissive")
            count += len(group)
        with pq.ParquetWriter(part, schema) as writer:
            for group in _groups(read()) if count else ():
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
    except pa.ArrowException as error:
        message = f"Parquet cannot hold the values of a column: {str(error).splitlines()[0]:.150}"
        raise not_in_format(out, message, "write a .jsonl") from None
    return count


def _groups(rows: Rows) -> Iterator[list[JsonObject]]:
    while group := list(itertools.islice(rows, ROWS_PER_GROUP)):
        yield group
