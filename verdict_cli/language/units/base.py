"""The bases of all units (language.md, section 6.1): the keys of a file, the methods of the Python API, and what a unit
type decides about its prompt, response and output.

A method may have the name of a key (`.prompt("…")`), so that key's field has another name and the key as its alias.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, Unpack

from pydantic import ConfigDict, Field

from verdict_cli.config_model import Seq, checked_arguments
from verdict_cli.errors import UsageError
from verdict_cli.language.authoring.step import FunctionsByPath, Step, StepPath
from verdict_cli.language.examples import Examples
from verdict_cli.language.extractors import ExtractKey
from verdict_cli.language.extractors.bound_extractor import EXPLANATION, Thoughts
from verdict_cli.language.fields.field_keys import FieldTypes, InputFields
from verdict_cli.language.fields.types import TEXT, FieldType, RecordType, ScaleType
from verdict_cli.language.prompts.prompt import JinjaPrompt, PromptKey
from verdict_cli.language.prompts.sections import framed
from verdict_cli.language.scales import Scale, ScaleKey
from verdict_cli.language.units.escalate import Escalate
from verdict_cli.model import ModelKey

if TYPE_CHECKING:
    from verdict_cli.language.authoring.arguments import LLMUnitKeys, ModelKeys, ModelLike, Prompt
    from verdict_cli.language.authoring.functions import Function
    from verdict_cli.language.authoring.schema import Schema

UnitType = TypeVar("UnitType", bound="UnitBase")
LLMUnitType = TypeVar("LLMUnitType", bound="LLMUnit")

UnitIssue = tuple[str, str, str]
"""(key, message, hint) of a unit that makes no sense."""

UNIT_NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"

_SLOT = re.compile(r"\{([a-z_.]+)\}")

Expressions = Annotated[dict[str, str], Field(min_length=1)]


class UnitBase(Step):
    """The keys of every unit, whether it calls a model or not."""

    # A custom unit may have attributes of any kind, which are no keys: `_prompt = "…"`, `ResponseSchema = Answer`.
    model_config = ConfigDict(ignored_types=(object,))

    calls_model: ClassVar[bool] = False

    name: Annotated[str, Field(pattern=UNIT_NAME)] | None = None
    """The unit's name in result columns and placeholders; its type in snake case by default."""
    input: InputFields | None = None
    """Fields that the unit takes from upstream, each with its type, `{type: str, default: ""}` or a path such as
    `source.text`; fields without a match by name are matched by type."""
    output: FieldTypes | None = None
    """Fields that the unit passes on; those of its response by default."""
    propagation: Expressions | None = Field(default=None, alias="propagate")
    """Expressions that replace the output passed on, such as `score: output.score / 5`."""
    rules: Seq[str] = Field(default=(), alias="validate")
    """Expressions over `response`, `input` and `source` that must be true, else the unit is called again."""
    on_failure: Literal["fail", "skip"] = "fail"
    """What a failure of this unit does: `fail` fails the row, `skip` leaves the unit without an output."""
    pinned: bool = Field(default=False, alias="pin")
    """Run once for the whole dataset and share the result."""
    escalate: Escalate | None = None
    """What happens when the answer is not certain enough: another model is called, or the unit abstains."""

    _functions: ClassVar[Mapping[str, Function]] = MappingProxyType({})

    def __init__(self, **keys: Any) -> None:
        from verdict_cli.language.authoring.schema import field_type_keys, scale_key

        for key in ("input", "output", "response"):
            if isinstance(keys.get(key), Mapping):
                keys[key] = field_type_keys(f"{type(self).__name__}: {key}", keys[key])
        super().__init__(**{key: scale_key(value) or value for key, value in keys.items()})

    @property
    def type_name(self) -> str:
        """The unit's type, such as `JudgeUnit`; that of the base for a class that is subclassed in Python."""
        return self.language_class().__name__

    @property
    def node_name(self) -> str:
        """The unit's name, or the one made from its type."""
        return self.name or snake(self.type_name)

    def named(self: UnitType, name: str) -> UnitType:
        """The unit under this name."""
        return self._with(name=name)

    def pin(self: UnitType) -> UnitType:
        """Run once for the whole dataset; all rows share the result."""
        return self._with(pinned=True)

    def propagate(
        self: UnitType,
        output: Callable[..., Any] | Mapping[str, str] | None = None,
        *,
        fields: Mapping[str, Any] | Sequence[str] | None = None,
        **expressions: str,
    ) -> UnitType:
        """What is passed on instead of the output: expressions by field, or a function.

        The function takes any of `output`, `response`, `input`, `previous`, `source`, `unit` by parameter name and
        returns a Schema or a mapping. It is called once with sample values when the pipeline is checked, which shows
        its fields; `fields` declares them where that cannot work.
        """
        if output is None or isinstance(output, Mapping):
            return self._with(propagation={**(output or {}), **expressions})._with_function("propagate", None)
        from verdict_cli.language.authoring.functions import OUTPUT_NAMES, function

        passed = function(output, f"{type(self).__name__}.propagate", OUTPUT_NAMES, fields)
        return self._with(propagation=None)._with_function("propagate", passed)

    def to_document(self, path: StepPath, functions: FunctionsByPath) -> dict[str, Any]:
        functions |= {(*path, key): made for key, made in self._functions.items()}
        return {"unit": self.type_name, **super().to_document(path, functions)}

    def _with_function(self: UnitType, key: str, function: Function | None) -> UnitType:
        copied = self._with()
        others = {name: other for name, other in self._functions.items() if name != key}
        object.__setattr__(copied, "_functions", others if function is None else {**others, key: function})
        return copied

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.name is None else f'name={self.name!r}'})"

    def validation_error(self) -> UnitIssue | None:
        """An error in the unit's own keys that their types cannot express, else None."""
        return None

    def settings(self) -> dict[str, Any]:
        """The values of `unit.…` in its prompt: its plain settings."""
        dumped = self.model_dump(by_alias=True, exclude_none=True)
        return {
            key: value for key, value in dumped.items() if isinstance(value, str | int | float | bool | list | tuple)
        }


