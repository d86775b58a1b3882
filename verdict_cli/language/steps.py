"""Steps of a pipeline: units, layers, blocks, uses of named blocks, early stopping and Python functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from pydantic import ConfigDict, Field
from typing_extensions import TypeAliasType

from verdict_cli.config_model import ConfigModel, Seq, Whole
from verdict_cli.language.authoring.step import FunctionsByPath, RowKeys, Step, StepPath, check_steps, step_documents
from verdict_cli.language.registry import LazyUnion
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import UnitBase
from verdict_cli.model import ModelKey

if TYPE_CHECKING:
    from verdict_cli.language.authoring.arguments import ModelKeys, ModelLike
    from verdict_cli.language.authoring.functions import Function

MOST_UNTIL_UNITS = 100
"""The most units of a layer that stops early."""


class Until(ConfigModel):
    """Early stopping of a repeated layer: more units are called only while the vote, or the mean, is undecided."""

    confidence: Annotated[float, Field(gt=0, le=1)]
    """The minimum probability that the units called so far give the same pool as all units; 1 stops only when nothing can change it."""
    max: Annotated[int, Field(ge=2, le=MOST_UNTIL_UNITS), Whole] | None = None
    """The maximum number of units to call; all of the layer's by default. Above `repeat`, the layer has this many copies, of which the first `repeat` are called concurrently."""
    batch: Annotated[int, Field(ge=1), Whole] = 1
    """How many more units are called concurrently before the next check."""
    threshold: float | None = None
    """For a mean: stops when all units' mean lies on the same side of this number."""
    within: Annotated[float, Field(gt=0)] | None = None
    """For a mean: stops when all units' mean lies within this distance of the mean so far."""
    audit_share: Annotated[float, Field(gt=0, le=1)] | None = None
    """A random share of rows on which all units are called: the report shows how often the early result is the full one."""


Codes = Mapping[StepPath, "Function"]
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


class Layer(Step):
    """Units, blocks or layers in parallel."""

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
    """Calls the items one after another, and stops when the pool after them is decided."""
    model: ModelKey | None = None
    """The model of the units inside that set none."""

    def __init__(
        self,
        items: Step | Sequence[Step],
        repeat: int | None = None,
        *,
        models: Sequence[ModelLike] | None = None,
        inner: Literal["none", "chain"] = "none",
        outer: Literal["dense", "broadcast", "cumulative", "last"] | None = None,
        roots: Sequence[int] | None = None,
        leaves: Sequence[int] | None = None,
        until: Mapping[str, float] | None = None,
    ) -> None:
        from verdict_cli.language.authoring.arguments import model_key

        super().__init__(
            layer=check_steps(items, "a Layer holds"),
            repeat=repeat,
            models=None if models is None else [model_key("Layer", model) for model in models],
            inner=None if inner == "none" else inner,
            outer=outer,
            roots=roots,
            leaves=leaves,
            until=until,
        )

    @property
    def items(self) -> tuple[Any, ...]:
        """The items in parallel."""
        return self.layer

    def via(self, model: ModelLike, **keys: Unpack[ModelKeys]) -> Layer:
        """The model of the units inside that set none."""
        return self._via(model, dict(keys))

    def to_document(self, path: StepPath, functions: FunctionsByPath) -> dict[str, Any]:
        items = step_documents(self.items, (*path, "layer"), functions)
        return {**super().to_document(path, functions), "layer": items}

    def __repr__(self) -> str:
        given = (name for name in type(self).model_fields if name in self.model_fields_set - {"layer"})
        keys = "".join(f", {name}={getattr(self, name)!r}" for name in given)
        return f"Layer([{', '.join(map(repr, self.layer))}]{keys})"


class Block(Step):
    """Steps run one after another."""

    block: Annotated[Seq[StepKey], Field(min_length=1)]
    """The steps."""
    model: ModelKey | None = None
    """The model of the units inside that set none."""
    pinned: bool = Field(default=False, alias="pin")
    """Runs every unit inside once for the whole dataset."""

    def __init__(self, steps: Step | Sequence[Step]) -> None:
        super().__init__(block=check_steps(steps, "a Block holds"))

    @property
    def steps(self) -> tuple[Any, ...]:
        """The steps in order."""
        return self.block

    def via(self, model: ModelLike, **keys: Unpack[ModelKeys]) -> Block:
        """The model of the units inside that set none."""
        return self._via(model, dict(keys))

    def pin(self) -> Block:
        """Run every unit inside once; all rows share the results."""
        return self._with(pinned=True)

    def to_document(self, path: StepPath, functions: FunctionsByPath) -> dict[str, Any]:
        steps = step_documents(self.steps, (*path, "block"), functions)
        return {**super().to_document(path, functions), "block": steps}

    def __repr__(self) -> str:
        return " >> ".join(map(repr, self.block))


class Each(Block):
    """Steps that run once for every entry of a list of the row, such as `Each("source.claims", JudgeUnit(), name="claim")`."""

    def __init__(
        self,
        entries: str,
        steps: Step | Sequence[Step],
        *,
        name: str | None = None,
        most: int | None = None,
        per_call: int | None = None,
    ) -> None:
        Step.__init__(
            self,
            each=entries,
            block=check_steps(steps, "an Each holds"),
            **{"as": name, "max": most, "per_call": per_call},
        )

    def __repr__(self) -> str:
        return f"Each({self.each!r}, {super().__repr__()})"


class UseStep(RowKeys):
    """A named block of this file, or of another one."""

    use: Annotated[str, Field(min_length=1)]
    """The block's name, or `FILE#name`."""


def chained_steps(step: Step) -> tuple[Step, ...]:
    """The steps of a block without keys of its own, else the step alone: brackets around `>>` mean nothing."""
    return step.steps if isinstance(step, Block) and step.model_fields_set == {"block"} else (step,)


def spelling(value: Any) -> str | None:
    """The tag of a step: its unit type, `<custom>`, `<layer>`, `<block>` or `<use>`; None for what is no step."""
    if isinstance(value, ConfigModel | Step):
        value = value.model_dump(by_alias=True, exclude_unset=True)
    kind = next((key for key in STEP_KINDS if key in value), None) if isinstance(value, dict) else None
    if kind is None:
        return None
    if kind == "unit":
        return _TAGS.get(value["unit"], "<custom>") if isinstance(value["unit"], str) else "<custom>"
    return f"<{kind}>"


_TAGS = {name: f"<{name}>" for name in TYPES}

_CHOICES = LazyUnion(
    spelling,
    {
        **TYPES.choices(_TAGS.__getitem__),
        "<custom>": lambda: CustomStep,
        "<layer>": lambda: Layer,
        "<block>": lambda: Block,
        "<use>": lambda: UseStep,
    },
)

StepKey = TypeAliasType("StepKey", Annotated[UnitBase | CustomStep | Layer | Block | UseStep, _CHOICES])
"""A step of a pipeline, a block or a layer."""
