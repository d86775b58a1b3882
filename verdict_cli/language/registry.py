"""Parts of the language by name: built-in ones, imported on first use, and those that installed packages offer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, Generic, Literal, TypeVar, cast

from pydantic import GetCoreSchemaHandler, ValidationError, ValidatorFunctionWrapHandler, create_model
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from verdict_cli.config_model import ConfigModel, lazy_schema
from verdict_cli.errors import UsageError
from verdict_cli.language.egress_hosts import ONLY

Part = TypeVar("Part")
PartClass = TypeVar("PartClass", bound=ConfigModel)


class Registry(Generic[Part]):
    """Parts by the names under which a file uses them.

    ``built_in`` has for each name the part itself, or `MODULE.OBJECT` within ``package``. A name that is not built in is looked up among the
    entry points of ``group``; ``check(name, loaded)`` turns what an entry point holds into a part, or raises TypeError
    with what it should be.

    `registry[name]` and `get` cover both kinds. Iteration, `in` and `len` cover the built-in names only: they import
    nothing, so a file without plugins starts as fast as if no package was installed.
    """

    def __init__(
        self,
        package: str,
        built_in: Mapping[str, str | Part],
        group: str = "",
        check: Callable[[str, Any], Part] = lambda _, loaded: loaded,
    ) -> None:
        self.group = group
        self.plugins: dict[str, Part] = {}
        """The parts of installed packages that were looked up so far."""
        self._package = package
        self._built_in = built_in
        self._check = check

    def __getitem__(self, name: str) -> Part:
        """The part of that name.

        Raises:
            KeyError: neither verdict nor an installed package has it.
            UsageError: an installed package offers it, but it cannot be imported or is something else.
        """
        if name not in self._built_in:
            return self._plugin(name)
        part = self._built_in[name]
        if not isinstance(part, str):
            return part
        module, _, attribute = part.rpartition(".")
        return cast("Part", getattr(import_module(f"{self._package}.{module}"), attribute))

    def get(self, name: object) -> Part | None:
        """The part of that name, None where there is none."""
        try:
            return self[name] if isinstance(name, str) else None
        except KeyError:
            return None

    def __contains__(self, name: object) -> bool:
        return name in self._built_in

    def __iter__(self) -> Iterator[str]:
        return iter(self._built_in)

    def __len__(self) -> int:
        return len(self._built_in)

    def plugin(self, name: object) -> Part | None:
        """The part of that name of an installed package, None for a built-in name."""
        return None if name in self._built_in else self.get(name)

    def names(self) -> tuple[str, ...]:
        """The built-in names, then those that installed packages offer; imports none of them."""
        return (*self._built_in, *sorted({point.name for point in self._entry_points()} - self._built_in.keys()))

    def title(self, name: str) -> str:
        """The name of a built-in class itself. Several names can mean one class."""
        return str(self._built_in[name]).rpartition(".")[2]

    def choices(self, tag: Callable[[str], str]) -> dict[str, Callable[[], Part]]:
        """A function that looks up each built-in part, by the tag of its name."""
        return {tag(name): partial(self.__getitem__, name) for name in self._built_in}

    def _entry_points(self, **filters: Any) -> Any:
        if not self.group or ONLY in os.environ:  # --untrusted: a stranger's file imports no package
            return ()
        return _offered(self.group, tuple(sys.path)).select(**filters)

    def _plugin(self, name: str) -> Part:
        if name not in self.plugins:
            for point in self._entry_points(name=name):
                try:
                    loaded = point.load()
                except Exception as error:
                    raise UsageError(
                        f"{name!r} of the installed package at {point.value} cannot be imported: {error}",
                        hint="fix or remove that package",
                    ) from None
                try:
                    self.plugins[name] = self._check(name, loaded)
                except TypeError as error:
                    raise UsageError(f"the entry point {point.value} {error}", hint="report it to its author") from None
        return self.plugins[name]


@lru_cache(maxsize=32)
def _offered(group: str, paths: tuple[str, ...]) -> Any:
    """The entry points of the group. A scan of the installed packages takes 10 ms, and a file may have many unknown names."""
    from importlib.metadata import entry_points  # only for a name that is not built in

    return entry_points(group=group)


def subclass_of(base: type[PartClass]) -> Callable[[str, Any], type[PartClass]]:
    """The check for classes derived from ``base``; the name of the entry point becomes the `type` of the class."""

    def check(name: str, loaded: Any) -> type[PartClass]:
        if not (isinstance(loaded, type) and issubclass(loaded, base)):
            raise TypeError(f"is not a subclass of {base.__module__}.{base.__name__}")
        fields: dict[str, Any] = {"type": (Literal[name], name)}
        typed = create_model(
            loaded.__name__, __base__=loaded, __module__=loaded.__module__, __doc__=loaded.__doc__, **fields
        )
        return cast("type[PartClass]", typed)

    return check


class RegisteredName:
    """Marks, in `Annotated`, a string that names a part of a registry."""

    def __init__(self, registry: Registry[Any]) -> None:
        self.registry = registry

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any) -> Any:
            if isinstance(value, str) and (value in self.registry or self.registry.plugin(value) is not None):
                return value
            raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, self.registry.names()))})

        return core_schema.no_info_plain_validator_function(
            check, metadata={"names": self.registry}, serialization=core_schema.simple_ser_schema("any")
        )


class LazyUnion:
    """Marks, in `Annotated`, a value whose class is looked up by the value's tag when the value is validated.

    ``tag_of`` gives the tag of a value, None for a value that fits nothing. ``classes`` looks up the class of each tag,
    ``others`` has annotations by tag. With ``registry``, a mapping whose `type` names a part of an installed package is
    validated by that part.
    """

    def __init__(
        self,
        tag_of: Callable[[Any], str | None],
        classes: Mapping[str, Callable[[], type[Any]]],
        others: Mapping[str, Any] | None = None,
        registry: Registry[Any] | None = None,
    ) -> None:
        self.registry = registry
        self._tag_of = tag_of
        self._classes = classes
        self._others = others or {}

    def member(self, tag: str | int) -> Any:
        """The class or annotation of a tag in the location of a validation error; None where there is none."""
        look_up = self._classes.get(str(tag))
        if look_up is not None:
            return look_up()
        if self.registry is not None and str(tag).startswith("<"):
            return self.registry.plugins.get(str(tag)[1:-1]) or self._others.get(str(tag))
        return self._others.get(str(tag))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        others = {tag: handler.generate_schema(other) for tag, other in self._others.items()}
        classes = {tag: lazy_schema(look_up) for tag, look_up in self._classes.items()}
        union = core_schema.tagged_union_schema({**others, **classes}, self._tag_of)
        if self.registry is None:
            return union
        return core_schema.no_info_wrap_validator_function(
            self._validate,
            union,
            metadata={"plugins": self.registry},
            serialization=core_schema.simple_ser_schema("any"),
        )

    def _validate(self, value: Any, validate_built_in: ValidatorFunctionWrapHandler) -> Any:
        name = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
        kind = self.registry.plugin(name) if self.registry is not None and isinstance(name, str) else None
        if kind is None:
            return validate_built_in(value)
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            # The tag in front of each location leads `locate_error` to the class, as in pydantic's own tagged unions.
            details: list[Any] = [
                {**detail, "loc": (f"<{name}>", *detail["loc"])} for detail in error.errors(include_url=False)
            ]
            raise ValidationError.from_exception_data(error.title, details) from None
