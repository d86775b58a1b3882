"""What the prompts of a plan's units have in common: the columns behind their tags, and where what they share ends.

A provider such as Anthropic caches a prefix only where the request marks its end. A mark costs a quarter of the prefix, so
it is put only where at least two calls share the text before it: calls of other units at the same row, of other entries, of
the same unit with its options in another order, or, for what no row changes, of other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from verdict_cli.language.expressions.paths import ExpressionPath
from verdict_cli.language.prompts.placeholders import Slot
from verdict_cli.language.prompts.prompt import END, Cut, PlaceholderPrompt
from verdict_cli.llm.model_families import family
from verdict_cli.model import Model
from verdict_cli.plan.early_layers import Early
from verdict_cli.plan.node import LLMNode, Node

MOST_MARKS = 4
"""The most marks that Anthropic takes in a request."""
_NEIGHBOURS = 50
"""How many units whose prompts begin most alike are compared with each unit."""


def with_row_tags(nodes: Sequence[Node], columns: tuple[str, ...] | None) -> tuple[Node, ...]:
    """The nodes, with prompts whose tags (`delimit`) are made from these columns of the row (None: all of them)."""

    def tagged(node: Node) -> Node:
        if not isinstance(node.work, LLMNode) or not node.work.prompt.delimited:
            return node
        return replace(node, work=replace(node.work, prompt=node.work.prompt.with_columns(columns)))

    return tuple(map(tagged, nodes))


def takes_marks(model: Model) -> bool:
    """Whether prefixes are cached only where requests mark them, and are to be cached."""
    of = family(model)
    return of is not None and of.protocol == "anthropic" and model.prompt_cache == "auto"


def with_marks(nodes: Sequence[Node], early: Sequence[Early]) -> tuple[Node, ...]:
    """The nodes, where a model needs marks with the ends of what their prompts share."""
    marked = [node for node in nodes if isinstance(node.work, LLMNode) and _is_marked(node)]
    if not marked:
        return tuple(nodes)
    unsure = {place for layer in early for item in layer.items[layer.first :] for place in item}
    for node in nodes:
        if node.checked or not unsure.isdisjoint(node.needs):
            unsure.add(node.index)
    prompts = sorted((_Prompt.of(node, node.index not in unsure) for node in marked), key=lambda each: each.pieces)
    cuts = {each.node.index: each.cuts(prompts, place) for place, each in enumerate(prompts)}
    return tuple(_with_cuts(node, cuts.get(node.index, ())) for node in nodes)


def _is_marked(node: Node) -> bool:
    assert isinstance(node.work, LLMNode)
    is_plain = isinstance(node.work.prompt, PlaceholderPrompt) and not node.pinned
    return is_plain and any(takes_marks(model) for stage in node.stages for model in stage)


def _with_cuts(node: Node, cuts: tuple[Cut, ...]) -> Node:
    if not cuts or not isinstance(node.work, LLMNode):
        return node
    assert isinstance(node.work.prompt, PlaceholderPrompt)
    return replace(node, work=replace(node.work, prompt=replace(node.work.prompt, cuts=cuts)))


class _Place(NamedTuple):
    """Where a piece is: its section, and how many pieces of the section precede it."""

    section: int
    piece: int


@dataclass(frozen=True)
class _Prompt:
    """A unit's prompt as texts that are equal where what is sent is equal. ``sure``: the unit is called at every row."""

    node: Node
    pieces: tuple[str, ...]
    places: tuple[_Place, ...]
    slots: tuple[Slot | None, ...]
    sure: bool

    @classmethod
    def of(cls, node: Node, sure: bool) -> _Prompt:
        """The prompt of a unit that calls a model."""
        found = [*_flat(node)]
        pieces, places, slots = zip(*found, strict=True)
        return cls(node, pieces, places, slots, sure)

    def cuts(self, prompts: Sequence[_Prompt], place: int) -> tuple[Cut, ...]:
        """The ends of what this prompt shares, the first one first; ``prompts`` are sorted, and it is at ``place``."""
        found = {self._varying_at(root) for root in self._roots()}
        for others in (prompts[place + 1 : place + 1 + _NEIGHBOURS], prompts[max(0, place - _NEIGHBOURS) : place]):
            found |= {self._shared(other) for other in others if other.sure and self._can_share(other)}
        cuts = sorted(cut for cut in found if cut is not None and cut != Cut(0, 0, 0))
        return (*cuts[:1], *cuts[1:][1 - MOST_MARKS :])

    def _roots(self) -> Iterator[str]:
        """What changes from call to call while what precedes it is shared: the row, the entry, the order of options."""
        yield "row"
        if self.node.groups:
            yield "entry"
        assert isinstance(self.node.work, LLMNode)
        if self.node.work.letters and len(self.node.work.unit.option_orders(0)) > 1:
            yield "options"

    def _varying_at(self, what: str) -> Cut | None:
        """The place of the first placeholder that changes with it."""
        for place, slot in zip(self.places, self.slots, strict=True):
            if slot is not None and what in _changes_with(self.node, slot):
                return Cut(place.section, place.piece, 0)
        return END if what == "row" and self._suffix() is not None else None

    def _suffix(self) -> str | None:
        assert isinstance(self.node.work, LLMNode)
        return self.node.work.fixed_suffix

    def _can_share(self, other: _Prompt) -> bool:
        mine, its = self.node.work, other.node.work
        assert isinstance(mine, LLMNode)
        assert isinstance(its, LLMNode)
        return (
            self.node.groups == other.node.groups
            and mine.models[0] == its.models[0]
            and mine.reading.json_schema == its.reading.json_schema
        )

    def _shared(self, other: _Prompt) -> Cut | None:
        """Where what the two prompts share ends."""
        for index, (mine, its) in enumerate(zip(self.pieces, other.pieces, strict=False)):
            if mine == its:
                continue
            chars = 0
            if self.slots[index] is None and other.slots[index] is None and mine[0] == its[0] == _LITERAL:
                chars = next((at for at, (a, b) in enumerate(zip(mine, its, strict=False)) if a != b), -1) - 1
                chars = min(len(mine), len(its)) - 1 if chars < 0 else chars
            return Cut(*self.places[index], chars)
        if len(self.pieces) == len(other.pieces) and self._suffix() is not None and self._suffix() == other._suffix():
            return END
        last = self.places[min(len(self.pieces), len(other.pieces)) - 1]
        return Cut(last.section, last.piece + 1, 0)


