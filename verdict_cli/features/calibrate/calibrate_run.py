"""From a run's labelled rows to a calibration, by the fit that is options."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from verdict_cli.errors import UsageError
from verdict_cli.features.calibrate.fit_job import Calibrated, FitJob, FitKind, FitOptions
from verdict_cli.features.calibrate.fit_probability import fit_probability
from verdict_cli.features.calibrate.fit_threshold import fit_threshold
from verdict_cli.features.calibrate.fit_weights import fit_pool_weights, fit_score_weights
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.extractors.token_probability import WeightedSummedScoreExtractor
from verdict_cli.language.units.pools import MeanPoolUnit, ModePoolUnit
from verdict_cli.plan.node import LLMNode, Node, Plan, PoolNode

NEEDED: dict[FitKind, str] = {
    "probability": "add `extract: token_probability` to the judge, with a model that returns log-probabilities",
    "score_weights": "add `extract: weighted_summed_score` to the judge, with a model that returns log-probabilities",
    "pool_weights": "add a ModePoolUnit or a MeanPoolUnit after several judges",
    "threshold": "add a judge",
}
"""What the pipeline lacks for a fit."""


def calibrate_run(plan: Plan, results: Path, calls: Path, options: FitOptions, *, made: str, run: str) -> Calibrated:
    """The calibration. UsageError where the run, the unit or its labels do not allow one."""
    nodes = _nodes(plan, options)
    fit = {
        "probability": fit_probability,
        "score_weights": fit_score_weights,
        "pool_weights": fit_pool_weights,
        "threshold": fit_threshold,
    }[options.kind]
    head = {
        "verdict_calibration": 1,
        "kind": options.kind,
        "unit": nodes[0].name,
        "made": made,
        "run": run,
        "target": options.target or "",
    }
    return fit(FitJob(plan, nodes, results, calls, options, np.random.default_rng(abs(options.seed)), head))


def _nodes(plan: Plan, options: FitOptions) -> list[Node]:
    """The copies of the unit that is meant."""
    fitting = [node for node in plan.nodes if _fits(plan, node, options.kind)]
    names = list(dict.fromkeys(node.name for node in fitting))
    named = options.unit
    if named is None and len(names) == 1:
        named = names[0]
    found = [node for node in fitting if named in (node.name, node.id)]
    if found:
        return found
    what = {
        "probability": "reads token probabilities",
        "score_weights": "sums up token probabilities (`weighted_summed_score`)",
        "pool_weights": "is a ModePoolUnit or a MeanPoolUnit",
        "threshold": "could escalate",
    }[options.kind]
    if not names:
        raise UsageError(f"no unit of this run {what}", hint=f"{NEEDED[options.kind]}, and run the pipeline again")
    if named is None:
        raise UsageError(f"--unit is missing: {len(names)} units of this run {what}", hint=f"give {' or '.join(names)}")
    raise UsageError(f"no unit {named!r} of this run {what}", hint=f"these do: {', '.join(names)}")


def _fits(plan: Plan, node: Node, kind: FitKind) -> bool:
    if kind == "pool_weights":
        return isinstance(node.work, PoolNode) and isinstance(node.unit, ModePoolUnit | MeanPoolUnit)
    if kind == "threshold":
        return True
    if not isinstance(node.work, LLMNode) or not node.work.reading.top_logprobs:
        return False
    return kind == "probability" or isinstance(
        resolve_extractor(node.work.unit.extract_key), WeightedSummedScoreExtractor
    )
