"""`verdict schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from verdict_cli.cli.streams import document, say
from verdict_cli.engines.directory import refusing
from verdict_cli.spec.json_schema import pipeline_schema


def schema(
    out: Annotated[Path | None, typer.Option("--out", help="Write it to this file instead.")] = None,
) -> None:
    """Print the JSON Schema of pipeline files, for editors."""
    if out is None:
        document(pipeline_schema())
        return
    with refusing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(orjson.dumps(pipeline_schema(), option=orjson.OPT_INDENT_2) + b"\n")
    say(f"written: {out}")
