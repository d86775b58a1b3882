"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path, typer.Argument(help="The pipeline file.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Change a value of the file, e.g. 'pipeline[1].repeat=5'."
    ),
]
Model = Annotated[str | None, typer.Option("--model", help="The model of every unit that sets none.")]
AllowCode = Annotated[
    list[Path] | None,
    typer.Option("--allow-code", metavar="FILE", help="A Python file whose unit types may be used."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
