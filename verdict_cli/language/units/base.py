"""The bases of all units (language.md, section 6.1): the keys of a file, and what a unit type decides about its prompt,
response and output.

Methods of the Python API have the names of some keys (`.prompt("…")`), and a class written in Python is both: those
keys' fields have other names, and the key as their alias.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from verdict_cli.config_model import (
    ConfigModel,
    Issue,
    NonEmptyText,
    NonEmptyTuple,
    Seq,
    Share,
    Uncounted,
    Whole,
)
from verdict_cli.errors import UsageError
from verdict_cli.language.calibrations import WhenKey
from verdict_cli.language.expressions.paths import RowValues
from verdict_cli.language.extractors import ExtractKey
from verdict_cli.language.extractors.bound_extractor import EXPLANATION, Thoughts
from verdict_cli.language.fields.field_keys import FieldTypes, InputFields
from verdict_cli.language.fields.types import TEXT, Fields, RecordType, ScaleType, Values
from verdict_cli.language.prompts.prompt import JinjaPrompt, PromptKey
from verdict_cli.language.prompts.sections import frame_prompt
from verdict_cli.language.scales import Scale, ScaleKey
from verdict_cli.messages import JsonObject
from verdict_cli.model import Model, ModelKey
from verdict_cli.regex import regex

MOST_EXAMPLES = 2_000
"""The most rows that are kept to choose from: they are written into each run's spec.yaml, and `nearest` compares with all."""

ExampleChoice = Literal["balanced", "nearest", "errors"]


class Examples(ConfigModel):
    """Labelled rows that the prompt shows before the row to judge, never that row itself nor one of its cluster."""

    file: str | None = None
    """The labelled rows: a dataset, relative to the pipeline file. The first 2,000 rows count."""
    rows: Annotated[tuple[JsonObject, ...], Field(min_length=1)] | None = None
    """The labelled rows themselves, in the place of a file."""
    k: Annotated[int, Field(ge=1, le=100), Whole] = 4
    """How many examples a prompt shows."""
    choose: ExampleChoice = "balanced"
    """`balanced`: as many of each label; `nearest`: those that share the most rare words with the row; `errors`: those that `prediction` got wrong first."""
    target: NonEmptyText | None = None
    """Expression over an example's `source` for the right answer; by default the `target` of the pipeline's only evaluation that has one. Rows where it is null are left out."""
    prediction: NonEmptyText | None = None
    """For `errors`: expression over an example's `source` for what a judge said of it."""
    explanation: NonEmptyText | None = None
    """Expression over an example's `source` for the reasons, which are shown before the answer."""
    columns: NonEmptyTuple[str] | None = None
    """The columns of an example that are shown; by default those of the row that the prompt names."""
    cluster: NonEmptyText | None = None
    """Expression over `source`: a row never sees an example with the same value, such as `source.document_id`."""
    seed: Annotated[int, Field(ge=0), Whole] = 0
    """The seed of the order in which equally good examples are taken."""


ABSTAIN = "abstain"
"""In place of a model in `to`: no answer."""
ITSELF = "itself"
"""How reports name the answer of a unit that calls no model and does not abstain."""
VERDICT_FIELDS = ("choice", "score")
"""The output fields that are a verdict, of which a unit has one at most."""
ANSWERED_BY = "answered_by"
"""The output field that names the model whose answer it is."""


class Escalate(ConfigModel):
    """Calls other models, or abstains, when the answer is not certain enough."""

    when: WhenKey
    """Expression over `output`, `response`, `input` and `source` that is true when the answer is not certain enough, such as `output.p < 0.8`; or `{file: …}`, a bound that `verdict calibrate` chose."""
    to: ModelKey
    """The model to call instead, or `abstain`; of a list, each in turn while `when` is true of the previous answer."""

    audit_share: Share | None = None
    """A random share of rows on which the last model is called too: the report shows how often its verdict is the same."""

    def chain(self) -> tuple[str | Model, ...]:
        """What `to` names, one after another."""
        return tuple(self.to) if isinstance(self.to, list) else (self.to,)

    def validation_error(self) -> Issue | None:
        """(key, message, hint) when something follows `abstain`, else None."""
        if ABSTAIN in self.chain()[:-1]:
            return Issue("to", "`abstain` ends the chain, nothing can follow it", "put it last")
        if self.audit_share is not None and self.chain() == (ABSTAIN,):
            return Issue(
                "audit_share",
                "there is no model to compare with",
                "leave `audit_share` out, or name a model in `to`",
            )
        return None


UNIT_NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"

_SLOT = regex(r"\{([a-z_.]+)\}")

OptionOrder = tuple[int, ...]
"""The indices of the options in the order in which they are shown."""

Expressions = Annotated[dict[str, str], Field(min_length=1)]


