"""What the prompts of a plan's units have in common: the columns behind their tags, and where what they share ends.

A provider such as Anthropic caches a prefix only where the request marks its end. A mark costs a quarter of the prefix, so
it is put only where at least two calls share the text before it: calls of other units at the same row, of other entries, of
the same unit with its options in another order, or, for what no row changes, of other rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from verdict_cli.language.expressions.paths import ExpressionPath
from verdict_cli.language.prompts.placeholders import Slot
from verdict_cli.language.prompts.prompt import END, CompiledPrompt, Cut, PlaceholderPrompt
from verdict_cli.llm.model_families import family
from verdict_cli.model import Model
from verdict_cli.plan.early_stopping import EarlyStop
from verdict_cli.plan.node import Cast, LLMNode, Node

MOST_MARKS = 4
"""The most marks that Anthropic takes in a request."""


def with_row_tags(nodes: Sequence[Node], columns: tuple[str, ...] | None) -> tuple[Node, ...]:
    """The nodes, with prompts whose tags (`delimit`) are made from these columns of the row (None: all of them)."""
    return tuple(
        _with_prompt(node, structs.replace(node.work.prompt, columns=columns))
        if isinstance(node.work, LLMNode) and node.work.prompt.delimited
        else node
        for node in nodes
    )


def _with_prompt(node: Node, prompt: CompiledPrompt) -> Node:
    assert isinstance(node.work, LLMNode)
    return structs.replace(node, work=structs.replace(node.work, prompt=prompt))


def takes_marks(model: Model) -> bool:
    """Whether prefixes are cached only where requests mark them, and are to be cached."""
    entry = family(model)
    return entry is not None and entry.protocol == "anthropic" and model.prompt_cache == "auto"


def with_marks(nodes: Sequence[Node], early: Sequence[EarlyStop]) -> tuple[Node, ...]:
    """The nodes, where a model needs marks with the ends of what their prompts share."""
    alike: defaultdict[str, defaultdict[_Prompt, list[_Asking]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for asking in _marked(nodes):
        work = asking.work
        kind = repr((asking.node.groups, work.models[0], work.reading.json_schema))
        alike[kind][_prompt(asking)].append(asking)
    # A mark is paid for, so only a unit that is called at every row counts as one to share with.
    unsure = _unsure(nodes, early) if alike else frozenset()
    finished = list(nodes)
    for prompts in alike.values():
        for prompt, askings in prompts.items():
            for asking in askings:
                other_prompts = [
                    other
                    for other, units in prompts.items()
                    if any(unit.node.index not in unsure for unit in units if unit is not asking)
                ]
                ends = {_shared_end(prompt, other) for other in other_prompts}
                cuts = _marks(asking, prompt, ends)
                if cuts:
                    marked = structs.replace(asking.prompt, cuts=cuts)
                    finished[asking.node.index] = _with_prompt(asking.node, marked)
    return tuple(finished)


class _Asking(NamedTuple):
    """A node that asks a model with a prompt of placeholders."""

    node: Node
    work: LLMNode
    prompt: PlaceholderPrompt


def _marked(nodes: Sequence[Node]) -> Iterator[_Asking]:
    """The nodes that call a model which needs marks."""
    for node in nodes:
        is_marked = any(takes_marks(model) for stage in node.stages for model in stage)
        if not is_marked or node.pinned or not isinstance(node.work, LLMNode):
            continue
        if isinstance(node.work.prompt, PlaceholderPrompt):
            yield _Asking(node, node.work, node.work.prompt)


def _unsure(nodes: Sequence[Node], early: Sequence[EarlyStop]) -> frozenset[int]:
    """The units that are not called at every row."""
    unsure = {index for layer in early for item in layer.items[layer.first :] for index in item}
    for node in nodes:
        if node.checked or not unsure.isdisjoint(node.needs):
            unsure.add(node.index)
    return frozenset(unsure)


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


def _prompt(asking: _Asking) -> _Prompt:
    pieces = []
    for section, (role, parts) in enumerate(asking.prompt.sections):
        pieces.append(_Piece(section, 0, f"role {role}"))
        for number, part in enumerate(parts):
            text = f"text {part}"
            if not isinstance(part, str):
                targets = [_meant(asking.node, path) for path in part.paths]
                traits = (targets, part.many, part.spec, part.image, part.delimited, part.filters)
                text = f"slot {traits!r}"
            pieces.append(_Piece(section, number, text))
    return _Prompt(tuple(pieces), asking.work.fixed_suffix)


def _shared_end(prompt: _Prompt, other: _Prompt) -> Cut:
    """Where what the two prompts share ends."""
    if prompt == other and prompt.suffix is not None:
        return END
    for mine, its in zip(prompt.pieces, other.pieces, strict=False):
        if mine.text != its.text:
            return Cut(mine.section, mine.piece)
    last = min(prompt.pieces, other.pieces, key=len)[-1]
    return Cut(last.section, last.piece + 1)


def _marks(asking: _Asking, prompt: _Prompt, ends: set[Cut]) -> tuple[Cut, ...]:
    """The ends to mark, the first one first: those of what other units share, and the place from which on a row, an entry or
    the order of options changes the text of the next call."""
    node, work = asking.node, asking.work
    roots = {"row"} | ({"entry"} if node.groups else set())
    if work.letters and len(work.unit.option_orders(0)) > 1:
        roots.add("options")
    for section, (_, parts) in enumerate(asking.prompt.sections):
        for number, part in enumerate(parts):
            changing = set() if isinstance(part, str) else roots & _changes_with(asking, part)
            roots -= changing
            ends = ends | {Cut(section, number)} if changing else ends
    if "row" in roots and prompt.suffix is not None:
        ends = ends | {END}
    cuts = sorted(ends - {Cut(0, 0)})
    # The first end serves all rows; of the others the last ones are the longest.
    return (*cuts[:1], *cuts[1:][1 - MOST_MARKS :])


def _cast_of(node: Node, path: ExpressionPath) -> Cast | None:
    """Where the input field of a path comes from."""
    return next((cast for cast in node.casts if (cast.field,) == path[1:2]), None)


def _meant(node: Node, path: ExpressionPath) -> Any:
    """What a path names, the same for all units of a row."""
    if path[0] == "unit":
        return ("unit", repr(node.settings.get(str(path[1])))) if len(path) > 1 else node.id
    if path[0] != "input":
        return path
    cast = _cast_of(node, path)
    if cast is None or cast.path is None:
        return node.name, path, None if cast is None else repr(cast.default)
    return *cast.path, *path[2:], repr(cast.type)


def _changes_with(asking: _Asking, slot: Slot) -> set[str]:
    """What the text of a placeholder changes with."""
    changes = set()
    for path in slot.paths:
        root = path[0]
        if root == "unit":
            continue
        changes.add("row")
        if root == "input":
            if len(path) < 2 or path[1] in asking.work.letters:
                changes.add("options")
            cast = _cast_of(asking.node, path)
            root = cast.path[0] if cast is not None and cast.path is not None else root
        if root not in ("source", "input"):  # an entry's names, and what units of the entry gave
            changes.add("entry")
    return changes
