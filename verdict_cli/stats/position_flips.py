"""How often a judge that is asked in both orders answers differently: its position bias (Wang et al., 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.figures import MetricValue
from verdict_cli.stats.measure import measure


def flip_rates(nodes: Sequence[str], results: Path, *, seed: int = 0) -> dict[str, MetricValue]:
    """For each node that gives `consistent`: the share of rows on which the two orders disagree, with its interval."""
    if not nodes:
        return {}
    evaluations = {node: Evaluation(value=f"not nodes[{node!r}].consistent", metrics=("mean",)) for node in nodes}
    return {node: measured.figures["mean"] for node, measured in measure(evaluations, results, seed=seed).items()}
