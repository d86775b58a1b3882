"""The base class of everything that a pipeline file contains, and how a file's keys refer to parts in a registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, wraps
from inspect import signature
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, cast

from msgspec import Struct
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    create_model,
)
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from verdict_cli.errors import UsageError
from verdict_cli.registry import Registry, feature_part

Init = TypeVar("Init", bound=Callable[..., None])


Checked = TypeVar("Checked", bound=Callable[..., Any])
Kind = TypeVar("Kind", bound="ConfigModel")


def checked_arguments(function: Checked) -> Checked:
    """Let a call whose arguments do not fit raise UsageError with the nearest name, as a wrong key does."""

    @wraps(function)
    def checked(*args: Any, **keys: Any) -> Any:
        try:
            return function(*args, **keys)
        except TypeError:
            expected = signature(function)
            try:
                expected.bind(*args, **keys)
            except TypeError as fault:
                method = function.__qualname__.rpartition(".")[2]
                owner = type(args[0]).__name__ + ("" if method == "__init__" else f".{method}")
                parameters = list(expected.parameters.values())[1:]
                names = [
                    parameter.name
                    for parameter in parameters
                    if parameter.kind is not parameter.VAR_KEYWORD
                ]
                if len(names) == len(parameters):
                    check_keywords(owner, keys, names)
                raise UsageError(f"{owner}: {fault}", hint=f"it takes {', '.join(names)}") from None
            raise

    return cast(Checked, checked)


def python_constructor(init: Init) -> Init:
    """Mark an `__init__` as the constructor for Python callers only; its arguments are checked.

    Without the mark, pydantic calls a custom `__init__` for every mapping that it validates, and the errors of a file
    lose their positions.
    """
    checked = checked_arguments(init)
    setattr(checked, "__pydantic_base_init__", True)  # noqa: B010 - a function has no such attribute for type checkers
    return checked


MessageAndHint = tuple[str, str]
"""What is wrong, and what to write instead."""


class HintedError(ValueError):
    """An error with what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Issue(NamedTuple):
    """What makes no sense in a part of a file. It becomes a `Problem` where the part's place is known."""

    key: str
    """The key at fault, as a path within the part such as `metrics.0`; "" for the part itself."""
    message: str
    hint: str
    """What to write instead."""

    @property
    def path(self) -> tuple[str | int, ...]:
        """The keys and indices that lead to the key within the part."""
        parts = self.key.split(".") if self.key else ()
        return tuple(int(part) if part.isdigit() else part for part in parts)


class KeyRule(NamedTuple):
    """What a key excludes or needs where it is given. The class reports it, and the JSON Schema has the same rule.

    A key has a value unless that says nothing: null, or a default such as `false` or 0. It is given where it is written.
    """

    key: str
    """The key that the rule is about; "" for one that always holds."""
    excludes: str = ""
    """The key that cannot be given with it."""
    needs: tuple[str, ...] = ()
    """Keys of which one must be given with it."""
    message: str = ""
    hint: str = ""
    at: str | None = None
    """The key at which a broken rule is reported, if it is not `key`."""

    def is_broken(self, config: ConfigModel) -> bool:
        """Whether a mapping breaks the rule."""
        if self.key and not config.has_value(self.key, written=True):
            return False
        if self.excludes:
            return config.has_value(self.excludes, written=True)
        return not any(config.has_value(key) for key in self.needs)


