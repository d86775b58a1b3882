"""How often units under `each` and `when` run, for an estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.messages import Row
from verdict_cli.plan.node import Node, Plan


def follows_units(plan: Plan, node: Node) -> bool:
    """Whether other units' answers decide how often a unit runs at a row."""
    groups = [plan.groups[group] for group in node.groups]
    conditions = {*node.checked, *(place for group in groups for place in group.checked)}
    return any(group.waits for group in groups) or any(plan.conditions[place].waits for place in conditions)


def entry_assumptions(plan: Plan) -> tuple[str, ...]:
    """What is assumed about lists that units make."""
    return tuple(
        f"the list of `each: {group.text}` is made by a unit: up to {group.most:,} entries a row are counted"
        for group in plan.groups
        if group.waits
    )


def runs_of_nodes(plan: Plan, row: Row) -> Counter[int]:
    """How often each unit runs at a row at most, by its index; nothing for a row whose list is bad."""
    try:
        return _runs(plan, (), {"source": row.source})
    except RowError:
        return Counter()


def _runs(plan: Plan, around: tuple[int, ...], values: Mapping[str, Any] | None) -> Counter[int]:
    """How often each unit of a level runs at most; ``values`` None: they are not known. RowError for a bad list."""

    def holds(places: Iterable[int]) -> bool:
        known = (plan.conditions[place] for place in places if values is not None)
        return all(condition(values or {}) for condition in known if not condition.waits)

    found: Counter[int] = Counter()
    for node in plan.nodes:
        if node.groups == around and not node.pinned and holds(node.checked):
            found[node.index] += 1
    for place, group in enumerate(plan.groups):
        if group.around != around or not holds(group.checked):
            continue
        if group.waits or values is None:
            inside = _runs(plan, (*around, place), None)
            times = -(-group.most // (group.per_call or 1))
            found.update({index: count * times for index, count in inside.items()})
            continue
        for index, entry in list(enumerate(group.list_of(values)))[:: group.per_call or 1]:
            found.update(_runs(plan, (*around, place), {**values, group.name: entry, "index": index}))
    return found
