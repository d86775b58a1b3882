"""Coverage of the 95% intervals in adversarial designs, by simulation.

    python benchmarks/interval_coverage.py --cells 301 --simulations 200   # the tables of docs/statistics.md
    python benchmarks/interval_coverage.py --part 1/4 --out part1.jsonl    # a quarter of the cells
    python benchmarks/interval_coverage.py --table part*.jsonl             # the tables of all parts

A cell is a design that is drawn from the ranges of what the intervals promise: 10 to 1,000 rows; the rarest of 2 to 6
labels at 1% to 50%; independent rows, or 5 to 200 clusters of equal size, of Pareto-distributed sizes, or with half of
the rows in one of them, with an intra-cluster correlation of 0 to 0.6; scores with ties, at the ceiling, with mostly
zeros, with heavy tails; conversations that are judged worse the longer they are. The cells depend on `--seed` alone, so that parts can run anywhere.

A metric of labels takes few values in a small sample, and the coverage of any interval that is not randomised swings
with the true value (Brown, Cai and DasGupta, 2001). Every sample therefore has its own true value, drawn evenly from a
range, and a cell is the mean over it (Agresti and Coull, 1998). True values are those of the population's table, or of
a million rows. In a cluster, each row is a copy of the cluster's own row with the root of the correlation as
probability, so that every function of a row has that correlation and the population stays what it is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri, stdtrit

from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import Draw, metrics_with_intervals, paired_metric_value
from verdict_cli.stats.metrics import confusion, numbers, panel, probability, ranks
from verdict_cli.stats.metrics.statistic import Statistic

Columns = tuple[Any, ...]
Parameters = dict[str, Any]
LARGE = 1_000_000
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(81)
THOUSANDTHS = np.arange(1, 1000) / 1000
EDGES = np.array([-np.inf, 1.5, 2.5, 3.5, 4.5, np.inf])
NUMBER = re.compile(r"\d+(\.\d+)?")
CLUSTERINGS = ("independent", "equal", "pareto", "giant")
ENOUGH = 10
"""Rows of each label, and effective clusters, from which on at most 5% of the metrics may have a warning."""


@dataclass(frozen=True)
class Family:
    """How the parameters of a sample are drawn, and its columns from uniform numbers; its metrics; the population.

    `table` gives the distinct rows of the population with their probabilities; None: the population is a large sample.
    """

    parameters: Callable[[np.random.Generator, Parameters], Parameters]
    columns: Callable[[Floats, Parameters], Columns]
    statistics: Callable[..., dict[str, Statistic]]
    metrics: tuple[str, ...]
    table: Callable[[Parameters], tuple[Columns, Floats]] | None = None
    paired: bool = False


def label_shares(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """The labels' shares, the rarest as the cell says, and how often the judge is right on each."""
    k, rare = cell["labels"], min(cell["rare"], 1 / cell["labels"])
    shares = np.full(k, (1 - rare) / (k - 1))
    shares[0] = rare
    low = 0.55 if cell["hard"] else 0.8
    return {
        "shares": shares,
        "right": rng.uniform(low, 0.98, k),
        "second": rng.uniform(low, 0.98, k),
    }


def judged(u: Floats, given: Parameters) -> Columns:
    """Labels, and a judge that is right with a probability of its own for each, else says any other label."""
    target = np.searchsorted(np.cumsum(given["shares"])[:-1], u[0], side="right")
    return target, _said(target, u[1] < given["right"][target], u[2], len(given["shares"]))


def _said(target: Ints, right: Any, u: Floats, k: int) -> Ints:
    other = np.minimum((u * (k - 1)).astype(int), k - 2)
    return np.where(right, target, other + (other >= target))


def judged_table(given: Parameters) -> tuple[Columns, Floats]:
    """The population of `judged`."""
    shares, right = given["shares"], given["right"]
    k = len(shares)
    weights = np.repeat(((1 - right) / (k - 1))[:, None], k, axis=1)
    np.fill_diagonal(weights, right)
    return tuple(np.indices((k, k)).reshape(2, -1)), (weights * shares[:, None]).ravel()


def two_judged(u: Floats, given: Parameters) -> Columns:
    """Two judges of the same labels: half of the time the second is right where the first would be."""
    target, first = judged(u, given)
    luck = np.where(u[3] < 0.5, u[1], u[4])
    return target, first, _said(target, luck < given["second"][target], u[5], len(given["shares"]))


def two_judged_table(given: Parameters) -> tuple[Columns, Floats]:
    """The population of `two_judged`."""
    shares, one, two = given["shares"], given["right"], given["second"]
    k = len(shares)
    target, first, second = np.indices((k, k, k)).reshape(3, -1)
    a, b = one[target], two[target]
    both = 0.5 * np.minimum(a, b) + 0.5 * a * b
    likely = np.where(first == target, np.where(second == target, both, (a - both) / (k - 1)), 0.0)
    wrong = np.where(second == target, (b - both) / (k - 1), (1 - a - b + both) / (k - 1) ** 2)
    return (target, first, second), shares[target] * np.where(first == target, likely, wrong)


