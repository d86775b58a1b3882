"""How steps are linked: a fold over placed steps that only yields edges (language.md, section 7; paper, figure 2).

A placed step is a unit (one node), a block (steps in turn) or a layer (items in parallel).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from verdict_cli.config_model import HintedError
from verdict_cli.plan.place import Place

Edge = tuple[int, int]
Indices = tuple[int, ...]
"""Indices of units, or of `each` steps or conditions around them."""


class WiringError(HintedError):
    """Two steps that cannot be linked; ``place`` is that of the layer's key."""

    def __init__(self, message: str, hint: str, place: Place) -> None:
        super().__init__(message, hint)
        self.place = place


class Single(Struct, frozen=True):
    """One node."""

    node: int


class LinkedBlock(Struct, frozen=True):
    """Steps run one after another."""

    steps: tuple[LinkedItem, ...]


class LinkedLayer(Struct, frozen=True):
    """Items in parallel. `roots` take the input, `leaves` give the output; `place` is that of `outer`."""

    items: tuple[LinkedItem, ...]
    roots: tuple[LinkedItem, ...]
    leaves: tuple[LinkedItem, ...]
    outer: str | None
    chained: bool
    place: Place


LinkedItem = Single | LinkedBlock | LinkedLayer


def inner_edges(step: LinkedItem) -> Iterator[Edge]:
    """The edges within a step."""
    if isinstance(step, LinkedBlock):
        for part in step.steps:
            yield from inner_edges(part)
        for before, after in zip(step.steps, step.steps[1:], strict=False):
            yield from link(before, after)
    elif isinstance(step, LinkedLayer):
        for item in step.items:
            yield from inner_edges(item)
        if step.chained:
            for before, after in zip(step.items, step.items[1:], strict=False):
                yield from link(before, after)


def link(before: LinkedItem, after: LinkedItem) -> Iterator[Edge]:
    """The edges from a step to the next one. WiringError where `broadcast` or `cumulative` do not fit."""
    match before, after:
        case LinkedBlock(), _:
            yield from link(before.steps[-1], after)
        case LinkedLayer(), LinkedLayer():
            yield from _paired(before, after)
        case LinkedLayer(), _:
            for leaf in before.leaves:
                yield from link(leaf, after)
        case Single(), LinkedBlock():
            yield from link(before, after.steps[0])
        case Single(), LinkedLayer():
            for root in after.roots:
                yield from link(before, root)
        case Single(), Single():
            yield before.node, after.node


def _paired(before: LinkedLayer, after: LinkedLayer) -> Iterator[Edge]:
    leaf_count, root_count = len(before.leaves), len(after.roots)
    outer = before.outer or ("broadcast" if leaf_count == root_count else "dense")
    if outer in ("dense", "last"):
        for leaf in before.leaves:
            for root in after.roots:
                yield from link(leaf, root)
        return
    if leaf_count != root_count:
        raise WiringError(
            f"`outer: {outer}` pairs {leaf_count} leaves with the next step's {root_count} roots",
            "make the two counts equal (`repeat`, `leaves`, `roots`), or use `outer: dense`",
            before.place,
        )
    for index, root in enumerate(after.roots):
        first = index if outer == "broadcast" else 0
        for leaf in before.leaves[first : index + 1]:
            yield from link(leaf, root)


def outputs(step: LinkedItem) -> Indices:
    """The nodes that a step passes on, in order of definition."""
    if isinstance(step, Single):
        return (step.node,)
    if isinstance(step, LinkedBlock):
        return outputs(step.steps[-1])
    return tuple(sorted(node for leaf in step.leaves for node in outputs(leaf)))
