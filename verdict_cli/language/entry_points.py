"""Parts of the language that installed packages offer as entry points.

The entry points are looked at only when a file names what verdict itself does not know: a name of its own always wins, and
files without foreign parts start as fast as if nothing was installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar, cast

from pydantic import GetCoreSchemaHandler, ValidationError, ValidatorFunctionWrapHandler, create_model
from pydantic_core import CoreSchema, core_schema

from verdict_cli.config_model import ConfigModel
from verdict_cli.errors import UsageError

LanguagePart = TypeVar("LanguagePart")
PartKind = TypeVar("PartKind", bound=ConfigModel)


class EntryPointGroup(Generic[LanguagePart]):
    """The parts of one entry point group. ``fit(name, loaded)`` makes a part of what the entry point of that name holds, or
    raises TypeError that says what it should be. `found` are those that were looked up."""

    def __init__(self, group: str, fit: Callable[[str, Any], LanguagePart]) -> None:
        self.group = group
        self.found: dict[str, LanguagePart] = {}
        self._fit = fit

    def get(self, name: str) -> LanguagePart | None:
        """The part of that name, None where no package offers one.

        Raises UsageError where it cannot be imported or is something else.
        """
        if name not in self.found:
            from importlib.metadata import entry_points

            for point in entry_points(group=self.group, name=name):
                try:
                    loaded = point.load()
                except Exception as fault:
                    raise UsageError(
                        f"{name!r} of the installed package at {point.value} cannot be imported: {fault}",
                        hint="mend or remove that package",
                    ) from None
                try:
                    self.found[name] = self._fit(name, loaded)
                except TypeError as fault:
                    raise UsageError(f"the entry point {point.value} {fault}", hint="tell its author") from None
        return self.found.get(name)

    def names(self) -> tuple[str, ...]:
        """Every name that an installed package offers, none of them imported."""
        from importlib.metadata import entry_points

        return tuple(sorted({point.name for point in entry_points(group=self.group)}))


class PluginUnion:
    """Says in `Annotated` that a value may also be one that a package offers: ``made(value)`` gives it, None where the value
    is verdict's own, or nobody's. ``spelled(own, found)`` is the JSON Schema with the schemas of those that were found.
    ``own`` is what verdict's own values are, where that is narrower than the annotation."""

    def __init__(
        self,
        offers: EntryPointGroup[Any],
        made: Callable[[Any], Any],
        spelled: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]],
        own: Any = None,
    ) -> None:
        self.offers = offers
        self._own = own
        self.spelled = spelled
        self._made = made

    def member(self, tag: str | int) -> type[ConfigModel] | None:
        """The class that stands behind a place `<offered NAME>` of a validation error."""
        name = str(tag).removeprefix("<offered ").removesuffix(">")
        found = self.offers.found.get(name) if name != tag else None
        return found if isinstance(found, type) and issubclass(found, ConfigModel) else None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: Any, read_own: ValidatorFunctionWrapHandler) -> Any:
            made = self._made(value)
            return read_own(value) if made is None else made

        own = handler(source) if self._own is None else handler.generate_schema(self._own)
        return core_schema.no_info_wrap_validator_function(
            read, own, metadata={"offers": self}, serialization=core_schema.simple_ser_schema("any")
        )


def subclass_of(*kinds: type[PartKind]) -> Callable[[str, Any], type[PartKind]]:
    """What makes a class of these kinds the one whose `type` is its entry point's name."""

    def fit(name: str, loaded: Any) -> type[PartKind]:
        if not (isinstance(loaded, type) and issubclass(loaded, kinds)):
            wanted = " or ".join(f"{kind.__module__}.{kind.__name__}" for kind in kinds)
            raise TypeError(f"is no subclass of {wanted}")
        keys: dict[str, Any] = {"type": (Literal[name], name)}
        made = create_model(
            loaded.__name__, __base__=loaded, __module__=loaded.__module__, __doc__=loaded.__doc__, **keys
        )
        return cast("type[PartKind]", made)

    return fit


def made_of(kind: type[PartKind], keys: dict[str, Any]) -> PartKind:
    """The part that these keys write out, `type` among them. ValidationErrors have its class in their places, as
    `OrOffered.member` knows it."""
    try:
        return kind.model_validate(keys)
    except ValidationError as fault:
        told: list[Any] = [
            {**detail, "loc": (f"<offered {keys['type']}>", *detail["loc"])}
            for detail in fault.errors(include_url=False)
        ]
        raise ValidationError.from_exception_data(fault.title, told) from None


def one_of(own: dict[str, Any], kinds: dict[str, Any]) -> dict[str, Any]:
    """A schema of spellings that has these mappings too, each told apart by its `type`."""
    return {**own, "oneOf": [*own["oneOf"], *({**kind, "required": ["type"]} for kind in kinds.values())]}
