"""A pipeline file as a whole, its steps (units, layers, blocks, uses of named blocks), and how it reads its data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypeAliasType

from verdict_cli.config_model import (
    ConfigModel,
    Expected,
    LazyUnion,
    MessageAndHint,
    NonEmptyText,
    NonEmptyTuple,
    One,
    PositiveInt,
    PositiveNumber,
    Share,
    Uncounted,
    Whole,
    display_value,
)
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.fields.field_keys import FieldTypes
from verdict_cli.language.gate_rules import GateList
from verdict_cli.language.scales import ScaleKeys
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import UNIT_NAME, RowKeys, UnitBase
from verdict_cli.model import ModelKey

MOST_UNTIL_UNITS = 100
"""The most units of a layer that stops early."""


class Until(ConfigModel):
    """Early stopping of a repeated layer: more units are called only while the vote, or the mean, is undecided."""

    confidence: Share
    """The minimum probability that the units called so far give the same pool as all units; 1 stops only when nothing can change it."""
    max: Annotated[int, Field(ge=2, le=MOST_UNTIL_UNITS), Whole] | None = None
    """The maximum number of units to call; all of the layer's by default. Above `repeat`, the layer has this many copies, of which the first `repeat` are called concurrently."""
    batch: PositiveInt = 1
    """How many more units are called concurrently before the next check."""
    threshold: float | None = None
    """For a mean: stops when all units' mean lies on the same side of this number."""
    within: PositiveNumber | None = None
    """For a mean: stops when all units' mean lies within this distance of the mean so far."""
    audit_share: Share | None = None
    """A random share of rows on which all units are called: the report shows how often the early result is the full one."""


STEP_KINDS = ("unit", "layer", "block", "use")
"""The keys of which a step has exactly one."""

ItemIndex = Annotated[int, Whole]


class CustomStep(ConfigModel):
    """A unit of a type that the file declares under `units`; its other keys are those of the type's base."""

    model_config = ConfigDict(extra="allow")

    unit: Annotated[str, Field(json_schema_extra={"not": {"enum": sorted(TYPES)}})]
    """The type's name."""


class CustomType(ConfigModel):
    """A unit type declared in the file: a base type and the keys that it sets."""

    model_config = ConfigDict(extra="allow")

    base: NonEmptyText
    """The type that it builds on, a built-in one or another of `units`."""


class Layer(RowKeys):
    """Units, blocks or layers in parallel."""

    layer: NonEmptyTuple[StepKey]
    """The items."""
    repeat: PositiveInt | None = None
    """Copies of the items, one after another: A, B, A, B."""
    models: NonEmptyTuple[ModelKey] | None = None
    """One copy of the items for each model, instead of `repeat`."""
    inner: Literal["none", "chain"] = "none"
    """Links within the layer: none, or each item to the next."""
    outer: Literal["dense", "broadcast", "cumulative", "last"] | None = None
    """Links to the next step; one to one where that is a layer of as many roots, else dense."""
    roots: NonEmptyTuple[ItemIndex] | None = None
    """Places of the items that take the input."""
    leaves: NonEmptyTuple[ItemIndex] | None = None
    """Places of the items that give the output."""
    until: Until | None = None
    """Calls the items one after another, and stops when the pool after them is decided."""
    model: ModelKey | None = None
    """The model of the units inside that set none."""


class Block(RowKeys):
    """Steps run one after another."""

    block: NonEmptyTuple[StepKey]
    """The steps."""
    model: ModelKey | None = None
    """The model of the units inside that set none."""
    pinned: bool = Field(default=False, alias="pin")
    """Runs every unit inside once for the whole dataset."""


class UseStep(RowKeys):
    """A named block of this file, or of another one."""

    use: NonEmptyText
    """The block's name, or `FILE#name`."""


def _step_tag(value: Any) -> str | None:
    """The tag of a step: its unit type, `<custom>`, `<layer>`, `<block>` or `<use>`; None for what is no step."""
    if isinstance(value, ConfigModel):
        value = value.model_dump(by_alias=True, exclude_unset=True)
    kinds = [key for key in STEP_KINDS if key in value] if isinstance(value, dict) else []
    if kinds[:1] == ["unit"]:
        return _TAGS.get(str(value["unit"]), "<custom>")
    return f"<{kinds[0]}>" if kinds else None


_TAGS = {name: f"<{name}>" for name in TYPES}

_CHOICES = LazyUnion(
    _step_tag,
    {
        **TYPES.choices(_TAGS.__getitem__),
        "<custom>": lambda: CustomStep,
        "<layer>": lambda: Layer,
        "<block>": lambda: Block,
        "<use>": lambda: UseStep,
    },
)


