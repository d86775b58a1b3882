"""Compute a unit that calls no model: a map's expressions, a pool over the outputs before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.language.fields.types import RecordType, UnknownType
from verdict_cli.language.units.pools import AbstainedError
from verdict_cli.messages import Output, Row
from verdict_cli.plan.levels import Given, spread_outputs
from verdict_cli.plan.node import MapNode, Node, PoolNode
from verdict_cli.run.attempts import draw
from verdict_cli.run.node_run import broken_rule, doubtful, node_values, propagated, written_id


def compute(
    node: Node,
    row: Row,
    outputs: Sequence[Any],
    previous: Mapping[str, Any],
    seed: int,
    entries: Mapping[int, Any] = MappingProxyType({}),
) -> Output | None:
    """The output of a node that calls no model, None where it abstains. RowError when it cannot be computed.

    ``entries`` are the names of the entries at which a unit inside `each` was run, by the unit's place in the plan.
    """
    values = node_values(node, row, previous)
    before = outputs_before(node, outputs)
    work = node.work
    if isinstance(work, MapNode):
        output = work.map(values | {"outputs": [given.output for given in before]})
    else:
        assert isinstance(work, PoolNode)
        if not before:
            hint = "`empty: 0` gives the pool this value then"
            raise RowError("there is nothing to pool: the list of `each` is empty", hint=hint, kind="empty-list")
        try:
            if work.rubric is not None:
                named = [(given.output, _names(given, number, row, entries)) for number, given in enumerate(before)]
                criteria = [(output, names) for output, names in named if names is not None]
                output = work.rubric([one for one, _ in criteria], [names for _, names in criteria], row.source)
            else:
                lot = draw(seed, row.lot, written_id(node, row)) if work.unit.draws() else 0
                output = _pool(node, work, before, lot)
        except AbstainedError:
            return None
    output = {name: output[name] for name in node.unit.output if name in output} if node.unit.output else output
    broken = broken_rule(node, values | {"response": output, "output": output})
    if broken:
        raise RowError(broken, kind="invalid")
    passed = propagated(node, values, output, output)
    if node.escalation is not None and doubtful(
        node.escalation, values | {"response": output, "output": passed, "outputs": [given.output for given in before]}
    ):
        return None
    return passed


def outputs_before(node: Node, outputs: Sequence[Any]) -> list[Given]:
    """The outputs of a node's parents; of parents inside an `each`, those of every entry in order."""
    if node.spread is None:
        return [Given(parent, (), outputs[parent]) for parent in node.parents]
    return spread_outputs(node.spread, outputs.__getitem__)


def _names(given: Given, number: int, row: Row, entries: Mapping[int, Any]) -> Mapping[str, Any] | None:
    """The names of the entry to which an output belongs, and its number; None for an entry at which its unit was
    skipped."""
    if not given.place:
        return {"index": number} if row.entry is None else {**row.entry.names, "index": number}
    names = entries[given.unit]
    for place in given.place:
        names = None if names is None else names[place]
    return None if names is None else {**names, "index": given.place[-1]}


def _pool(node: Node, work: PoolNode, before: Sequence[Given], seed: int) -> dict[str, Any]:
    left = [given for given in before if given.output is not None]
    if len(left) < work.unit.quorum:
        raise RowError(f"{len(left)} of {len(before)} units are left, the quorum is {work.unit.quorum}", kind="quorum")
    position = {parent: place for place, parent in enumerate(node.parents)}
    places = [position[given.unit] for given in left]
    weights = None if work.weights is None else [work.weights[place] for place in places]
    pooled: dict[str, Any] = {}
    said: dict[str, list[Any]] = {}
    for name, numbers in work.fields:
        values = said[name] = [numbers[place](given.output[name]) for place, given in zip(places, left, strict=True)]
        pooled[name] = work.unit.pool_seeded(values, weights, seed)
    return work.unit.to_output(pooled) | work.unit.extra_fields(pooled, said, weights)


def empty_output(node: Node) -> dict[str, Any]:
    """The output of a pool that got nothing: what `empty` says."""
    work = node.work
    assert isinstance(work, PoolNode)
    value, pooled = work.unit.empty, {name for name, _ in work.fields}
    fields = work.unit.output_fields(RecordType(dict.fromkeys(pooled, UnknownType()))).fields
    if isinstance(value, Mapping):
        return {name: value.get(name) for name in fields}
    pooled = pooled or {"score"}  # a rubric pools no field of its own name
    return {name: value if name in pooled else None for name in fields}


def pooled_values(node: Node, outputs: Sequence[Output | None], leaves: Sequence[int]) -> list[dict[str, Any]]:
    """The values that a pool takes from each of these parents that has an output, by field."""
    work = node.work
    assert isinstance(work, PoolNode)
    found = []
    for leaf in leaves:
        output = outputs[leaf]
        if output is not None:
            place = node.parents.index(leaf)
            found.append({name: numbers[place](output[name]) for name, numbers in work.fields})
    return found
