"""Steps of a pipeline: units, layers, blocks, uses of named blocks, early stopping and Python functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol

from pydantic import ConfigDict, Field
from typing_extensions import TypeAliasType

from verdict_cli.config_model import ConfigModel, Seq, Whole
from verdict_cli.language.fields.types import RecordType
from verdict_cli.language.registry import LazyUnion
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import UnitBase
from verdict_cli.model import ModelKey

MOST_UNTIL_UNITS = 100
"""The most units of a layer that stops early."""


class Until(ConfigModel):
    """When a layer that is repeated has said enough: further units are asked only while the vote, or the mean, is open."""

    confidence: Annotated[float, Field(gt=0, le=1)]
    """The least probability that the pool says of all units what it says of those asked; 1 stops only what nothing can change any more."""
    max: Annotated[int, Field(ge=2, le=MOST_UNTIL_UNITS), Whole] | None = None
    """The most units that are asked: all of the layer's where it is not given. Above `repeat`, this many copies are made, of which the first `repeat` are asked side by side."""
    batch: Annotated[int, Field(ge=1), Whole] = 1
    """How many further units are asked side by side before the next look."""
    threshold: float | None = None
    """For a mean: stops when all units' mean lies on the same side of this number."""
    within: Annotated[float, Field(gt=0)] | None = None
    """For a mean: stops when all units' mean lies within this distance of the mean so far."""


class PythonCode(Protocol):
    """A Python function that stands where a file has expressions: at `propagate`, `map`, `validate` or, which a
    file has not at all, at `process`."""

    @property
    def name(self) -> str:
        """How messages name it."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The values that it is called with: `output`, `outputs`, `response`, `input`, `previous`, `source`, `unit`."""

    @property
    def text(self) -> str:
        """What stands for it in a fingerprint: its source, or a text of its own in every process."""

    @property
    def traceable(self) -> bool:
        """Whether the text is the same in every process."""

    @property
    def gives(self) -> RecordType | None:
        """The declared fields of what it gives; None where they are not declared."""

    def __call__(self, given: Mapping[str, Any]) -> Any:
        """What it gives for the values of its parameters, in plain dictionaries and lists."""


CodePath = tuple[str | int, ...]
Codes = Mapping[CodePath, PythonCode]
"""The functions of a pipeline by the path at which a file would have expressions."""


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

    base: Annotated[str, Field(min_length=1)]
    """The type that it builds on, a built-in one or another of `units`."""


class LayerStep(ConfigModel):
    """Units, blocks or layers side by side."""

    layer: Annotated[Seq[StepKey], Field(min_length=1)]
    """The items."""
    repeat: Annotated[int, Field(ge=1), Whole] | None = None
    """Copies of the items, one after another: A, B, A, B."""
    models: Annotated[Seq[ModelKey], Field(min_length=1)] | None = None
    """One copy of the items for each model, instead of `repeat`."""
    inner: Literal["none", "chain"] = "none"
    """Links within the layer: none, or each item to the next."""
    outer: Literal["dense", "broadcast", "cumulative", "last"] | None = None
    """Links to the next step; one to one where that is a layer of as many roots, else dense."""
    roots: Annotated[Seq[ItemIndex], Field(min_length=1)] | None = None
    """Places of the items that take the input."""
    leaves: Annotated[Seq[ItemIndex], Field(min_length=1)] | None = None
    """Places of the items that give the output."""
    until: Until | None = None
    """Asks the items one after another, and stops when the pool behind them is settled."""
    model: ModelKey | None = None
    """The model of the units inside that set none."""


class BlockStep(ConfigModel):
    """Steps run one after another."""

    block: Annotated[Seq[StepKey], Field(min_length=1)]
    """The steps."""
    model: ModelKey | None = None
    """The model of the units inside that set none."""
    pin: bool = False
    """Runs every unit inside once for the whole dataset."""


class UseStep(ConfigModel):
    """A named block of this file, or of another one."""

    use: Annotated[str, Field(min_length=1)]
    """The block's name, or `FILE#name`."""


def spelling(value: Any) -> str | None:
    """The tag of a step: its unit type, `<custom>`, `<layer>`, `<block>` or `<use>`; None for what is no step."""
    if isinstance(value, ConfigModel):
        value = value.model_dump(by_alias=True, exclude_unset=True)
    kind = next((key for key in STEP_KINDS if key in value), None) if isinstance(value, dict) else None
    if kind is None:
        return None
    if kind == "unit":
        return _TAGS.get(value["unit"], "<custom>") if isinstance(value["unit"], str) else "<custom>"
    return f"<{kind}>"


_TAGS = {name: f"<{TYPES.title(name)}>" for name in TYPES}

_CHOICES = LazyUnion(
    spelling,
    {
        **TYPES.choices(_TAGS.__getitem__),
        "<custom>": lambda: CustomStep,
        "<layer>": lambda: LayerStep,
        "<block>": lambda: BlockStep,
        "<use>": lambda: UseStep,
    },
)

StepKey = TypeAliasType("StepKey", Annotated[UnitBase | CustomStep | LayerStep | BlockStep | UseStep, _CHOICES])
"""A step of a pipeline, a block or a layer."""
