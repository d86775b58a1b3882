"""Fitting the numbers of a scale's values to a unit that sums up token probabilities."""

from __future__ import annotations

import numpy as np

from verdict_cli.calibrations.kinds import ScoreWeights
from verdict_cli.evaluate.calibrate.held_out import folds, held_out
from verdict_cli.evaluate.calibrate.job import Calibrated, Job, numbers_of, read, spelled, values_of
from verdict_cli.evaluate.calibrate.weights import score_weights
from verdict_cli.evaluate.metrics import numbers


def fit_score_weights(job: Job) -> Calibrated:
    """The numbers of the scale's values for which the weighted sum comes nearest to the target."""
    p, targets, rows = read(job)
    values = values_of(job.scale)
    target = numbers_of(targets)
    own = [job.scale.number(value) for value in values]
    start = np.array([float(target.mean()) if number is None else number for number in own])
    after = np.empty(len(p))
    fold = folds(rows, job.wanted.folds, job.rng)
    for one in range(job.wanted.folds):
        after[fold == one] = p[fold == one] @ score_weights(p[fold != one], target[fold != one], start)
    figures = held_out(
        ("mae", "rmse", "pearson"), numbers.pairs, (p @ start, target), (after, target), rows, job.rng
    )
    found = score_weights(p, target, start).tolist()
    content = ScoreWeights.model_validate(
        job.head
        | {"fingerprint": job.marks("output"), "rows": len(set(rows.tolist()))}
        | {"weights": dict(zip(values, found, strict=True)), "held_out": spelled(figures)}
    )
    return Calibrated(content, {"score_weights": figures})
