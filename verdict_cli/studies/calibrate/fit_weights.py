"""Fit weights: of a scale's values for the weighted sum, and of the units of a pool."""

from __future__ import annotations

import numpy as np

from verdict_cli.language.calibrations import ScoreWeights
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.metrics import numbers
from verdict_cli.studies.calibrate.fit_options import (
    Calibrated,
    FitJob,
    numbers_of,
    read_labelled_run,
    spelled,
    values_of,
)
from verdict_cli.studies.calibrate.held_out import folds, held_out

STEPS = 1000
"""The most steps of the EM algorithm."""


def score_weights(p: Floats, target: Floats, own: Floats) -> Floats:
    """The number of each value for which the expectation comes nearest to the target (ridge regression towards the
    values' own numbers, which count as one row each, so that a value nobody used keeps its own)."""
    gram = p.T @ p + np.eye(p.shape[1])
    return np.asarray(np.linalg.solve(gram, p.T @ target + own), dtype=np.float64)


def least_squares(values: Floats, target: Floats) -> Floats:
    """Non-negative weights of the units, adding up to one, whose mean comes nearest to the target (Breiman, 1996,
    "Stacked regressions"); ``values`` are (rows, units)."""
    from scipy.optimize import nnls

    heavy = 1e3 * max(1.0, float(np.abs(values).max())) * np.sqrt(len(values))
    rows = np.vstack([values, np.full((1, values.shape[1]), heavy)])
    found = nnls(rows, np.append(target, heavy))[0]
    return np.asarray(found / found.sum(), dtype=np.float64)


def weight_log_odds(hits: Floats, asked: Floats, kinds: int) -> Floats:
    """The weight of each unit's vote: the log-odds of its being right against any one other value, at least 0
    (Nitzan and Paroush, 1982); one right and one wrong answer are added to each unit's own."""
    right = (hits + 1) / (asked + 2)
    return np.maximum(np.log(right * max(kinds - 1, 1) / (1 - right)), 0.0)


def logistic(votes: Ints, truth: Ints) -> Floats:
    """Non-negative weights of least log loss of a vote between two values (logistic regression without an intercept,
    its squared weights drawn to 0 by half a row's worth), which counts judges that err together as fewer.
    ``votes`` are (rows, units) of 0 and 1, -1 where there is none; ``truth`` 0 or 1."""
    from scipy.optimize import minimize

    signs = np.where(votes < 0, 0, 2 * votes - 1) * (2 * truth - 1)[:, None]

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin = signs @ weights
        slope = -signs.T @ (1 / (1 + np.exp(np.clip(margin, -700, 700))))
        return float(np.logaddexp(0, -margin).sum() + weights @ weights / 4), slope + weights / 2

    units = votes.shape[1]
    start = np.full(units, 1 / units)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * units)
    return np.asarray(found.x, dtype=np.float64)


def dawid_skene(votes: Ints, kinds: int) -> tuple[Floats, Floats]:
    """The probability of each value at each row, and each unit's share of right votes, without a label
    (Dawid and Skene, 1979): EM from the shares of the votes. ``votes`` are (rows, units), -1 where there is none."""
    rows, units = votes.shape
    said = np.zeros((rows, units, kinds))
    at = votes >= 0
    places = np.nonzero(at)
    said[places[0], places[1], votes[at]] = 1.0
    truth = said.sum(axis=1)
    truth[~at.any(axis=1)] = 1.0
    truth /= truth.sum(axis=1, keepdims=True)
    last = -np.inf
    for _ in range(STEPS):
        prior = (truth.sum(axis=0) + 1) / (rows + kinds)
        confusion = np.einsum("rk,rul->ukl", truth, said) + 1 / kinds
        confusion /= confusion.sum(axis=2, keepdims=True)
        logs = np.log(prior) + np.einsum("rul,ukl->rk", said, np.log(confusion))
        most = logs.max(axis=1, keepdims=True)
        scaled = np.exp(logs - most)
        likelihood = float((np.log(scaled.sum(axis=1)) + most[:, 0]).sum())
        truth = scaled / scaled.sum(axis=1, keepdims=True)
        if likelihood - last < 1e-9 * abs(likelihood):
            break
        last = likelihood
    hits = np.einsum("rk,ruk->u", truth, said)
    return truth, hits / np.maximum(at.sum(axis=0), 1)


def fit_score_weights(job: FitJob) -> Calibrated:
    """The numbers of the scale's values for which the weighted sum comes nearest to the target."""
    p, targets, rows = read_labelled_run(job)
    values = values_of(job.scale)
    target = numbers_of(targets)
    own = [job.scale.number(value) for value in values]
    start = np.array([float(target.mean()) if number is None else number for number in own])
    after = np.empty(len(p))
    fold = folds(rows, job.wanted.folds, job.rng)
    for one in range(job.wanted.folds):
        after[fold == one] = p[fold == one] @ score_weights(p[fold != one], target[fold != one], start)
    figures = held_out(
        ("mae", "rmse", "pearson"), numbers.number_pairs, (p @ start, target), (after, target), rows, job.rng
    )
    found = score_weights(p, target, start).tolist()
    content = ScoreWeights.model_validate(
        job.head
        | {"fingerprint": job.marks("output"), "rows": len(set(rows.tolist()))}
        | {"weights": dict(zip(values, found, strict=True)), "held_out": spelled(figures)}
    )
    return Calibrated(content, {"score_weights": figures})
