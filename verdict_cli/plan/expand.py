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
from verdict_cli.model import Model
from verdict_cli.plan.link import LinkedBlock, LinkedItem, LinkedLayer, Single

InstancePath = tuple[str | int, ...]


class StepFlow(Struct, frozen=True):
    """The places, among the plan's `each` steps and `when` conditions, of those around a unit, outermost first.
    ``checked`` are the conditions inside the innermost `each`."""

    groups: tuple[int, ...] = ()
    checked: tuple[int, ...] = ()

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
    """The `each` of a step, or its `when`: the step's keys and path, the `each` and conditions around it, and the places of
    the instances inside."""

    is_each: bool
    keys: RowKeys
    names: Namespace
    path: InstancePath
    around: StepFlow
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


def begin_row_steps(
    unit: RowKeys, names: Namespace, path: InstancePath, around: StepFlow, first: int
) -> list[RowStep]:
    """The step's `each` and its `when`, the outer one first: a `when` that names the entry is checked for each one."""
    each_step = [RowStep(True, unit, names, path, around, first)] if unit.each is not None else []
    when = [RowStep(False, unit, names, path, around, first)] if unit.condition is not None else []
    return [*each_step, *when] if each_step and when and _names_entry(unit) else [*when, *each_step]


def check_keys_of_each(unit: RowKeys, names: Namespace, path: InstancePath) -> None:
    """Report keys that only a step with `each` has."""
    for key, value in (("as", unit.entry_name), ("max", unit.most), ("per_call", unit.per_call)):
        if value is not None:
            message = f"`{key}` is a key of `each`, which this step does not have"
            names.problem(
                "no-each", message, "such as `each: source.claims`", (*path, key), key=True
            )


def check_row_steps(
    unit: RowKeys, names: Namespace, path: InstancePath, *, pinned: bool, groups: Sequence[RowStep]
) -> None:
    """Report a step that cannot follow the row, and a name that its entries cannot have; ``groups`` are the `each` steps
    around it."""
    if pinned or getattr(unit, "pinned", False):
        key = "when" if unit.each is None else "each"
        message = f"a pinned unit runs once for all rows, and `{key}` depends on the row"
        names.problem("pinned-uses-row", message, f"leave `{key}` or `pin` out", (*path, key))
    if unit.each is None:
        check_keys_of_each(unit, names, path)
        return
    outer = [group.keys.entry_name or ENTRY for group in groups]
    name = unit.entry_name or ENTRY
    if name in ENTRY_RESERVED or name in outer:
        taken = (
            "is the name of an entry around this one"
            if name in outer
            else "has a meaning of its own"
        )
        at = (*path, "as" if unit.entry_name is not None else "each")
        names.problem("bad-each", f"`{name}` {taken}", "choose another name: `as: claim`", at)


MOST_UNITS_IN_PLAN = 10_000
"""The most units that a pipeline may have once `repeat` and `models` are laid out."""


class UnitInstance(Struct, frozen=True):
    """One unit of the graph: its keys, the file and path where it is defined, its models (None: invalid, reported), whether
    it is pinned, and whether the texts in its prompt are delimited."""

    unit: UnitBase
    names: Namespace
    path: InstancePath
    models: tuple[Model, ...] | None
    pinned: bool
    delimited: bool = False
    flow: StepFlow = EVERY_ROW

    @property
    def name(self) -> str:
        """The unit's name."""
        return self.unit.node_name


class InvalidUnit(Struct, frozen=True):
    """A step that cannot be read, already reported. Units that do not depend on it are still checked."""

    name: str
    names: Namespace
    path: InstancePath
    flow: StepFlow = EVERY_ROW


class Stopping(Struct, frozen=True):
    """A layer that stops early: its key, its position in the file, its items, and how many are called first."""

    until: Until
    names: Namespace
    path: InstancePath
    items: tuple[tuple[int, ...], ...]
    linked_items: tuple[LinkedItem, ...]
    first: int


