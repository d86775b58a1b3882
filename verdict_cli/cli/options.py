"""Arguments and options that several commands have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def _recording(given: Path | None) -> Path | None:
    """The recording of that name that comes with verdict, where there is no such file."""
    if given is None:
        return None
    from verdict_cli.language.package_files import file_or_named, recordings

    return file_or_named(given, recordings)


Config = Annotated[Path, typer.Argument(help="The pipeline file, or the name of a pipeline that comes with verdict.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change a value of the file, e.g. 'pipeline[1].repeat=5'."),
]
ModelOption = Annotated[str | None, typer.Option("--model", help="The model of every unit that sets none.")]
AllowCode = Annotated[
    list[Path] | None, typer.Option("--allow-code", metavar="FILE", help="A Python file whose unit types may be used.")
]
AllowOutside = Annotated[
    bool,
    typer.Option(
        "--allow-outside", help="The pipeline file, and the images of rows, may name files outside their own folder."
    ),
]


def _allow(given: list[str] | None) -> list[str] | None:
    """Adds the hosts to VERDICT_ALLOW_HOSTS, for this process and those that it starts."""
    if given:
        from verdict_cli.language.egress_hosts import allow

        try:
            allow(given, os.environ)
        except ValueError as fault:
            raise typer.BadParameter(str(fault)) from None
    return given


# Its callback does all that it does: a command takes it and has no use for its value. `verdict serve` is without it, because its
# own `--allow-host` names the hosts that it answers for.
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="HOST",
        callback=_allow,
        help="A host beside the provider's own and this machine that may get a key, as in VERDICT_ALLOW_HOSTS.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N rows.")]
SampleOption = Annotated[
    int | None, typer.Option("--sample", min=1, help="N rows drawn with --seed, in their own order.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Discard what the directory holds.")]
Seed = Annotated[int, typer.Option("--seed", help="Seeds everything that is drawn.")]
Replay = Annotated[
    Path | None,
    typer.Option(
        "--replay", callback=_recording, help="Answer all calls from a recording: a run, a calls.parquet, or a JSONL."
    ),
]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, max=4096, help="Model calls in flight at once.")]
Budget = Annotated[
    float | None, typer.Option("--budget", min=0, metavar="USD", help="Start no call once this much is spent.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep replies that runs share.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress; warnings and errors are still printed.")]
TraceOption = Annotated[
    bool, typer.Option("--trace", help="Send OpenTelemetry spans to where the OTEL_* variables say.")
]
TraceContent = Annotated[bool, typer.Option("--trace-content", help="With --trace: prompts and replies too.")]
