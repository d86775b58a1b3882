"""`verdict schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from verdict_cli.cli.streams import document, say


def schema(
    out: Annotated[Path | None, typer.Option("--out", help="Write it to this file instead.")] = None,
) -> None:
    """Print the JSON Schema of pipeline files, for editors."""
    from verdict_cli.spec.json_schema import pipeline_schema

    if out is None:
        document(pipeline_schema())
        return
    from verdict_cli.engines.directory import refusing

    with refusing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(orjson.dumps(pipeline_schema(), option=orjson.OPT_INDENT_2) + b"\n")
    say(f"written: {out}")
