"""Graphs that follow the row: `each` steps, `when` conditions, and the order in which the units of one level run.

A level is the units of the pipeline, or those inside one `each`. The units inside are compiled once; at its own level an
`each` is run as one unit, at the place of its first one (the head).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from verdict_cli.errors import ReplyError, RowError
from verdict_cli.language.expressions.entry_lists import ENTRY_LISTS, Turn
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.expressions.paths import ExpressionPath, RowValues, follow
from verdict_cli.language.fields.types import FieldType, RecordType, UnknownType, Values, list_of
from verdict_cli.plan.link import Indices

if TYPE_CHECKING:
    from verdict_cli.plan.early_stopping import EarlyStop
    from verdict_cli.plan.node import Node, Plan

ITEM_COLUMN = "item"
"""The column beside those of a unit inside `each` that has the entries."""


class Condition(Struct, frozen=True):
    """A compiled `when`: the units whose outputs it reads, and those that it cannot do without."""

    holds: Expression
    waits: Indices
    needs: frozenset[int]

    def __call__(self, values: RowValues) -> bool:
        """Whether it holds. RowError where its value is not a boolean."""
        holds = self.holds(values)
        if not isinstance(holds, bool):
            raise RowError(
                f"`when: {self.holds.text}` gives {holds!r:.80}, not true or false", hint="compare"
            )
        return holds


class EachGroup(Struct, frozen=True):
    """A compiled `each`: the list, its entries' name and type, and the units inside.

    ``around`` are the `each` steps around it, ``checked`` the conditions that are checked before it. ``waits`` are the units
    whose outputs the list is made from. ``shown`` are the paths into an entry that every entry must have.
    """

    name: str
    entries: Expression
    most: int
    around: Indices
    checked: Indices
    nodes: Indices
    waits: Indices
    needs: frozenset[int]
    entry: FieldType
    shown: tuple[ExpressionPath, ...] = ()

    @property
    def head(self) -> int:
        """The place of the first unit inside."""
        return self.nodes[0]

    @property
    def text(self) -> str:
        """The expression."""
        return self.entries.text

    def list_of(self, values: RowValues) -> list[Any]:
        """The entries. RowError, with the entry's number, for a list that cannot be run."""
        entries = self.entries({**values, **ENTRY_LISTS})
        if not isinstance(entries, list):
            raise RowError(f"`each: {self.text}` gives {entries!r:.80}, not a list", kind="input")
        if len(entries) > self.most:
            raise RowError(
                f"`each: {self.text}` gives {len(entries):,} entries, more than `max: {self.most}`",
                hint="raise `max` if so many calls are meant",
                kind="input",
            )
        return [self._read(number, entry) for number, entry in enumerate(entries)]

    def _read(self, number: int, entry: Any) -> Any:
        try:
            if entry is None:
                raise RowError("it is null")
            if not isinstance(entry, Turn) and not isinstance(self.entry, UnknownType):
                entry = self.entry.read(entry)
            for path in self.shown:
                if follow(path, {self.name: entry}) is None:
                    raise RowError(f"{'.'.join(map(str, path))} is null; a prompt needs a value")
        except (RowError, ReplyError) as error:
            raise RowError(
                f"`each: {self.text}`, entry {number}: {error.message}", kind="input"
            ) from None
        return entry


class Level(Struct, frozen=True):
    """For each unit that a level runs, the number of units it waits for; those that wait for none, in order; the children
    that wait for each unit of the plan; whether a unit is awaited; and the `each` that a head stands for."""

    waiting: Mapping[int, int]
    ready: Indices
    children: Sequence[Sequence[int]]
    awaited: Sequence[bool]
    groups: Mapping[int, int]
    early: tuple[EarlyStop, ...]


def plan_level(plan: Plan, around: Indices, *, pinned: bool) -> Level:
    """The level inside these `each` steps."""
    depth = len(around)

    def stand_in(index: int) -> int | None:
        groups = plan.nodes[index].groups
        if groups[:depth] != around:
            return None
        return index if len(groups) == depth else plan.groups[groups[depth]].head

    members: dict[int, set[int]] = {}
    groups: dict[int, int] = {}
    for node in plan.nodes:
        member = stand_in(node.index) if node.pinned == pinned else None
        if member is None:
            continue
        waits = members.setdefault(member, set())
        waits.update(node.parents)
        checked = [*node.checked]
        for group in node.groups[depth:]:
            waits.update(plan.groups[group].waits)
            checked += plan.groups[group].checked
        for condition in checked:
            waits.update(plan.conditions[condition].waits)
        if len(node.groups) > depth:
            groups[member] = node.groups[depth]
    children: list[list[int]] = [[] for _ in plan.nodes]
    waiting = {}
    for member, waits in members.items():
        before = {stand_in(index) for index in waits} - {member, None}
        for parent in before:
            assert parent is not None
            children[parent].append(member)
        waiting[member] = sum(parent in members for parent in before)
    return Level(
        waiting,
        tuple(index for index, count in waiting.items() if not count),
        tuple(tuple(waiting_units) for waiting_units in children),
        tuple(node.index in groups or bool(node.stages) for node in plan.nodes),
        groups,
        tuple(
            early for early in plan.early if plan.nodes[early.pool].groups == around and not pinned
        ),
    )


