"""What all units share: their keys, and the methods that each give a new unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypedDict, TypeVar, Unpack

from verdict_cli.errors import UsageError
from verdict_cli.language.extractors.bound_extractor import EXPLANATION, Extractor
from verdict_cli.language.scales import Scale
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import LLMUnit, snake
from verdict_cli.python.functions import OUTPUT_NAMES, RULE_NAMES, Function, function, method_function, rule
from verdict_cli.python.models import ModelKeys, ModelLike
from verdict_cli.python.prompts import Prompt, prompt_key
from verdict_cli.python.schema import Schema, plain_view, spelled_type
from verdict_cli.python.steps import Functions, Step, StepPath
from verdict_cli.python.validate_kwargs import known

C = TypeVar("C", bound="CommonUnit")
U = TypeVar("U", bound="Unit")


class CommonKeys(TypedDict, total=False):
    """The keys of every unit (language.md, section 6.1)."""

    name: str
    input: Mapping[str, Any]
    output: Mapping[str, Any]
    validate: Sequence[str]
    on_failure: Literal["fail", "skip"]
    escalate: Mapping[str, Any]


class UnitKeys(CommonKeys, total=False):
    """The keys of every unit that calls a model."""

    scale_instructions: bool
    delimit: bool
    explanation: bool
    response: Mapping[str, Any]


class CommonUnit(Step):
    """A unit, whether it calls a model or not."""

    _type: ClassVar[str]
    _functions: Mapping[str, Function] = MappingProxyType({})

    def __init_subclass__(cls, *, built_in: bool = False) -> None:
        """A class that is `built_in` is the language's unit type of its name."""
        if built_in:
            cls._type = cls.__name__

    def __init__(self, **keys: Any) -> None:
        kind = type(self).__name__
        spelled_keys = [field.alias or name for name, field in TYPES[self._type].model_fields.items()]
        known(kind, keys, [name for name in spelled_keys if name != "unit"])
        for name in ("input", "output", "response"):
            if isinstance(keys.get(name), Mapping):
                keys[name] = {
                    field: _type_key(f"{kind}: {name}.{field}", spelled) for field, spelled in keys[name].items()
                }
        given = {name: value.key() if isinstance(value, Scale) else value for name, value in keys.items()}
        object.__setattr__(self, "_keys", {name: value for name, value in given.items() if value is not None})
        object.__setattr__(self, "_functions", {})

    @property
    def name(self) -> str:
        """The unit's name in prompts and columns."""
        return str(self._keys.get("name") or snake(self._type if self._is_built_in() else self._kind()))

    def named(self: C, name: str) -> C:
        """The unit under this name."""
        return self._with(name=name)

    def pin(self: C) -> C:
        """Runs once for the whole dataset; all rows share the result."""
        return self._with(pin=True)

    def propagate(
        self: C,
        output: Callable[..., Any] | Mapping[str, str] | None = None,
        *,
        fields: Mapping[str, Any] | Sequence[str] | None = None,
        **expressions: str,
    ) -> C:
        """What is passed on instead of the output: expressions by field, or a function.

        The function takes any of `output`, `response`, `input`, `previous`, `source`, `unit` by parameter name and gives
        a Schema or a mapping. It is called once with made-up values when the pipeline is checked, which tells
        which fields it gives; `fields` says so where that cannot work.
        """
        if output is None or isinstance(output, Mapping):
            return self._with(propagate={**(output or {}), **expressions})._doing("propagate", None)
        made = function(output, f"{type(self).__name__}.propagate", OUTPUT_NAMES, fields)
        return self._with(propagate=None)._doing("propagate", made)

    def written(self, path: StepPath, functions: Functions) -> dict[str, Any]:
        """The unit as a pipeline file writes it."""
        functions |= {(*path, key): made for key, made in self._functions.items()}
        keys = {name: value for name, value in plain_view(self._keys).items() if value is not None}
        named = {} if self._is_built_in() else {"name": self.name}
        return {"unit": self._type, **named, **keys}

    def _doing(self: C, key: str, made: Function | None) -> C:
        copied = self._with()
        kept = {name: each for name, each in self._functions.items() if name != key}
        object.__setattr__(copied, "_functions", {**kept, **({} if made is None else {key: made})})
        return copied

    @classmethod
    def _is_built_in(cls) -> bool:
        return "_type" in vars(cls)

    @classmethod
    def _kind(cls) -> str:
        return cls.__name__

    def __repr__(self) -> str:
        given = self._keys.get("name")
        return f"{type(self).__name__}({'' if given is None else f'name={given!r}'})"


