"""Classes of the language by name, imported when a file first names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeVar, cast

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from verdict_cli.config_model import lazy_schema

RegisteredKind = TypeVar("RegisteredKind")


class Registry(Mapping[str, type[RegisteredKind]]):
    """The classes of a package by the names under which a file spells them. `places` says for each name where its class
    is, as `MODULE.CLASS`; only looking a class up imports its module."""

    def __init__(self, package: str, places: Mapping[str, str]) -> None:
        self._package = package
        self._places = places

    def __getitem__(self, name: str) -> type[RegisteredKind]:
        module, _, kind = self._places[name].rpartition(".")
        return cast("type[RegisteredKind]", getattr(import_module(f"{self._package}.{module}"), kind))

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def title(self, name: str) -> str:
        """The name of the class itself, which several names may spell."""
        return self._places[name].rpartition(".")[2]

    def choices(self, tag: Callable[[str], str]) -> dict[str, Callable[[], type[RegisteredKind]]]:
        """How to look each class up, by the tag of its name; one tag a class."""
        return {tag(name): partial(self.__getitem__, name) for name in self._places}


class LazyUnion:
    """Says in `Annotated` that a value is of the class that its tag looks up, or of the annotation in `others`."""

    def __init__(
        self,
        tag_of: Callable[[Any], str | None],
        kinds: Mapping[str, Callable[[], type[Any]]],
        others: Mapping[str, Any] | None = None,
    ) -> None:
        self._tag_of = tag_of
        self._kinds = kinds
        self._others = others or {}

    def member(self, tag: str | int) -> Any:
        """The class or annotation of a tag, None where there is none."""
        kind = self._kinds.get(str(tag))
        return kind() if kind is not None else self._others.get(str(tag))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        others = {tag: handler.generate_schema(other) for tag, other in self._others.items()}
        kinds = {tag: lazy_schema(kind) for tag, kind in self._kinds.items()}
        return core_schema.tagged_union_schema({**others, **kinds}, self._tag_of)
