"""Values with named fields: what Python functions are given, what they give back, and the schemas of custom units."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from verdict_cli.config_model import ConfigModel
from verdict_cli.errors import UsageError
from verdict_cli.language.extractors.bound_extractor import Extractor
from verdict_cli.language.fields.field_keys import type_text
from verdict_cli.language.scales import Scale
from verdict_cli.messages import JsonObject, plain_text

_PLAIN: dict[Any, str] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    list[str]: "list[str]",
}
_MISSING: Any = object()

ViewClass = TypeVar("ViewClass", bound="View")
Keys = Mapping[str, Any]
"""Values by their keys, as a file has them."""


class View(Mapping[str, Any]):
    """A mapping whose keys are attributes too: `output.score` is `output["score"]`, also further inside.

    A field that has the name of a mapping's method, such as `values`, comes before the method.
    """

    __slots__ = ("_fields",)

    def __init__(self, fields: Keys) -> None:
        object.__setattr__(self, "_fields", fields)

    def __getitem__(self, name: Any) -> Any:
        """The value of a key; a value of a scale may be given as it is or as it is written: `distribution["4"]`."""
        if name not in self._fields:
            matches = (
                key
                for key in self._fields
                if type(key) is not type(name) and plain_text(key) == plain_text(name)
            )
            name = next(matches, name)
        return to_view(self._fields[name])

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            fields = object.__getattribute__(self, "_fields")
            if name in fields:
                return to_view(fields[name])
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            names = ", ".join(map(str, self)) or "nothing"
            raise AttributeError(
                f"there is no {name!r} here, only {names}", name=name, obj=self
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise UsageError(
            f"{name!r} cannot be set: {type(self).__name__} is immutable", hint="make a new one"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={self[name]!r}' for name in self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), {name: self._fields[name] for name in self})


class Schema(View):
    """Fields with types when subclassed, plain values when called.

    `class Response(Schema): winner: DiscreteScale = DiscreteScale(["A", "B"])` declares the fields of a unit's
    response; `Schema.of(score=0.8)` is a value with one field.
    """

    _declared: ClassVar[Keys] = {}
    _defaults: ClassVar[Keys] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        defaults: dict[str, Any] = dict(cls._defaults)
        declared: JsonObject = dict(cls._declared)
        for name, annotation in _annotations(cls).items():
            if name.startswith("_") or get_origin(annotation) is ClassVar:
                continue
            default = cls.__dict__.get(name, _MISSING)
            if default is not _MISSING:
                delattr(cls, name)
            declared[name] = type_key(f"{cls.__qualname__}.{name}", annotation, default)
            if default is not _MISSING and scale_key(default) is None:
                defaults[name] = default
        cls._declared, cls._defaults = declared, defaults

    def __init__(self, /, **values: Any) -> None:
        kind = type(self)
        if kind._declared:
            values = {**kind._defaults, **values}
            unknown = [name for name in values if name not in kind._declared]
            missing = [name for name in kind._declared if name not in values]
            if unknown or missing:
                wrong = (
                    f"has no field {unknown[0]!r}" if unknown else f"needs the field {missing[0]!r}"
                )
                raise UsageError(
                    f"{kind.__qualname__} {wrong}",
                    hint=f"its fields are {', '.join(kind._declared)}",
                )
        super().__init__(values)

    @classmethod
    def of(cls, /, **values: Any) -> Schema:
        """A value with these fields."""
        return Schema(**values)

    @classmethod
    def declared(cls) -> JsonObject:
        """The fields' types as a pipeline file writes them."""
        return dict(cls._declared)

    @classmethod
    def declared_input(cls) -> JsonObject:
        """The fields' types and defaults as `input` in a pipeline file writes them."""
        defaults = cls._defaults
        return {
            name: {"type": key, "default": unwrap_views(defaults[name])}
            if name in defaults
            else key
            for name, key in cls._declared.items()
        }

    @classmethod
    def over_checked(cls, fields: Keys) -> Schema:
        """A value of this class over fields that are already checked."""
        return _restore(cls, fields)


