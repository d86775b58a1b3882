"""`verdict export RUN --to TOOL`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_message
from verdict_cli.errors import UsageError
from verdict_cli.plural import plural
from verdict_cli.storage.paths import output_errors


class Tool(StrEnum):
    """Where scores are exported to (`--to`)."""

    LANGFUSE = "langfuse"
    MLFLOW = "mlflow"
    OTLP = "otlp"
    INSPECT = "inspect"


def export(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    to: Annotated[Tool, typer.Option("--to", help="The tool that reads the scores.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The file; for inspect also its log folder. [default: RUN-TOOL.json or .jsonl, here; for inspect in logs]",
        ),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="URL", help="otlp: send to this collector, such as http://localhost:4318."),
    ] = None,
) -> None:
    """Write a run's scores in the form that another tool reads.

    A score is a number, a boolean or a value of a scale in the output of the pipeline's last step, with its explanation.
    `dataset: {trace: …, span: …}` in the pipeline file names the trace and the span that a row judges.

    Example: verdict export runs/demo/judge --to inspect --out logs
    """
    if endpoint is not None and (to is not Tool.OTLP or out is not None):
        problem = "--endpoint and --out cannot be combined" if to is Tool.OTLP else "--endpoint is for --to otlp"
        raise UsageError(problem, hint="give --out" if to is not Tool.OTLP else "give one of them")
    from verdict_cli.features.exports.exports import SUFFIXES, inspect_name, send_events, write_export
    from verdict_cli.run.load_run import load_run

    result = load_run(run)
    if endpoint is not None:
        counts, where = send_events(result, endpoint), endpoint
    else:
        if to is Tool.INSPECT and (out is None or out.is_dir() or not out.suffix):
            out = (out or Path("logs")) / inspect_name(result)
            with output_errors(out):
                out.parent.mkdir(parents=True, exist_ok=True)
        out = out or Path(f"{run.resolve().name}-{to}.{SUFFIXES[to]}")
        if out.suffix != f".{SUFFIXES[to]}":
            raise UsageError(f"--out {out}: {to} reads .{SUFFIXES[to]}", hint="change the ending")
        counts, where = write_export(result, to, out), str(out)
    left_out = (
        f"; {plural(counts.without_trace, 'row has|rows have')} no trace and were left out"
        if counts.without_trace
        else ""
    )
    print_message(f"{counts.scores:,} scores: {where}{left_out}")
