"""`verdict extract RUN --with regex,argmax_score`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_json, print_report, printable
from verdict_cli.cli.options import AsJson
from verdict_cli.errors import UsageError
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.language.extractors import EXTRACTORS
from verdict_cli.plural import plural
from verdict_cli.run.load_run import load_run
from verdict_cli.run.re_extract import Disagreement, ReExtraction, re_extract


def extract(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    with_: Annotated[str, typer.Option("--with", metavar="NAMES", help="Extractors, separated by commas.")],
    most: Annotated[int, typer.Option("--show", min=0, help="The most disagreements to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Read a run's recorded replies with other extractors, and show where they disagree. No model is called.

    Example: verdict extract runs/demo/judge --with regex,structured
    """
    names = _extractor_names(with_)
    directory, facts, plan = load_run(run)
    rereadings, disagreements = re_extract(plan, directory.calls, names, seed=facts.seed, most=most)
    if as_json:
        print_json(
            {
                "rereadings": [asdict(rereading) for rereading in rereadings],
                "disagreements": [asdict(disagreement) for disagreement in disagreements],
            }
        )
        return
    print_report(_table(rereadings) + _list(disagreements))


def _extractor_names(text: str) -> list[str]:
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name == "post_hoc":
            raise UsageError(
                "post_hoc reads a reply by a second call, and `verdict extract` makes none",
                hint=f"choose among {', '.join(_readers(EXTRACTORS))}",
            )
        if EXTRACTORS.get(name) is None:
            hint = nearest_spelling(name, _readers(EXTRACTORS.names()))
            raise UsageError(f"unknown extractor {name!r}", hint=hint)
    if not names:
        raise UsageError("--with names no extractor", hint=f"known: {', '.join(_readers(EXTRACTORS))}")
    return names


def _readers(names: Iterable[str]) -> list[str]:
    """The extractors that read a recorded reply without another call."""
    return [name for name in names if name != "post_hoc"]


def _table(rereadings: tuple[ReExtraction, ...]) -> str:
    lines = []
    for reading in rereadings:
        if reading.refused:
            lines.append(f"{reading.unit}  {reading.extractor}: does not fit: {reading.refused}")
        elif reading.extractor == "own":
            lines.append(f"{reading.unit}  own: {reading.readable} of {plural(reading.replies, 'reply|replies')} read")
        else:
            share = f", {reading.agreed} of {reading.both} as the unit's own" if reading.both else ""
            lines.append(
                f"{reading.unit}  {reading.extractor}: {reading.readable} of {plural(reading.replies, 'reply|replies')} read{share}"
            )
    return printable("\n".join(lines)) + "\n"


def _list(disagreements: tuple[Disagreement, ...]) -> str:
    lines = [
        f"  {disagreement.id} {disagreement.unit}: own {_format(disagreement.own)}, {disagreement.extractor} {_format(disagreement.read) if disagreement.read is not None else disagreement.reason}"
        for disagreement in disagreements
    ]
    return printable("\n".join(["", *lines])) + "\n" if lines else ""


def _format(value: object) -> str:
    return "unreadable" if value is None else f"{value!r:.120}"
