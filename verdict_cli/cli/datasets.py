"""`verdict datasets import NAME PATH`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from verdict_cli.cli.streams import say
from verdict_cli.errors import UsageError

app = typer.Typer(
    help="Benchmarks' own files as datasets.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.callback()
def root() -> None:
    """Benchmarks' own files as datasets."""


@app.command("import")
def import_(
    name: Annotated[str, typer.Argument(help="The benchmark, e.g. xstest.")],
    path: Annotated[Path, typer.Argument(help="The benchmark's file.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The JSONL to write. [default: NAME.jsonl]")
    ] = None,
) -> None:
    """Convert a benchmark's own file to JSONL; recorded replies in it go to a file for --replay beside it."""
    from verdict_cli.data.imports import IMPORTERS
    from verdict_cli.spec.problems import nearest

    importer = IMPORTERS.get(name)
    if importer is None:
        raise UsageError(f"unknown benchmark {name!r}", hint=nearest(name, IMPORTERS))
    if not path.is_file():
        raise UsageError(f"there is no file {path}", hint="give the path of the benchmark's own file")
    imported = importer(path)
    target = out or Path(f"{name}.jsonl")
    say(f"{_written(target, imported.rows()):,} rows: {target}")
    if imported.replies is not None:
        replay = target.with_name(f"{target.name.removesuffix('.jsonl')}.replay.jsonl")
        say(f"{_written(replay, imported.replies()):,} recorded replies: {replay}")


def _written(path: Path, rows: Iterator[Mapping[str, Any]]) -> int:
    from verdict_cli.engines.directory import refusing

    count = 0
    with refusing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        with part.open("wb") as file:
            for row in rows:
                file.write(orjson.dumps(row) + b"\n")
                count += 1
        part.replace(path)
    return count