ENTRY = "item"
"""The name of an entry of `each` by default."""
MOST_ENTRIES = 100
"""The most entries of a list by default."""

_AROUND = Uncounted("the compiled `each` and `when` around a unit count")
_RESOLVED = Uncounted(
    "what it means at the unit counts: its content, without names and inherited settings"
)
_BY_ID = Uncounted("the id of the node counts")
_BY_TYPE = Uncounted("the types that it means count, not their names")
_PASSED_ON = Uncounted(
    "it changes what is passed on, which a judge's digest counts with its output", ("judge",)
)
_NOT_ASKED = Uncounted("it changes neither what is asked nor how the reply is read", ("judge",))


class RowKeys(ConfigModel):
    """The keys by which a step follows the row: it runs for every entry of a list, or only where a condition holds."""

    each: Annotated[NonEmptyText | None, _AROUND] = None
    """An expression that gives a list of the row, such as `source.claims`: the step runs once for every entry."""
    entry_name: Annotated[
        Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None, _AROUND
    ] = Field(default=None, alias="as")
    """The entry's name in prompts and expressions, `item` by default."""
    most: Annotated[Annotated[int, Field(ge=1, le=1_000_000), Whole] | None, _AROUND] = Field(
        default=None, alias="max"
    )
    """The most entries of the list, 100 by default; a longer list fails the row before its first call there."""
    per_call: Annotated[Annotated[int, Field(ge=1, le=1000), Whole] | None, _AROUND] = None
    """The most questions of one request to a decision model, by default as many as the server takes. A chat model has a call for each entry."""
    condition: Annotated[NonEmptyText | None, _AROUND] = Field(default=None, alias="when")
    """An expression: where it is false for the row (or the entry), the step is skipped."""


class UnitBase(RowKeys):
    """The keys of every unit, whether it calls a model or not."""

    calls_model: ClassVar[bool] = False
    positional: ClassVar[tuple[str, ...]] = ()
    """The keys that Python callers may give without their names, in order."""

    name: Annotated[Annotated[str, Field(pattern=UNIT_NAME)] | None, _BY_ID] = None
    """The unit's name in result columns and placeholders; its type in snake case by default."""
    input: Annotated[InputFields | None, _BY_TYPE] = None
    """Fields that the unit takes from upstream, each with its type, `{type: str, default: ""}` or a path such as
    `source.text`; fields without a match by name are matched by type."""
    output: Annotated[FieldTypes | None, _BY_TYPE] = None
    """Fields that the unit passes on; those of its response by default."""
    propagation: Annotated[Expressions | None, _PASSED_ON] = Field(default=None, alias="propagate")
    """Expressions that replace the output passed on, such as `score: output.score / 5`."""
    rules: Annotated[Seq[str], _PASSED_ON] = Field(default=(), alias="validate")
    """Expressions over `response`, `input` and `source` that must be true, else the unit is called again."""
    on_failure: Annotated[Literal["fail", "skip"], _NOT_ASKED] = "fail"
    """What a failure of this unit does: `fail` fails the row, `skip` leaves the unit without an output."""
    pinned: Annotated[bool, _RESOLVED] = Field(default=False, alias="pin")
    """Run once for the whole dataset and share the result."""
    escalate: Annotated[Escalate | None, _RESOLVED] = None
    """What happens when the answer is not certain enough: another model is called, or the unit abstains."""

    @property
    def type_name(self) -> str:
        """The unit's type, such as `JudgeUnit`."""
        return str(getattr(self, "unit"))  # noqa: B009 - each type declares it, with its own name as the only value

    @property
    def node_name(self) -> str:
        """The unit's name, or the one made from its type."""
        return self.name or snake(self.type_name)

    @classmethod
    def positional_keys(cls, values: Sequence[Any]) -> JsonObject:
        """The keys of what a Python caller gives without their names."""
        if len(values) > len(cls.positional):
            raise UsageError(
                f"{cls.__name__}: too many positional arguments",
                hint=f"it takes {', '.join(cls.positional) or 'keyword arguments only'}",
            )
        return dict(zip(cls.positional, values, strict=False))

    def validation_error(self) -> Issue | None:
        """An error in the unit's own keys that their types cannot express, else None."""
        return self.broken_rule()

    def settings(self) -> JsonObject:
        """The values of `unit.…` in its prompt: its plain settings."""
        dumped = self.model_dump(by_alias=True, exclude_none=True)
        return {
            key: value
            for key, value in dumped.items()
            if isinstance(value, str | int | float | bool | list | tuple)
        }


class AbstainedError(Exception):
    """A pool that gives no output for this row, which is no failure."""


OPTIONS_HINT = "name the options' texts: `options: [source.x, source.y]`"
TIE, BOTH_BAD = "tie", "both_bad"
NO_PREFERENCE = (TIE, BOTH_BAD)
"""The choices of a pairwise judge that are no option."""


