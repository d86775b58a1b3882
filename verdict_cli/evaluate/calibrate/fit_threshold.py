"""Choosing a bound on a unit's confidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from verdict_cli.calibrations.kinds import Threshold
from verdict_cli.errors import UsageError
from verdict_cli.evaluate.calibrate.bound import bound
from verdict_cli.evaluate.calibrate.job import Calibrated, Job, enough
from verdict_cli.evaluate.calibrate.labelled import GIVEN, Labelled, expression, labelled


def fit_threshold(job: Job) -> Calibrated:
    """The lowest bound that keeps the agreement that is wanted. UsageError where none does."""
    wanted = job.wanted
    node = job.nodes[0]
    if node.escalation is not None:
        raise UsageError(
            f"{node.id} escalated in this run, so its first answers are not all in the results",
            hint=f"run it without: `--set 'PATH.escalate=null'` with the path of {node.id}",
        )
    sure = expression("--confidence", wanted.confidence, (*GIVEN, "output"))
    says = expression("--prediction", wanted.prediction, (*GIVEN, "output"))
    rows = labelled(job.results, job.nodes, wanted.target, wanted.where, (sure, says))
    pairs = [
        (_number(sure, row, unit), says_of == row.target)
        for row in rows
        if row.target is not None
        for unit in range(len(job.nodes))
        if row.outputs[unit] is not None and (says_of := row.of(says, unit)) is not None
    ]
    enough(len(pairs))
    confidence, agrees = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    found = bound(confidence, agrees, wanted.agreement, wanted.level)
    if found.threshold is None:
        raise UsageError(
            f"no bound on `{wanted.confidence}` shows {wanted.agreement:g} agreement with {wanted.level:g} confidence on "
            f"{len(pairs)} rows; they agree on {agrees.mean():.3f} of all",
            hint="label more rows, ask for less agreement, or take a better confidence",
        )
    content = Threshold.model_validate(
        job.head
        | {"fingerprint": job.marks(), "rows": len(pairs), "confidence": wanted.confidence}
        | {"threshold": found.threshold, "agreement": wanted.agreement, "level": wanted.level}
        | {"answered": found.answered / found.rows}
    )
    return Calibrated(
        content,
        notes=(
            f"{found.answered:,} of {found.rows:,} rows are at or above {found.threshold:.6g}, "
            f"{found.agreeing / found.answered:.4f} of them agree, at least {found.least:.4f} with {wanted.level:g} confidence; "
            f"of all rows, {agrees.mean():.4f} agree",
        ),
    )


def _number(sure: Any, row: Labelled, unit: int) -> float:
    value = row.of(sure, unit)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(
            f"row {row.row}: `{sure.text}` gives {value!r:.80}, not a number",
            hint="--confidence is an expression for how sure an answer is, higher is surer",
        )
    return float(value)
