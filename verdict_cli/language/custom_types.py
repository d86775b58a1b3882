"""Unit types that a file declares under `units` (language.md, section 6.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verdict_cli.language.steps import CustomType
from verdict_cli.language.units import TYPES


class UnknownTypeError(ValueError):
    """A type that leads to no built-in one. ``name`` is the one that is not known, ``at`` the declared type
    whose ``base`` names it, None where the step itself does."""

    def __init__(self, message: str, name: str, at: str | None) -> None:
        super().__init__(message)
        self.message = message
        self.name = name
        self.at = at


@dataclass(frozen=True)
class MergedType:
    """A declared type: the built-in one that it ends at, the keys it sets, and which declared type set each."""

    base: str
    keys: Mapping[str, Any]
    set_by: Mapping[str, str]


def merge_custom_type(name: str, types: Mapping[str, CustomType]) -> MergedType:
    """What a declared type means; its own keys win over those of its base. UnknownTypeError when it has none."""
    keys: dict[str, Any] = {}
    set_by: dict[str, str] = {}
    seen: list[str] = []
    while name not in TYPES:
        at = seen[-1] if seen else None
        if name not in types:
            raise UnknownTypeError(f"unknown unit type {name!r}", name, at)
        if name in seen:
            raise UnknownTypeError(f"the unit type {name!r} builds on itself", name, at)
        seen.append(name)
        for key, value in (types[name].model_extra or {}).items():
            keys.setdefault(key, value)
            set_by.setdefault(key, name)
        name = types[name].base
    return MergedType(name, keys, set_by)
