"""`verdict schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from verdict_cli.cli.console import print_json, print_message
from verdict_cli.errors import UsageError
from verdict_cli.language.json_schema import file_schema
from verdict_cli.registry import Registry
from verdict_cli.run.run_directory import output_errors

SCHEMAS: Registry[Any] = Registry(
    "verdict_cli.language",
    {"pipeline": "json_schema.complete_schema", "published": "evaluations.Published"},
    "verdict_cli.schemas",
)
"""What has a schema: a function that makes it, or the class of the file."""


def schema(
    kind: Annotated[
        str, typer.Argument(help="`pipeline`, `card` for data cards, or `published` for tables of published results.")
    ] = "pipeline",
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


def _schema(kind: str) -> dict[str, Any]:
    part = SCHEMAS.get(kind)
    if part is None:
        raise UsageError(f"there is no schema {kind!r}", hint=f"the schemas are {', '.join(SCHEMAS.names())}")
    return file_schema(part) if isinstance(part, type) else part()
