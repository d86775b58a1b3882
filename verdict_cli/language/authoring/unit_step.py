"""The bases of units in Python: the methods of all units, and the classes that Python code derives from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import get_annotations
from itertools import takewhile
from pathlib import Path
from types import new_class
from typing import Any, ClassVar, Self, Unpack, cast

from verdict_cli.config_model import check_keywords, checked_arguments
from verdict_cli.errors import UsageError
from verdict_cli.language.authoring.arguments import Prompt, UnitKeys, prompt_key
from verdict_cli.language.authoring.functions import (
    OUTPUT_NAMES,
    RULE_NAMES,
    Function,
    FunctionsByPath,
    PythonRule,
    StepPath,
    function,
    record_type,
    source_text,
)
from verdict_cli.language.authoring.schema import Keys, Schema, field_type_keys
from verdict_cli.language.authoring.step import Block, Layer, ModelStep, Step
from verdict_cli.language.extractors.bound_extractor import Extractor
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import UnitBase, snake
from verdict_cli.messages import JsonObject
from verdict_cli.registry import Registry

HOOKS = (
    "default_scale", "own_fields", "scaled_field", "response_record", "default_prompt", "prompt_prefix", "prompt_suffix",
    "frame", "required_inputs", "output_fields", "option_orders", "combine_responses", "validation_error", "settings",
)  # fmt: skip
"""Methods of the language's unit types that a class written in Python may override, besides `validate` and `process`."""


class UnitStep(Step):
    """A unit, whether it calls a model or not."""

    unit_type: ClassVar[str]
    """The type's name in a file; a class written in Python inherits that of its base."""

    def __init__(self, *values: Any, **keys: Unpack[UnitKeys]) -> None:
        """The keys of the unit's type, of which the first ones may be given without their names."""
        language, title = self.language_class(), type(self).__name__
        positional = language.positional_keys(values)
        settings: JsonObject = {**positional, **keys}
        added = own_keys(type(self))
        fields = {field.alias or name: field for name, field in language.model_fields.items()}
        fields.pop("unit", None)
        check_keywords(title, settings, [*fields, *added])
        for key in positional.keys() & keys.keys():
            raise UsageError(f"{title}: {key!r} is given twice", hint="give it once")
        for key, field in fields.items():
            if field.is_required() and key not in settings:
                hint = f"it takes {', '.join(language.positional)}"
                raise UsageError(f"{title}: missing a required argument: {key!r}", hint=hint)
        for key in ("input", "output", "response"):
            if isinstance(settings.get(key), Mapping):
                settings[key] = field_type_keys(f"{title}: {key}", settings[key])
        super().__init__({key: value for key, value in settings.items() if key not in added})
        for key in added & settings.keys():
            object.__setattr__(self, key, settings[key])

    @classmethod
    def language_class(cls) -> type[UnitBase]:
        return TYPES[cls.unit_type]

    @property
    def node_name(self) -> str:
        """The unit's name, or the one made from its class."""
        return str(self.name or snake(self.unit_type))

    def named(self, name: str) -> Self:
        """The unit under this name."""
        return self._with(name=name)

    def pin(self) -> Self:
        """Run once for the whole dataset; all rows share the result."""
        return self._with(pin=True)

    def propagate(
        self,
        output: Callable[..., Any] | Mapping[str, str] | None = None,
        *,
        fields: Keys | Sequence[str] | None = None,
        **expressions: str,
    ) -> Self:
        """What is passed on instead of the output: expressions by field, or a function.

        The function takes any of `output`, `response`, `input`, `previous`, `source`, `unit` by parameter name and
        returns a Schema or a mapping. It is called once with sample values when the pipeline is checked, which shows
        its fields; `fields` declares them where that cannot work.
        """
        functions = {key: hook for key, hook in self._functions.items() if key != "propagate"}
        keys: Mapping[str, str] | None = None
        if output is None or isinstance(output, Mapping):
            keys = {**(output or {}), **expressions}
        else:
            functions["propagate"] = function(
                output, f"{type(self).__name__}.propagate", OUTPUT_NAMES, fields
            )
        changed = self._with(propagate=keys)
        object.__setattr__(changed, "_functions", functions)
        return changed

    def document(self, path: StepPath, functions: FunctionsByPath) -> JsonObject:
        return {"unit": self.unit_type, **super().document(path, functions)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.name is None else f'name={self.name!r}'})"


