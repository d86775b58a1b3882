"""Unit types written in Python, as declarations that a file could have made; and those of files that `--allow-code` names.

Unit types of installed packages come from the registry (`units.TYPES`, entry points of the group `verdict_cli.units`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verdict_cli.errors import UsageError
from verdict_cli.language.units.base import LLMUnit

if TYPE_CHECKING:
    from verdict_cli.language.authoring.functions import Function


def class_document(name: str, kind: type[LLMUnit]) -> tuple[dict[str, Any], dict[str, Function]]:
    """The keys that the class of a unit type sets, `unit` among them, and its functions by key.

    Raises UsageError for a class that cannot be constructed without arguments.
    """
    try:
        unit = kind()
    except TypeError as fault:
        raise UsageError(
            f"the unit type {name!r} cannot be constructed without arguments: {fault}",
            hint="give its parameters defaults",
        ) from None
    functions: dict[tuple[str | int, ...], Function] = {}
    keys = unit.to_document((), functions)
    return keys, {str(path[-1]): function for path, function in functions.items()}


def import_unit_types(files: Sequence[Path]) -> dict[str, type[LLMUnit]]:
    """The unit types of Python files, by class name. Raises UsageError for a file without any, or that fails to import."""
    types: dict[str, type[LLMUnit]] = {}
    for path in files:
        types |= _types_in(path)
    return types


def _types_in(path: Path) -> dict[str, type[LLMUnit]]:
    import importlib.util

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
    types = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, LLMUnit) and value.__module__ == module.__name__
    }
    if not types:
        raise UsageError(
            f"--allow-code {path}: no subclass of verdict_cli.Unit is defined in it", hint="see docs/python.md"
        )
    return types
