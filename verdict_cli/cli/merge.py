"""`verdict merge DIR… --out RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_error
from verdict_cli.cli.options import AsJson
from verdict_cli.cli.show_report import exit_code, finish_with_report, show_report
from verdict_cli.run.load_run import load_run
from verdict_cli.run.shards import merge_shards


def merge(
    shards: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="The directory of each shard.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The directory of the merged run.")],
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Also merge unfinished shards; absent rows lower run.coverage."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Merge the shards of a run (`verdict run --shard`) into one run, and report it. No model is called.

    Example: verdict merge shards/0 shards/1 shards/2 shards/3 --out runs/whole
    """
    merge_shards(shards, out, partial=partial)
    result = load_run(out)
    report = finish_with_report(result)
    show_report(report, as_json=as_json)
    if result.facts.status != "finished":
        print_error(
            f"{out} lacks {result.facts.rows - result.facts.done:,} rows\n"
            f"    the command of the shards without --shard finishes it, with --out {out}"
        )
    raise typer.Exit(exit_code(report))
