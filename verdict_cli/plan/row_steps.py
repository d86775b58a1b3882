"""Steps with `each` or `when` as they are written: what is inside of which, and what cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verdict_cli.language.expressions.entry_lists import ENTRY_LISTS
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.namespace import Namespace
from verdict_cli.language.units.base import ENTRY, RowKeys

InstancePath = tuple[str | int, ...]


@dataclass(frozen=True)
class StepFlow:
    """The places, among the plan's `each` steps and `when` conditions, of those around a unit, outermost first.
    ``checked`` are the conditions inside the innermost `each`."""

    groups: tuple[int, ...] = ()
    checked: tuple[int, ...] = ()

    def inside(self, number: int, *, is_each: bool) -> StepFlow:
        """The same with one more `each`, or condition, around it."""
        return StepFlow((*self.groups, number)) if is_each else StepFlow(self.groups, (*self.checked, number))


EVERY_ROW = StepFlow()
"""Of a unit that runs once for every row."""


@dataclass
class RowStep:
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


def begin_row_steps(unit: RowKeys, names: Namespace, path: InstancePath, around: StepFlow, first: int) -> list[RowStep]:
    """The step's `each` and its `when`, the outer one first: a `when` that names the entry is checked for each one."""
    each_step = [RowStep(True, unit, names, path, around, first)] if unit.each is not None else []
    when = [RowStep(False, unit, names, path, around, first)] if unit.condition is not None else []
    return [*each_step, *when] if each_step and when and _names_entry(unit) else [*when, *each_step]


def check_keys_of_each(unit: RowKeys, names: Namespace, path: InstancePath) -> None:
    """Report keys that only a step with `each` has."""
    for key, value in (("as", unit.entry_name), ("max", unit.most), ("per_call", unit.per_call)):
        if value is not None:
            message = f"`{key}` is a key of `each`, which this step does not have"
            names.problem("no-each", message, "such as `each: source.claims`", (*path, key), key=True)


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
        taken = "is the name of an entry around this one" if name in outer else "has a meaning of its own"
        at = (*path, "as" if unit.entry_name is not None else "each")
        names.problem("bad-each", f"`{name}` {taken}", "choose another name: `as: claim`", at)
