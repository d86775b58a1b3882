"""`verdict schema`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from verdict_cli.cli.console import print_json, print_message
from verdict_cli.language.json_schema import complete_schema, file_schema
from verdict_cli.storage.paths import output_errors


class SchemaKind(StrEnum):
    """The files that have a schema."""

    PIPELINE = "pipeline"
    CARD = "card"
    PUBLISHED = "published"


def schema(
    kind: Annotated[
        SchemaKind, typer.Argument(help="Pipeline files, data cards, or tables of published results.")
    ] = SchemaKind.PIPELINE,
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead of standard output.")] = None,
) -> None:
    """Print the JSON Schema of pipeline files for editors, including the unit types of installed packages; or that of data
    cards or tables of published results.

    Example: verdict schema --out pipeline.schema.json
    """
    content = _schema(kind)
    if out is None:
        print_json(content)
        return

    with output_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    print_message(f"written: {out}")


def _schema(kind: SchemaKind) -> dict[str, Any]:
    if kind is SchemaKind.CARD:
        from verdict_cli.benchmarks.card import Card

        return file_schema(Card)
    if kind is SchemaKind.PUBLISHED:
        from verdict_cli.language.evaluations import Published

        return file_schema(Published)
    return complete_schema()
