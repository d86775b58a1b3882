"""Choose a threshold on a confidence for a required agreement, with a guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from verdict_cli.errors import UsageError
from verdict_cli.features.calibrate.fit_job import (
    GIVEN,
    Calibrated,
    FitJob,
    Labelled,
    check_enough_rows,
    compile_option,
    labelled_rows,
)
from verdict_cli.language.calibrations import Threshold
from verdict_cli.stats.columns.column import Floats


@dataclass(frozen=True, slots=True)
class ThresholdBound:
    """Answers at or above ``threshold`` are kept: how many of the rows, how many of these agree, and the lower end of
    the one-sided Clopper–Pearson interval of their agreement. None as threshold: no bound keeps the promise."""

    threshold: float | None
    rows: int
    answered: int
    agreeing: int
    least: float


def threshold_bound(confidence: Floats, agrees: Floats, agreement: float, level: float) -> ThresholdBound:
    """The lowest bound above which the agreement is ``agreement``, with probability ``level`` over the labelled rows.

    Fixed-sequence testing (Bauer, 1991) as in Jung et al. (2024, "Trust or Escalate", section 2.1): bounds are tested
    from the highest down, each by the Clopper–Pearson upper end of the share of disagreement, until one fails. The
    first is one with rows enough to pass with half of the disagreement that is allowed; which that is, and all the
    others, depend on the confidences alone.
    """
    order = np.argsort(-confidence, kind="stable")
    sure, right = confidence[order], np.cumsum(agrees[order])
    ends = np.flatnonzero(np.append(sure[1:] != sure[:-1], True))
    allowed = 1 - agreement
    first = _first(len(sure), allowed, level)
    best = ThresholdBound(None, len(sure), 0, 0, 0.0)
    for end in ends[ends + 1 >= first]:
        answered, agreeing = int(end) + 1, int(right[end])
        risk = upper(answered - agreeing, answered, level)
        if risk > allowed:
            break
        best = ThresholdBound(float(sure[end]), len(sure), answered, agreeing, 1 - risk)
    return best


def _first(rows: int, allowed: float, level: float) -> int:
    """How many rows the first bound that is tested has at least."""
    most = math.ceil(math.log(1 - level) / math.log(1 - allowed))
    count = most
    while count <= rows:
        if upper(math.floor(count * allowed / 2), count, level) <= allowed:
            return count
        count += max(1, count // 50)
    return most


def upper(wrong: int, rows: int, level: float) -> float:
    """The upper end of the one-sided Clopper–Pearson interval of a share."""
    from scipy.special import betaincinv

    return 1.0 if wrong >= rows else float(betaincinv(wrong + 1, rows - wrong, level))


def fit_threshold(job: FitJob) -> Calibrated:
    """The lowest bound that keeps the agreement that is options. UsageError where none does."""
    options = job.options
    node = job.nodes[0]
    if node.escalation is not None:
        raise UsageError(
            f"{node.id} escalated in this run, so its first answers are not all in the results",
            hint=f"run it without: `--set 'PATH.escalate=null'` with the path of {node.id}",
        )
    sure = compile_option("--confidence", options.confidence, (*GIVEN, "output"))
    prediction = compile_option("--prediction", options.prediction, (*GIVEN, "output"))
    rows = labelled_rows(job.results, job.nodes, options, (sure, prediction))
    found_answers: dict[int, list[tuple[float, bool]]] = {}
    for row in rows:
        for unit in range(len(job.nodes)):
            if row.target is None or row.outputs[unit] is None or (answer := row.of(prediction, unit)) is None:
                continue
            found_answers.setdefault(row.cluster, []).append((_number(sure, row, unit), answer == row.target))
    # Copies of one row, and rows of one cluster, agree with each other: one of them, by chance, stands for all.
    pairs = [answers[int(job.rng.integers(len(answers)))] for answers in found_answers.values()]
    check_enough_rows(len(pairs))
    confidence, agrees = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    found = threshold_bound(confidence, agrees, options.agreement, options.level)
    if found.threshold is None:
        raise UsageError(
            f"no bound on `{options.confidence}` shows {options.agreement:g} agreement with {options.level:g} confidence on "
            f"{len(pairs)} rows; they agree on {agrees.mean():.3f} of all",
            hint="label more rows, ask for less agreement, or take a better confidence",
        )
    content = Threshold.model_validate(
        job.head
        | {"fingerprint": job.marks(), "rows": len(pairs), "confidence": options.confidence}
        | {"threshold": found.threshold, "agreement": options.agreement, "level": options.level}
        | {"answered": found.answered / found.rows}
    )
    return Calibrated(
        content,
        notes=(
            f"{found.answered:,} of {found.rows:,} rows are at or above {found.threshold:.6g}, "
            f"{found.agreeing / found.answered:.4f} of them agree, at least {found.least:.4f} with {options.level:g} confidence; "
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
