"""What a run that was made shows of one that is planned."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.compare import compare_runs
from verdict_cli.stats.evaluation_results import scores_of
from verdict_cli.stats.intervals.interval_methods import MetricValue, normal
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.measure import measure
from verdict_cli.stats.paired import run_rows
from verdict_cli.stats.prediction_powered import GoldFacts
from verdict_cli.storage.tables.reader import read_table
from verdict_cli.studies.power.sample_size import Parts, rows_for_share, rows_scaled, sample_parts

SHARES = frozenset({"accuracy"})


@dataclass(frozen=True, slots=True)
class Pilot:
    """A figure of a run: `share` says whether it is one of independent rows, whose interval is Wilson's."""

    figure: MetricValue
    share: bool

    def rows(self, half_width: float, level: float) -> tuple[int, int]:
        """The rows for the half-width if the figure is as in the pilot, and if it is at the end of its interval that
        needs more."""
        assert self.figure.low is not None
        assert self.figure.high is not None
        if self.share:
            ends = self.figure.low, self.figure.high
            worst = min(max(0.5, ends[0]), ends[1])
            return rows_for_share(self.figure.value, half_width, level), rows_for_share(worst, half_width, level)
        found = (self.figure.high - self.figure.low) / 2 * normal(level) / normal(CONFIDENCE_LEVEL)
        rows = rows_scaled(self.figure.n, found, half_width)
        return rows, rows


def pilot(evaluation: Evaluation, name: str, metric: str, results: Path, seed: int) -> Pilot:
    """The figure in a run's results."""
    only = evaluation.model_copy(update={"metrics": (metric,), "by": (), "gold": None})
    figure = measure({name: only}, results, seed=seed)[name].values[metric]
    return Pilot(figure, metric in SHARES and evaluation.cluster is None)


def gold_labels(evaluation: Evaluation, name: str, results: Path, half_width: float, seed: int) -> GoldFacts | None:
    """How many gold labels the half-width needs, by the pilot; None where the evaluation has no `gold`, or too few."""
    if evaluation.gold is None:
        return None
    gold = evaluation.gold.model_copy(update={"half_width": half_width})
    found = measure({name: evaluation.model_copy(update={"gold": gold, "by": ()})}, results, seed=seed)[name].gold
    return found if found is not None and found.alone is not None else None


def spread_of_change(
    evaluations: tuple[Evaluation, Evaluation], name: str, metric: str, runs: tuple[Path, Path], seed: int
) -> tuple[float, int] | str:
    """The standard deviation of one row's paired difference, and the rows; or why it is not known."""
    only = tuple(one.model_copy(update={"metrics": (metric,), "by": (), "gold": None}) for one in evaluations)
    found = compare_runs({name: (only[0], only[1])}, runs, seed=seed).evaluations[name]
    if found.reason:
        return found.reason
    change = found.whole.differences[metric].change
    if change.low is None or change.high is None or change.high <= change.low:
        return change.reason or "the two runs do not differ on any row"
    return (change.high - change.low) / 2 / normal(CONFIDENCE_LEVEL) * float(np.sqrt(change.n)), change.n


def repeated(plan: Plan, evaluation: Evaluation, name: str, metric: str, results: Path) -> tuple[str, Parts] | str:
    """The unit that the pilot repeats, and the parts of its score's variance; or why they are not known."""
    said = evaluation.prediction or evaluation.value
    fields = set(re.findall(r"\boutput\.(\w+)", said or ""))
    counts = Counter(
        node.name for node in plan.nodes if isinstance(node.work, LLMNode) and fields <= set(node.output.fields)
    )
    copies = [unit for unit, count in counts.items() if count > 1]
    if not fields or len(copies) != 1:
        return "the pilot repeats no unit that gives what the evaluation looks at"
    if evaluation.group is not None:
        return "with `group` a row has no score of its own"
    ids = [node.id for node in plan.nodes if node.name == copies[0]]
    columns: list[Floats] = []
    rows = [str(row) for batch in read_table(results, ["row"]) for row in batch["row"]]
    key = "prediction" if evaluation.prediction is not None else "value"
    for node in ids:
        text = re.sub(r"\boutput\.(?=\w)", f"nodes['{node}'].", said or "")
        one = evaluation.model_copy(update={key: text, "metrics": (metric,), "by": (), "gold": None})
        columns.append(scores_of(run_rows({name: one}, results, rows)[name][0], [metric]))
    found = sample_parts(np.column_stack(columns))
    return (copies[0], found) if found is not None else "fewer than two rows have a score in every asking"
