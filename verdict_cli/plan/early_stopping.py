"""Layers that stop early: which pool they feed, by which rule it is decided, and what keeps them from stopping."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.config_model import Issue
from verdict_cli.language.fields.types import FieldType, all_values, number_bounds
from verdict_cli.language.pipeline_file import Until
from verdict_cli.plan.expand import Stopping
from verdict_cli.plan.link import Indices, outputs
from verdict_cli.plan.node import CompiledNodes, LLMNode, Node, PoolNode

if TYPE_CHECKING:
    from verdict_cli.language.units.pools import ModePoolUnit


class Vote(Struct, frozen=True):
    """A vote on each of these fields. Beside each: how many values it can have, None where that is not known."""

    fields: tuple[tuple[str, int | None], ...]


class Mean(Struct, frozen=True):
    """A mean of one field between two ends, which is decided on one side of `threshold` or to `within` a distance."""

    field: str
    low: float
    high: float
    threshold: float | None
    within: float | None


class EarlyStop(Struct, frozen=True):
    """A layer that is called only while its pool is open (`until:`).

    ``items`` are the indices of each item's nodes, ``leaves`` of the node that each gives to the ``pool``; the first
    ``first`` items are called concurrently, then ``batch`` at a time. ``exchangeable``: all items are copies of one unit
    on one model, which the rule's promise takes for granted. On ``audit_share`` of the rows, all items are called.
    """

    items: tuple[Indices, ...]
    leaves: Indices
    pool: int
    quorum: int
    confidence: float
    first: int
    batch: int
    rule: Vote | Mean
    exchangeable: bool = True
    audit_share: float = 0.0

    @property
    def promise(self) -> float:
        """The probability that the result is that of all units; 0 where nothing is known of it."""
        return self.confidence if self.exchangeable or self.confidence >= 1 else 0.0


_POOLS = "put a ModePoolUnit (a vote) or a MeanPoolUnit behind the layer"


class _CannotStopError(ValueError):
    """What keeps a layer from stopping early: a message, a hint, and the key below `until` that is wrong."""

    def __init__(self, message: str, hint: str, key: str = "") -> None:
        super().__init__(message)
        self.issue = Issue(key, message, hint)


def compile_early_stopping(
    layer: Stopping,
    nodes: CompiledNodes,
    uses: Sequence[frozenset[int]],
) -> EarlyStop | None:
    """How a layer stops early; None, and reported, where it cannot, or where one of its units is invalid.

    ``uses`` are the places of the units that each node names. A layer of different models or units is called in turns,
    and reported: its votes are not exchangeable, so nothing says how likely its result is that of all units.
    """
    try:
        early = _stops(layer, nodes, uses)
        if early is None or early.confidence >= 1 or early.exchangeable:
            return early
        message = "the units of this layer differ, so `until` makes no promise of the full verdict"
        hint = "copies of one unit on one model keep the promise, and so does `confidence: 1`"
        layer.place.warn(message, hint, "confidence")
        return _in_turns(early, nodes)
    except _CannotStopError as error:
        layer.place.issue("bad-until", error.issue)
        return None


def _leaves(layer: Stopping) -> list[int]:
    """The unit that each item gives on."""
    leaves: list[int] = []
    for item in layer.linked_items:
        units = outputs(item)
        if len(units) != 1:
            raise _CannotStopError(
                f"an item gives on {len(units)} units, `until` needs one", "pool them first"
            )
        leaves += units
    return leaves


def _refuse_other_uses(
    layer: Stopping, pool: Node, nodes: CompiledNodes, uses: Sequence[frozenset[int]]
) -> None:
    """A unit that may not be asked can be used by its own item and by the pool alone."""
    inside = {index for item in layer.items for index in item}
    for index, used in enumerate(uses):
        if index == pool.index or index in inside or not used & inside:
            continue
        unsure = _node(nodes, min(used & inside)).id
        user = nodes[index]
        raise _CannotStopError(
            f"{user.id if user else 'a later unit'} uses {unsure}, which is not always asked",
            f"use what {pool.id} gives",
        )


def _stops(
    layer: Stopping, nodes: CompiledNodes, uses: Sequence[frozenset[int]]
) -> EarlyStop | None:
    leaves = _leaves(layer)
    if any(nodes[index] is None for item in layer.items for index in item):
        return None
    children = {child for leaf in leaves for child in _node(nodes, leaf).children}
    if any(nodes[child] is None for child in children):
        return None
    pool = nodes[min(children)] if len(children) == 1 else None
    if pool is None or not isinstance(pool.work, PoolNode):
        raise _CannotStopError("`until` needs a pool as the next step", _POOLS)
    if any(_node(nodes, leaf).groups != pool.groups for leaf in leaves):
        raise _CannotStopError(
            "an item runs once for every entry of a list, and `until` needs one value of each item",
            "pool the entries inside the item",
        )
    if pool.parents != tuple(leaves):
        raise _CannotStopError(
            f"{pool.id} pools more than this layer", "let it pool this layer alone"
        )
    _refuse_other_uses(layer, pool, nodes, uses)
    if layer.until.audit_share is not None and pool.groups:
        hint = "leave `audit_share` out, or move the layer out of `each`"
        raise _CannotStopError(
            "`audit_share` draws rows, and this layer runs for every entry", hint, "audit_share"
        )
    rule = _rule(layer, pool, [_node(nodes, leaf) for leaf in leaves])
    until = layer.until
    kinds = {_kind(item, nodes) for item in layer.items}
    return EarlyStop(
        layer.items,
        tuple(leaves),
        pool.index,
        pool.work.unit.quorum,
        until.confidence,
        layer.first,
        until.batch,
        rule,
        exchangeable=len(kinds) == 1,
        audit_share=until.audit_share or 0.0,
    )


def _kind(item: Sequence[int], nodes: CompiledNodes) -> tuple[object, ...]:
    """What an item asks of which models: the same for exchangeable items."""
    parts: list[object] = []
    for node in (_node(nodes, index) for index in item):
        models = node.work.models if isinstance(node.work, LLMNode) else ()
        parts.append((node.name, tuple(model.name for model in models)))
    return tuple(parts)


def _in_turns(early: EarlyStop, nodes: CompiledNodes) -> EarlyStop:
    """The layer with one item of each kind after the other."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for number, item in enumerate(early.items):
        kinds.setdefault(_kind(item, nodes), []).append(number)
    # One of each kind in turn, so that a few early votes are not all of one model.
    order = [
        number for turn in zip_longest(*kinds.values()) for number in turn if number is not None
    ]
    leaves = tuple(early.leaves[number] for number in order)
    return replace(early, items=tuple(early.items[number] for number in order), leaves=leaves)