class _InheritedSettings(Struct, frozen=True):
    """Settings that the units inside inherit: models, pinning, the blocks being expanded (to find cycles), whether an outer
    layer stops early, and whether texts are delimited."""

    names: Namespace
    models: tuple[Model, ...] | None
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

    def steps(
        self, steps: tuple[Any, ...], around: _InheritedSettings, path: InstancePath
    ) -> LinkedBlock:
        """The steps of a pipeline or block, one after another."""
        return LinkedBlock(
            tuple(self._step(step, around, (*path, index)) for index, step in enumerate(steps))
        )

    def _step(self, step: Any, around: _InheritedSettings, path: InstancePath) -> LinkedItem:
        """The step, within its conditions and its `each`."""
        names = around.names
        unit = names.unit(step, path) if isinstance(step, CustomStep | UnitBase) else step
        if unit is None:
            return self._add(InvalidUnit(snake(step.unit), names, path, around.flow))
        if unit.each is None and unit.condition is None:
            check_keys_of_each(unit, names, path)
            return self._plain_step(unit, around, path)
        begun = begin_row_steps(unit, names, path, around.flow, len(self.instances))
        check_row_steps(
            unit,
            names,
            path,
            pinned=around.pinned,
            groups=[self.groups[at] for at in around.flow.groups],
        )
        flow = around.flow
        for row_step in begun:
            row_step.around = flow
            known = self.groups if row_step.is_each else self.conditions
            known.append(row_step)
            flow = flow.inside(len(known) - 1, is_each=row_step.is_each)
        inside = replace(around, flow=flow)
        item = self._plain_step(unit, inside, path)
        for row_step in begun:
            row_step.end = len(self.instances)
        if unit.each is None:
            return item
        return LinkedLayer((item,), (item,), (item,), "dense", False, (names, path))

    def _plain_step(self, step: Any, around: _InheritedSettings, path: InstancePath) -> LinkedItem:
        if isinstance(step, Layer):
            return self._layer(step, around, path)
        if isinstance(step, Block):
            inside = replace(
                self._cascade(step.model, around, path), pinned=around.pinned or step.pinned
            )
            return self.steps(step.block, inside, (*path, "block"))
        if isinstance(step, UseStep):
            return self._use(step, around, path)
        return self._unit(step, around, path)

    def _unit(self, unit: UnitBase, around: _InheritedSettings, path: InstancePath) -> LinkedItem:
        names = around.names
        own, delimit = (unit.model, unit.delimit) if isinstance(unit, LLMUnit) else (None, False)
        models = around.models if own is None else names.policy(own, (*path, "model"))
        delimited = around.delimited if delimit is None else delimit
        pinned = around.pinned or unit.pinned
        if unit.pinned and around.flow != EVERY_ROW:
            message = "a pinned unit runs once for all rows, and cannot be inside `each` or `when`"
            names.problem("pinned-uses-row", message, "leave `pin` out", (*path, "pin"))
        return self._add(UnitInstance(unit, names, path, models, pinned, delimited, around.flow))

    def _add(self, instance: UnitInstance | InvalidUnit) -> Single:
        if len(self.instances) >= MOST_UNITS_IN_PLAN:
            message = f"the pipeline has more than {MOST_UNITS_IN_PLAN:,} units"
            raise SpecError(
                [
                    instance.names.spec.problem(
                        "too-many-units", message, "lower `repeat`", instance.path
                    )
                ]
            )
        self.instances.append(instance)
        return Single(len(self.instances) - 1)

    def _layer(self, step: Layer, around: _InheritedSettings, path: InstancePath) -> LinkedLayer:
        names = around.names
        inside = self._cascade(step.model, around, path)
        if step.repeat is not None and step.models is not None:
            names.problem(
                "two-repeats",
                "a layer has both `repeat` and `models`",
                "keep one of the two",
                (*path, "models"),
                key=True,
            )
        until = None if step.until is None else self._stops(step, around, path)
        if until is not None:
            inside = replace(inside, early=True)
        copies = [inside] * min(_copies(step), MOST_UNITS_IN_PLAN + 1)
        if step.models is not None:
            copies = [
                replace(inside, models=names.policy(model, (*path, "models", index)))
                for index, model in enumerate(step.models)
            ]
        starts = [len(self.instances)]
        linked_items = []
        for copy in copies:
            for index, item in enumerate(step.layer):
                linked_items.append(self._step(item, copy, (*path, "layer", index)))
                starts.append(len(self.instances))
        items = tuple(linked_items)
        if until is not None:
            ranges = tuple(tuple(range(*ends)) for ends in itertools.pairwise(starts))
            first = (step.repeat or 1) * len(step.layer)
            first = first if first < len(items) and step.models is None else 1
            self.stopping.append(Stopping(until, names, (*path, "until"), ranges, items, first))
        chained = step.inner == "chain"
        roots = self._chosen_items(step.roots, items, names, (*path, "roots")) or (
            items[:1] if chained else items
        )
        leaves = self._chosen_items(step.leaves, items, names, (*path, "leaves")) or items
        if step.outer == "last":
            leaves = leaves[-1:]
        return LinkedLayer(items, roots, leaves, step.outer, chained, (names, (*path, "outer")))

    def _stops(self, step: Layer, around: _InheritedSettings, path: InstancePath) -> Until | None:
        """The layer's `until`; None, and reported, where the layer as it is written cannot stop early."""
        assert step.until is not None
        issue = until_issue(step, step.until)
        if not issue and around.early:
            issue = Issue(
                "",
                "the layer is inside another one that stops early",
                "leave one `until` out",
            )
        if not issue and around.pinned:
            issue = Issue("", "a pinned layer runs once for all rows", "leave `until` or `pin` out")
        if not issue:
            return step.until
        key, message, hint = issue
        around.names.problem("bad-until", message, hint, (*path, "until", *([key] if key else [])))
        return None

    def _chosen_items(
        self,
        indices: tuple[int, ...] | None,
        items: tuple[LinkedItem, ...],
        names: Namespace,
        path: InstancePath,
    ) -> tuple[LinkedItem, ...]:
        chosen: list[int] = []
        for position, index in enumerate(indices or ()):
            if not -len(items) <= index < len(items):
                names.problem(
                    "no-such-item",
                    f"there is no item {index}: the layer has {len(items)}, numbered from 0",
                    f"use 0 to {len(items) - 1}, or -1 for the last",
                    (*path, position),
                )
            elif index % len(items) in chosen:
                names.problem(
                    "no-such-item",
                    f"the item {index} is named twice",
                    "name each item once",
                    (*path, position),
                )
            else:
                chosen.append(index % len(items))
        return tuple(items[index] for index in sorted(chosen))

    def _use(self, step: UseStep, around: _InheritedSettings, path: InstancePath) -> LinkedItem:
        block = around.names.block(step.use, (*path, "use"))
        if block is None:
            return self._add(InvalidUnit("", around.names, path, around.flow))
        names, steps, where = block
        mark = (id(names), str(where[-1]))
        if mark in around.using:
            around.names.problem(
                "block-cycle",
                f"the block {step.use!r} uses itself",
                "a block may use only other blocks",
                (*path, "use"),
            )
            return self._add(InvalidUnit("", around.names, path, around.flow))
        delimited = around.delimited or names.spec.file.delimit
        return self.steps(
            steps,
            replace(around, names=names, using=(*around.using, mark), delimited=delimited),
            where,
        )

    def _cascade(
        self, model: Any, around: _InheritedSettings, path: InstancePath
    ) -> _InheritedSettings:
        return (
            around
            if model is None
            else replace(around, models=around.names.policy(model, (*path, "model")))
        )