class LLMUnitStep(UnitStep, ModelStep):
    """A unit that calls a model.

    A subclass written in Python declares fields with `InputSchema`, `ResponseSchema` and `OutputSchema`, its prompt with
    `_prompt`, its name with `_char`, and handles responses in `validate` and `process`. Its annotated attributes are keys
    of the unit. It may override the methods in `HOOKS`.
    """

    _written_class: ClassVar[type[UnitBase]]
    _char: ClassVar[str] = ""
    _prompt: ClassVar[Prompt | str | None] = None
    InputSchema: ClassVar[type[Schema] | None] = None
    ResponseSchema: ClassVar[type[Schema] | None] = None
    OutputSchema: ClassVar[type[Schema] | None] = None

    @property
    def node_name(self) -> str:
        kind = type(self)
        return (
            super().node_name
            if not written_above(kind)
            else str(self.name or snake(self._char or kind.__name__))
        )

    def validate(self, response: Any, input: Any) -> Any:  # noqa: A002
        """Refuse a response by raising, or by returning False: the model is called again, then the row fails."""

    def process(self, response: Any, input: Any) -> Any:  # noqa: A002
        """The output, from a response that is valid; the response itself where this is not overridden."""
        return response

    @checked_arguments
    def prompt(self, prompt: str | Prompt) -> Self:
        """What the model is asked."""
        return self._with(prompt=prompt_key(prompt))

    @checked_arguments
    def extract(self, extractor: Any) -> Self:
        """How the response is read from the reply."""
        if not isinstance(extractor, Extractor):
            is_class = isinstance(extractor, type) and issubclass(extractor, Extractor)
            hint = (
                f"write `{extractor.__name__}()`"
                if is_class
                else "such as `RegexExtractor(pattern=…)`"
            )
            raise UsageError(
                f"{type(self).__name__}.extract takes an extractor, not {extractor!r:.80}",
                hint=hint,
            )
        return self._with(extract=extractor)

    def stream(self) -> Self:
        """The reply is streamed."""
        return self._with(stream=True)

    def document(self, path: StepPath, functions: FunctionsByPath) -> JsonObject:
        """A class written in Python becomes its base type, with what it declares written out. The functions are its
        `validate` and `process`, or the class where it decides more than that."""
        keys = super().document(path, functions)
        kind = type(self)
        if not written_above(kind):
            return keys
        data = {"unit": keys.pop("unit"), "name": self.node_name, **keys}
        if "prompt" not in data and self._prompt is not None:
            data["prompt"] = prompt_key(self._prompt)
        for key, schema in self.schemas().items():
            is_replaced = key == "output" and kind.process is not LLMUnitStep.process
            if schema.declared() and not is_replaced:
                declared = schema.declared_input() if key == "input" else schema.declared()
                data[key] = {**data.get(key, {}), **declared}
        if decides_more(kind):
            functions[*path, "class"] = UnitClass(
                kind, kind.__name__, (), "", traceable=True, unit=self
            )
        else:
            functions |= self.bound_functions(path)
        return data

    @classmethod
    def schemas(cls) -> dict[str, type[Schema]]:
        """The schema of each key that declares fields; one without fields where the class has none."""
        declared = {
            "input": cls.InputSchema,
            "response": cls.ResponseSchema,
            "output": cls.OutputSchema,
        }
        return {key: schema or Schema for key, schema in declared.items()}

    def bound_functions(self, path: StepPath) -> FunctionsByPath:
        """The `validate` and `process` of a class written in Python, called on this object."""
        kind, schemas = type(self), self.schemas()
        arguments = {key: schemas[key] for key in ("response", "input")}
        bound: FunctionsByPath = {}
        if kind.validate is not LLMUnitStep.validate:
            bound[*path, "validate"] = function(
                self.validate,
                f"{kind.__name__}.validate",
                RULE_NAMES,
                argument_classes=arguments,
                kind=PythonRule,
            )
        if kind.process is not LLMUnitStep.process:
            bound[*path, "process"] = function(
                self.process,
                f"{kind.__name__}.process",
                OUTPUT_NAMES,
                record_type(schemas["output"].declared()),
                argument_classes=arguments,
            )
        return bound

    @classmethod
    def written_class(cls) -> type[UnitBase]:
        """The class that reads the keys of a class written in Python: both it and its base in the language.

        What the class overrides comes first, so that its `super()` reaches the language; how a value is constructed and
        its attributes are looked up is the language's.
        """
        if "_written_class" not in vars(cls):
            base = cls.language_class()
            body = {
                "__module__": cls.__module__,
                "__qualname__": cls.__qualname__,
                "__doc__": cls.__doc__,
            }
            body |= {
                name: getattr(base, name)
                for name in ("__init__", "__getattr__", "__setattr__", "__repr__", "__str__")
            }
            cls._written_class = cast(
                "type[UnitBase]",
                new_class(cls.__name__, (cls, base), exec_body=lambda space: space.update(body)),
            )
        return cls._written_class

    @classmethod
    def default(cls) -> Self:
        """A unit without arguments, whose document has the keys that the class sets. UsageError for a class that needs
        arguments."""
        try:
            return cls()
        except TypeError as fault:
            raise UsageError(
                f"the unit type {cls.__name__!r} cannot be constructed without arguments: {fault}",
                hint="give its parameters defaults",
            ) from None

    @classmethod
    def from_keys(
        cls, keys: Keys, path: StepPath, like: LLMUnitStep | None = None
    ) -> tuple[UnitBase, FunctionsByPath]:
        """A unit of a class written in Python, from the keys of a file, and its functions by path. It has the attributes,
        which are no keys, of the unit `like`; by default, those that the constructor sets.

        Raises ValidationError for keys that the class does not accept.
        """
        keys_class = cls.written_class()
        unit: Any = keys_class.model_validate(keys)
        attributes = (like or cls.default()).own_attributes()
        vars(unit).update(
            {
                name: value
                for name, value in attributes.items()
                if name not in keys_class.model_fields
            }
        )
        functions: FunctionsByPath = unit.bound_functions(path)
        if decides_more(cls):
            base = cls.language_class()
            hooks = [hook for hook in HOOKS if getattr(keys_class, hook) is not getattr(base, hook)]
            sources = [source_text(getattr(unit, hook)) for hook in hooks]
            text = "\n".join([cls.__name__, *(text for text, _ in sources)])
            traceable = all(is_known for _, is_known in sources)
            functions[*path, "class"] = UnitClass(cls, cls.__name__, (), text, traceable, unit=unit)
        return unit, functions


