"""The ids of nodes: `judge` where the name is unique in the graph, else `judge[0]`, `judge[1]` …"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from verdict_cli.plan.seats import Hole, Seat

RESERVED = frozenset({"source", "output", "failure", "row", "id", "status", "calls", "cost_usd"})
"""Heads of the result columns that no unit brings."""


def ids(seats: Sequence[Seat | Hole]) -> list[str]:
    """Each seat's id, numbered in order of definition; tells of a name that units of two types share."""
    total = Counter(one.name for one in seats)
    given: Counter[str] = Counter()
    first: dict[str, Seat] = {}
    made = []
    for one in seats:
        made.append(one.name if total[one.name] == 1 else f"{one.name}[{given[one.name]}]")
        given[one.name] += 1
        if isinstance(one, Seat):
            _check(one, first.setdefault(one.name, one))
    return made


def _check(one: Seat, first: Seat) -> None:
    path = (*one.path, "name")
    if one.name in RESERVED:
        one.names.problem(
            "reserved-name",
            f"a unit cannot be named {one.name!r}: result columns begin with it",
            "choose another `name`",
            path,
        )
    elif one.unit.type_name != first.unit.type_name:
        one.names.problem(
            "name-used-twice",
            f"the name {one.name!r} is used for a {one.unit.type_name} and for a {first.unit.type_name}",
            "give one of them another `name`; only units of one type share a name and are numbered",
            path,
        )
