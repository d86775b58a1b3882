"""Arguments and options shared by several commands."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Undecided(StrEnum):
    """The result of an inconclusive gate (`--inconclusive`)."""

    PASS = "pass"
    FAIL = "fail"


def _recording_path(value: Path | None) -> Path | None:
    """Resolve the name of a recording shipped with verdict, if there is no such file."""
    if value is None:
        return None
    from verdict_cli.language.package_files import file_or_named, recordings

    return file_or_named(value, recordings)


Config = Annotated[Path, typer.Argument(help="The pipeline file, or the name of a pipeline shipped with verdict.")]
Data = Annotated[
    str,
    typer.Argument(
        help="JSONL, JSON, CSV, TSV or Parquet: a file, a directory, a glob, or - for JSONL on standard input."
    ),
]
OptionalData = Annotated[
    str | None, typer.Argument(help="As for `run`: a file, a directory, a glob, or -. [default: the benchmark CONFIG]")
]
MetricOption = Annotated[
    str | None,
    typer.Option("--metric", metavar="NAME", help="EVALUATION.METRIC, or one of the two. [default: the first]"),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a value of the file, e.g. 'pipeline[1].repeat=5'."),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", help="The model of every unit that does not set one; the file's settings of it are kept."),
]
AllowCode = Annotated[
    list[Path] | None, typer.Option("--allow-code", metavar="FILE", help="Allow the unit types of this Python file.")
]
AllowOutside = Annotated[
    bool,
    typer.Option(
        "--allow-outside", help="Let the pipeline file, and the images of rows, refer to files outside their folder."
    ),
]


def _allow_hosts(hosts: list[str] | None) -> list[str] | None:
    """Add the hosts to VERDICT_ALLOW_HOSTS, for this process and its children."""
    if hosts:
        from verdict_cli.language.model_address import allow

        try:
            allow(hosts, os.environ)
        except ValueError as fault:
            raise typer.BadParameter(str(fault)) from None
    return hosts


# The callback does all the work, so commands ignore the value. `verdict serve` and `verdict view` do not have it, because their
# own `--allow-host` names the hosts that they answer for.
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="HOST",
        callback=_allow_hosts,
        help="Allow sending an API key to this host, as with VERDICT_ALLOW_HOSTS.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N rows.")]
SampleOption = Annotated[
    int | None, typer.Option("--sample", min=1, help="A random sample of N rows, drawn with --seed, in file order.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete the results in the directory and start over.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of all random choices.")]
Replay = Annotated[
    Path | None,
    typer.Option(
        "--replay",
        callback=_recording_path,
        help="Take all replies from a recording: a run, a calls.parquet, or a JSONL file.",
    ),
]
IntervalLevel = Annotated[
    float | None,
    typer.Option(
        "--level", min=0.5, max=0.9999, help="The confidence level of intervals. [default: the file's `level`, or 0.95]"
    ),
]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, max=4096, help="The most model calls in flight.")]
Budget = Annotated[
    float | None, typer.Option("--budget", min=0, metavar="USD", help="Start no further call once this much is spent.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Do not read or write the shared cache of replies.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress. Warnings and errors are still printed.")]
Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Do not ask before money is spent. Without a terminal, nothing is asked anyway."),
]
