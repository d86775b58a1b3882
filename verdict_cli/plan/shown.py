"""Labels that a prompt shows to the judge whose verdict is held against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from verdict_cli.expressions import ExpressionError, Path, compile_expression, spell
from verdict_cli.plan.node import Asked, Node
from verdict_cli.spec.evaluate import Evaluation


def shown_labels(
    nodes: Sequence[Node], evaluations: Mapping[str, Evaluation]
) -> Iterator[tuple[int, str, str]]:
    """(place of the node, label as a path, name of the evaluation) for each label that is its target."""
    for name, evaluation in evaluations.items():
        for label in _columns(evaluation.target):
            for node in nodes:
                if any(_overlap(label, path) for path in _read(node)):
                    yield node.index, spell(label), name


def _columns(target: str | None) -> list[Path]:
    try:
        paths = compile_expression(target).paths if target is not None else ()
    except ExpressionError:
        return []
    return [path for path in dict.fromkeys(paths) if path[0] == "source" and len(path) > 1]


def _read(node: Node) -> list[Path]:
    """The paths that a node's prompt names, and those of its options."""
    if not isinstance(node.work, Asked):
        return []
    return [*node.work.prompt.paths, *(path for _, option in node.work.options for path in option.paths)]


def _overlap(one: Path, other: Path) -> bool:
    """Whether one path leads to the other's value or to a part of it."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]
