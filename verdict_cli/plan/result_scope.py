"""What `output` and `nodes` mean in expressions over a row's result, panels of judges included."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.paths import ExpressionError, ExpressionPath, Resolved
from verdict_cli.language.fields.types import FieldType
from verdict_cli.plan.node import Node
from verdict_cli.plan.scope import type_at_path

RESULT_ROOTS = ("source", "output", "nodes")
EVALUATION_ROOTS = (*RESULT_ROOTS, "human")
"""Evaluations also see the human labels of a row, in `labels.jsonl` in the run's directory."""
HUMAN_FIELDS = ("label", "note", "inclusion")


@dataclass
class ResultScope:
    """Resolves paths into a pipeline's outputs; ``used`` are the places of the units that they name.

    For metrics of entries, ``item`` is the unit whose outputs they are of, and ``entries`` has the types of the entries'
    names.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    used: set[int] = field(default_factory=set)
    item: Node | None = None
    entries: Mapping[str, FieldType] = field(default_factory=dict)

    @property
    def roots(self) -> tuple[str, ...]:
        """The names that expressions can use."""
        return (*EVALUATION_ROOTS, *self.entries)

    def of_items(self, unit: str, entries: Callable[[Sequence[int]], Mapping[str, FieldType]]) -> ResultScope:
        """The scope of the entries of a unit inside `each`. ExpressionError where there is no such unit."""
        node = next((node for node in self.nodes if node.id == unit), None)
        if node is None:
            copies = [node.id for node in self.nodes if node.name == unit]
            known = [node.id for node in self.nodes if node.groups]
            hint = f"say which: {', '.join(copies)}" if copies else nearest_spelling(unit, known)
            raise ExpressionError(f"there is no unit {unit!r}", hint)
        if not node.groups:
            hint = "metrics of rows need no `items`; `each` makes a unit run for every entry of a list"
            raise ExpressionError(f"{unit!r} is not inside an `each`, so it has no entries", hint)
        self.used.add(node.index)
        return replace(self, item=node, entries=entries(node.groups))

    def resolve(self, path: ExpressionPath) -> Resolved:
        """What the path means. ExpressionError when it cannot be resolved."""
        root, rest = path[0], path[1:]
        if root in self.entries:
            followed, kind = type_at_path(self.entries[str(root)], rest, str(root))
            return Resolved(((root, *followed),), kind)
        if root == "output" and self.item is not None:
            followed, kind = type_at_path(self.item.output, rest, "output")
            return Resolved(((root, *followed),), kind)
        if root == "output":
            if len(self.outputs) != 1:
                ids = ", ".join(self.nodes[index].id for index in self.outputs)
                raise ExpressionError(
                    f"the pipeline gives on {len(self.outputs)} units: {ids}",
                    f"write `nodes['{self.nodes[self.outputs[0]].id}']`, or pool them",
                )
            followed, kind = type_at_path(self.nodes[self.outputs[0]].result, rest, "output")
            return Resolved(((root, *followed),), kind)
        if root == "nodes" and rest:
            node = next((node for node in self.nodes if node.id == rest[0]), None)
            if node is None:
                raise ExpressionError(
                    f"there is no unit {rest[0]!r}", nearest_spelling(str(rest[0]), [node.id for node in self.nodes])
                )
            self.used.add(node.index)
            followed, kind = type_at_path(node.result, rest[1:], node.id)
            return Resolved(((root, node.id, *followed),), kind)
        if root == "human" and not (
            rest[:1] == ("labels",) if len(rest) == 2 else len(rest) == 1 and rest[0] in HUMAN_FIELDS
        ):
            fields = "`human.label`, `human.note`, `human.inclusion`, or one person's label: `human.labels['NAME']`"
            raise ExpressionError("`human` has no such field", f"write {fields}")
        return Resolved((path,))


_NAMED = re.compile(r"([A-Za-z_][\w-]*)\.([A-Za-z_]\w*)")


def expand_panel(evaluation: Evaluation, nodes: Sequence[Node]) -> Evaluation:
    """The evaluation with an expression for each judge of its panel; `nodes` are all of the plan, in order."""
    if not isinstance(evaluation.panel, str):
        return evaluation
    return evaluation.model_copy(update={"panel": panel_expressions(evaluation.panel, [node.id for node in nodes])})


def panel_expressions(panel: str, ids: Sequence[str]) -> tuple[str, ...]:
    """The expressions that `judge.score` abbreviates; empty where fewer than two units have the name."""
    named = _NAMED.fullmatch(panel)
    if named is None:
        return ()
    name, field = named.groups()
    matching = [node for node in ids if node == name or re.fullmatch(re.escape(name) + r"\[\d+\]", node)]
    return tuple(f"nodes[{node!r}].{field}" for node in matching) if len(matching) > 1 else ()
