"""Compute a unit that calls no model: a map's expressions, a pool over the outputs before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.language.fields.types import RecordType, UnknownType
from verdict_cli.language.units.base import AbstainedError
from verdict_cli.messages import JsonObject, NamedValues, Output, Row
from verdict_cli.plan.levels import Given, spread_outputs
from verdict_cli.plan.node import MapNode, Node, PoolNode, pooled_field
from verdict_cli.run.attempts import draw
from verdict_cli.run.escalation import doubtful
from verdict_cli.run.node_run import broken_rule, node_values, propagated, written_id


def compute(
    node: Node,
    row: Row,
    outputs: Sequence[Any],
    previous: NamedValues,
    seed: int,
    entries: Mapping[int, Any] = MappingProxyType({}),
) -> Output | None:
    """The output of a node that calls no model, None where it abstains. RowError when it cannot be computed.

    ``entries`` are the names of the entries at which a unit inside `each` was run, by the unit's place in the plan.
    """
    values = node_values(node, row, previous)
    given = None if node.spread is None else spread_outputs(node.spread, outputs.__getitem__)
    before = outputs_before(node, outputs) if given is None else [source.output for source in given]
    work = node.work
    if isinstance(work, MapNode):
        output = work.map(values | {"outputs": before})
    else:
        assert isinstance(work, PoolNode)
        if not before:
            hint = "`empty: 0` gives the pool this value then"
            raise RowError(
                "there is nothing to pool: the list of `each` is empty",
                hint=hint,
                kind="empty-list",
            )
        try:
            if work.rubric is not None:
                criteria = _criteria(before, given, row, entries)
                output = work.rubric(
                    [judged for judged, _ in criteria], [names for _, names in criteria], row.source
                )
            else:
                seeded = draw(seed, row.draw_id, written_id(node, row))
                output = _pool(work, before, _places(node, given), seeded)
        except AbstainedError:
            return None
    output = (
        {name: output[name] for name in node.unit.output if name in output}
        if node.unit.output
        else output
    )
    broken = (
        broken_rule(node, values | {"response": output, "output": output}) if node.rules else ""
    )
    if broken:
        raise RowError(broken, kind="invalid")
    passed = propagated(node, values, output, output)
    if node.escalation is not None and doubtful(
        node.escalation, values | {"response": output, "output": passed, "outputs": before}
    ):
        return None
    return passed


def outputs_before(node: Node, outputs: Sequence[Any]) -> list[Output | None]:
    """The outputs of a node's parents; of parents inside an `each`, those of every entry in order."""
    if node.spread is None:
        return [outputs[parent] for parent in node.parents]
    return [given.output for given in spread_outputs(node.spread, outputs.__getitem__)]


def _places(node: Node, given: Sequence[Given] | None) -> Sequence[int]:
    """The place among a node's parents of the unit that gave each output."""
    if given is None:
        return range(len(node.parents))
    position = {parent: index for index, parent in enumerate(node.parents)}
    return [position[source.unit] for source in given]


def _criteria(
    before: Sequence[Output | None],
    given: Sequence[Given] | None,
    row: Row,
    entries: Mapping[int, Any],
) -> list[tuple[Output | None, NamedValues]]:
    """The outputs with the names of their entries, and `index`, but for entries at which their unit was skipped; outside
    `each`, `index` is the output's number."""
    around: NamedValues = {} if row.entry is None else row.entry.names
    if given is None:
        return [(output, {**around, "index": number}) for number, output in enumerate(before)]
    criteria: list[tuple[Output | None, NamedValues]] = []
    for number, source in enumerate(given):
        names: Any = entries[source.unit] if source.within else around
        for index in source.within:
            names = None if names is None else names[index]
        if names is not None:
            criteria.append(
                (source.output, {**names, "index": source.within[-1] if source.within else number})
            )
    return criteria


def _pool(
    work: PoolNode, before: Sequence[Output | None], indices: Sequence[int], seed: int
) -> JsonObject:
    answers = [
        (index, output) for index, output in zip(indices, before, strict=True) if output is not None
    ]
    if len(answers) < work.unit.quorum:
        raise RowError(
            f"{len(answers)} of {len(before)} units are left, the quorum is {work.unit.quorum}",
            kind="quorum",
        )
    weights = None if work.weights is None else [work.weights[index] for index, _ in answers]
    pooled: JsonObject = {}
    values_of: dict[str, list[Any]] = {}
    for name, numbers in work.fields:
        values = values_of[name] = [
            numbers[index](pooled_field(output, name)) for index, output in answers
        ]
        pooled[name] = work.unit.pool(values, weights, seed)
        if len(answers) < len(before):
            pooled[name] = work.unit.of_the_rest(pooled[name], values)
    return work.unit.to_output(pooled) | work.unit.extra_fields(pooled, values_of, weights)


def empty_output(node: Node) -> JsonObject:
    """The output of a pool that got nothing: what `empty` says."""
    work = node.work
    assert isinstance(work, PoolNode)
    value, pooled = work.unit.empty, {name for name, _ in work.fields}
    fields = work.unit.output_fields(RecordType(dict.fromkeys(pooled, UnknownType()))).fields
    if isinstance(value, Mapping):
        return {name: value.get(name) for name in fields}
    pooled = pooled or {"score"}  # a rubric pools no field of its own name
    return {name: value if name in pooled else None for name in fields}


def pooled_values(
    node: Node, outputs: Sequence[Output | None], leaves: Sequence[int]
) -> list[JsonObject]:
    """The values that a pool takes from each of these parents that has an output with its fields."""
    work = node.work
    assert isinstance(work, PoolNode)
    pooled = []
    for leaf in leaves:
        output = outputs[leaf]
        if output is not None and all(name in output for name, _ in work.fields):
            index = node.parents.index(leaf)
            pooled.append({name: numbers[index](output[name]) for name, numbers in work.fields})
    return pooled