def ratings_at(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Two ratings from 1 to 5 of a shared quality; at the ceiling 90 to 98% are fives."""
    noise = rng.uniform(0.4, 1.0)
    if cell["ceiling"]:
        return {
            "middle": 4.5 + ndtri(rng.uniform(0.9, 0.98)) * math.sqrt(1 + noise**2),
            "noise": noise,
        }
    return {"middle": rng.uniform(2, 4), "noise": noise}


def rated_twice(u: Floats, given: Parameters) -> Columns:
    """Two ratings."""
    z = ndtri(np.clip(u, 1e-12, 1 - 1e-12))
    return tuple(
        np.clip(np.round(given["middle"] + z[0] + given["noise"] * own), 1, 5)
        for own in (z[1], z[2])
    )


def rated_twice_table(given: Parameters) -> tuple[Columns, Floats]:
    """The population of `rated_twice`."""
    likely = np.diff(ndtr((EDGES[:, None] - given["middle"] - NODES) / given["noise"]), axis=0)
    weights = (likely * WEIGHTS / WEIGHTS.sum()) @ likely.T
    return tuple(np.indices((5, 5)).reshape(2, -1) + 1.0), weights.ravel()


def believed(u: Floats, given: Parameters) -> Columns:
    """Probabilities of a label that is as rare as the cell says, too sure of themselves by a slope."""
    positive = (u[0] < given["rare"]).astype(float)
    score = positive * given["gap"] + ndtri(np.clip(u[1], 1e-12, 1 - 1e-12))
    return np.clip(
        np.round(expit(given["slope"] * _posterior(score, given)), 3), 0.001, 0.999
    ), positive


def _posterior(score: Floats, given: Parameters) -> Floats:
    return logit(given["rare"]) + given["gap"] * score - given["gap"] ** 2 / 2


def believed_table(given: Parameters) -> tuple[Columns, Floats]:
    """The population of `believed`."""
    cuts = logit(THOUSANDTHS[:-1] + 0.0005) / given["slope"]
    scores = (cuts - logit(given["rare"]) + given["gap"] ** 2 / 2) / given["gap"]
    edges = np.concatenate([[-np.inf], scores, [np.inf]])
    likely = [
        np.diff(ndtr(edges - mean)) * share
        for mean, share in ((0, 1 - given["rare"]), (given["gap"], given["rare"]))
    ]
    return (np.tile(THOUSANDTHS, 2), np.repeat([0.0, 1.0], len(THOUSANDTHS))), np.concatenate(
        likely
    )


def beliefs(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """How far apart the classes are, and how sure the judge is of itself."""
    return {"rare": cell["rare"], "gap": rng.uniform(0.8, 2.5), "slope": rng.uniform(0.7, 2.0)}


def no_parameters(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """The population is the same for every sample of the cell."""
    return {"shape": cell["shape"], "rare": cell["rare"]}


SHAPES: Mapping[str, Callable[[Floats], Floats]] = {
    "normal": lambda u: 3 + ndtri(u),
    "exponential": lambda u: -np.log1p(-u),
    "lognormal": lambda u: np.exp(ndtri(u)),
    "student": lambda u: stdtrit(3.0, u),
}


def valued(u: Floats, given: Parameters) -> Columns:
    """Values of a shape; `zeros` are exponential on the rare share of rows, 0 on the others, `binary` only 0 and 1."""
    u = np.clip(u, 1e-9, 1 - 1e-9)
    if given["shape"] == "zeros":
        return (np.where(u[0] < given["rare"], SHAPES["exponential"](u[1]), 0.0),)
    if given["shape"] == "binary":
        return ((u[0] < given["rare"]).astype(float),)
    return (SHAPES[given["shape"]](u[0]),)


def predicted(u: Floats, given: Parameters) -> Columns:
    """Normal targets, and predictions with errors of a shape."""
    u = np.clip(u, 1e-9, 1 - 1e-9)
    error = valued(u[1:], given)[0]
    return 3 + ndtri(u[0]) + 0.5 * error, 3 + ndtri(u[0])


def rated(u: Floats, given: Parameters) -> Columns:
    """Ratings from 1 to 5, from a table of how likely each is."""
    return (np.searchsorted(np.cumsum(given["likely"])[:-1], u[0], side="right") + 1.0,)


def rating_shares(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """How likely each rating is; at the ceiling nearly all are fives."""
    fives = rng.uniform(0.9, 0.98) if cell["ceiling"] else rng.uniform(0.1, 0.6)
    return {"likely": np.append(rng.dirichlet(np.ones(4)) * (1 - fives), fives)}


def labels_of(target: Ints, prediction: Ints) -> dict[str, Statistic]:
    """The metrics of labels; those of label 0, the rarest, as `recall of a label` and so on; `fleiss_kappa` of two judges."""
    found = confusion.label_statistics(target, prediction, 6, None, False, beta=2)
    of_rare = confusion.label_statistics(target, prediction, 6, 0, False, beta=2)
    weighted = confusion.label_statistics(target, prediction, 6, None, False, "weighted")
    found |= {
        f"{name} of a label": of_rare[name]
        for name in ("precision", "recall", "specificity", "f1", "f_beta")
    }
    found |= {f"{name}, weighted": weighted[name] for name in ("precision", "f1")}
    return found | {"fleiss_kappa": panel.fleiss_kappa(np.stack([target, prediction], axis=1))}


def pairs_of(x: Floats, y: Floats) -> dict[str, Statistic]:
    """The metrics of two columns of numbers; `icc` and `icc_k` of them as two judges."""
    found = (
        numbers.number_pairs(x, y)
        | ranks.rank_pairs(x, y)
        | panel.intraclass_correlations(np.stack([x, y], axis=1))
    )
    found["linear_weighted_kappa"] = numbers.linear_weighted_kappa(x, y)
    return found | {"ordinal_alpha": numbers.ordinal_alpha((x, y))}


OF_LABELS = (
    "accuracy",
    "precision of a label",
    "recall of a label",
    "specificity of a label",
    "f1 of a label",
)
OF_LABELS += (
    "f_beta of a label",
    "balanced_accuracy",
    "precision",
    "specificity",
    "f1",
    "f_beta",
    "precision, weighted",
)
OF_LABELS += (
    "f1, weighted",
    "mcc",
    "cohen_kappa",
    "gwet_ac1",
    "krippendorff_alpha",
    "fleiss_kappa",
)
OF_NUMBERS = (
    "pearson",
    "spearman",
    "kendall",
    "krippendorff_alpha",
    "ordinal_alpha",
    "weighted_kappa",
)
OF_NUMBERS += ("linear_weighted_kappa", "icc", "icc_k", "mae", "rmse")
FAMILIES: Mapping[str, Family] = {
    "labels": Family(label_shares, judged, labels_of, OF_LABELS, judged_table),
    "two judges": Family(
        label_shares,
        two_judged,
        lambda t, p: confusion.label_statistics(t, p, 6, None, False),
        ("accuracy", "balanced_accuracy", "f1", "mcc", "cohen_kappa"),
        two_judged_table,
        paired=True,
    ),
    "two ratings": Family(ratings_at, rated_twice, pairs_of, OF_NUMBERS, rated_twice_table),
    "predictions": Family(
        no_parameters,
        predicted,
        lambda x, y: numbers.number_pairs(x, y) | ranks.rank_pairs(x, y),
        ("pearson", "spearman", "kendall", "mae", "rmse"),
    ),
    "probabilities": Family(
        beliefs,
        believed,
        probability.probability_statistics,
        ("auroc", "average_precision", "brier", "log_loss", "ece"),
        believed_table,
    ),
    "ratings": Family(
        rating_shares,
        rated,
        lambda x: numbers.number_values(x, False, (1.0, 5.0)),
        ("mean", "variance"),
        lambda given: ((np.arange(1.0, 6.0),), given["likely"]),
    ),
    "values": Family(
        no_parameters,
        valued,
        lambda x: numbers.number_values(x, False),
        ("mean", "median", "variance"),
    ),
}


TWELVE = np.array([0.35, 0.2, 0.12, 0.08, 0.06, 0.05, 0.04, 0.03, 0.025, 0.02, 0.015, 0.01])
LEVELS = np.array([0.6, 0.7, 0.8, 0.9, 0.95, 1.0])


def rarely_said(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """A label of a fifth of the rows, which the judge finds rarely."""
    return {
        "shares": np.array([0.2, 0.8]),
        "right": np.array([rng.uniform(0.05, 0.4), rng.uniform(0.97, 0.998)]),
    }


def twelve_labels(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Twelve labels of 35% to 1%."""
    return {"shares": TWELVE, "right": rng.uniform(0.6, 0.95, len(TWELVE))}


def one_wrong_level(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Verbal probabilities, of which one level is too sure; 1.0 only in half of the designs."""
    right = LEVELS.copy()
    right[3] -= rng.uniform(0.1, 0.3)
    likely = np.where(LEVELS < 1, 1.0, float(cell["hard"]))
    return {"levels": LEVELS, "right": right, "likely": likely / likely.sum()}


def leveled(u: Floats, given: Parameters) -> Columns:
    """Probabilities of these levels, and whether the target is positive."""
    level = np.searchsorted(np.cumsum(given["likely"])[:-1], u[0], side="right")
    return given["levels"][level], (u[1] < given["right"][level]).astype(float)


def leveled_table(given: Parameters) -> tuple[Columns, Floats]:
    """The population of `leveled`."""
    weights = np.concatenate(
        [given["likely"] * given["right"], given["likely"] * (1 - given["right"])]
    )
    levels = given["levels"]
    return (np.tile(levels, 2), np.repeat([1.0, 0.0], len(levels))), weights


def high_beliefs(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Classes so far apart that the ranking is nearly perfect."""
    return {
        "rare": max(cell["rare"], 0.02),
        "gap": rng.uniform(2.3, 3.2),
        "slope": rng.uniform(0.8, 1.5),
    }


def agreement_of(labels: int) -> Callable[..., dict[str, Statistic]]:
    """The metrics of so many labels."""
    return lambda target, said: confusion.label_statistics(target, said, labels, None, False)


SIZES = np.arange(1, 401)
HOW_OFTEN = np.exp(-((np.log(SIZES) - 1.5) ** 2) / 2) / SIZES
HOW_OFTEN /= HOW_OFTEN.sum()
"""The sizes of conversations, log-normal from 1 to 400 turns, and how often each is."""


def worse_if_long(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """How often the judge is right on either label of a short conversation, and how much less often of the longest."""
    return {
        "shares": np.array([0.35, 0.65]),
        "right": rng.uniform(0.85, 0.97, 2),
        "less": rng.uniform(0.1, 0.4),
    }


def judged_by_size(u: Floats, given: Parameters) -> Columns:
    """Targets, and predictions that are right the less often the larger the cluster (the last row of `u`)."""
    target = (u[0] >= given["shares"][0]).astype(np.int64)
    right = given["right"][target] - given["less"] * np.log(u[-1]) / math.log(len(SIZES))
    return target, np.where(u[1] < right, target, 1 - target)


def judged_by_size_table(given: Parameters) -> tuple[Columns, Floats]:
    """The population of `judged_by_size`."""
    of_rows = HOW_OFTEN * SIZES / (HOW_OFTEN @ SIZES)
    right = given["right"] - given["less"] * float(of_rows @ np.log(SIZES)) / math.log(len(SIZES))
    weights = np.concatenate([given["shares"] * right, given["shares"] * (1 - right)])
    return (np.array([0, 1, 0, 1]), np.array([0, 1, 1, 0])), weights


def label_of_two(target: Ints, said: Ints) -> dict[str, Statistic]:
    """The metrics of two labels, and F1 of the rarer one."""
    found = confusion.label_statistics(target, said, 2, None, False)
    return found | {"f1 of a label": confusion.label_statistics(target, said, 2, 0, False)["f1"]}


def clear_scores(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """How many rows a judge rejects outright."""
    return {"zeros": rng.uniform(0.05, 0.4)}


def cleared(u: Floats, given: Parameters) -> Columns:
    """Scores of 0, or of 0.9 to 1."""
    return (np.where(u[0] < given["zeros"], 0.0, 0.9 + u[1] / 10),)


def cleared_table(given: Parameters) -> tuple[Columns, Floats]:
    """The population of `cleared`, in steps of a thousandth."""
    high = 0.9 + (np.arange(100) + 0.5) / 1000
    return (np.append(high, 0.0),), np.append(
        np.full(100, (1 - given["zeros"]) / 100), given["zeros"]
    )


TEN = np.arange(1.0, 11.0)


def near_an_end(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Scores from 1 to 10 that come down from 10, or up from 1, more and more rarely."""
    likely = rng.uniform(0.35, 0.65) ** np.arange(10)
    return {"likely": (likely if cell["hard"] else likely[::-1]) / likely.sum()}


FEW_LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def nearly_sure_levels(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Five levels, of which the outer two have most of the rows; a judge that is more often right than it says."""
    outer = rng.uniform(0.35, 0.47)
    error = rng.uniform(0.002, 0.05)
    inner = (1 - 2 * outer) / 3
    right = np.array([error, rng.uniform(0.05, 0.25), 0.5, rng.uniform(0.75, 0.95), 1 - error])
    return {
        "levels": FEW_LEVELS,
        "right": right,
        "likely": np.array([outer, inner, inner, inner, outer]),
    }


def unequal_recalls(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """A judge that knows the frequent label and mostly misses the others, which are a quarter or more of the rows."""
    k = cell["labels"]
    shares = np.append(np.full(k - 1, rng.uniform(0.25, 0.5) / (k - 1)), 0.0)
    shares[-1] = 1 - shares.sum()
    right = np.append(rng.uniform(0.2, 0.5, k - 1), rng.uniform(0.95, 0.99))
    return {"shares": shares, "right": right}


def weighted_averages(target: Ints, said: Ints) -> dict[str, Statistic]:
    """The metrics averaged over the labels by their share of the rows."""
    return confusion.label_statistics(target, said, 6, None, False, "weighted", beta=2)


NEARLY_ALL = 0.98


def nearly_perfect_label(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Two labels, of which the judge says the first hardly ever in vain and finds it nearly always."""
    return {
        "shares": np.array([max(cell["rare"], 0.1), 1 - max(cell["rare"], 0.1)]),
        "right": np.array([rng.uniform(0.9, 0.99), rng.uniform(NEARLY_ALL, 0.999)]),
    }


def of_one_label(target: Ints, said: Ints) -> dict[str, Statistic]:
    """The metrics of label 0."""
    return confusion.label_statistics(target, said, 2, 0, False, beta=2)


def few_levels(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Labels on 1 to 10 and a judge that uses three levels of them, with noise of its own."""
    return {"middle": rng.uniform(6, 8), "noise": rng.uniform(0.5, 1.5), "shift": 0.0}


def shifted(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Labels on 1 to 10 and a judge that is more lenient or stricter by some of them."""
    shift = rng.uniform(1, 3) * (1 if cell["hard"] else -1)
    return {"middle": 5.5 - shift / 2, "noise": rng.uniform(0.4, 1.2), "shift": shift}


def at_the_floor(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Two ratings from 1 to 10 of which most are 1, or 10."""
    end = rng.uniform(0.3, 1.2)
    return {
        "middle": 1 - end if cell["hard"] else 10 + end,
        "noise": rng.uniform(0.5, 1.2),
        "shift": 0.0,
    }


SPREAD = 2.0


def on_ten(u: Floats, given: Parameters) -> Columns:
    """The judge's rating and the label, from 1 to 10."""
    z = ndtri(np.clip(u, 1e-12, 1 - 1e-12))
    latent = given["middle"] + SPREAD * z[0]
    said = latent + given["shift"] + given["noise"] * z[1]
    return np.clip(np.round(said), 1, 10), np.clip(np.round(latent + 0.5 * z[2]), 1, 10)


def on_ten_table(given: Parameters) -> tuple[Columns, Floats]:
    """The population of `on_ten`."""
    edges = np.concatenate([[-np.inf], np.arange(1.5, 10), [np.inf]])[:, None]
    latent = given["middle"] + SPREAD * NODES
    said = np.diff(ndtr((edges - latent - given["shift"]) / given["noise"]), axis=0)
    label = np.diff(ndtr((edges - latent) / 0.5), axis=0)
    weights = (said * WEIGHTS / WEIGHTS.sum()) @ label.T
    return tuple(np.indices((10, 10)).reshape(2, -1) + 1.0), weights.ravel()


def _coarse(column: Floats) -> Floats:
    return np.clip(np.round(column), 7, 9)


def coarse_on_ten(u: Floats, given: Parameters) -> Columns:
    """The same with a judge that says 7, 8 or 9."""
    said, label = on_ten(u, given)
    return _coarse(said), label


def coarse_on_ten_table(given: Parameters) -> tuple[Columns, Floats]:
    """The population of `coarse_on_ten`."""
    (said, label), weights = on_ten_table(given)
    return (_coarse(said), label), weights


def far_values(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Scores from 1 to 10 next to one end, but for 2 to 5% at the other."""
    likely = np.zeros(10)
    likely[7:] = rng.dirichlet(np.ones(3))
    far = rng.uniform(0.02, 0.05)
    likely = likely * (1 - far)
    likely[0] = far
    return {"likely": likely if cell["hard"] else likely[::-1]}


def skewed_change(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """How often the second run is much worse; it is a little better on the other rows."""
    return {"far": rng.uniform(0.05, 0.15), "by": rng.uniform(0.6, 0.9)}


def two_scores(u: Floats, given: Parameters) -> Columns:
    """The scores of two runs, from 0 to 1."""
    first = 0.9 + 0.0 * u[0]
    return np.zeros(len(first)), first, np.where(u[1] < given["far"], first - given["by"], 1.0)


def two_scores_table(given: Parameters) -> tuple[Columns, Floats]:
    """The population of `two_scores`."""
    return (
        (np.zeros(2), np.full(2, 0.9), np.array([0.9 - given["by"], 1.0])),
        np.array([given["far"], 1 - given["far"]]),
    )


def panel_ratings(u: Floats, given: Parameters) -> Columns:
    """Three judges' ratings from 1 to 5."""
    z = ndtri(np.clip(u, 1e-12, 1 - 1e-12))
    latent = given["middle"] + z[0]
    return tuple(np.clip(np.round(latent + given["noise"] * own), 1, 5) for own in z[1:4])


def panel_ratings_table(given: Parameters) -> tuple[Columns, Floats]:
    """The population of `panel_ratings`."""
    likely = np.diff(ndtr((EDGES[:, None] - given["middle"] - NODES) / given["noise"]), axis=0)
    weights = np.einsum("an,bn,cn,n->abc", likely, likely, likely, WEIGHTS / WEIGHTS.sum())
    return tuple(np.indices((5, 5, 5)).reshape(3, -1) + 1.0), weights.ravel()


def panel_of(*values: Floats) -> dict[str, Statistic]:
    """The metrics of a panel of numbers."""
    votes = [column.astype(np.int64) for column in values]
    return panel.panel_statistics(votes, values, values, False) | panel.rater_statistics(
        votes, values, 1, numeric=True
    )


THREE_LEVELS = np.array([0.02, 0.5, 0.98])


def sure_but_for_few(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Two levels of a nearly sure judge, and a tenth of the rows in the middle, which are mostly positive."""
    off = rng.uniform(-0.015, 0.1)
    return {
        "levels": THREE_LEVELS,
        "right": np.array([0.02 + off, 0.8, 0.98 - off]),
        "likely": np.array([0.45, 0.1, 0.45]),
    }


def hardly_found(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """A label of three tenths of the rows, which the judge finds rarely and says in vain about as often."""
    right = np.array([rng.uniform(0.1, 0.3), rng.uniform(0.88, 0.97)])
    return {"shares": np.array([0.3, 0.7]), "right": right}


ORDERS = [list(order) for order in itertools.permutations("abcd")]


def near_orders(rng: np.random.Generator, cell: Parameters) -> Parameters:
    """Rankings of four items, of which most are perfect and the others any."""
    perfect = rng.uniform(0.3, 0.9)
    likely = np.full(len(ORDERS), (1 - perfect) / (len(ORDERS) - 1))
    likely[0] = perfect
    return {"likely": likely}


def ranked(codes: Floats) -> dict[str, Statistic]:
    """The metrics of rankings, by their places among all orders, from 1."""
    return ranks.rankings([ORDERS[0]] * len(codes), [ORDERS[int(code) - 1] for code in codes])


BASE_FAMILIES = len(FAMILIES)
BEYOND_CHANCE = ("accuracy", "mcc", "cohen_kappa", "gwet_ac1", "krippendorff_alpha")
FAMILIES = {
    **FAMILIES,
    "rare predictions": Family(rarely_said, judged, agreement_of(2), BEYOND_CHANCE, judged_table),
    "twelve labels": Family(twelve_labels, judged, agreement_of(12), BEYOND_CHANCE, judged_table),
    "verbal probabilities": Family(
        one_wrong_level,
        leveled,
        probability.probability_statistics,
        ("brier", "log_loss", "ece"),
        leveled_table,
    ),
    "nearly perfect ranking": Family(
        high_beliefs,
        believed,
        probability.probability_statistics,
        ("auroc", "average_precision"),
        believed_table,
    ),
    "size and quality": Family(
        worse_if_long,
        judged_by_size,
        label_of_two,
        ("accuracy", "f1 of a label", "cohen_kappa"),
        judged_by_size_table,
    ),
    "near an end": Family(
        near_an_end,
        rated,
        lambda x: numbers.number_values(x, False, (1.0, 10.0)),
        ("mean",),
        lambda given: ((TEN,), given["likely"]),
    ),
    "nearly sure levels": Family(
        nearly_sure_levels,
        leveled,
        probability.probability_statistics,
        ("brier", "log_loss", "ece"),
        leveled_table,
    ),
    "unequal recalls": Family(
        unequal_recalls,
        judged,
        weighted_averages,
        ("precision", "f1", "f_beta", "cohen_kappa"),
        judged_table,
    ),
    "nearly perfect label": Family(
        nearly_perfect_label,
        judged,
        of_one_label,
        ("precision", "recall", "specificity", "f1", "f_beta"),
        judged_table,
    ),
    "few levels": Family(few_levels, coarse_on_ten, pairs_of, OF_NUMBERS, coarse_on_ten_table),
    "shifted judge": Family(shifted, on_ten, pairs_of, OF_NUMBERS, on_ten_table),
    "two at the floor": Family(at_the_floor, on_ten, pairs_of, OF_NUMBERS, on_ten_table),
    "rare far values": Family(
        far_values,
        rated,
        lambda x: numbers.number_values(x, False, (1.0, 10.0)),
        ("mean",),
        lambda given: ((TEN,), given["likely"]),
    ),
    "skewed change": Family(
        skewed_change,
        two_scores,
        lambda _, x: numbers.number_values(x, False, (0.0, 1.0)),
        ("mean",),
        two_scores_table,
        paired=True,
    ),
    "panel": Family(
        ratings_at,
        panel_ratings,
        panel_of,
        ("krippendorff_alpha", "ordinal_alpha", "pairwise_kappa", "error_correlation", "icc"),
        panel_ratings_table,
    ),
    "sure but for few": Family(
        sure_but_for_few,
        leveled,
        probability.probability_statistics,
        ("brier", "log_loss", "ece"),
        leveled_table,
    ),
    "hardly found": Family(
        hardly_found,
        judged,
        label_of_two,
        ("f1 of a label", "f1", "balanced_accuracy", "cohen_kappa"),
        judged_table,
    ),
    "nearly perfect rankings": Family(
        near_orders,
        rated,
        ranked,
        ("spearman", "kendall", "top1", "kendall_distance", "ndcg"),
        lambda given: ((np.arange(1.0, len(ORDERS) + 1),), given["likely"]),
    ),
    "clear scores": Family(
        clear_scores, cleared, lambda x: numbers.number_values(x, False), ("mean",), cleared_table
    ),
}
FURTHER, NEWEST = 100_000, 200_000
"""Cells from these indices on are of the families that were added later: the designs of the others stay as they were."""
NEW_FAMILIES = ("sure but for few", "hardly found", "nearly perfect rankings")


def draw_cell(seed: int, index: int) -> Parameters:
    """The design of a cell, from the seed and its index alone."""
    rng = np.random.default_rng([seed, index])
    names = list(FAMILIES)
    group = names[:BASE_FAMILIES]
    if index >= FURTHER:
        group = [name for name in names[BASE_FAMILIES:] if name not in NEW_FAMILIES]
    if index >= NEWEST:
        group = [*NEW_FAMILIES]
    family = group[index % len(group)]
    n = round(math.exp(rng.uniform(math.log(10), math.log(1000))))
    shapes = [*SHAPES, "zeros", "binary"] if family == "values" else list(SHAPES)
    clustering = CLUSTERINGS[int(rng.integers(len(CLUSTERINGS)))]
    if family == "size and quality":
        clustering, n = "sizes", 400  # as many rows as at least 40 clusters have
    most = min(200, n // 2)
    fewest = 20 if clustering == "sizes" else 5
    clusters = (
        0
        if clustering == "independent"
        else round(math.exp(rng.uniform(math.log(fewest), math.log(max(most, 5)))))
    )
    return {
        "index": index,
        "family": family,
        "n": n,
        "clustering": clustering,
        "clusters": clusters,
        "correlation": 0.0 if not clusters else round(float(rng.uniform(0, 0.6)), 2),
        "rare": round(math.exp(rng.uniform(math.log(0.01), math.log(0.5))), 3),
        "labels": {
            "rare predictions": 2,
            "twelve labels": 12,
            "size and quality": 2,
            "nearly perfect label": 2,
            "hardly found": 2,
        }.get(family, int(rng.integers(2, 7))),
        "hard": bool(rng.random() < 0.5),
        "ceiling": bool(rng.random() < 0.4),
        "shape": shapes[int(rng.integers(len(shapes)))],
    }


def cluster_of(cell: Parameters, rng: np.random.Generator) -> Ints | None:
    """The cluster of each row; sizes as the cell says."""
    n, k = cell["n"], cell["clusters"]
    if not k:
        return None
    if cell["clustering"] == "sizes":
        return np.repeat(np.arange(k), rng.choice(SIZES, k, p=HOW_OFTEN))
    if cell["clustering"] == "equal":
        return np.arange(n) % k
    weights = rng.pareto(1.2, k) + 0.2 if cell["clustering"] == "pareto" else np.ones(k)
    if cell["clustering"] == "giant":
        weights[0] = k - 1
    rest = rng.choice(k, size=n - k, p=weights / weights.sum())
    return np.concatenate([np.arange(k), rest])


def draw_sample(
    cell: Parameters, seed: int
) -> tuple[Columns, Ints | None, Parameters, np.random.Generator]:
    """The columns of one sample, the rows' clusters, and the parameters of its population."""
    rng = np.random.default_rng([seed, cell["index"], 7])
    family = FAMILIES[cell["family"]]
    given = family.parameters(rng, cell)
    cluster = cluster_of(cell, rng) if cell["clustering"] == "sizes" else None
    u = rng.random((6, cell["n"] if cluster is None else len(cluster)))
    cluster = cluster_of(cell, rng) if cluster is None else cluster
    if cluster is not None:
        copied = rng.random(u.shape[1]) < math.sqrt(cell["correlation"])
        u = np.where(copied, rng.random((6, cell["clusters"]))[:, cluster], u)
    if cell["clustering"] == "sizes":
        u[-1] = np.bincount(cluster)[cluster]
    return family.columns(u, given), cluster, given, rng


def true_values(cell: Parameters, given: Parameters) -> dict[str, float]:
    """The metrics of the population, or the second judge's minus the first's."""
    family = FAMILIES[cell["family"]]
    if family.table is None:
        return _large(cell["family"], given["shape"], given["rare"])
    columns, weights = family.table(given)
    sides = [columns] if not family.paired else [(columns[0], said) for said in columns[1:]]
    each = [
        {
            name: float(one.at(1e9 * weights[None, :])[0])
            for name, one in family.statistics(*side).items()
        }
        for side in sides
    ]
    return {
        name: each[-1][name] - (each[0][name] if family.paired else 0.0) for name in family.metrics
    }


@cache
def _large(name: str, shape: str, rare: float) -> dict[str, float]:
    family = FAMILIES[name]
    u = np.random.default_rng(1).random((6, LARGE))
    columns = tuple(family.columns(u, {"shape": shape, "rare": rare}))
    if len(columns) == 2:
        x, y = columns
        from scipy.stats import kendalltau, spearmanr

        some = slice(0, 200_000)
        spread = {
            "student": 3.0,
            "normal": 1.0,
            "exponential": 1.0,
            "lognormal": math.e * (math.e - 1),
        }[shape]
        square = {"student": 3.0, "normal": 10.0, "exponential": 2.0, "lognormal": math.exp(2)}[
            shape
        ]
        return {
            "pearson": 1 / math.sqrt(1 + 0.25 * spread),
            "spearman": float(spearmanr(x, y)[0]),
            "kendall": float(kendalltau(x[some], y[some])[0]),
            "mae": float(np.abs(x - y).mean()),
            "rmse": 0.5 * math.sqrt(square),
        }
    (x,) = columns
    mean = {"normal": 3.0, "exponential": 1.0, "lognormal": math.exp(0.5), "student": 0.0}.get(
        shape, rare
    )
    spread = {"student": 3.0, "lognormal": math.e * (math.e - 1)}.get(shape, float(x.var()))
    return {"mean": mean, "median": float(np.median(x)), "variance": spread}


def metrics_of(
    cell: Parameters, columns: Columns, sample: Sample, draw: Draw
) -> dict[str, MetricValue]:
    """The metrics of a sample with their intervals, or the differences of the two judges' metrics."""
    family = FAMILIES[cell["family"]]
    at = tuple(column[sample.first] for column in columns)
    if not family.paired:
        statistics = family.statistics(*at)
        return metrics_with_intervals(
            {name: statistics[name] for name in family.metrics}, sample, draw
        )
    first, second = (family.statistics(at[0], said) for said in at[1:])
    return {
        name: paired_metric_value(first[name], second[name], sample, draw)
        for name in family.metrics
    }


def run_cell(cell: Parameters, simulations: int, seed: int) -> dict[str, Any]:
    """For each metric: samples with an interval and no warning, those whose interval holds the truth, lies above it,
    lies below it, those with a warning or without an interval; samples with a warning and an interval, and those of them
    that hold the truth. Also whether warnings must be rare here, and each warning."""
    found: dict[str, list[int]] = {name: [0] * 7 for name in FAMILIES[cell["family"]].metrics}
    warnings: Counter[str] = Counter()
    benign = 0
    for number in range(simulations):
        columns, cluster, given, rng = draw_sample(cell, seed * 1_000_003 + number)
        truth = true_values(cell, given)
        sample = Sample.of(columns, cluster)
        benign += _benign(cell, columns, sample)
        for name, one in metrics_of(cell, columns, sample, Draw(rng)).items():
            counts = found[name]
            if one.low is None or one.high is None or one.warnings:
                counts[4] += 1
                if one.low is not None and one.high is not None:
                    counts[5] += 1
                    counts[6] += bool(one.low - 1e-9 <= truth[name] <= one.high + 1e-9)
                warnings.update({NUMBER.sub("N", text) for text in one.warnings or (one.reason,)})
                continue
            counts[0] += 1
            counts[1] += bool(one.low - 1e-9 <= truth[name] <= one.high + 1e-9)
            counts[2] += bool(truth[name] < one.low - 1e-9)
            counts[3] += bool(truth[name] > one.high + 1e-9)
    return {
        **cell,
        "simulations": simulations,
        "benign": benign,
        "metrics": found,
        "warnings": warnings,
    }


AT_AN_END = (
    "clear scores",
    "near an end",
    "rare far values",
    "skewed change",
    "two at the floor",
    "nearly perfect rankings",
)
"""Families whose values are at a ceiling or a floor."""


def _benign(cell: Parameters, columns: Columns, sample: Sample) -> bool:
    """Whether the sample has ten rows of each label, ten effective clusters and no ceiling."""
    if sample.cluster is not None:
        sizes = np.bincount(sample.cluster)
        if sizes.sum() ** 2 / (sizes**2).sum() < ENOUGH:
            return False
    of_probability = cell["family"] in (
        "probabilities",
        "verbal probabilities",
        "nearly sure levels",
        "nearly perfect ranking",
        "sure but for few",
    )
    if of_probability or cell["family"] in (
        "labels",
        "two judges",
        "rare predictions",
        "twelve labels",
        "size and quality",
        "unequal recalls",
        "nearly perfect label",
        "hardly found",
    ):
        labels = columns[1] if of_probability else columns[0]
        k = 2 if of_probability else cell["labels"]
        return bool(np.bincount(labels.astype(int), minlength=k).min() >= ENOUGH)
    if cell["family"] in ("ratings", "two ratings"):
        return not cell["ceiling"] and cell["n"] >= ENOUGH
    if cell["family"] in AT_AN_END:
        return False
    return (
        cell["shape"] not in ("zeros", "binary")
        or cell["n"] * min(cell["rare"], 1 - cell["rare"]) >= ENOUGH
    )


def strata(row: Mapping[str, Any]) -> str:
    """The column of the table that a cell belongs to."""
    return "pareto" if row["clustering"] == "sizes" else str(row["clustering"])


LEAST_SHOWN = 100
"""Cells with fewer samples without a warning show nothing of their coverage."""
NOISE = 2.33
"""A cell is too low if its coverage is below 93% by more than chance: one in a hundred of those at 93%."""


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The coverage of each metric by kind of clusters: mean, and the lowest cell, of samples without a warning; and that of
    samples with one."""
    lines = [
        "|Data|Metric|independent|equal|Pareto|half in one|lowest cell|warned|warned, enough rows|of the warned|",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    low: list[str] = []
    cells = 0
    for family, of in FAMILIES.items():
        mine = [row for row in rows if row["family"] == family]
        for name in of.metrics:
            shown, worst, warned, total, easy, easy_total = [], 101.0, 0, 0, 0, 0
            for kind in CLUSTERINGS:
                each = [row["metrics"][name] for row in mine if strata(row) == kind]
                given, held = sum(one[0] for one in each), sum(one[1] for one in each)
                shown.append(f"{100 * held / given:.1f}" if given >= LEAST_SHOWN else "–")
            doubted, doubted_held = (sum(row["metrics"][name][at] for row in mine) for at in (5, 6))
            for row in mine:
                given, held, above, below, without = row["metrics"][name][:5]
                warned, total = warned + without, total + given + without
                if row["benign"] == row["simulations"]:
                    easy, easy_total = easy + without, easy_total + given + without
                if given < LEAST_SHOWN:
                    continue
                cells += 1
                worst = min(worst, 100 * held / given)
                tail = max(above, below) / given
                if _beyond(held / given, 0.93, given) or _beyond(1 - tail, 0.95, given):
                    low.append(
                        f"{family} `{name}` {100 * held / given:.1f} (above {100 * above / given:.1f}, below "
                        f"{100 * below / given:.1f}) of {given}: " + _design(row)
                    )
            end = f"{worst:.1f}" if worst <= 100 else "–"
            rate = f"{100 * warned / total:.0f}%" if total else "–"
            easy_rate = f"{100 * easy / easy_total:.0f}%" if easy_total else "–"
            of_warned = f"{100 * doubted_held / doubted:.1f}" if doubted >= LEAST_SHOWN else "–"
            lines.append(
                f"|{family}|`{name}`|{'|'.join(shown)}|{end}|{rate}|{easy_rate}|{of_warned}|"
            )
    judged = f"(below 93%, or with more than 5% on one side, by more than chance at one in a hundred){':' if low else '.'}"
    count = (
        f"{len(rows)} designs, {cells} cells with {LEAST_SHOWN} or more samples without a warning"
    )
    lines += [
        "",
        f"{count}; {len(low) or 'none'} {'is' if len(low) < 2 else 'are'} too low {judged}",
    ]
    if low:
        lines += ["", *(f"- {each}" for each in low)]
    return "\n".join([*lines, "", *warning_table(rows)])


def warning_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How often each warning is given, of all metrics of all samples, and of those with enough rows."""
    enough = [row for row in rows if row["benign"] == row["simulations"]]
    parts = []
    for some in (rows, enough):
        counts: Counter[str] = Counter()
        for row in some:
            counts.update(row["warnings"])
        parts.append(
            (counts, sum(sum(one[0] + one[4] for one in row["metrics"].values()) for row in some))
        )
    lines = [
        "| Warning, or why there is no interval | all designs | enough rows |",
        "| --- | ---: | ---: |",
    ]
    for text in sorted(parts[0][0], key=lambda text: (-parts[0][0][text], text)):
        shares = (f"{100 * counts[text] / total:.1f}%" if total else "–" for counts, total in parts)
        lines.append(f"| {text} | {' | '.join(shares)} |")
    return lines


def _beyond(share: float, least: float, n: int) -> bool:
    return share < least - NOISE * math.sqrt(least * (1 - least) / n)


def _design(row: Mapping[str, Any]) -> str:
    parts = [f"{row['n']} rows"]
    if row["clusters"]:
        parts.append(
            f"{row['clusters']} clusters ({row['clustering']}, correlation {row['correlation']})"
        )
    if row["family"] in ("labels", "two judges", "probabilities") or row["shape"] in (
        "zeros",
        "binary",
    ):
        parts.append(f"rarest {100 * row['rare']:.1f}%")
    if row["family"] in ("labels", "two judges"):
        parts.append(f"{row['labels']} labels, judge {'55' if row['hard'] else '80'} to 98%")
    if row["family"] in ("ratings", "two ratings") and row["ceiling"]:
        parts.append("ceiling")
    if row["family"] in ("values", "predictions"):
        parts.append(row["shape"])
    return f"cell {row['index']}: {', '.join(parts)}"


def main(arguments: Sequence[str]) -> None:
    """Run a part of the cells, or print the table of parts that have run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=420)
    parser.add_argument(
        "--further", type=int, default=60, help="cells of the families that were added later"
    )
    parser.add_argument(
        "--newest", type=int, default=24, help="cells of the families that were added last"
    )
    parser.add_argument("--simulations", type=int, default=500)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument(
        "--part",
        default="1/1",
        help="i/n: the i-th of n parts; of an even n, a part lacks families",
    )
    parser.add_argument("--family", help="cells of this family only")
    parser.add_argument(
        "--out", type=Path, help="a JSON line for each cell; default: print the tables"
    )
    parser.add_argument("--table", nargs="+", type=Path, help="print the tables of these files")
    given = parser.parse_args(arguments)
    if given.table:
        print(
            table(
                [json.loads(line) for file in given.table for line in file.read_text().splitlines()]
            )
        )
        return
    part, parts = map(int, given.part.split("/"))
    indices = [
        *range(given.cells),
        *range(FURTHER, FURTHER + given.further),
        *range(NEWEST, NEWEST + given.newest),
    ]
    cells = (draw_cell(given.seed, index) for index in indices[part - 1 :: parts])
    found = (
        run_cell(cell, given.simulations, given.seed)
        for cell in cells
        if given.family in (None, cell["family"])
    )
    if given.out is None:
        print(table([*found]))
        return
    with given.out.open("w") as out:
        for row in found:
            out.write(json.dumps(row) + "\n")
            out.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