def _rule(layer: Stopping, pool: Node, leaves: Sequence[Node]) -> Vote | Mean:
    # Here, because few pipelines stop early.
    from verdict_cli.language.units.pools import MeanPoolUnit, ModePoolUnit

    assert isinstance(pool.work, PoolNode)
    unit, until = pool.work.unit, layer.until
    if pool.work.weights is not None:
        message = f"{pool.id} weighs its units, `until` counts them alike"
        raise _CannotStopError(message, "leave `weights` out")
    types_by_field = {
        name: [leaf.output.fields[name] for leaf in leaves] for name, _ in pool.work.fields
    }
    if isinstance(unit, ModePoolUnit):
        _refuse_keys_of_means(until, pool, unit)
        return Vote(tuple((name, _count(types)) for name, types in types_by_field.items()))
    if not isinstance(unit, MeanPoolUnit):
        raise _CannotStopError(f"no rule says when a {unit.type_name} is decided", _POOLS)
    if (until.threshold is None) == (until.within is None):
        hint = "such as `threshold: 0.5` (which side the mean is on), or `within: 0.25` (how near it is)"
        raise _CannotStopError("a mean needs either `threshold` or `within`", hint)
    if len(types_by_field) != 1:
        message = f"{pool.id} pools {', '.join(types_by_field)}, `until` needs one field"
        raise _CannotStopError(message, "name it: `field:`")
    ((name, types),) = types_by_field.items()
    ends = [bounds for bounds in map(number_bounds, types) if bounds is not None]
    if len(ends) < len(types):
        message = (
            f"{name!r} has no ends, so nothing says how far a unit not asked could move the mean"
        )
        hint = "give the judge a scale with ends, such as `{min: 0, max: 1}`"
        raise _CannotStopError(message, hint)
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return Mean(name, low, high, until.threshold, until.within)


def _refuse_keys_of_means(until: Until, pool: Node, unit: ModePoolUnit) -> None:
    """_CannotStopError for ties that need all votes, and for keys that a vote does not have."""
    if unit.ties not in (None, "first"):
        message = f"{pool.id} has `ties: {unit.ties}`, and a layer that stops early does not count all votes"
        raise _CannotStopError(message, "remove `ties`, or `until`")
    for key in ("threshold", "within"):
        if getattr(until, key) is not None:
            message = f"`{key}` is for a mean, {pool.id} takes a vote"
            raise _CannotStopError(message, f"leave `{key}` out", key)


def _count(kinds: Sequence[FieldType]) -> int | None:
    """How many values the field can have, None where that is not known or the units differ."""
    counts = {len(all_values(kind) or ()) for kind in kinds}
    return (counts.pop() or None) if len(counts) == 1 else None


def _node(nodes: CompiledNodes, index: int) -> Node:
    node = nodes[index]
    assert node is not None
    return node
