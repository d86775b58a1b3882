"""How a file's keys refer to parts in a registry: names and unions whose members are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, cast

from pydantic import GetCoreSchemaHandler, ValidationError, ValidatorFunctionWrapHandler, create_model
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from verdict_cli.config_model import ConfigModel, lazy_schema
from verdict_cli.registry import Registry

PartClass = TypeVar("PartClass", bound=ConfigModel)


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