@dataclass(frozen=True)
class UnitClass(Function):
    """The class of a unit written in Python that decides more than its document can say. ``unit`` is one of its units."""

    unit: LLMUnitStep | None = None

    @property
    def unit_class(self) -> type[LLMUnitStep]:
        """The class itself."""
        return cast("type[LLMUnitStep]", self.function)

    def keys(self, unit: UnitBase) -> JsonObject:
        """All keys of the unit that was read from its document: those of the class were no part of it."""
        fields = type(unit).model_fields
        values = {
            fields[name].alias or name: getattr(unit, name)
            for name in fields
            if name in unit.model_fields_set
        }
        set_here = vars(self.unit)
        return values | {key: set_here[key] for key in own_keys(self.unit_class) if key in set_here}


def check_class_names(
    steps: Iterable[Step], classes: dict[str, type[UnitStep]] | None = None
) -> None:
    """Raise UsageError where two classes, one of which is written in Python, give their units the same name: results and
    placeholders could not tell them from copies of one unit."""
    classes = {} if classes is None else classes
    for step in steps:
        if isinstance(step, Layer | Block):
            check_class_names(step.items if isinstance(step, Layer) else step.steps, classes)
        elif isinstance(step, UnitStep):
            kind, name = type(step), step.node_name
            first = classes.setdefault(name, kind)
            if first is not kind and (written_above(first) or written_above(kind)):
                raise UsageError(
                    f"the classes {first.__qualname__} and {kind.__qualname__} both give units the name {name!r}",
                    hint="give one of them another `_char`, or one of the units another `name`",
                )


def written_above(kind: type[UnitStep]) -> list[type[Any]]:
    """The classes that Python code derives from a type of the language, a unit's class first; none for such a type."""
    return list(takewhile(lambda owner: "unit_type" not in vars(owner), kind.__mro__))


def _declared_keys(kind: type[UnitStep]) -> set[str]:
    """The annotated attributes of classes written in Python."""
    hints = {
        name: hint for owner in written_above(kind) for name, hint in get_annotations(owner).items()
    }
    return {
        name
        for name, hint in hints.items()
        if not name.startswith("_")
        and not hasattr(LLMUnitStep, name)
        and "ClassVar" not in str(hint)
    }


def own_keys(kind: type[UnitStep]) -> frozenset[str]:
    """The keys that a class written in Python adds to those of its base."""
    return frozenset(_declared_keys(kind) - kind.language_class().model_fields.keys())


def decides_more(kind: type[UnitStep]) -> bool:
    """Whether a class overrides hooks, or declares keys."""
    return bool(_declared_keys(kind)) or any(
        hook in vars(owner) for owner in written_above(kind) for hook in HOOKS
    )


def _check_unit(_: str, loaded: Any) -> type[LLMUnitStep]:
    if not (isinstance(loaded, type) and issubclass(loaded, LLMUnitStep)):
        raise TypeError("is not a subclass of verdict_cli.Unit")
    return loaded


PACKAGE_UNITS: Registry[type[LLMUnitStep]] = Registry(
    __name__, {}, "verdict_cli.units", _check_unit
)
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
        raise UsageError(
            f"--allow-code {path}: there is no such Python file",
            hint="name a file that ends in .py",
        )
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as fault:
        raise UsageError(
            f"--allow-code {path}: {type(fault).__name__}: {fault}",
            hint="the file must import without errors",
        ) from None
    types = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, LLMUnitStep)
        and value.__module__ == module.__name__
    }
    if not types:
        raise UsageError(
            f"--allow-code {path}: no subclass of verdict_cli.Unit is defined in it",
            hint="see docs/python.md",
        )
    return types
