"""The labelled rows of a run: what is true of each, and what some of its units said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.errors import ReplyError, RowError, UsageError
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.extractors.token_probability import TokenProbabilityExtractor
from verdict_cli.plan.node import LLMNode, Node
from verdict_cli.stats.columns.saved_rows import saved_rows
from verdict_cli.stats.re_extract import recorded_replies

GIVEN = ("source", "human")
"""What is known of a row without a judge: its columns, and what people said of it."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """One row: its number, `source` and `human` as far as expressions name them, the outputs of the units (None: there
    is none), and what is true of it (None: not known)."""

    row: int
    given: dict[str, Any]
    outputs: tuple[dict[str, Any] | None, ...]
    target: Any

    def of(self, expression: Expression, unit: int = 0) -> Any:
        """What the expression says of this row, where `output` is the output of that unit; None where there is none."""
        output = self.outputs[unit]
        return None if output is None else _said(expression, self.row, self.given | {"output": output})


def _said(expression: Expression, row: int, values: dict[str, Any]) -> Any:
    try:
        return expression(values)
    except RowError as error:
        raise UsageError(f"row {row}: {error.message}") from None


def labelled(
    results: Path, nodes: Sequence[Node], target: str | None, where: str | None, named: Sequence[Expression] = ()
) -> list[Labelled]:
    """Every row that `where` selects, in order. UsageError for an expression that cannot be computed.

    ``named`` are expressions whose columns the rows are to hold as well.
    """
    says = None if target is None else expression("--target", target, GIVEN)
    chosen = None if where is None else expression("--where", where, GIVEN)
    paths = [path for one in (says, chosen, *named) if one is not None for path in one.paths]
    paths = [path for path in paths if path[0] in GIVEN] + [("nodes", node.id) for node in nodes]
    found = []
    for row, _, _, values in saved_rows(results, paths):
        given = {root: values[root] for root in GIVEN if root in values}
        if chosen is not None and _said(chosen, row, given) is not True:
            continue
        outputs = (values["nodes"].get(node.id, {}) for node in nodes)
        said = tuple(None if all(value is None for value in output.values()) else output for output in outputs)
        found.append(Labelled(row, given, said, None if says is None else _said(says, row, given)))
    return found


def expression(option: str, text: str, roots: Sequence[str]) -> Expression:
    """The compiled expression of an option. UsageError when it is none."""
    try:
        return compile_expression(text, roots)
    except ExpressionError as error:
        raise UsageError(f"{option}: {error.message}", hint=error.hint) from None


def distributions(calls: Path, nodes: Sequence[Node]) -> Iterator[tuple[int, int, dict[Any, float]]]:
    """(row, place of the node, uncalibrated probability of each value) of each unit's first call at each row, as far
    as it was recorded with log-probabilities that can be read."""
    readers = {}
    for place, node in enumerate(nodes):
        assert isinstance(node.work, LLMNode)
        readers[node.id] = (place, TokenProbabilityExtractor().bind(node.work.response))
    read: dict[tuple[int, int], dict[Any, float]] = {}
    for request, reply in recorded_replies(calls, 0):
        if request.node in readers and request.call == 0:
            place, reader = readers[request.node]
            try:
                read[request.row.index, place] = reader.read(reply, request)["distribution"]
            except ReplyError:
                continue
    for (row, place), found in read.items():
        yield row, place, found
