"""The keys that units share (language.md, section 6.1), and what the plan asks of a unit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from verdict_cli.config_model import ConfigModel, Seq
from verdict_cli.language.extractors import ExtractKey
from verdict_cli.language.extractors.bound_extractor import EXPLANATION
from verdict_cli.language.fields.field_keys import FieldTypes
from verdict_cli.language.fields.types import TEXT, FieldType, RecordType
from verdict_cli.language.prompts.prompt import JinjaPrompt, PromptKey
from verdict_cli.language.prompts.sections import framed
from verdict_cli.language.scales import Scale, ScaleKey
from verdict_cli.language.units.escalate import Escalate
from verdict_cli.model import ModelKey

UnitIssue = tuple[str, str, str]
"""(key, what is wrong, hint) of a unit that makes no sense."""

UNIT_NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"

_SLOT = re.compile(r"\{([a-z_.]+)\}")

Expressions = Annotated[dict[str, str], Field(min_length=1)]


class UnitBase(ConfigModel):
    """The keys of every unit, whether it calls a model or not."""

    asks: ClassVar[bool] = False
    """Whether the unit calls a model."""

    name: Annotated[str, Field(pattern=UNIT_NAME)] | None = None
    """The unit's name in result columns and placeholders; its type in snake case where it is not given."""
    input: FieldTypes | None = None
    """Fields that the unit takes from upstream, each with its type; missing ones are cast by type."""
    output: FieldTypes | None = None
    """Fields that the unit gives on; those of its response where it is not given."""
    propagate: Expressions | None = None
    """Expressions that replace the output passed on, such as `score: output.score / 5`."""
    rules: Seq[str] = Field(default=(), alias="validate")
    """Expressions over `response`, `input` and `source` that must be true, else the unit is asked again."""
    on_failure: Literal["fail", "skip"] = "fail"
    """What a failure of this unit does: it fails the row, or the unit has no output."""
    pin: bool = False
    """Run once for the whole dataset and share the result."""
    escalate: Escalate | None = None
    """What is done where the answer is not sure enough: another model is asked, or none answers."""

    @property
    def type_name(self) -> str:
        """The unit's type, such as `JudgeUnit`."""
        return str(getattr(self, "unit"))  # noqa: B009

    def problem(self) -> UnitIssue | None:
        """What makes no sense about the unit by itself, None when nothing."""
        return None

    def settings(self) -> dict[str, Any]:
        """What `unit.…` means in its prompt: its own plain settings."""
        dumped = self.model_dump(by_alias=True, exclude_none=True)
        return {
            key: value for key, value in dumped.items() if isinstance(value, str | int | float | bool | list | tuple)
        }


class LLMUnit(UnitBase):
    """The keys of every unit that calls a model."""

    asks: ClassVar[bool] = True

    prompt: PromptKey | None = None
    """What the model is asked."""
    delimit: bool | None = None
    """Whether texts in the prompt that rows or models wrote stand between tags that they cannot contain; as the pipeline
    says where it is not given."""
    model: ModelKey | None = None
    """The model; the layer's, the block's or the pipeline's where it is not given."""
    scale: ScaleKey | None = None
    """The scale that a judge's values are on."""
    scale_instructions: bool = True
    """Whether the scale's own sentence is added to the prompt."""
    explanation: bool = False
    """Asks for a text `explanation` before the judgement."""
    extract: ExtractKey = "structured"
    """How the response is read from the reply."""
    response: FieldTypes | None = None
    """Fields of the response beside the unit's own, which follow them."""
    stream: bool = False
    """Whether the reply is streamed."""

    def default_scale(self) -> Scale | None:
        """The scale where none is set; None for a unit that has no field on a scale."""
        return None

    def own_fields(self, scale: Scale | None) -> dict[str, FieldType]:
        """The response fields that the unit's type brings."""
        return {}

    def scaled_field(self) -> str | None:
        """The name of the response field on the scale."""
        return None

    def response_record(self, scale: Scale | None, declared: Mapping[str, FieldType]) -> RecordType:
        """All fields of the response: the explanation, the declared ones, the type's own."""
        explained: dict[str, FieldType] = {EXPLANATION: TEXT} if self.explanation else {}
        return RecordType({**explained, **declared, **self.own_fields(scale)})

    def default_prompt(self) -> str | None:
        """The prompt where none is set; None where the unit needs one."""
        return None

    def before(self) -> str:
        """What the unit's type puts before its prompt, a text with placeholders."""
        return ""

    def after(self, prompt: str) -> str:
        """What the unit's type puts behind this prompt, a text with placeholders."""
        return ""

    def frame(self, prompt: str) -> str:
        """The prompt with what the unit's type puts around it, in the prompt's own language."""
        around = (self.before(), self.after(prompt))
        if not any(around):
            return prompt
        if isinstance(self.prompt, JinjaPrompt):
            around = (_SLOT.sub(r"{{ \1 }}", around[0]), _SLOT.sub(r"{{ \1 }}", around[1]))
        return framed(prompt, *around)

    def wants(self) -> dict[str, FieldType]:
        """Input fields that the type itself takes from upstream."""
        return {}

    def gives(self, read: RecordType) -> RecordType:
        """The output's fields, from those that the extractor reads."""
        return read

    def arrangements(self, draw: int) -> tuple[tuple[int, ...], ...]:
        """The orders in which the options are shown, one call each; `draw` seeds a shuffle."""
        return ((),)

    def settle(
        self, responses: Sequence[dict[str, Any]], arrangements: Sequence[tuple[int, ...]], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The output, from each call's response and the unit's input."""
        return responses[0]


def snake(type_name: str) -> str:
    """A unit type's default name: without `Unit`, in snake case (`MeanPoolUnit` → `mean_pool`, `CoTUnit` → `cot`)."""
    bare = type_name.removesuffix("Unit").replace("CoT", "Cot") or type_name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", bare).lower()