def _expected(value: Any) -> MessageAndHint:
    if not isinstance(value, dict):
        return (
            f"expected a step, found {display_value(value)}",
            "a step is a mapping such as `- unit: JudgeUnit`",
        )
    hints = (nearest_spelling(str(key), STEP_KINDS, most=0) for key in value)
    return (
        "a step has exactly one of `unit`, `layer`, `block`, `use`; this one has none",
        next(filter(None, hints), ""),
    )


StepKey = TypeAliasType(
    "StepKey",
    Annotated[UnitBase | CustomStep | Layer | Block | UseStep, _CHOICES, Expected(_expected)],
)
"""A step of a pipeline, a block or a layer."""


_USED = Uncounted("it counts where a unit uses it, as the unit means it")
_KEYS = Uncounted("its own fields count")
_SAME = Uncounted("every file has the same")
_DESCRIBES = Uncounted("it describes the pipeline for people")
_MEASURES = Uncounted("it measures results and asks nothing")
_CHOOSES = Uncounted("it says which rows are read, not what a row has", ("calls",))
_SENT = Uncounted("it says where scores are sent")


class DatasetKeys(ConfigModel):
    """Defaults for reading the data."""

    id: NonEmptyText | None = None
    """The column that names a row, or a path such as `conv.id`; its 0-based number where not given."""
    delimiter: Annotated[Literal[",", ";", "\t", "|"] | None, _CHOOSES] = None
    """What separates the cells of CSV files; by default, what separates the names in the header."""
    columns: dict[str, str] = Field(default_factory=dict)
    """The name in the file for a name in the pipeline."""
    blank: Literal["fail", "skip", "judge"] = "fail"
    """What becomes of rows in which a column that a prompt needs is blank (null, absent, an empty or white text, NaN): they `fail`, `skip` leaves them out and counts them as missing, `judge` inserts an empty text. `default('')` in a placeholder exempts it."""
    where: Annotated[NonEmptyText | None, _CHOOSES] = None
    """An expression over `source`: only rows for which it is true are read."""
    trace: Annotated[NonEmptyText | None, _SENT] = None
    """An expression over `source`: the id of the trace that the row judges, where `--trace` and `verdict export` send its scores."""
    span: Annotated[NonEmptyText | None, _SENT] = None
    """An expression over `source`: the id of the span in that trace."""
    types: FieldTypes | None = Field(default=None, alias="schema")
    """The type of each column that is checked; CSV texts are converted to it."""


class PipelineFile(ConfigModel):
    """A pipeline of the Verdict language: a compound judge, the data it reads and its metrics."""

    verdict: Annotated[One, _SAME]
    """The language's version."""
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    """The pipeline's name."""
    description: Annotated[str, _DESCRIBES] = ""
    """What the pipeline judges, in a sentence."""
    model: Annotated[ModelKey | None, _USED] = None
    """The model of every unit that sets none."""
    models: Annotated[dict[str, ModelKey], _USED] = Field(default_factory=dict)
    """Named models, usable wherever a model is."""
    delimit: Annotated[bool, _USED] = False
    """Whether texts in prompts that rows or models wrote are put between tags that they cannot contain; the default of all
    units."""
    scales: Annotated[dict[str, ScaleKeys], _USED] = Field(default_factory=dict)
    """Named scales, usable wherever a scale is."""
    units: Annotated[dict[str, CustomType], _USED] = Field(default_factory=dict)
    """Unit types of this file."""
    blocks: Annotated[dict[str, NonEmptyTuple[StepKey]], _USED] = Field(default_factory=dict)
    """Named blocks for `use:`."""
    dataset: Annotated[DatasetKeys, _KEYS] = DatasetKeys()
    """How the data is read; options of the command line win."""
    pipeline: Annotated[NonEmptyTuple[StepKey], _USED]
    """The steps, run one after another."""
    evaluate: Annotated[dict[Annotated[str, Field(pattern=UNIT_NAME)], Evaluation], _MEASURES] = (
        Field(default_factory=dict)
    )
    """Metrics of the results."""
    gates: Annotated[GateList, _MEASURES] = ()
    """Limits on metrics, each a mapping or a text such as `right.accuracy >= 0.9`; a run that fails one exits with 1."""
    level: Annotated[float, Field(ge=0.5, lt=1), _MEASURES] = 0.95
    """The confidence level of the intervals in reports; gates have their own `confidence`."""
