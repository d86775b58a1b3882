"""Steps: units, layers, blocks and uses of named blocks (language.md, section 7)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypeAliasType

from verdict_cli.keys import Keys, Seq, Whole
from verdict_cli.models import ModelKey
from verdict_cli.registry import OneOf
from verdict_cli.spec.until import Until
from verdict_cli.units import TYPES, Common

KINDS = ("unit", "layer", "block", "use")
"""The keys of which a step has exactly one."""

Index = Annotated[int, Whole]


class CustomStep(Keys):
    """A unit of a type that the file declares under `units`; its other keys are those of the type's base."""

    model_config = ConfigDict(extra="allow")

    unit: Annotated[str, Field(json_schema_extra={"not": {"enum": sorted(TYPES)}})]
    """The type's name."""


class CustomType(Keys):
    """A unit type declared in the file: a base type and the keys that it sets."""

    model_config = ConfigDict(extra="allow")

    base: Annotated[str, Field(min_length=1)]
    """The type that it builds on, a built-in one or another of `units`."""


class LayerStep(Keys):
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
    roots: Annotated[Seq[Index], Field(min_length=1)] | None = None
    """Places of the items that take the input."""
    leaves: Annotated[Seq[Index], Field(min_length=1)] | None = None
    """Places of the items that give the output."""
    until: Until | None = None
    """Asks the items one after another, and stops when the pool behind them is settled."""
    model: ModelKey | None = None
    """The model of the units inside that set none."""


class BlockStep(Keys):
    """Steps run one after another."""

    block: Annotated[Seq[StepKey], Field(min_length=1)]
    """The steps."""
    model: ModelKey | None = None
    """The model of the units inside that set none."""
    pin: bool = False
    """Runs every unit inside once for the whole dataset."""


class UseStep(Keys):
    """A named block of this file, or of another one."""

    use: Annotated[str, Field(min_length=1)]
    """The block's name, or `FILE#name`."""


def spelling(value: Any) -> str | None:
    """The tag of a step: its unit type, `<custom>`, `<layer>`, `<block>` or `<use>`; None for what is no step."""
    if isinstance(value, Keys):
        value = value.model_dump(by_alias=True, exclude_unset=True)
    kind = next((key for key in KINDS if key in value), None) if isinstance(value, dict) else None
    if kind is None:
        return None
    if kind == "unit":
        return _TAGS.get(value["unit"], "<custom>") if isinstance(value["unit"], str) else "<custom>"
    return f"<{kind}>"


_TAGS = {name: f"<{TYPES.title(name)}>" for name in TYPES}

_CHOICES = OneOf(
    spelling,
    {
        **TYPES.choices(_TAGS.__getitem__),
        "<custom>": lambda: CustomStep,
        "<layer>": lambda: LayerStep,
        "<block>": lambda: BlockStep,
        "<use>": lambda: UseStep,
    },
)

StepKey = TypeAliasType("StepKey", Annotated[Common | CustomStep | LayerStep | BlockStep | UseStep, _CHOICES])
"""A step of a pipeline, a block or a layer."""