class ConfigModel(BaseModel):
    """A mapping of the pipeline language: its fields are the YAML keys.

    It is strict (no silent conversions), frozen, and rejects unknown keys, so that the JSON Schema generated from it
    and the program itself accept the same files. `model_validate` reports errors with their locations, for a file;
    the constructor raises UsageError, for a Python caller.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True
    )
    key_rules: ClassVar[tuple[KeyRule, ...]] = ()
    """What its keys exclude and need."""

    @python_constructor
    def __init__(self, /, **keys: Any) -> None:
        """Raises UsageError, which names the class and the first key that is wrong."""
        kind = type(self)
        if kind.model_config.get("extra") != "allow":
            check_keywords(kind.__name__, keys, known_keys(kind))
        try:
            super().__init__(**keys)
        except ValidationError as error:
            raise first_error(kind.__name__, error) from None

    def has_value(self, key: str, *, written: bool = False) -> bool:
        """Whether the value of a key says something, and with ``written`` also is no default."""
        fields = type(self).model_fields.items()
        name, field = next(item for item in fields if key == (item[1].alias or item[0]))
        value = getattr(self, name)
        says_nothing = value is None or (not value and value == field.default)
        return not says_nothing and (not written or name in self.model_fields_set)

    def broken_rules(self, rules: Sequence[KeyRule]) -> list[Issue]:
        """What is wrong by rules of its keys."""
        return [
            Issue(rule.key if rule.at is None else rule.at, rule.message, rule.hint)
            for rule in rules
            if rule.is_broken(self)
        ]

    def broken_rule(self) -> Issue | None:
        """The first of the `key_rules` that is broken."""
        return next(iter(self.broken_rules(self.key_rules)), None)

    def __setattr__(self, name: str, value: Any) -> None:
        raise UsageError(
            f"{name!r} cannot be set: {type(self).__name__} is immutable", hint="create a new one"
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """In fields of other classes this is a `lazy_schema`, so that only the classes that a file uses are built."""
        return (
            lazy_schema(lambda: cls)
            if handler.field_name is not None
            else _lists_for_tuples(handler(source))
        )


ADDED_KEYS = {
    "Model": ("batches", "batch_keys.BatchKey"),
    "Evaluation": ("rank", "arena_keys.ArenaEvaluation"),
}
"""The classes of the core to which a feature adds keys: the feature, and its class that has them as fields."""


def added_keys(owner: str) -> type[ConfigModel] | None:
    """The class whose fields are added to a class of that name; None where its feature is not installed."""
    kind: type[ConfigModel] | None = feature_part(*ADDED_KEYS[owner])
    return kind


def with_added_keys(kind: type[Kind]) -> type[Kind]:
    """Decorate a class whose mappings may have keys of a feature: they become fields of it, after its own."""
    added = added_keys(kind.__name__)
    if added is None:
        return kind
    # It comes before the class itself: pydantic lists the fields of the last base first.
    bases: Any = (added, kind)
    return cast(
        "type[Kind]",
        create_model(
            kind.__name__, __base__=bases, __module__=kind.__module__, __doc__=kind.__doc__
        ),
    )


def known_keys(kind: type[BaseModel]) -> tuple[str, ...]:
    """The keys of a class, as in a file."""
    return tuple(field.alias or name for name, field in kind.model_fields.items())


def first_error(owner: str, error: ValidationError) -> UsageError:
    """The first problem of a validation error, for a Python caller."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"][:1])
    return UsageError(f"{owner}: {where}: {first['msg']}, found {first['input']!r:.80}")


def check_keywords(owner: str, keys: Iterable[str], names: Sequence[str]) -> None:
    """Raise UsageError for a key that is not among the known ones, with the nearest of them."""
    for key in keys:
        if key not in names:
            hint = did_you_mean(key, names, f"it takes {', '.join(names)}")
            raise UsageError(f"{owner} takes no `{key}`", hint=hint)


def did_you_mean(word: str, names: Iterable[str], otherwise: str, alike: float = 0.6) -> str:
    """The hint that names the known word which is spelled most like this one; ``otherwise`` where none is ``alike``."""
    close = get_close_matches(word, list(names), n=1, cutoff=alike)
    return f"did you mean `{close[0]}`?" if close else otherwise


def _lists_for_tuples(schema: Any) -> Any:
    """Let every tuple of a schema take a list, which is what YAML has. In strict mode pydantic refuses it."""
    parts = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            parts += part.values()
            if part.get("type") == "tuple":
                part["strict"] = False
    return schema


def lazy_schema(look_up: Callable[[], type[Any]]) -> CoreSchema:
    """The schema of a class that is looked up, and built, when the first value for it is validated."""
    return core_schema.no_info_plain_validator_function(
        lambda value: look_up().model_validate(value), metadata={"kind": look_up}
    )


class Uncounted(Struct, frozen=True):
    """Marks, in `Annotated`, a field that a pipeline's fingerprints do not count as it is written. A field without a mark
    counts in all of them."""

    reason: str
    """Why it does not count, or what counts in its place."""
    digests: tuple[Digest, ...] = ("run", "calls", "judge")
    """The digests that leave it out: the run's, that of a unit's calls, that of a judge which was calibrated."""


Digest = Literal["run", "calls", "judge"]


@cache
def uncounted_fields(kind: type[Any]) -> dict[str, Uncounted]:
    """The marked fields of a class, with those that a base class marks."""
    marks: dict[str, Uncounted] = {}
    for owner in reversed([owner for owner in kind.__mro__ if issubclass(owner, BaseModel)]):
        for name, field in owner.model_fields.items():
            for mark in field.metadata:
                if isinstance(mark, Uncounted):
                    marks[name] = mark
    return marks


