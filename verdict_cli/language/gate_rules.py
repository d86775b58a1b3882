"""The `gates:` section: the limits that a run must keep (language.md, section 11)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from verdict_cli.config_model import ConfigModel
from verdict_cli.language.evaluations import Evaluation, EvaluationIssue, lacks
from verdict_cli.language.metric_registry import GOLD_ESTIMATES, METRICS, find_metric

RUN_METRICS: tuple[str, ...] = (
    "coverage",
    "failed",
    "abstained",
    "calls",
    "cost_usd",
    "wall_s",
    "calibration_age_days",
)
"""What `run.` can be followed by: facts of the run itself."""

Scalar = str | int | bool | float | None


class Gate(ConfigModel):
    """A limit on one figure; a run that misses it ends with exit code 1."""

    metric: Annotated[str, Field(pattern=r"[^.]\.[a-z]")]
    """The figure: `EVALUATION.METRIC`, or `run.coverage`, `run.failed`, `run.abstained`, `run.calls`, `run.cost_usd`, `run.wall_s`, `run.calibration_age_days` (the oldest calibration that the pipeline uses, when the run began)."""
    min: float | None = None
    """The least that passes."""
    max: float | None = None
    """The most that passes."""
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Not the figure but the end of its two-sided interval at this confidence must keep the limit: the lower end `min`, the upper end `max`."""
    where: Annotated[dict[str, Scalar], Field(min_length=1)] | None = None
    """Path to value: only rows where every path has its value count, such as `{source.type: homonyms}`."""
    baseline: Annotated[str, Field(min_length=1)] | None = None
    """The directory of an earlier run; rows of the same id are compared pair by pair."""
    max_drop: Annotated[float, Field(ge=0)] | None = None
    """How much worse than the baseline the figure may be: the 95% interval of the paired difference must not reach beyond it."""

    @property
    def parts(self) -> tuple[str, str]:
        """The evaluation's name (or `run`) and the metric's."""
        evaluation, _, metric = self.metric.rpartition(".")
        return evaluation, metric


def gate_problems(index: int, gate: Gate, evaluations: Mapping[str, Evaluation]) -> list[EvaluationIssue]:
    """What is wrong with a gate although each of its keys is well formed; paths are like `[2].metric`."""
    evaluation, metric = gate.parts
    found = _run(gate) if evaluation == "run" else _evaluation(gate, evaluations)
    if gate.baseline is not None and gate.max_drop is None:
        found.append(("baseline", "`baseline` needs `max_drop`", "such as `max_drop: 0.01`"))
    if gate.max_drop is not None and gate.baseline is None:
        found.append(("max_drop", "`max_drop` needs `baseline`", "such as `baseline: runs/main`"))
    if gate.baseline is not None and not (gate.min is None and gate.max is None and gate.confidence is None):
        found.append(
            ("baseline", "`baseline` stands alone: `min`, `max` and `confidence` are another gate", "write two gates")
        )
    if gate.min is None and gate.max is None and gate.baseline is None and gate.max_drop is None:
        found.append(
            ("", f"the gate on `{gate.metric}` has no limit", "give `min`, `max`, or `baseline` and `max_drop`")
        )
    if gate.min is not None and gate.max is not None and gate.min > gate.max:
        found.append(("min", f"`min` {gate.min:g} is above `max` {gate.max:g}", "nothing can pass this gate"))
    if metric == "confusion":
        found.append(("metric", "`confusion` is a table and has no limit", "name one of the other figures"))
    return [(f"[{index}].{path}" if path else f"[{index}]", message, hint) for path, message, hint in found]


def _run(gate: Gate) -> list[EvaluationIssue]:
    found: list[EvaluationIssue] = []
    if gate.parts[1] not in RUN_METRICS:
        known = ", ".join(f"run.{name}" for name in RUN_METRICS)
        found.append(("metric", f"`{gate.metric}` is unknown", _near(gate.metric, known)))
    for key in ("confidence", "where", "baseline"):
        if getattr(gate, key) is not None:
            found.append(
                (key, f"`{gate.metric}` is a fact of the whole run: `{key}` does not apply", f"leave `{key}` out")
            )
    return found


def _evaluation(gate: Gate, evaluations: Mapping[str, Evaluation]) -> list[EvaluationIssue]:
    name, metric = gate.parts
    if name not in evaluations:
        known = ", ".join([*evaluations, "run"])
        return [("metric", f"`evaluate` has no `{name}`", _near(name, known))]
    if metric in GOLD_ESTIMATES:
        if evaluations[name].gold is None:
            return [("metric", f"`{name}` has no `gold`, which gives `{metric}`", f"give `evaluate.{name}.gold`")]
        if gate.baseline is not None:
            return [("baseline", f"`{metric}` is not compared between runs", "give `min` or `max`")]
        return []
    if find_metric(metric) is None:
        return [("metric", f"`{metric}` is no metric", _near(metric, ", ".join(METRICS)))]
    evaluation = evaluations[name]
    if evaluation.metrics is not None and metric not in evaluation.metrics:
        return [("metric", f"`{name}` does not measure `{metric}`", f"add `{metric}` to `evaluate.{name}.metrics`")]
    return [
        ("metric", f"`{name}` cannot measure `{metric}`: it has no `{key}`", f"give `evaluate.{name}.{key}`")
        for key in lacks(evaluation, metric)
    ]


def _near(word: str, known: str) -> str:
    close = difflib.get_close_matches(word, known.split(", "), n=1)
    return f"did you mean `{close[0]}`?" if close else f"known: {known}"
