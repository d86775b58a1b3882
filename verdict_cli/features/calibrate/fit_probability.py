"""Fit a map of token probabilities to a unit. Oracle: scikit-learn's LogisticRegression and IsotonicRegression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from verdict_cli.errors import ReplyError, UsageError
from verdict_cli.features.calibrate.fit_job import (
    Calibrated,
    FitJob,
    HeldOut,
    folds,
    held_out,
    held_out_keys,
    read_labelled_run,
    values_of,
)
from verdict_cli.language.calibrations import MIN_PROBABILITY, ProbabilityMap, apply_map
from verdict_cli.language.scales import Scale
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.metrics import probability

ProbabilityFit = Callable[[Floats, Ints, int], dict[str, Any]]
"""Probabilities (rows, values), the place of each row's true value and that of the positive one -> a map's keys."""


def temperature(p: Floats, truth: Ints, positive: int) -> dict[str, Any]:
    """The divisor of the log-probabilities of least log loss, between 1/100 and 100 (Guo et al., 2017, section 4.2)."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    logs = np.log(np.maximum(p, MIN_PROBABILITY))

    def loss(exponent: float) -> float:
        scaled = logs / np.exp(exponent)
        own = np.take_along_axis(scaled, truth[:, None], 1)[:, 0]
        return float((logsumexp(scaled, axis=1) - own).sum())

    found = minimize_scalar(loss, bounds=(np.log(0.01), np.log(100)), method="bounded")
    return {"temperature": float(np.exp(found.x))}


def platt(p: Floats, truth: Ints, positive: int) -> dict[str, Any]:
    """The line through the log-odds of least log loss, each target drawn in by what one row more of each value would
    say (Platt, 1999, section 2.2), so that the line is finite where the values can be separated without error."""
    from scipy.optimize import minimize

    x = probability_log_odds(p[:, positive])
    right = truth == positive
    ups = float(right.sum())
    downs = len(right) - ups
    targets_drawn_in = np.where(right, (ups + 1) / (ups + 2), 1 / (downs + 2))

    def loss(line: Floats) -> tuple[float, Floats]:
        odds = line[0] * x + line[1]
        off = 1 / (1 + np.exp(-np.clip(odds, -700, 700))) - targets_drawn_in
        return float((np.logaddexp(0, odds) - targets_drawn_in * odds).sum()), np.array([off @ x, off.sum()])

    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="BFGS")
    return {"slope": float(found.x[0]), "intercept": float(found.x[1])}


def isotonic(p: Floats, truth: Ints, positive: int) -> dict[str, Any]:
    """The rising staircase of least squares (Zadrozny and Elkan, 2002), as knots at the ends of its steps."""
    from scipy.optimize import isotonic_regression

    levels, inverse, counts = np.unique(p[:, positive], return_inverse=True, return_counts=True)
    shares = np.bincount(inverse, (truth == positive).astype(np.float64)) / counts
    heights = isotonic_regression(shares, weights=counts).x
    ends = np.ones(len(levels), bool)
    ends[1:-1] = (heights[1:-1] != heights[:-2]) | (heights[1:-1] != heights[2:])
    return {"knots": [[float(x), float(y)] for x, y in zip(levels[ends], heights[ends], strict=True)]}


def probability_log_odds(p: Floats) -> Floats:
    """The log-odds, finite at both ends."""
    kept = np.clip(p, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.log(kept / (1 - kept))


FITS: dict[str, ProbabilityFit] = {"temperature": temperature, "platt": platt, "isotonic": isotonic}
"""The methods by name."""


def fit_probability(job: FitJob) -> Calibrated:
    """The map of the unit's token probabilities, by `--method`, and the metrics of every method on held-out rows."""
    p, targets, rows = read_labelled_run(job)
    values = values_of(job.scale)
    truth = np.array([_value_index(job.scale, values, target) for target in targets])
    methods = [name for name in FITS if name == "temperature" or len(values) == 2]
    chosen = job.options.method or methods[-1 if len(methods) == 1 else 1]
    if chosen not in methods:
        raise UsageError(
            f"`{chosen}` maps one of two values, the scale has {len(values)}", hint="use `--method temperature`"
        )
    positive = values.index(True) if True in values else len(values) - 1

    def positive_probability(found: Floats) -> tuple[Floats, Floats]:
        if len(values) == 2:
            return found[:, positive], (truth == positive).astype(np.float64)
        return found.max(axis=1), (found.argmax(axis=1) == truth).astype(np.float64)

    metrics: dict[str, Mapping[str, HeldOut]] = {}
    fold = folds(rows, job.options.folds, job.rng)
    for name in methods:
        after = cross_validate(name, p, truth, values, positive, fold)
        metrics[name] = held_out(
            ("ece", "brier", "log_loss"),
            probability.probability_statistics,
            positive_probability(p),
            positive_probability(after),
            rows,
            job.rng,
        )
    keys = FITS[chosen](p, truth, positive)
    if chosen != "temperature":
        keys["positive"] = values[positive]
    content = ProbabilityMap.model_validate(
        job.head
        | {"fingerprint": job.marks("output"), "method": chosen, "rows": len(set(rows.tolist())), **keys}
        | {"held_out": held_out_keys(metrics[chosen])}
    )
    of = f"{values[positive]!r}" if len(values) == 2 else "the most probable value"
    return Calibrated(content, metrics, (f"metrics of the probability of {of}",))


def cross_validate(name: str, p: Floats, truth: Ints, values: list[Any], positive: int, fold: Ints) -> Floats:
    """The probabilities (rows, values), each row's mapped by what was fitted to the rows of other folds."""
    after = np.empty_like(p)
    for index in np.unique(fold):
        keys = FITS[name](p[fold != index], truth[fold != index], positive)
        after[fold == index] = _apply(name, keys, values, positive, p[fold == index])
    return after


def _apply(name: Any, keys: Mapping[str, Any], values: list[Any], positive: int, p: Floats) -> Floats:
    fitted = ProbabilityMap.model_construct(None, method=name, positive=values[positive], **keys)
    return np.array([list(apply_map(dict(zip(values, row, strict=True)), fitted).values()) for row in p.tolist()])


def _value_index(scale: Scale, values: list[Any], target: Any) -> int:
    """The index of a target among the scale's values. UsageError if it is none of them."""
    if scale.json_schema() == {"type": "boolean"} and target in (0, 1):
        target = bool(target)
    try:
        return values.index(scale.read(target))
    except ReplyError:
        raise UsageError(
            f"the target {target!r} is not on the judge's scale ({scale.display()})",
            hint="make it one in the expression, such as `source.label == 'good'`",
        ) from None