class Expected(Struct, frozen=True):
    """Marks, in `Annotated`, a value of several forms with its words for one that has none of them: what was expected, and
    a hint. ``replacement`` gives the value that is surely meant, None where there is none."""

    words: Callable[[Any], MessageAndHint]
    replacement: Callable[[Any], Any] = lambda value: None


def display_value(value: Any) -> str:
    """A value of a file as messages show it."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return str(value).lower() if isinstance(value, bool) else f"{value!r:.80}"


@cache
def key_descriptions(kind: type[ConfigModel]) -> dict[str, str]:
    """The description of each key of a class: the string below its field.

    It is read from the source on demand: reading it for every class would take longer than all else that
    `verdict validate` does.
    """
    import ast
    import inspect
    import itertools
    import textwrap

    texts: dict[str, str] = {}
    for owner in reversed(
        [base for base in kind.__mro__ if issubclass(base, ConfigModel) and base is not ConfigModel]
    ):
        try:
            source = inspect.getsource(owner)
        except (
            OSError
        ):  # an installed package without sources, or a class from `registry.subclass_of`
            continue
        (tree,) = ast.parse(textwrap.dedent(source)).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in itertools.pairwise(tree.body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                    value=ast.Constant(value=str(description))
                ):
                    texts[name] = inspect.cleandoc(description)
    return {
        field.alias or name: texts[name]
        for name, field in kind.model_fields.items()
        if name in texts
    }


def _integral(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_integral)
"""An integral float as an int: JSON Schema counts 3.0 as an integer. Last in ``Annotated[int, …, Whole]``, after the
constraints."""


def _not_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    return value


def _one_as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


OneOrMore = BeforeValidator(_one_as_list, json_schema_input_type=str | list[str])
"""A text in the place of a list of one text, in ``Annotated[tuple[str, …], OneOrMore]``."""

One = Annotated[Literal[1], BeforeValidator(_not_boolean)]
"""The number 1. `true` equals it in Python, but is rejected."""

JsonSchema = dict[str, Any]

NOT_BLANK = r"\S"
NonEmptyText = Annotated[str, Field(min_length=1, pattern=NOT_BLANK)]

PositiveInt = Annotated[int, Field(ge=1), Whole]
PositiveNumber = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]

T = TypeVar("T")
Seq = tuple[T, ...]
"""A YAML list, kept as a tuple."""
NonEmptyTuple = Annotated[tuple[T, ...], Field(min_length=1)]


PartClass = TypeVar("PartClass", bound=ConfigModel)


def subclass_of(base: type[PartClass]) -> Callable[[str, Any], type[PartClass]]:
    """The check for classes derived from ``base``; the name of the entry point becomes the `type` of the class."""

    def check(name: str, loaded: Any) -> type[PartClass]:
        if not (isinstance(loaded, type) and issubclass(loaded, base)):
            raise TypeError(f"is not a subclass of {base.__module__}.{base.__name__}")
        fields: dict[str, Any] = {"type": (Literal[name], name)}
        typed = create_model(
            loaded.__name__,
            __base__=loaded,
            __module__=loaded.__module__,
            __doc__=loaded.__doc__,
            **fields,
        )
        return cast("type[PartClass]", typed)

    return check


class RegisteredName(Struct, frozen=True):
    """Marks, in `Annotated`, a string that names a part of a registry."""

    registry: Registry[Any]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def check(value: Any) -> Any:
            if isinstance(value, str) and (
                value in self.registry or self.registry.plugin(value) is not None
            ):
                return value
            raise PydanticKnownError(
                "literal_error", {"expected": ", ".join(map(repr, self.registry.names()))}
            )

        return core_schema.no_info_plain_validator_function(
            check,
            metadata={"names": self.registry},
            serialization=core_schema.simple_ser_schema("any"),
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

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schemas = {tag: handler.generate_schema(kind) for tag, kind in self._others.items()}
        classes = {tag: lazy_schema(look_up) for tag, look_up in self._classes.items()}
        union = core_schema.tagged_union_schema({**schemas, **classes}, self._tag_of)
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
        kind = (
            self.registry.plugin(name)
            if self.registry is not None and isinstance(name, str)
            else None
        )
        if kind is None:
            return validate_built_in(value)
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            # The tag in front of each location leads `locate_error` to the class, as in pydantic's own tagged unions.
            details: list[Any] = [
                {**detail, "loc": (f"<{name}>", *detail["loc"])}
                for detail in error.errors(include_url=False)
            ]
            raise ValidationError.from_exception_data(error.title, details) from None
