"""What the prompts of a plan's units have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from verdict_cli.plan.node import LLMNode, Node


def with_row_tags(nodes: Sequence[Node], columns: tuple[str, ...] | None) -> tuple[Node, ...]:
    """The nodes, with prompts whose tags (`delimit`) are made from these columns of the row (None: all of them)."""
    return tuple(
        replace(node, work=replace(node.work, prompt=replace(node.work.prompt, columns=columns)))
        if isinstance(node.work, LLMNode) and node.work.prompt.delimited
        else node
        for node in nodes
    )
