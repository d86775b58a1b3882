"""How likely each variant of a sweep is the best, and which pairs are not significantly different."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.simultaneous import JointEstimates


def probability_best(joint: JointEstimates, rng: np.random.Generator, *, lower_is_better: bool) -> Floats:
    """How likely each variant is the best; equal ones share.

    The estimates are shrunk to their mean by what their spread shows beyond their errors (empirical Bayes: Efron and
    Morris, 1973). Without that the best estimate of equal variants seems the best variant, because it was chosen.
    """
    count = len(joint.values)
    away = (joint.values - joint.values.mean()) * (-1.0 if lower_is_better else 1.0)
    centre = np.eye(count) - 1 / count
    spread = max((float(away @ away) - float(np.trace(centre @ joint.covariance))) / max(count - 1, 1), 0.0)
    if not spread:
        return np.full(count, 1 / count)
    weights = spread * np.linalg.inv(spread * np.eye(count) + joint.covariance)
    shrunk = replace(joint, values=weights @ away, covariance=spread * (np.eye(count) - weights))
    drawn = shrunk.values + shrunk.draws(rng)
    best = drawn >= drawn.max(axis=1, keepdims=True) - 1e-12
    shares: Floats = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares


def indistinct(
    joint: JointEstimates, level: float, rng: np.random.Generator
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which pairs of variants are not significantly different, all pairs together."""
    count = len(joint.values)
    pairs = np.array([(i, j) for i in range(count) for j in range(i)]).reshape(-1, 2)
    contrasts = np.eye(count)[pairs[:, 0]] - np.eye(count)[pairs[:, 1]]
    errors = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", contrasts, joint.covariance, contrasts), 0))
    known = errors > 1e-12
    same = np.eye(count, dtype=bool)
    quantile = np.inf
    if known.any():
        largest = np.abs(joint.draws(rng) @ contrasts[known].T / errors[known]).max(axis=1)
        quantile = float(np.quantile(largest, level))
    apart = known & (np.abs(contrasts @ joint.values) > quantile * np.where(known, errors, 1.0))
    for (i, j), differs in zip(pairs, apart, strict=True):
        same[i, j] = same[j, i] = not differs
    return same
