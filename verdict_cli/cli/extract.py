"""`verdict extract RUN --with regex,argmax_score`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.console import document, print_report, printable
from verdict_cli.cli.options import AsJson
from verdict_cli.errors import UsageError

if TYPE_CHECKING:
    from verdict_cli.stats.re_extract import Disagreement, ReExtraction


def extract(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    with_: Annotated[str, typer.Option("--with", metavar="NAMES", help="Extractors, separated by commas.")],
    most: Annotated[int, typer.Option("--show", min=0, help="How many disagreements to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Read a run's recorded replies again with other extractors, and show where they disagree. No model is asked.

    Example: verdict extract runs/demo --with regex,structured
    """
    from verdict_cli.run.load_run import load_run
    from verdict_cli.stats.re_extract import re_extract

    names = _names(with_)
    directory, facts, plan = load_run(run)
    rereadings, disagreements = re_extract(plan, directory.calls, names, seed=facts.seed, most=most)
    if as_json:
        document(
            {"rereadings": [asdict(one) for one in rereadings], "disagreements": [asdict(one) for one in disagreements]}
        )
        return
    print_report(_table(rereadings) + _list(disagreements))


def _names(text: str) -> list[str]:
    from verdict_cli.language.document.error_messages import nearest_spelling
    from verdict_cli.language.extractors import EXTRACTORS

    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name == "post_hoc" or EXTRACTORS.get(name) is None:
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
    for one in rereadings:
        if one.refused:
            lines.append(f"{one.unit}  {one.extractor}: does not fit: {one.refused}")
        elif one.extractor == "own":
            lines.append(f"{one.unit}  own: {one.readable} of {one.replies} replies read")
        else:
            share = f", {one.agreed} of {one.both} as the unit's own" if one.both else ""
            lines.append(f"{one.unit}  {one.extractor}: {one.readable} of {one.replies} replies read{share}")
    return printable("\n".join(lines)) + "\n"


def _list(disagreements: tuple[Disagreement, ...]) -> str:
    lines = [
        f"  {one.id} {one.unit}: own {_shown(one.own)}, {one.extractor} {_shown(one.read) if one.read is not None else one.reason}"
        for one in disagreements
    ]
    return printable("\n".join(["", *lines])) + "\n" if lines else ""


def _shown(read: object) -> str:
    return "unreadable" if read is None else f"{read!r:.120}"
