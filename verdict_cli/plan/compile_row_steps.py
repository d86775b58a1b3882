"""Compile `each` and `when`: the list, its entries' type, and the conditions, each at its place in the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from verdict_cli.language.expressions.entry_lists import ENTRY_LISTS
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.expressions.paths import ExpressionPath
from verdict_cli.language.fields.types import (
    INTEGER,
    TRUTH,
    FieldType,
    ListType,
    TextListType,
    TranscriptType,
    UnknownType,
    without_null,
)
from verdict_cli.language.prompts.prompt import PlaceholderPrompt
from verdict_cli.language.units.base import ENTRY, MOST_ENTRIES
from verdict_cli.plan.expand import Expander, InvalidUnit, UnitInstance
from verdict_cli.plan.levels import ITEM_COLUMN, Condition, EachGroup, below, spread
from verdict_cli.plan.node import LLMNode, Node
from verdict_cli.plan.row_steps import RowStep
from verdict_cli.plan.scope import NodeScope, Upstream

_ROOTS = ("source", "previous", "input")


class RowSteps:
    """The `each` steps and conditions of a pipeline, compiled as their first unit is reached."""

    def __init__(self, expanded: Expander, columns: Mapping[str, FieldType]) -> None:
        self._expanded, self._columns = expanded, columns
        self.groups: list[EachGroup | None] = [None] * len(expanded.groups)
        self.conditions: list[Condition | None] = [None] * len(expanded.conditions)
        self.scopes: list[tuple[RowStep, NodeScope]] = []

    def entries(self, groups: Sequence[int]) -> dict[str, FieldType]:
        """The names that units inside these `each` steps see, with their types."""
        names: dict[str, FieldType] = {}
        for group in groups:
            compiled = self.groups[group]
            names[self._expanded.groups[group].keys.entry_name or ENTRY] = (
                UnknownType() if compiled is None else compiled.entry
            )
        return {**names, "index": INTEGER} if names else names

    def begin(self, index: int, upstream: Sequence[Upstream], parents: Sequence[Sequence[int]]) -> None:
        """Compile the steps whose first unit has this place: conditions around an `each` before it, those on it after."""
        begun = [(step, number, True) for number, step in enumerate(self._expanded.groups) if step.first == index]
        begun += [(step, number, False) for number, step in enumerate(self._expanded.conditions) if step.first == index]
        for step, number, is_each in sorted(begun, key=lambda item: (len(item[0].around.groups), item[2])):
            outside = {parent for unit in step.inside for parent in parents[unit]} - set(step.inside)
            names = self.entries(step.around.groups)
            scope = NodeScope(upstream, tuple(sorted(outside)), self._columns, groups=step.around.groups, entries=names)
            self.scopes.append((step, scope))
            if is_each:
                self.groups[number] = _compile_each(step, scope)
            else:
                self.conditions[number] = _compile_condition(step, scope)

    def finish(self, nodes: Sequence[Node]) -> tuple[tuple[Node, ...], tuple[EachGroup, ...], tuple[Condition, ...]]:
        """The nodes with what depends on all of them, the `each` steps and the conditions; all are valid."""
        groups = [group for group in self.groups if group is not None]
        _check_per_call(self._expanded.groups, groups, nodes)
        conditions = tuple(condition for condition in self.conditions if condition is not None)
        return (*_finish_nodes(nodes, groups), conditions)


def _compile_each(step: RowStep, scope: NodeScope) -> EachGroup | None:
    path = (*step.path, "each")
    entries = _expression(step, step.keys.each or "", (*_ROOTS, *ENTRY_LISTS), scope, "each")
    if entries is None:
        return None
    kind = without_null(entries.type)
    if isinstance(kind, TextListType | ListType):
        entry: FieldType = kind.item
    elif isinstance(kind, TranscriptType | UnknownType):
        entry = UnknownType()
    else:
        message = f"`each: {entries.text}` is of type {kind.type_name()}, not a list"
        step.names.problem("bad-each", message, "name a list, such as `source.claims` of type `list[str]`", path)
        return None
    most = MOST_ENTRIES if step.keys.most is None else step.keys.most
    return EachGroup(
        name=step.keys.entry_name or ENTRY,
        entries=entries,
        most=most,
        per_call=step.keys.per_call,
        around=step.around.groups,
        checked=step.around.checked,
        nodes=tuple(step.inside),
        waits=tuple(sorted(scope.uses.units)),
        needs=frozenset(scope.uses.needs - scope.uses.tested),
        entry=entry,
    )


def _compile_condition(step: RowStep, scope: NodeScope) -> Condition | None:
    holds = _expression(step, step.keys.condition or "", _ROOTS, scope, "when")
    if holds is None:
        return None
    kind = without_null(holds.type)
    if not isinstance(kind, UnknownType) and kind.json_schema() != TRUTH.json_schema():
        message = f"`when: {holds.text}` is of type {kind.type_name()}, not true or false"
        step.names.problem("bad-when", message, "compare: `previous.triage.score > 3`", (*step.path, "when"))
        return None
    needs = frozenset(scope.uses.needs - scope.uses.tested)
    return Condition(holds, tuple(sorted(scope.uses.units)), needs)


def _expression(step: RowStep, text: str, roots: tuple[str, ...], scope: NodeScope, key: str) -> Expression | None:
    path = (*step.path, key)
    return scope.expression(
        text, roots, lambda message, hint: step.names.problem("bad-expression", message, hint, path)
    )


def _check_per_call(steps: Sequence[RowStep], groups: Sequence[EachGroup], nodes: Sequence[Node]) -> None:
    """Report steps whose entries cannot be judged several in one call."""
    for step, group in zip(steps, groups, strict=True):
        node = nodes[group.head]
        if group.per_call is None:
            continue
        work = node.work
        if len(group.nodes) > 1 or not isinstance(work, LLMNode) or node.checked or node.escalation is not None:
            reason = "it holds more than one unit that calls a model, once for each entry"
        elif work.reading.json_schema is None or work.reading.top_logprobs or work.reading.then is not None:
            reason = f"the reply to several entries is a JSON list, which {node.id} does not read"
        elif work.letters or work.prompt.shows_images:
            reason = f"{node.id} lays out options or images"
        elif "index" in work.response.fields:
            reason = f"{node.id} has a response field `index`, which numbers the entries"
        else:
            continue
        hint = "leave `per_call` out: then each entry has a call of its own"
        step.names.problem("bad-each", f"`per_call` is not possible here: {reason}", hint, (*step.path, "per_call"))


def _finish_nodes(nodes: Sequence[Node], groups: Sequence[EachGroup]) -> tuple[tuple[Node, ...], tuple[EachGroup, ...]]:
    """The nodes with what depends on all of them, and the `each` steps with the paths that every entry must have."""
    if not groups:
        return tuple(nodes), ()
    total = Counter(node.name for node in nodes)
    finished = []
    for node in nodes:
        alike = [other for other in nodes if other.name == node.name and other.groups == node.groups]
        numbered = len(node.groups) == 1 and len(alike) == total[node.name]
        parents = [(parent, below(nodes[parent].groups, node.groups)) for parent in node.parents]
        finished.append(
            replace(
                node,
                copies=(alike.index(node), len(alike)) if numbered else None,
                spread=spread(parents) if any(groups for _, groups in parents) else None,
            )
        )
    shown: list[set[ExpressionPath]] = [set() for _ in groups]
    for node in finished:
        if node.groups and not node.checked and not groups[node.groups[-1]].checked:
            group = groups[node.groups[-1]]
            prompt = node.work.prompt if isinstance(node.work, LLMNode) else None
            slots = prompt.slots if isinstance(prompt, PlaceholderPrompt) else ()
            shown[node.groups[-1]] |= {slot.paths[0] for slot in slots if slot.paths[0][0] == group.name}
    return tuple(finished), tuple(
        replace(group, shown=tuple(sorted(paths, key=str))) for group, paths in zip(groups, shown, strict=True)
    )


def check_item_column(node: Node, instance: UnitInstance) -> None:
    """Report a unit inside `each` with a field that has the name of the column of entries."""
    if node.groups and ITEM_COLUMN in node.output.fields:
        message = (
            f"a unit inside `each` cannot give a field {ITEM_COLUMN!r}: that column of the results has the entries"
        )
        instance.names.problem("reserved-name", message, "rename it with `propagate`", instance.path)


def check_pinned_uses(instance: UnitInstance | InvalidUnit, scope: NodeScope, nodes: Sequence[Node | None]) -> None:
    """Report a pinned unit that uses one that runs for every row."""
    for index in sorted(scope.uses.units):
        before = nodes[index]
        if before is not None and not before.pinned:
            instance.names.problem(
                "pinned-uses-row",
                f"a pinned unit runs once, but this one uses {before.id!r}, which runs for every row",
                f"pin {before.id!r} too, or leave `pin` out",
                instance.path,
            )
