"""`verdict units`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.console import document, print_report
from verdict_cli.cli.options import AsJson

if TYPE_CHECKING:
    from verdict_cli.language.units.base import UnitBase


def units(
    name: Annotated[str | None, typer.Argument(help="One unit type, with all its keys.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the unit types, or the keys of one.

    Example: verdict units JudgeUnit
    """
    from verdict_cli.language.units import TYPES

    chosen = {each: kind for each, kind in TYPES.items() if name in (None, each)}
    if not chosen:
        from verdict_cli.errors import UsageError
        from verdict_cli.language.document.error_messages import nearest_spelling

        raise UsageError(f"unknown unit type {name!r}", hint=nearest_spelling(str(name), TYPES))
    if as_json:
        document([_described(each, kind) for each, kind in chosen.items()])
        return
    width = max(len(each) for each in chosen)
    for each, kind in chosen.items():
        print_report(f"{each:{width}}  {_said(kind)}\n")
        if name is not None:
            for key, said in _keys(kind).items():
                print_report(f"    {key}: {said}\n")


def _described(name: str, kind: type[UnitBase]) -> dict[str, Any]:
    from verdict_cli.language.units.base import snake

    return {
        "unit": name,
        "name": snake(name),
        "asks_a_model": kind.calls_model,
        "description": _said(kind),
        "keys": _keys(kind),
    }


def _said(kind: type[UnitBase]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _keys(kind: Any) -> dict[str, str]:
    from verdict_cli.config_model import described

    return described(kind)
