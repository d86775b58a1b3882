"""The input of the sections that only a page has: a run's plan, tables and evaluation results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.plan.resolve import as_yaml
from verdict_cli.report.evaluation_results import EvaluationResults
from verdict_cli.stats.columns.column import Floats
from verdict_cli.storage.tables.arrow_vectors import floats
from verdict_cli.storage.tables.reader import read_arrow, table_columns


@dataclass(frozen=True, slots=True)
class ReportContext:
    """A run's plan, its two tables, and its evaluation results; `seed` draws the rows that are shown."""

    plan: Plan
    results: Path
    calls: Path
    study: EvaluationResults
    seed: int = 0

    @property
    def spec(self) -> str:
        """The resolved spec as YAML."""
        return as_yaml(self.plan.resolved)

    def text_columns(self) -> list[str]:
        """The columns of the dataset that prompts show, as `results.parquet` names them."""
        return prompt_columns(self.plan, self.results)


def prompt_columns(plan: Plan, results: Path) -> list[str]:
    """The columns of the dataset that the plan's prompts show, as `results` names them; all if prompts name none."""
    named = {f"source.{column}" for column in dataset_columns(plan)}
    columns = [column for column in table_columns(results) if column.startswith("source.")]
    return [column for column in columns if column in named] or columns


def dataset_columns(plan: Plan) -> list[str]:
    """The columns of the dataset that prompts, options and casts of the plan use, in the order of their first use."""
    paths = [
        path
        for node in plan.nodes
        if isinstance(node.work, LLMNode)
        for path in (
            *node.work.prompt.paths,
            *(path for _, option in node.work.options for path in option.paths),
            *(cast.path for cast in node.casts if cast.path and not cast.optional),
        )
    ]
    return list(dict.fromkeys(str(path[1]) for path in paths if len(path) > 1 and path[0] == "source"))


def number_vectors(results: Path, columns: Sequence[str]) -> dict[str, Floats]:
    """The columns that hold numbers or booleans, NaN for a missing value; other columns are left out."""
    import pyarrow as pa

    def read(array: Any) -> Any:
        kind = array.type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            return None
        return floats(array)

    return _vectors(results, columns, read)


def text_lengths(results: Path, columns: Sequence[str]) -> dict[str, Floats]:
    """The lengths in characters of the columns that hold text, 0 for a missing value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def read(array: Any) -> Any:
        if not pa.types.is_string(array.type):
            return None
        return np.nan_to_num(floats(pc.utf8_length(array)))

    return _vectors(results, columns, read)


def _vectors(results: Path, columns: Sequence[str], read: Any) -> dict[str, Floats]:
    vectors: dict[str, list[Floats]] = {column: [] for column in columns}
    for batch in read_arrow(results, list(columns)) if columns else ():
        for column in list(vectors):
            vector = read(batch.column(column))
            if vector is None:
                del vectors[column]
            else:
                vectors[column].append(vector)
    return {column: np.concatenate(parts) for column, parts in vectors.items() if parts}
