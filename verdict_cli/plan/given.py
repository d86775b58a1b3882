"""What `output` and `nodes` mean in expressions over a row's outcome (language.md, section 2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from verdict_cli.expressions import ExpressionError, Path, Resolved
from verdict_cli.plan.node import Node
from verdict_cli.plan.within import inside
from verdict_cli.spec.problems import nearest

ROOTS = ("source", "output", "nodes")
MEASURED = (*ROOTS, "human")
"""What evaluations see too: what people said of a row, in `labels.jsonl` beside the run."""
HUMAN = ("label", "note")


@dataclass
class Given:
    """Resolves paths into a pipeline's outputs; ``used`` are the places of the units that they name."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    used: set[int] = field(default_factory=set)

    def resolve(self, path: Path) -> Resolved:
        """What the path means. ExpressionError when nothing fills it."""
        root, rest = path[0], path[1:]
        if root == "output":
            if len(self.outputs) != 1:
                said = ", ".join(self.nodes[index].id for index in self.outputs)
                raise ExpressionError(
                    f"the pipeline gives on {len(self.outputs)} units: {said}",
                    f"write `nodes['{self.nodes[self.outputs[0]].id}']`, or pool them",
                )
            followed, kind = inside(self.nodes[self.outputs[0]].output, rest, "output")
            return Resolved(((root, *followed),), kind)
        if root == "nodes" and rest:
            node = next((node for node in self.nodes if node.id == rest[0]), None)
            if node is None:
                raise ExpressionError(
                    f"there is no unit {rest[0]!r}", nearest(str(rest[0]), [one.id for one in self.nodes])
                )
            self.used.add(node.index)
            followed, kind = inside(node.output, rest[1:], node.id)
            return Resolved(((root, node.id, *followed),), kind)
        if root == "human" and (len(rest) != 1 or rest[0] not in HUMAN):
            raise ExpressionError(
                "of people there is a label and a note", "write `human.label` or `human.note`"
            )
        return Resolved((path,))
