"""Expand a pipeline's steps: one `UnitInstance` for every copy of every unit, in order of definition, and what is inside of
which `each` and `when`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.config_model import Issue
from verdict_cli.errors import SpecError
from verdict_cli.language.expressions.entry_lists import ENTRY_LISTS
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.namespace import Namespace
from verdict_cli.language.pipeline_file import (
    MOST_UNTIL_UNITS,
    Block,
    CustomStep,
    Layer,
    Until,
    UseStep,
)
from verdict_cli.language.units.base import ENTRY, LLMUnit, RowKeys, UnitBase, snake
from verdict_cli.model import Models
from verdict_cli.plan.link import Indices, LinkedBlock, LinkedItem, LinkedLayer, Single
from verdict_cli.plan.place import Place


class StepFlow(Struct, frozen=True):
    """The places, among the plan's `each` steps and `when` conditions, of those around a unit, outermost first.
    ``checked`` are the conditions inside the innermost `each`."""

    groups: Indices = ()
    checked: Indices = ()

    def inside(self, number: int, *, is_each: bool) -> StepFlow:
        """The same with one more `each`, or condition, around it."""
        return (
            StepFlow((*self.groups, number))
            if is_each
            else StepFlow(self.groups, (*self.checked, number))
        )


EVERY_ROW = StepFlow()
"""Of a unit that runs once for every row."""


class RowStep(Struct):
    """The `each` of a step, or its `when`: the step's keys and place, the `each` and conditions around it, its number among
    the steps of its kind, and the instances inside."""

    is_each: bool
    keys: RowKeys
    place: Place
    around: StepFlow
    number: int
    first: int
    end: int = 0

    @property
    def inside(self) -> range:
        """The places of the instances inside."""
        return range(self.first, self.end)


ENTRY_RESERVED = frozenset(
    {
        "source", "previous", "input", "unit", "response", "output", "outputs", "nodes", "human", "index", "loop",
        "true", "false", "none", "True", "False", "None", "not", "and", "or", "in", "is", "if", "else",
        *ENTRY_LISTS,
    }
)  # fmt: skip
"""Names that an entry of `each` cannot have."""


def _names_entry(unit: RowKeys) -> bool:
    """Whether the `when` of a step with `each` names the entry, so that it is checked for each one."""
    try:
        paths = compile_expression(unit.condition or "").paths
    except ExpressionError:
        return False  # reported where it is compiled
    return any(path[0] in (unit.entry_name or ENTRY, "index") for path in paths)


def _kinds_of_row_step(unit: RowKeys) -> tuple[bool, ...]:
    """Whether each of the step's `each` and `when` is the `each`, the outer one first: a `when` that names the entry is
    checked for each one."""
    if unit.condition is None:
        return (True,)
    if unit.each is None:
        return (False,)
    return (True, False) if _names_entry(unit) else (False, True)


def _check_keys_of_each(unit: RowKeys, place: Place) -> None:
    """Report keys that only a step with `each` has."""
    for key, value in (("as", unit.entry_name), ("max", unit.most), ("per_call", unit.per_call)):
        if value is not None:
            message = f"`{key}` is a key of `each`, which this step does not have"
            place.problem("no-each", message, "such as `each: source.claims`", key, key=True)


def _check_entry_name(unit: RowKeys, place: Place, outer: Sequence[RowStep]) -> None:
    """Report a name that the entries cannot have; ``outer`` are the `each` steps around it."""
    name = unit.entry_name or ENTRY
    is_outer = name in [step.keys.entry_name or ENTRY for step in outer]
    if name not in ENTRY_RESERVED and not is_outer:
        return
    reason = "is the name of an entry around this one" if is_outer else "has a meaning of its own"
    key = "each" if unit.entry_name is None else "as"
    place.problem("bad-each", f"`{name}` {reason}", "choose another name: `as: claim`", key)


MOST_UNITS_IN_PLAN = 10_000
"""The most units that a pipeline may have once `repeat` and `models` are laid out."""


class UnitInstance(Struct, frozen=True):
    """One unit of the graph: its name and keys, the place where it is defined, its models (None: invalid, reported), whether it is
    pinned, and whether the texts in its prompt are delimited."""

    name: str
    unit: UnitBase
    place: Place
    models: Models | None
    pinned: bool
    delimited: bool = False
    flow: StepFlow = EVERY_ROW


class InvalidUnit(Struct, frozen=True):
    """A step that cannot be read, already reported. Units that do not depend on it are still checked."""

    name: str
    place: Place
    flow: StepFlow = EVERY_ROW
    pinned: bool = False


class Stopping(Struct, frozen=True):
    """A layer that stops early: its key with its place, its items, and how many are called first."""

    until: Until
    place: Place
    items: tuple[Indices, ...]
    linked_items: tuple[LinkedItem, ...]
    first: int


class _InheritedSettings(Struct, frozen=True):
    """Settings that the units inside inherit: models, pinning, the blocks being expanded (to find cycles), whether an outer
    layer stops early, and whether texts are delimited."""

    models: Models | None
    pinned: bool = False
    using: tuple[tuple[int, str], ...] = ()
    early: bool = False
    delimited: bool = False
    flow: StepFlow = EVERY_ROW


class Expander:
    """Walks the steps and collects their units."""

    def __init__(self) -> None:
        self.instances: list[UnitInstance | InvalidUnit] = []
        self.stopping: list[Stopping] = []
        self.groups: list[RowStep] = []
        self.conditions: list[RowStep] = []
        self.row_steps: list[RowStep] = []

    def steps(
        self, steps: tuple[Any, ...], around: _InheritedSettings, place: Place
    ) -> LinkedBlock:
        """The steps of a pipeline or block, one after another."""
        return LinkedBlock(
            tuple(self._step(step, around, place.below(index)) for index, step in enumerate(steps))
        )

    def _step(self, step: Any, around: _InheritedSettings, place: Place) -> LinkedItem:
        """The step, within its conditions and its `each`."""
        unit = step
        if isinstance(step, CustomStep | UnitBase):
            unit = place.names.unit(step, place.path)
        if unit is None:
            return self._add(InvalidUnit(snake(step.unit), place, around.flow))
        if unit.each is None:
            _check_keys_of_each(unit, place)
        if unit.each is None and unit.condition is None:
            return self._plain_step(unit, around, place)
        return self._row_step(unit, around, place)

    def _row_step(self, unit: Any, around: _InheritedSettings, place: Place) -> LinkedItem:
        """A step with `each` or `when`."""
        if around.pinned or getattr(unit, "pinned", False):
            key = "when" if unit.each is None else "each"
            message = f"a pinned unit runs once for all rows, and `{key}` depends on the row"
            place.problem("pinned-uses-row", message, f"leave `{key}` or `pin` out", key)
        if unit.each is not None:
            _check_entry_name(unit, place, [self.groups[number] for number in around.flow.groups])
        flow = around.flow
        begun = []
        for is_each in _kinds_of_row_step(unit):
            alike = self.groups if is_each else self.conditions
            row_step = RowStep(is_each, unit, place, flow, len(alike), len(self.instances))
            flow = flow.inside(len(alike), is_each=is_each)
            alike.append(row_step)
            begun.append(row_step)
        self.row_steps += begun
        item = self._plain_step(unit, replace(around, flow=flow), place)
        for row_step in begun:
            row_step.end = len(self.instances)
        if unit.each is None:
            return item
        return LinkedLayer((item,), (item,), (item,), "dense", False, place)

    def _plain_step(self, step: Any, around: _InheritedSettings, place: Place) -> LinkedItem:
        if isinstance(step, Layer):
            return self._layer(step, around, place)
        if isinstance(step, Block):
            inside = replace(_cascade(step, around, place), pinned=around.pinned or step.pinned)
            return self.steps(step.block, inside, place.below("block"))
        if isinstance(step, UseStep):
            return self._use(step, around, place)
        return self._unit(step, around, place)

    def _unit(self, unit: UnitBase, around: _InheritedSettings, place: Place) -> LinkedItem:
        models, delimited = around.models, around.delimited
        if isinstance(unit, LLMUnit):
            models = _cascade(unit, around, place).models
            delimited = around.delimited if unit.delimit is None else unit.delimit
        else:
            delimited = False
        pinned = around.pinned or unit.pinned
        if unit.pinned and around.flow != EVERY_ROW:
            message = "a pinned unit runs once for all rows, and cannot be inside `each` or `when`"
            place.problem("pinned-uses-row", message, "leave `pin` out", "pin")
        return self._add(
            UnitInstance(unit.node_name, unit, place, models, pinned, delimited, around.flow)
        )

    def _add(self, instance: UnitInstance | InvalidUnit) -> Single:
        if len(self.instances) >= MOST_UNITS_IN_PLAN:
            message = f"the pipeline has more than {MOST_UNITS_IN_PLAN:,} units"
            problem = instance.place.located("too-many-units", message, "lower `repeat`")
            raise SpecError([problem])
        self.instances.append(instance)
        return Single(len(self.instances) - 1)

    def _layer(self, step: Layer, around: _InheritedSettings, place: Place) -> LinkedLayer:
        inside = _cascade(step, around, place)
        if step.repeat is not None and step.models is not None:
            message = "a layer has both `repeat` and `models`"
            place.problem("two-repeats", message, "keep one of the two", "models", key=True)
        until = step.until
        issue = None if until is None else _until_issue(step, until, around)
        if issue is not None:
            place.issue("bad-until", issue, "until")
            until = None
        if until is not None:
            inside = replace(inside, early=True)
        copies = [inside] * min(_copies(step), MOST_UNITS_IN_PLAN + 1)
        if step.models is not None:
            copies = [
                replace(inside, models=place.policy(model, "models", index))
                for index, model in enumerate(step.models)
            ]
        starts = [len(self.instances)]
        linked_items = []
        for copy in copies:
            for index, item in enumerate(step.layer):
                linked_items.append(self._step(item, copy, place.below("layer", index)))
                starts.append(len(self.instances))
        items = tuple(linked_items)
        if until is not None:
            ranges = tuple(tuple(range(*ends)) for ends in itertools.pairwise(starts))
            first = (step.repeat or 1) * len(step.layer)
            first = first if first < len(items) and step.models is None else 1
            self.stopping.append(Stopping(until, place.below("until"), ranges, items, first))
        chained = step.inner == "chain"
        roots = _chosen_items(step.roots, items, place.below("roots"))
        if not roots:
            roots = items[:1] if chained else items
        leaves = _chosen_items(step.leaves, items, place.below("leaves")) or items
        if step.outer == "last":
            leaves = leaves[-1:]
        return LinkedLayer(items, roots, leaves, step.outer, chained, place.below("outer"))

    def _use(self, step: UseStep, around: _InheritedSettings, place: Place) -> LinkedItem:
        block = place.names.block(step.use, (*place.path, "use"))
        if block is None:
            return self._add(InvalidUnit("", place, around.flow))
        names, steps, path = block
        mark = (id(names), str(path[-1]))
        if mark in around.using:
            message = f"the block {step.use!r} uses itself"
            place.problem("block-cycle", message, "a block may use only other blocks", "use")
            return self._add(InvalidUnit("", place, around.flow))
        inside = replace(
            around,
            using=(*around.using, mark),
            delimited=around.delimited or names.spec.file.delimit,
        )
        return self.steps(steps, inside, Place(names, path))


def _cascade(
    step: Layer | Block | LLMUnit, around: _InheritedSettings, place: Place
) -> _InheritedSettings:
    """The settings with the models that the step names."""
    if step.model is None:
        return around
    return replace(around, models=place.policy(step.model, "model"))


def _chosen_items(
    indices: Indices | None, items: tuple[LinkedItem, ...], place: Place
) -> tuple[LinkedItem, ...]:
    """The items that `roots` or `leaves` names; reports one that is not there, or named twice."""
    count = len(items)
    chosen: list[int] = []
    for position, index in enumerate(indices or ()):
        if not -count <= index < count:
            message = f"there is no item {index}: the layer has {count}, numbered from 0"
            hint = f"use 0 to {count - 1}, or -1 for the last"
            place.problem("no-such-item", message, hint, position)
        elif index % count in chosen:
            message = f"the item {index} is named twice"
            place.problem("no-such-item", message, "name each item once", position)
        else:
            chosen.append(index % count)
    return tuple(items[index] for index in sorted(chosen))


def _copies(step: Layer) -> int:
    """How often the items of a layer without `models` are laid out."""
    repeat = step.repeat or 1
    if step.until is None or step.until.max is None or step.repeat is None:
        return repeat
    return max(repeat, step.until.max // len(step.layer))


def _until_issue(step: Layer, until: Until, around: _InheritedSettings) -> Issue | None:
    """What keeps a layer as it is written from stopping early."""
    copies = len(step.models) if step.models is not None else _copies(step)
    items = copies * len(step.layer)
    linked = step.inner != "none" or step.outer or step.roots or step.leaves
    counted = "repeat" if step.models is None else "models"
    issues = (
        (
            step.repeat is None and step.models is None,
            Issue("", "`until` needs a layer with `repeat` or `models`", "such as `repeat: 9`"),
        ),
        (
            linked,
            Issue(
                "",
                "`until` needs items that are independent of each other and all feed the next step",
                "leave `inner`, `outer`, `roots` and `leaves` out",
            ),
        ),
        (
            items < 2,
            Issue("", "`until` needs at least two units to choose from", "such as `repeat: 9`"),
        ),
        (
            items > MOST_UNTIL_UNITS,
            Issue(
                "",
                f"the layer has {items} units, `until` takes at most {MOST_UNTIL_UNITS}",
                "lower `repeat`",
            ),
        ),
        (
            until.max is not None and until.max != items,
            Issue(
                "max",
                f"`max` is {until.max}, but the layer has {items} units",
                f"write `max: {items}`, leave it out, or change `{counted}`",
            ),
        ),
        (
            around.early,
            Issue(
                "",
                "the layer is inside another one that stops early",
                "leave one `until` out",
            ),
        ),
        (
            around.pinned,
            Issue("", "a pinned layer runs once for all rows", "leave `until` or `pin` out"),
        ),
    )
    return next((issue for applies, issue in issues if applies), None)


def expand_steps(names: Namespace) -> tuple[Expander, LinkedBlock]:
    """Every unit of the pipeline with the layers that stop early and the steps that follow the row, and the links.

    Raises SpecError for a pipeline that is too large; other errors are reported.
    """
    file = names.spec.file
    place = Place(names)
    models = () if file.model is None else place.policy(file.model, "model")
    settings = _InheritedSettings(models, delimited=file.delimit)
    expander = Expander()
    try:
        block = expander.steps(file.pipeline, settings, place.below("pipeline"))
    except RecursionError:
        message = "the steps are nested too deeply"
        problem = place.located("too-deep", message, "flatten them", "pipeline")
        raise SpecError([problem]) from None
    return expander, block
