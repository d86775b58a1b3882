"""`verdict schema`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from verdict_cli.cli.console import document, print_message


class SchemaKind(StrEnum):
    """The kinds of files that have a schema."""

    PIPELINE = "pipeline"
    CARD = "card"
    PUBLISHED = "published"


def schema(
    of: Annotated[SchemaKind, typer.Argument(help="Pipelines, data cards, or published tables.")] = SchemaKind.PIPELINE,
    out: Annotated[Path | None, typer.Option("--out", help="Write it to this file instead.")] = None,
) -> None:
    """Print the JSON Schema of pipeline files, for editors, with what installed packages add to the language; or that of
    data cards or published tables.

    Example: verdict schema --out pipeline.schema.json
    """
    made = _schema(of)
    if out is None:
        document(made)
        return
    from verdict_cli.run.run_directory import output_errors

    with output_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(orjson.dumps(made, option=orjson.OPT_INDENT_2) + b"\n")
    print_message(f"written: {out}")


def _schema(of: SchemaKind) -> dict[str, Any]:
    from verdict_cli.language.json_schema import complete_schema, file_schema

    if of is SchemaKind.CARD:
        from verdict_cli.benchmarks.card import Card

        return file_schema(Card)
    if of is SchemaKind.PUBLISHED:
        from verdict_cli.language.evaluations import Published

        return file_schema(Published)
    return complete_schema()
