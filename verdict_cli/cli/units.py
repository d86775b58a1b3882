"""`verdict units`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from verdict_cli.cli.streams import document
from verdict_cli.spec.annotations import known_keys
from verdict_cli.units import TYPES, Common, snake


def units(
    name: Annotated[str | None, typer.Argument(help="One unit type, with all its keys.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the unit types, or the keys of one."""
    chosen = {name: kind for name_, kind in TYPES.items() if name_ == name} if name is not None else TYPES
    if not chosen:
        from verdict_cli.errors import UsageError
        from verdict_cli.spec.problems import nearest

        raise UsageError(f"unknown unit type {name!r}", hint=nearest(str(name), TYPES))
    if as_json:
        document([_described(each, kind) for each, kind in chosen.items()])
        return
    width = max(len(each) for each in chosen)
    for each, kind in chosen.items():
        sys.stdout.write(f"{each:{width}}  {_said(kind)}\n")
        if name is not None:
            for key, said in _keys(kind).items():
                sys.stdout.write(f"    {key}: {said}\n")


def _described(name: str, kind: type[Common]) -> dict[str, Any]:
    return {"unit": name, "name": snake(name), "asks_a_model": kind.asks, "description": _said(kind), "keys": _keys(kind)}


def _said(kind: type[Common]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _keys(kind: type[Common]) -> dict[str, str]:
    described = {field.alias or name: field.description or "" for name, field in kind.model_fields.items()}
    return {key: described[key] for key in known_keys(kind)}