def _copies(step: Layer) -> int:
    """How often the items of a layer without `models` are laid out."""
    repeat = step.repeat or 1
    if step.until is None or step.until.max is None or step.repeat is None:
        return repeat
    return max(repeat, step.until.max // len(step.layer))


def until_issue(step: Layer, until: Until) -> Issue | None:
    """(key, what is wrong, hint) of a layer that cannot stop early as it is written, else None."""
    if step.repeat is None and step.models is None:
        return Issue("", "`until` needs a layer with `repeat` or `models`", "such as `repeat: 9`")
    if step.inner != "none" or step.outer or step.roots or step.leaves:
        return Issue(
            "",
            "`until` needs items that are independent of each other and all feed the next step",
            "leave `inner`, `outer`, `roots` and `leaves` out",
        )
    copies = len(step.models) if step.models is not None else _copies(step)
    items = copies * len(step.layer)
    if items < 2:
        return Issue("", "`until` needs at least two units to choose from", "such as `repeat: 9`")
    if items > MOST_UNTIL_UNITS:
        return Issue(
            "",
            f"the layer has {items} units, `until` takes at most {MOST_UNTIL_UNITS}",
            "lower `repeat`",
        )
    if until.max is not None and until.max != items:
        return Issue(
            "max",
            f"`max` is {until.max}, but the layer has {items} units",
            f"write `max: {items}`, leave it out, or change `{'repeat' if step.models is None else 'models'}`",
        )
    return None


def expand_steps(names: Namespace) -> tuple[Expander, LinkedBlock]:
    """Every unit of the pipeline with the layers that stop early and the steps that follow the row, and the links.

    Raises SpecError for a pipeline that is too large; other errors are reported.
    """
    file = names.spec.file
    models = () if file.model is None else names.policy(file.model, ("model",))
    expander = Expander()
    try:
        block = expander.steps(
            file.pipeline, _InheritedSettings(names, models, delimited=file.delimit), ("pipeline",)
        )
    except RecursionError:
        problem = names.spec.problem(
            "too-deep", "the steps are nested too deeply", "flatten them", ("pipeline",)
        )
        raise SpecError([problem]) from None
    return expander, block
