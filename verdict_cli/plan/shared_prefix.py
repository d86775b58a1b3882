"""What the prompts of a plan's units have in common: the columns behind their tags, and where what they share ends.

A provider such as Anthropic caches a prefix only where the request marks its end. A mark costs a quarter of the prefix, so
it is put only where at least two calls share the text before it: calls of other units at the same row, of other entries, of
the same unit with its options in another order, or, for what no row changes, of other rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from msgspec import structs

from verdict_cli.language.expressions.paths import ExpressionPath
from verdict_cli.language.prompts.placeholders import Slot
from verdict_cli.language.prompts.prompt import END, Cut, PlaceholderPrompt
from verdict_cli.llm.model_families import family
from verdict_cli.model import Model
from verdict_cli.plan.early_stopping import EarlyStop
from verdict_cli.plan.node import LLMNode, Node

MOST_MARKS = 4
"""The most marks that Anthropic takes in a request."""


def with_row_tags(nodes: Sequence[Node], columns: tuple[str, ...] | None) -> tuple[Node, ...]:
    """The nodes, with prompts whose tags (`delimit`) are made from these columns of the row (None: all of them)."""

    def tagged(node: Node) -> Node:
        if not isinstance(node.work, LLMNode) or not node.work.prompt.delimited:
            return node
        return structs.replace(
            node, work=structs.replace(node.work, prompt=node.work.prompt.with_columns(columns))
        )

    return tuple(map(tagged, nodes))


def takes_marks(model: Model) -> bool:
    """Whether prefixes are cached only where requests mark them, and are to be cached."""
    entry = family(model)
    return entry is not None and entry.protocol == "anthropic" and model.prompt_cache == "auto"


def with_marks(nodes: Sequence[Node], early: Sequence[EarlyStop]) -> tuple[Node, ...]:
    """The nodes, where a model needs marks with the ends of what their prompts share."""
    marked = [node for node in nodes if isinstance(node.work, LLMNode) and _is_marked(node)]
    if not marked:
        return tuple(nodes)
    unsure = {index for layer in early for item in layer.items[layer.first :] for index in item}
    for node in nodes:
        if node.checked or not unsure.isdisjoint(node.needs):
            unsure.add(node.index)
    alike: defaultdict[str, defaultdict[_Prompt, list[Node]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for node in marked:
        assert isinstance(node.work, LLMNode)
        kind = repr((node.groups, node.work.models[0], node.work.reading.json_schema))
        alike[kind][_prompt(node)].append(node)
    cuts: dict[int, tuple[Cut, ...]] = {}
    for prompts in alike.values():
        for prompt, copies in prompts.items():
            # A mark is paid for, so only a unit that is called at every row counts as one to share with.
            others = {
                other
                for other, units in prompts.items()
                if any(unit.index not in unsure for unit in units)
            }
            ends = {_shared_end(prompt, other) for other in others - {prompt}}
            for node in copies:
                is_repeated = any(copy is not node and copy.index not in unsure for copy in copies)
                cuts[node.index] = _marks(
                    node, prompt, ends | ({_end(prompt)} if is_repeated else set())
                )
    return tuple(_with_cuts(node, cuts.get(node.index, ())) for node in nodes)


def _is_marked(node: Node) -> bool:
    assert isinstance(node.work, LLMNode)
    is_plain = isinstance(node.work.prompt, PlaceholderPrompt) and not node.pinned
    return is_plain and any(takes_marks(model) for stage in node.stages for model in stage)


def _with_cuts(node: Node, cuts: tuple[Cut, ...]) -> Node:
    if not cuts or not isinstance(node.work, LLMNode):
        return node
    assert isinstance(node.work.prompt, PlaceholderPrompt)
    return structs.replace(
        node, work=structs.replace(node.work, prompt=replace(node.work.prompt, cuts=cuts))
    )


class _Piece(NamedTuple):
    """A piece of a prompt: its section, how many pieces of the section precede it, and a text that is equal where what is
    sent is equal."""

    section: int
    piece: int
    text: str


class _Prompt(NamedTuple):
    """A unit's prompt, and what the unit adds to its end (None: a text that changes)."""

    pieces: tuple[_Piece, ...]
    suffix: str | None


def _prompt(node: Node) -> _Prompt:
    assert isinstance(node.work, LLMNode)
    assert isinstance(node.work.prompt, PlaceholderPrompt)
    pieces = []
    for section, (role, parts) in enumerate(node.work.prompt.sections):
        pieces.append(_Piece(section, 0, f"role {role}"))
        for number, part in enumerate(parts):
            if isinstance(part, str):
                pieces.append(_Piece(section, number, f"text {part}"))
            else:
                meant = [_meant(node, path) for path in part.paths]
                shown = (meant, part.many, part.spec, part.image, part.delimited, part.filters)
                pieces.append(_Piece(section, number, f"slot {shown!r}"))
    return _Prompt(tuple(pieces), node.work.fixed_suffix)


def _shared_end(prompt: _Prompt, other: _Prompt) -> Cut:
    """Where what the two prompts share ends."""
    for mine, its in zip(prompt.pieces, other.pieces, strict=False):
        if mine.text != its.text:
            return Cut(mine.section, mine.piece)
    return _behind(min(prompt.pieces, other.pieces, key=len)[-1])


def _end(prompt: _Prompt) -> Cut:
    """The end of what copies of the prompt share."""
    return _behind(prompt.pieces[-1]) if prompt.suffix is None else END


def _behind(piece: _Piece) -> Cut:
    return Cut(piece.section, piece.piece + 1)


def _marks(node: Node, prompt: _Prompt, ends: set[Cut]) -> tuple[Cut, ...]:
    """The ends to mark, the first one first: those of what other units share, and the place from which on a row, an entry or
    the order of options changes the text of the next call."""
    assert isinstance(node.work, LLMNode)
    assert isinstance(node.work.prompt, PlaceholderPrompt)
    roots = {"row"} | ({"entry"} if node.groups else set())
    if node.work.letters and len(node.work.unit.option_orders(0)) > 1:
        roots.add("options")
    for section, (_, parts) in enumerate(node.work.prompt.sections):
        for number, part in enumerate(parts):
            changing = roots & _changes_with(node, part) if not isinstance(part, str) else set()
            roots -= changing
            ends = ends | {Cut(section, number)} if changing else ends
    if "row" in roots and prompt.suffix is not None:
        ends = ends | {END}
    cuts = sorted(ends - {Cut(0, 0)})
    # The first end serves all rows; of the others the last ones are the longest.
    return (*cuts[:1], *cuts[1:][1 - MOST_MARKS :])


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
    changes = set()
    for path in slot.paths:
        root = path[0]
        if root == "unit":
            continue
        changes.add("row")
        if root == "input" and (len(path) < 2 or path[1] in node.work.letters):
            changes.add("options")
        if root == "input":
            cast = next(
                (cast for cast in node.casts if len(path) > 1 and cast.field == path[1]), None
            )
            root = cast.path[0] if cast is not None and cast.path is not None else root
        if root not in ("source", "input"):  # an entry's names, and what units of the entry gave
            changes.add("entry")
    return frozenset(changes)
