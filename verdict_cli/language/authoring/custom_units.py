"""Unit types written in Python that a file can name: those of installed packages, and those that `--allow-code` names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from verdict_cli.errors import UsageError
from verdict_cli.language.authoring.unit_step import LLMUnitStep
from verdict_cli.registry import Registry


def _check_unit(_: str, loaded: Any) -> type[LLMUnitStep]:
    if not (isinstance(loaded, type) and issubclass(loaded, LLMUnitStep)):
        raise TypeError("is not a subclass of verdict_cli.Unit")
    return loaded


PACKAGE_UNITS: Registry[type[LLMUnitStep]] = Registry(__name__, {}, "verdict_cli.units", _check_unit)
"""The unit types of installed packages by name."""


def import_unit_types(files: Sequence[Path]) -> dict[str, type[LLMUnitStep]]:
    """The unit types of Python files, by class name. Raises UsageError for a file without any, or that fails to import."""
    types: dict[str, type[LLMUnitStep]] = {}
    for path in files:
        types |= _types_in(path)
    return types


def _types_in(path: Path) -> dict[str, type[LLMUnitStep]]:
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
        if isinstance(value, type) and issubclass(value, LLMUnitStep) and value.__module__ == module.__name__
    }
    if not types:
        raise UsageError(
            f"--allow-code {path}: no subclass of verdict_cli.Unit is defined in it", hint="see docs/python.md"
        )
    return types