class LLMUnit(UnitBase):
    """The keys of every unit that calls a model.

    A subclass written in Python declares fields with `InputSchema`, `ResponseSchema` and `OutputSchema`, its prompt with
    `_prompt`, its name with `_char`, and handles responses in `validate` and `process`.
    """

    calls_model: ClassVar[bool] = True

    prompt_key: PromptKey | None = Field(default=None, alias="prompt")
    """What the model is asked."""
    delimit: bool | None = None
    """Whether texts in the prompt that come from rows or models are enclosed in tags that they cannot contain; the
    pipeline's setting by default."""
    model: ModelKey | None = None
    """The model; the layer's, the block's or the pipeline's by default."""
    scale: ScaleKey | None = None
    """The scale that a judge's values are on."""
    scale_instructions: bool = True
    """Whether the scale's own sentence is added to the prompt."""
    explanation: bool = False
    """Asks for a text `explanation` before the judgement."""
    extract_key: ExtractKey = Field(default="structured", alias="extract")
    """How the response is read from the reply."""
    examples: Examples | None = None
    """Labelled rows that the prompt shows before the row to judge."""
    cites: Annotated[str, Field(min_length=1)] | None = None
    """An expression of the conversation whose turns, or of the list of texts whose entries, the explanation cites as `[3]`: a
    number that does not exist makes the reply unreadable, and the output has the numbers as `citations`."""
    response: FieldTypes | None = None
    """Fields of the response besides the unit's own, which follow them."""
    streamed: bool = Field(default=False, alias="stream")
    """Whether the reply is streamed."""

    _char: ClassVar[str] = ""
    _prompt: ClassVar[Prompt | str | None] = None
    InputSchema: ClassVar[type[Schema] | None] = None
    ResponseSchema: ClassVar[type[Schema] | None] = None
    OutputSchema: ClassVar[type[Schema] | None] = None

    def __init__(self, scale: Any = None, **keys: Unpack[LLMUnitKeys]) -> None:
        super().__init__(scale=scale, **keys)

    def validate(self, response: Any, input: Any) -> Any:  # noqa: A002
        """Refuse a response by raising, or by returning False: the model is called again, then the row fails."""

    def process(self, response: Any, input: Any) -> Any:  # noqa: A002
        """The output, from a response that is valid; the response itself where this is not overridden."""
        return response

    @checked_arguments
    def prompt(self: LLMUnitType, prompt: str | Prompt) -> LLMUnitType:
        """What the model is asked."""
        from verdict_cli.language.authoring.arguments import prompt_key

        return self._with(prompt_key=prompt_key(prompt))

    @checked_arguments
    def via(self: LLMUnitType, model: ModelLike, **keys: Unpack[ModelKeys]) -> LLMUnitType:
        """The model, with its settings, or a list that is tried in order."""
        return self._via(model, dict(keys))

    @checked_arguments
    def extract(self: LLMUnitType, extractor: Any) -> LLMUnitType:
        """How the response is read from the reply."""
        from verdict_cli import Extractor

        if not isinstance(extractor, Extractor):
            is_class = isinstance(extractor, type) and issubclass(extractor, Extractor)
            hint = f"write `{extractor.__name__}()`" if is_class else "such as `RegexExtractor(pattern=…)`"
            raise UsageError(f"{type(self).__name__}.extract takes an extractor, not {extractor!r:.80}", hint=hint)
        return self._with(extract_key=extractor)

    def stream(self: LLMUnitType) -> LLMUnitType:
        """The reply is streamed."""
        return self._with(streamed=True)

    def to_document(self, path: StepPath, functions: FunctionsByPath) -> dict[str, Any]:
        """A custom unit becomes its base type with the keys written out."""
        from verdict_cli.language.units.plugins import custom_unit_document

        return custom_unit_document(self, super().to_document(path, functions), path, functions)

    raw_thoughts: ClassVar[Thoughts] = "keep"
    """What `raw` does with the thoughts in a reply to a unit of this type."""

    def default_scale(self) -> Scale | None:
        """The scale by default; None for a unit that has no field on a scale."""
        return None

    def own_fields(self, scale: Scale | None) -> dict[str, FieldType]:
        """The response fields of the unit's type: by default the one on the scale, if it has one."""
        name = self.scaled_field()
        return {} if name is None or scale is None else {name: ScaleType(scale)}

    def scaled_field(self) -> str | None:
        """The name of the response field on the scale."""
        return None

    def response_record(self, scale: Scale | None, declared: Mapping[str, FieldType]) -> RecordType:
        """All fields of the response: the explanation, the declared ones, the type's own."""
        explained: dict[str, FieldType] = {EXPLANATION: TEXT} if self.explanation else {}
        return RecordType({**explained, **declared, **self.own_fields(scale)})

    def default_prompt(self) -> str | None:
        """The prompt by default; None where the unit needs one."""
        return None

    def prompt_prefix(self) -> str:
        """Text with placeholders that the unit's type puts before its prompt."""
        return ""

    def prompt_suffix(self, prompt: str) -> str:
        """Text with placeholders that the unit's type puts after this prompt."""
        return ""

    def frame(self, prompt: str) -> str:
        """The prompt with its prefix and suffix, in the prompt's own template language."""
        around = (self.prompt_prefix(), self.prompt_suffix(prompt))
        if not any(around):
            return prompt
        if isinstance(self.prompt_key, JinjaPrompt):
            around = (_SLOT.sub(r"{{ \1 }}", around[0]), _SLOT.sub(r"{{ \1 }}", around[1]))
        return framed(prompt, *around)

    def required_inputs(self) -> dict[str, FieldType]:
        """Input fields that the type itself takes from upstream."""
        return {}

    def output_fields(self, read: RecordType) -> RecordType:
        """The output's fields, from those that the extractor reads."""
        return read

    def option_orders(self, draw: int) -> tuple[tuple[int, ...], ...]:
        """The orders in which the options are shown, one call each; `draw` seeds a shuffle."""
        return ((),)

    def combine_responses(
        self, responses: Sequence[dict[str, Any]], orders: Sequence[tuple[int, ...]], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The output from the response of each call and the unit's input."""
        return responses[0]


def snake(type_name: str) -> str:
    """A unit type's default name: without `Unit`, in snake case (`MeanPoolUnit` → `mean_pool`, `CoTUnit` → `cot`)."""
    bare = type_name.removesuffix("Unit").replace("CoT", "Cot") or type_name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", bare).lower()
