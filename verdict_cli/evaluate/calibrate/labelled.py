"""The labelled rows of a run: what is true of each, and what some of its units said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.data import read_table, table_columns
from verdict_cli.errors import ReplyError, RowError, UsageError
from verdict_cli.evaluate.reread import recorded
from verdict_cli.expressions import Expression, ExpressionError, compile_expression
from verdict_cli.extractors.token_probability import TokenProbability
from verdict_cli.plan import Asked, Node


@dataclass(frozen=True, slots=True)
class Labelled:
    """One row: its number, its columns as far as expressions name them, the outputs of the units (None: there is
    none), and what is true of it (None: not known)."""

    row: int
    source: dict[str, Any]
    outputs: tuple[dict[str, Any] | None, ...]
    target: Any

    def source_says(self, expression: Expression) -> Any:
        """What an expression over the columns alone says of this row."""
        try:
            return expression({"source": self.source})
        except RowError as error:
            raise UsageError(f"row {self.row}: {error.message}") from None

    def of(self, expression: Expression, unit: int = 0) -> Any:
        """What the expression says of this row, where `output` is the output of that unit; None where there is none."""
        output = self.outputs[unit]
        if output is None:
            return None
        try:
            return expression({"source": self.source, "output": output})
        except RowError as error:
            raise UsageError(f"row {self.row}: {error.message}") from None


def labelled(
    results: Path,
    nodes: Sequence[Node],
    target: str | None,
    where: str | None,
    named: Sequence[Expression] = (),
) -> list[Labelled]:
    """Every row that `where` selects, in order. UsageError for an expression that cannot be computed.

    ``named`` are expressions whose columns the rows are to hold as well.
    """
    says = None if target is None else expression("--target", target, ("source",))
    chosen = None if where is None else expression("--where", where, ("source",))
    every = [one for one in (says, chosen, *named) if one is not None]
    known = table_columns(results)
    wanted = {path[1] for one in every for path in one.paths if path[0] == "source" and len(path) > 1}
    whole = any(path == ("source",) for one in every for path in one.paths)
    sources = [name for name in known if name.startswith("source.") and (whole or name[7:] in wanted)]
    fields = [[name for name in known if name.startswith(f"{node.id}.")] for node in nodes]
    found = []
    for batch in read_table(results, ["row", *sources, *(name for names in fields for name in names)]):
        for place, row in enumerate(batch["row"]):
            source = {name[7:]: batch[name][place] for name in sources}
            outputs = []
            for node, names in zip(nodes, fields, strict=True):
                output = {name[len(node.id) + 1 :]: batch[name][place] for name in names}
                outputs.append(None if all(value is None for value in output.values()) else output)
            one = Labelled(row, source, tuple(outputs), None)
            if chosen is not None and one.source_says(chosen) is not True:
                continue
            found.append(
                Labelled(row, source, tuple(outputs), None if says is None else one.source_says(says))
            )
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
        assert isinstance(node.work, Asked)
        readers[node.id] = (place, TokenProbability().bind(node.work.response))
    read: dict[tuple[int, int], dict[Any, float]] = {}
    for request, reply in recorded(calls, 0):
        if request.node in readers and request.call == 0:
            place, reader = readers[request.node]
            try:
                read[request.row.index, place] = reader.read(reply, request)["distribution"]
            except ReplyError:
                continue
    for (row, place), found in read.items():
        yield row, place, found