_LITERAL, _ROLE, _SLOT = "L", "R", "S"


def _flat(node: Node) -> Iterator[tuple[str, _Place, Slot | None]]:
    assert isinstance(node.work, LLMNode)
    prompt = node.work.prompt
    assert isinstance(prompt, PlaceholderPrompt)
    for section, (role, parts) in enumerate(prompt.sections):
        yield _ROLE + role, _Place(section, 0), None
        for piece, part in enumerate(parts):
            if isinstance(part, str):
                yield _LITERAL + part, _Place(section, piece), None
            else:
                meant = [_meant(node, path) for path in part.paths]
                shown = (meant, part.many, part.spec, part.image, part.delimited, part.filters)
                yield _SLOT + repr(shown), _Place(section, piece), part


def _meant(node: Node, path: ExpressionPath) -> Any:
    """What a path names, the same for all units of a row."""
    if path[0] == "unit":
        return ("unit", repr(node.settings.get(str(path[1])))) if len(path) > 1 else node.id
    if path[0] != "input":
        return path
    cast = next((cast for cast in node.casts if len(path) > 1 and cast.field == path[1]), None)
    if cast is None or cast.path is None:
        return node.name, path, None if cast is None else repr(cast.default)
    return *cast.path, *path[2:], repr(cast.type)


def _changes_with(node: Node, slot: Slot) -> frozenset[str]:
    """What the text of a placeholder changes with."""
    assert isinstance(node.work, LLMNode)
    found = set()
    for path in slot.paths:
        root = path[0]
        if root == "unit":
            continue
        found.add("row")
        if root == "input" and (len(path) < 2 or path[1] in node.work.letters):
            found.add("options")
        if root == "input":
            cast = next((cast for cast in node.casts if len(path) > 1 and cast.field == path[1]), None)
            root = cast.path[0] if cast is not None and cast.path is not None else root
        if root not in ("source", "input"):  # an entry's names, and what units of the entry gave
            found.add("entry")
    return frozenset(found)
