"""Copies of a row in a run's results: rows with the same requests and the same target, which are evidence once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.plan.node import Plan
from verdict_cli.storage.tables.reader import read_table, table_columns

_BETWEEN = " ~ '\\u001f' ~ "


def copies_as_clusters(
    plan: Plan, results: Path, id_column: str | None
) -> tuple[Mapping[str, Evaluation], int]:
    """The evaluations, where there are copies with each set of copies as a cluster; and the number of copies.

    An evaluation with a `cluster` of its own keeps it.
    """
    keys = _key_columns(plan, results, id_column)
    copies = {columns: _copies(results, columns) for columns in keys}
    columns = next((columns for columns, count in copies.items() if count), None)
    if columns is None:
        return plan.evaluations, 0
    key = _BETWEEN.join(f"source[{column.removeprefix('source.')!r}]" for column in columns)
    clustered = {
        name: evaluation if evaluation.cluster else evaluation.model_copy(update={"cluster": key})
        for name, evaluation in plan.evaluations.items()
    }
    return clustered, copies[columns]


def _key_columns(plan: Plan, results: Path, id_column: str | None) -> list[tuple[str, ...]]:
    """The columns by which rows are equal: what the prompts show, with the targets; or the declared id."""
    if not plan.llm_nodes:
        return []
    stored = [name for name in table_columns(results) if name.startswith("source.")]
    asked = {f"source.{used.column}" for used in plan.columns if used.asked}
    targets = {evaluation.target for evaluation in plan.evaluations.values()}
    columns = tuple(name for name in stored if name in asked or name in targets)
    keys = [columns] if asked & set(columns) else []
    if id_column is not None and f"source.{id_column}" in stored:
        keys.append((f"source.{id_column}",))
    return keys


def _copies(results: Path, columns: Sequence[str]) -> int:
    """How many rows are equal in these columns to an earlier one; eight bytes of each row are in memory."""
    hashes: set[int] = set()
    rows = 0
    for batch in read_table(results, columns):
        values = list(zip(*(batch[name] for name in columns), strict=True))
        rows += len(values)
        hashes.update(hash(repr(row)) for row in values)
    return rows - len(hashes)