def shown(inputs: RowValues, letters: Sequence[str], arrangement: Sequence[int]) -> Values:
    """The input with the options in another order: letter i names option arrangement[i]. A unit whose prompt shows the
    texts by its own placeholders has no options in its input."""
    if not set(letters) <= inputs.keys():
        return dict(inputs)
    return {
        **inputs,
        **{letters[index]: inputs[letters[option]] for index, option in enumerate(arrangement)},
    }


class LLMUnit(UnitBase):
    """The keys of every unit that calls a model."""

    calls_model = True
    positional: ClassVar[tuple[str, ...]] = ("scale",)

    prompt_key: Annotated[PromptKey | None, _RESOLVED] = Field(default=None, alias="prompt")
    """What the model is asked."""
    delimit: Annotated[bool | None, _RESOLVED] = None
    """Whether texts in the prompt that come from rows or models are enclosed in tags that they cannot contain; the
    pipeline's setting by default."""
    model: Annotated[ModelKey | None, _RESOLVED] = None
    """The model; the layer's, the block's or the pipeline's by default."""
    scale: Annotated[ScaleKey | None, _RESOLVED] = None
    """The scale that a judge's values are on."""
    scale_instructions: bool = True
    """Whether the scale's own sentence is added to the prompt."""
    explanation: bool = False
    """Asks for a text `explanation` before the judgement."""
    extract_key: Annotated[ExtractKey, _RESOLVED] = Field(default="structured", alias="extract")
    """How the response is read from the reply."""
    examples: Annotated[Examples | None, _RESOLVED] = None
    """Labelled rows that the prompt shows before the row to judge."""
    cites: NonEmptyText | None = None
    """An expression of the conversation whose turns, or of the list of texts whose entries, the explanation cites as `[3]`: a
    number that does not exist makes the reply unreadable, and the output has the numbers as `citations`."""
    response: Annotated[FieldTypes | None, _BY_TYPE] = None
    """Fields of the response besides the unit's own, which follow them."""
    streamed: Annotated[bool, _NOT_ASKED] = Field(default=False, alias="stream")
    """Whether the reply is streamed."""

    scale_names_options: ClassVar[bool] = False
    """Whether the words of `scale` name the unit's options, which then are its scale."""
    raw_thoughts: ClassVar[Thoughts] = "keep"
    """What `raw` does with the thoughts in a reply to a unit of this type."""

    def default_scale(self) -> Scale | None:
        """The scale by default; None for a unit that has no field on a scale."""
        return None

    def own_fields(self, scale: Scale | None) -> Fields:
        """The response fields of the unit's type: by default the one on the scale, if it has one."""
        name = self.scaled_field()
        return {} if name is None or scale is None else {name: ScaleType(scale)}

    def scaled_field(self) -> str | None:
        """The name of the response field on the scale."""
        return None

    def response_record(self, scale: Scale | None, declared: Fields) -> RecordType:
        """All fields of the response: the explanation, the declared ones, the type's own."""
        explained: Fields = {EXPLANATION: TEXT} if self.explanation else {}
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
        return frame_prompt(prompt, *around)

    def required_inputs(self) -> Fields:
        """Input fields that the type itself takes from upstream."""
        return {}

    def output_fields(self, read: RecordType) -> RecordType:
        """The output's fields, from those that the extractor reads."""
        return read

    def letters(self) -> tuple[str, ...]:
        """The letters of the options that it chooses among; none for a unit without options."""
        return ()

    def option_texts(self) -> tuple[str, ...]:
        """The expressions of the options' texts."""
        return ()

    def option_labels(self) -> tuple[str, ...]:
        """What the options are called in place of their letters."""
        return ()

    def needs_letter(self) -> bool:
        """Whether the output is made from the letter that was chosen."""
        return False

    def changes_order(self) -> bool:
        """Whether options are shown in another order than that in which they are given."""
        return False

    def frame_fields(self, prompt: str) -> str:
        """The prompt for a state that has the options as fields."""
        return self.frame(prompt)

    def option_orders(self, draw: int) -> tuple[OptionOrder, ...]:
        """The orders in which the options are shown, one call each; `draw` seeds a shuffle."""
        return ((),)

    def combine_responses(
        self,
        responses: Sequence[Values],
        orders: Sequence[OptionOrder],
        inputs: RowValues,
    ) -> Values:
        """The output from the response of each call and the unit's input."""
        return responses[0]


def snake(type_name: str) -> str:
    """A unit type's default name: without `Unit`, in snake case (`MeanPoolUnit` → `mean_pool`, `CoTUnit` → `cot`)."""
    bare = type_name.removesuffix("Unit").replace("CoT", "Cot") or type_name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", bare).lower()
