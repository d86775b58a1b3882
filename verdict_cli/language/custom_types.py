"""Unit types that are not built in: declared in a file under `units` (language.md, section 6.4), or Python classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verdict_cli.language.steps import CustomType
from verdict_cli.language.units import TYPES

if TYPE_CHECKING:
    from verdict_cli.language.authoring.unit_step import LLMUnitStep
    from verdict_cli.language.units.base import UnitBase


class UnknownTypeError(ValueError):
    """A type that leads to no built-in one. ``name`` is the unknown type, ``at`` the declared type whose ``base`` names
    it, None where the step itself does."""

    def __init__(self, message: str, name: str, at: str | None) -> None:
        super().__init__(message)
        self.message = message
        self.name = name
        self.at = at


@dataclass(frozen=True)
class MergedType:
    """What a type means: the built-in one that it ends at, the keys it sets, which declared type set each (a Python class
    set the others), and that class."""

    base: str
    keys: Mapping[str, Any]
    set_by: Mapping[str, str]
    imported: type[LLMUnitStep] | None = None

    def language_class(self) -> type[UnitBase]:
        """The class that reads the type's keys."""
        return TYPES[self.base] if self.imported is None else self.imported.written_class()


def merge_custom_type(
    name: str, types: Mapping[str, CustomType], imported: Mapping[str, type[LLMUnitStep]]
) -> MergedType:
    """What a type means; its own keys win over those of its base. Built-in names come first, then those that the file
    declares, then the classes that were imported, then those of installed packages.

    Raises UnknownTypeError for a type that leads to none.
    """
    keys: dict[str, Any] = {}
    set_by: dict[str, str] = {}
    seen: list[str] = []
    while name not in TYPES:
        at = seen[-1] if seen else None
        if name in seen:
            raise UnknownTypeError(f"the unit type {name!r} builds on itself", name, at)
        if name not in types:
            from verdict_cli.language.authoring.custom_units import PACKAGE_UNITS  # here, because few files need it

            kind = imported.get(name) or PACKAGE_UNITS.get(name)
            if kind is None:
                raise UnknownTypeError(f"unknown unit type {name!r}", name, at)
            document = kind.default().document((), {})
            if seen:
                del document["name"]  # a declared type has a name of its own
            return MergedType(str(document.pop("unit")), {**document, **keys}, set_by, kind)
        seen.append(name)
        for key, value in (types[name].model_extra or {}).items():
            keys.setdefault(key, value)
            set_by.setdefault(key, name)
        name = types[name].base
    return MergedType(name, keys, set_by)
