"""`verdict units`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from verdict_cli.cli.console import print_json, print_report
from verdict_cli.cli.options import AsJson
from verdict_cli.config_model import described
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import UnitBase, snake


def units(
    name: Annotated[str | None, typer.Argument(help="A unit type; prints all its keys.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the unit types, or the keys of one.

    Example: verdict units JudgeUnit
    """
    chosen = {title: TYPES[title] for title in TYPES if name in (None, title)}
    if not chosen:
        from verdict_cli.errors import UsageError
        from verdict_cli.language.document.error_messages import nearest_spelling

        raise UsageError(f"unknown unit type {name!r}", hint=nearest_spelling(str(name), TYPES))
    if as_json:
        print_json([_description(title, kind) for title, kind in chosen.items()])
        return
    width = max(len(title) for title in chosen)
    for title, kind in chosen.items():
        print_report(f"{title:{width}}  {_summary(kind)}\n")
        if name is not None:
            for key, text in _keys(kind).items():
                print_report(f"    {key}: {text}\n")


def _description(name: str, kind: type[UnitBase]) -> dict[str, Any]:
    return {
        "unit": name,
        "name": snake(name),
        "asks_a_model": kind.calls_model,
        "description": _summary(kind),
        "keys": _keys(kind),
    }


def _summary(kind: type[UnitBase]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _keys(kind: Any) -> dict[str, str]:
    return described(kind)