def to_view(value: Any) -> Any:
    """The value with attributes for its mappings' keys."""
    if isinstance(value, Mapping) and not isinstance(value, View):
        return View(value)
    return [to_view(item) for item in value] if isinstance(value, list | tuple) else value


def unwrap_views(value: Any) -> Any:
    """The value made of dictionaries and lists alone."""
    if isinstance(value, View):
        value = value._fields
    if isinstance(value, Mapping):
        return {name: unwrap_views(value[name]) for name in value}
    return [unwrap_views(item) for item in value] if isinstance(value, list | tuple) else value


def document_value(value: Any) -> Any:
    """A value of the Python API as a pipeline file writes it."""
    if isinstance(value, Scale | Extractor):
        return value.key()
    if isinstance(value, ConfigModel):
        return value.model_dump(by_alias=True, exclude_unset=True)
    return unwrap_views(value)


def scale_key(value: Any) -> JsonObject | None:
    """The scale as a pipeline file writes it; None for what is no scale."""
    return value.key() if isinstance(value, Scale) else None


def field_type_keys(subject: str, fields: Keys) -> JsonObject:
    """The types of fields, each given as Python's or as a pipeline file writes it, as a file writes them."""
    return {
        name: kind if isinstance(kind, str | Mapping) else type_key(f"{subject}.{name}", kind)
        for name, kind in fields.items()
    }


def _restore(kind: type[ViewClass], fields: Keys) -> ViewClass:
    instance = kind.__new__(kind)
    View.__init__(instance, fields)
    return instance


def _annotations(cls: type[Any]) -> dict[str, Any]:
    """The class's own annotations; those that cannot be evaluated stay texts."""
    try:
        return inspect.get_annotations(cls, eval_str=True)
    except (NameError, SyntaxError, TypeError, AttributeError):
        return {name: _evaluated(cls, kind) for name, kind in inspect.get_annotations(cls).items()}


def _evaluated(cls: type[Any], annotation: Any) -> Any:
    """The type in an annotation; an annotation with a name that is not its module's stays a text."""
    alone = type(
        "alone", (), {"__annotations__": {"kind": annotation}, "__module__": cls.__module__}
    )
    try:
        return inspect.get_annotations(alone, eval_str=True)["kind"]
    except (NameError, SyntaxError, TypeError, AttributeError):
        return annotation


def type_key(subject: str, annotation: Any, default: Any = _MISSING) -> Any:  # noqa: PLR0911 - a case for each kind of type
    """A type as a pipeline file writes it, by the annotation of a field or a scale as its default. UsageError names `subject` when
    there is no such type."""
    for scale in (default, annotation):
        if (key := scale_key(scale)) is not None:
            return key
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, str) and default is _MISSING and annotation in _PLAIN.values():
        return annotation
    if get_origin(annotation) is Literal:
        return {"enum": list(get_args(annotation))}
    if isinstance(annotation, type) and issubclass(annotation, Schema) and annotation._declared:
        return annotation.declared()
    parts = get_args(annotation)
    if get_origin(annotation) is list:
        return f"list[{type_text(type_key(subject, parts[0]))}]"
    if get_origin(annotation) in (Union, UnionType) and len(parts) == 2 and NoneType in parts:
        inner_type = next(part for part in parts if part is not NoneType)
        return f"{type_text(type_key(subject, inner_type))}?"
    name = (
        annotation
        if isinstance(annotation, str)
        else getattr(annotation, "__name__", str(annotation))
    )
    raise UsageError(
        f"{subject}: {name!r} is no type of a field",
        hint="types are str, int, float, bool, list[…], … | None, Literal['a', 'b'], another Schema, and a scale as default: "
        "`winner: DiscreteScale = DiscreteScale(['A', 'B'])`",
    )
