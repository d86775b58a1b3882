"""What an evaluation warns of besides its metrics: rows that do not count, labels that never occur, few clusters."""

from __future__ import annotations

import numpy as np

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.plural import plural
from verdict_cli.stats.columns.collect import Collected
from verdict_cli.stats.columns.column import MISSING, key_text
from verdict_cli.stats.columns.row_data import EvaluationData, in_no_cluster, near_misses

FEW_CLUSTERS = 20
"""Intervals from fewer clusters are rough (Cameron and Miller, 2015, section VI)."""


def evaluation_warnings(evaluation: Evaluation, collected: Collected, data: EvaluationData) -> list[str]:
    """The warnings of an evaluation, in sentences."""
    found = []
    for key, (count, first) in collected.unreadable.items():
        rows = plural(count, "row counts|rows count")
        found.append(f"{rows} as without {key}: {first}")
    if collected.undecided:
        found.append(
            plural(collected.undecided, "row without an output is|rows without an output are")
            + " left out: `where` needs it"
        )
    if collected.unreached:
        many = plural(collected.unreached, "failed row counts|failed rows count")
        found.append(f"{many} as one missing entry each: how many of `{evaluation.items}` there are is not known")
    if collected.skipped:
        rows = plural(collected.skipped, "row is|rows are")
        found.append(f"{rows} left out: `when` skipped what is measured")
    positive = data.positive
    if evaluation.target is not None and positive is not None and not (data.target == positive).any():
        labels = ", ".join(repr(data.labels[code]) for code in np.unique(data.target[data.target != MISSING])[:10])
        found.append(
            f"`positive: {key_text(evaluation.positive)}` is never a target; the targets are {labels or 'none'}"
        )
    if evaluation.target is not None and (spelled := near_misses(data)):
        found.append(spelled)
    if collected.cluster is not None and (alone := int(in_no_cluster(collected.cluster).sum())):
        rows = plural(alone, "row has|rows have")
        found.append(f"{rows} no cluster, because `{evaluation.cluster}` is null: each counts as a cluster of its own")
    if data.cluster is not None and 0 < (clusters := len(np.unique(data.cluster))) < FEW_CLUSTERS:
        found.append(f"there are only {plural(clusters, 'cluster')}: intervals from so few are rough")
    return found
