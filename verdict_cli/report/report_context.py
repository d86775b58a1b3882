"""What a page shows beyond the report's figures: the run's plan, tables and the shapes of its evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.plan.resolve import as_yaml
from verdict_cli.stats.evaluation_results import EvaluationResults
from verdict_cli.storage.tables.reader import table_columns


@dataclass(frozen=True, slots=True)
class ReportContext:
    """A run's plan, its two tables, and the study of its evaluations; `seed` draws the rows that are shown."""

    plan: Plan
    results: Path
    calls: Path
    study: EvaluationResults
    seed: int = 0

    @property
    def spec(self) -> str:
        """The resolved spec as YAML."""
        return as_yaml(self.plan.resolved)

    def texts(self) -> list[str]:
        """The columns of the dataset that prompts show, as `results.parquet` names them; all where none is named."""
        return unit_texts(self.plan, self.results)


def unit_texts(plan: Plan, results: Path) -> list[str]:
    """The columns of the dataset that the plan's prompts show, as `results` names them; all where none is named."""
    paths = [
        path
        for node in plan.nodes
        if isinstance(node.work, LLMNode)
        for path in (
            *node.work.prompt.paths,
            *(path for _, option in node.work.options for path in option.paths),
            *(cast.path for cast in node.casts if cast.path),
        )
    ]
    named = {f"source.{path[1]}" for path in paths if len(path) > 1 and path[0] == "source"}
    columns = [column for column in table_columns(results) if column.startswith("source.")]
    return [column for column in columns if column in named] or columns