Spread = tuple["int | tuple[Indices, Spread]", ...]
"""Where a unit behind `each` gets outputs from: a unit, or the units inside an `each` with how each entry is spread."""


def spread(parents: Sequence[tuple[int, Indices]]) -> Spread:
    """How the outputs of units, each with the `each` steps around it, are laid out in one list: entry by entry, in order
    of definition."""
    parts: list[Any] = []
    inside: dict[int, list[tuple[int, Indices]]] = {}
    for parent, groups in sorted(parents):
        if not groups:
            parts.append(parent)
        elif groups[0] in inside:
            inside[groups[0]].append((parent, groups[1:]))
        else:
            inside[groups[0]] = [(parent, groups[1:])]
            parts.append(groups[:1])
    return tuple(
        part
        if isinstance(part, int)
        else (tuple(parent for parent, _ in inside[part[0]]), spread(inside[part[0]]))
        for part in parts
    )


def below(groups: Indices, around: Indices) -> Indices:
    """Those of the `each` steps around a unit that are not around another one."""
    shared = 0
    while shared < min(len(groups), len(around)) and groups[shared] == around[shared]:
        shared += 1
    return groups[shared:]


class Given(NamedTuple):
    """One of the outputs that a unit gets: its unit, its place in the lists of `each` steps, and the output."""

    unit: int
    within: Indices
    output: Any


def spread_outputs(
    parts: Spread, outputs: Callable[[int], Any], within: Indices = ()
) -> list[Given]:
    """The outputs in order."""
    sequence: list[Given] = []
    for part in parts:
        if isinstance(part, int):
            sequence.append(Given(part, within, outputs(part)))
            continue
        units, inside = part
        lists = {unit: outputs(unit) for unit in units}
        if inside == units:  # nothing deeper, as nearly always
            at_all = [(unit, entries) for unit, entries in lists.items() if entries is not None]
            count = max((len(entries) for _, entries in at_all), default=0)
            sequence += [
                Given(unit, (*within, entry), entries[entry])
                for entry in range(count)
                for unit, entries in at_all
            ]
            continue
        for entry in range(
            max((len(entries) for entries in lists.values() if entries is not None), default=0)
        ):
            entry_outputs = {
                unit: None if entries is None else entries[entry] for unit, entries in lists.items()
            }
            sequence += spread_outputs(inside, entry_outputs.__getitem__, (*within, entry))
    return sequence


def listed(output: RecordType, depth: int) -> RecordType:
    """The fields of a unit inside so many `each` steps as seen from outside: lists."""
    fields = dict(output.fields)
    for _ in range(depth):
        fields = {name: list_of(kind) for name, kind in fields.items()}
    return RecordType(fields, output.unknown) if depth else output


def field_lists(outputs: Any, name: str, depth: int) -> Any:
    """One field of the outputs of a unit inside so many `each` steps, in lists as long as theirs."""
    if outputs is None:
        return None
    if not depth:
        return outputs.get(name)
    return [field_lists(output, name, depth - 1) for output in outputs]


def present(outputs: Any, depth: int) -> Any:
    """The lists without the entries that have no output."""
    if not depth:
        return outputs
    return [present(output, depth - 1) for output in outputs if output is not None]


def in_lists(node: Node, outputs: Any) -> Values | None:
    """The fields of a unit's output; of one inside `each`, a list of each field. None where there is no output."""
    if outputs is None or not node.groups:
        return outputs  # type: ignore[no-any-return]
    return {name: field_lists(outputs, name, len(node.groups)) for name in node.output.fields}


def when_text(plan: Plan, node: Node) -> str | None:
    """The conditions under which a unit runs, joined; None where it always does."""
    numbers = [
        *node.checked,
        *(number for group in node.groups for number in plan.groups[group].checked),
    ]
    texts = [plan.conditions[number].holds.text for number in sorted(set(numbers))]
    if len(texts) < 2:
        return texts[0] if texts else None
    return " and ".join(f"({text})" for text in texts)
