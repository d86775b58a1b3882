"""The options of an audit, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from verdict_cli.errors import SpecError, UsageError
from verdict_cli.language.document.document import parse_document

DEGRADE = "degrade"
"""The cause of probes that plant errors."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """Which probes an audit has, and of what. `repeats` counts the runs after the baseline."""

    attack: Annotated[
        bool, typer.Option("--attack", help="Also try prompt injections in the judged text.")
    ] = False
    degrade: Annotated[
        bool,
        typer.Option(
            "--degrade", help="Also plant errors in the judged text, which must lower its score."
        ),
    ] = False
    degrade_model: Annotated[
        str | None,
        typer.Option(
            "--degrade-model",
            metavar="MODEL",
            help="Let this model plant the errors of --degrade, not rules.",
        ),
    ] = None
    verdict: Annotated[
        str | None,
        typer.Option(
            "--verdict",
            metavar="EXPR",
            help="The verdict of a row. [default: output.choice or output.score]",
        ),
    ] = None
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            metavar="COLUMN",
            help="A column whose text is judged. [default: the options, the only column of prompts, or by its name]",
        ),
    ] = None
    goal: Annotated[
        str | None,
        typer.Option(
            "--goal",
            metavar="VALUE",
            help="The verdict that attacks aim at, and that errors must lower. [default: the best]",
        ),
    ] = None
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats", min=0, help="How often unchanged rows are judged again, to measure noise."
        ),
    ] = 2
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Rename a label.")
    ] = None
    paraphrase: Annotated[
        list[str] | None,
        typer.Option(
            "--paraphrase",
            metavar="UNIT=FILE",
            help="Replace the instruction of a unit by that of a text file.",
        ),
    ] = None
    family: Annotated[
        str | None,
        typer.Option(
            "--family", metavar="EXPR", help="The author of the judged text, such as source.model."
        ),
    ] = None
    judge_family: Annotated[
        str | None,
        typer.Option(
            "--judge-family",
            metavar="NAME",
            help="The value of --family for the judge's own model.",
        ),
    ] = None
    out: Annotated[
        Path | None, typer.Option("--out", help="The audit's directory. [default: audits/NAME]")
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the calls and the cost.")
    ] = False

    @property
    def goal_value(self) -> Any:
        """The verdict that attackers aim at, read as YAML does: a number, true or false, otherwise the text; None: the best."""
        if self.goal is None:
            return None
        try:
            return parse_document(f"value: {self.goal}".encode(), "--goal").data["value"]
        except SpecError:
            return self.goal

    @property
    def names(self) -> dict[str, str]:
        """The other name of each label. UsageError for an option of another form."""
        return dict(_pairs("--rename", self.rename, "OLD=NEW"))

    @property
    def instructions(self) -> list[tuple[str, Path]]:
        """The units with the files of their other instructions. UsageError for an option of another form."""
        pairs = _pairs("--paraphrase", self.paraphrase, "UNIT=FILE")
        return [(unit, Path(file)) for unit, file in pairs]

    @property
    def plants(self) -> bool:
        """Whether errors are planted."""
        return self.degrade or self.degrade_model is not None


def _pairs(option: str, values: list[str] | None, form: str) -> list[tuple[str, str]]:
    pairs = []
    for pair in values or []:
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{option} {pair!r} is not of the form {form}")
        pairs.append((key, value))
    return pairs
