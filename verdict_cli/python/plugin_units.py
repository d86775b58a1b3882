"""Unit types written in Python and named in a YAML file: from installed packages, or from a file that is allowed.

A package offers its classes as entry points of the group `verdict_cli.language.units`; a local file is only ever imported
when the command line names it (`--allow-code FILE`). Both are subclasses of `verdict_cli.Unit`.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from verdict_cli.errors import UsageError
from verdict_cli.language.authoring.step import FunctionsByPath
from verdict_cli.language.document.source_positions import Document
from verdict_cli.language.entry_points import EntryPointGroup
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import LLMUnit


def _unit(_: str, loaded: Any) -> type[LLMUnit]:
    if not (isinstance(loaded, type) and issubclass(loaded, LLMUnit)):
        raise TypeError("is no subclass of verdict_cli.Unit")
    return loaded


UNIT_PLUGINS = EntryPointGroup("verdict_cli.units", _unit)
"""Unit types of installed packages."""

Types = Callable[[str], type[LLMUnit] | None]
"""The class of a unit type's name, None where nobody offers one."""


def foreign_types(files: Sequence[Path] = ()) -> Types:
    """The types that installed packages offer, and those of the files, which are imported here.

    Raises UsageError for a file that cannot be imported or holds no unit.
    """
    own: dict[str, type[LLMUnit]] = {}
    for path in files:
        own |= _in_file(path)

    def named(name: str) -> type[LLMUnit] | None:
        return own.get(name) or UNIT_PLUGINS.get(name)

    return named


def expand_custom_units(document: Document, types: Types) -> tuple[Document, FunctionsByPath]:
    """The document with every step of a foreign type written out as a `Unit`, and the functions that belong to it.

    Keys of the step win over those of the class. Positions stay those of the file.
    """
    functions: FunctionsByPath = {}
    data = copy.deepcopy(document.data)
    declared = data.get("units")
    known = {*TYPES, *(declared if isinstance(declared, dict) else ())}

    def walk(steps: Any, path: tuple[str | int, ...]) -> None:
        for place, step in enumerate(steps if isinstance(steps, list) else ()):
            if not isinstance(step, dict):
                continue
            name = step.get("unit")
            if isinstance(name, str) and name not in known and (kind := types(name)) is not None:
                steps[place] = _written(kind, name, step, (*path, place), functions)
            for key in ("layer", "block"):
                walk(step.get(key), (*path, place, key))

    walk(data.get("pipeline"), ("pipeline",))
    for name, steps in data["blocks"].items() if isinstance(data.get("blocks"), dict) else ():
        walk(steps, ("blocks", name))
    return replace(document, data=data), functions


def _written(
    kind: type[LLMUnit], name: str, step: Mapping[str, Any], path: tuple[str | int, ...], functions: FunctionsByPath
) -> dict[str, Any]:
    try:
        unit = kind()
    except TypeError as fault:
        raise UsageError(
            f"the unit type {name!r} cannot be made without arguments: {fault}", hint="give its parameters defaults"
        ) from None
    return {**unit.to_document(path, functions), **{key: value for key, value in step.items() if key != "unit"}}


def _in_file(path: Path) -> dict[str, type[LLMUnit]]:
    spec = importlib.util.spec_from_file_location(f"verdict_allowed_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"--allow-code {path}: there is no such Python file", hint="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as fault:
        raise UsageError(
            f"--allow-code {path}: {type(fault).__name__}: {fault}", hint="the file must import without errors"
        ) from None
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, LLMUnit) and value.__module__ == module.__name__
    }
    if not found:
        raise UsageError(
            f"--allow-code {path}: no subclass of verdict_cli.Unit is defined in it", hint="see docs/python.md"
        )
    return found