class Unit(CommonUnit, built_in=True):
    """A unit that calls a model. Subclass it for one of your own: `InputSchema`, `ResponseSchema` and `OutputSchema`
    declare its fields, `_prompt` its prompt, `_char` its name, `validate` and `process` what becomes of a response."""

    _char: str = ""
    _prompt: Prompt | str | None = None
    InputSchema: ClassVar[type[Schema]] = Schema
    ResponseSchema: ClassVar[type[Schema]] = Schema
    OutputSchema: ClassVar[type[Schema]] = Schema

    def __init__(self, scale: Scale | str | None = None, **keys: Unpack[UnitKeys]) -> None:
        super().__init__(scale=scale, **keys)

    def validate(self, response: Any, input: Any) -> Any:  # noqa: A002
        """Refuses a response by raising, or by giving False: the model is asked again, then the row fails."""

    def process(self, response: Any, input: Any) -> Any:  # noqa: A002
        """The output, from a response that is valid; the response itself where this is not overridden."""
        return response

    def prompt(self: U, prompt: str | Prompt) -> U:
        """What the model is asked."""
        return self._with(prompt=prompt_key(prompt))

    def via(self: U, model: ModelLike, **keys: Unpack[ModelKeys]) -> U:
        """The model, with its settings, or a list that is tried in order."""
        return self._via(model, dict(keys))

    def extract(self: U, extractor: Any) -> U:
        """How the response is read from the reply."""
        if not isinstance(extractor, Extractor):
            made = isinstance(extractor, type) and issubclass(extractor, Extractor)
            hint = f"write `{extractor.__name__}()`" if made else "such as `RegexExtractor(pattern=…)`"
            raise UsageError(f"{type(self).__name__}.extract takes an extractor, not {extractor!r:.80}", hint=hint)
        return self._with(extract=extractor)

    def stream(self: U) -> U:
        """The reply is streamed."""
        return self._with(stream=True)

    def written(self, path: StepPath, functions: Functions) -> dict[str, Any]:
        """The unit as a pipeline file writes it; a custom one is its built-in base with the keys spelled out."""
        data = super().written(path, functions)
        if "prompt" not in data and self._prompt is not None:
            data["prompt"] = prompt_key(self._prompt)
        processed = type(self).process is not Unit.process
        for key, schema in (
            ("input", self.InputSchema),
            ("response", self.ResponseSchema),
            ("output", self.OutputSchema),
        ):
            if schema.declared() and not (key == "output" and processed):
                data[key] = {**data.get(key, {}), **schema.declared()}
        seen = {"response": self.ResponseSchema, "input": self.InputSchema}
        kind = type(self).__name__
        if type(self).validate is not Unit.validate:
            functions[*path, "validate"] = rule(self.validate, f"{kind}.validate", RULE_NAMES, seen)
        if processed:
            gives = self.OutputSchema.declared() or None
            functions[*path, "process"] = method_function(self.process, f"{kind}.process", OUTPUT_NAMES, seen, gives)
        extractor = data.get("extract")
        if isinstance(extractor, Extractor):
            data["extract"] = extractor.key(self._fields(data))
        return data

    def _fields(self, data: Mapping[str, Any]) -> list[str]:
        """The names of the response's fields, the explanation aside."""
        made = TYPES[self._type].model_construct(**{name: data[name] for name in data if name != "scale"})
        assert isinstance(made, LLMUnit)
        own = [*made.own_fields(made.default_scale()), *(["score"] if self._type == "Unit" and "scale" in data else [])]
        return [name for name in dict.fromkeys([*data.get("response", {}), *own]) if name != EXPLANATION]

    @classmethod
    def _kind(cls) -> str:
        return cls._char or cls.__name__


def _type_key(what: str, kind: Any) -> Any:
    """A field's type, given as Python's or as a pipeline file spells it."""
    return kind if isinstance(kind, str | Mapping) else spelled_type(what, kind)
