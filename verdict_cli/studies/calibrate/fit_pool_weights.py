"""Fitting the weights of the units that a pool takes together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from verdict_cli.errors import UsageError
from verdict_cli.language.calibrations import PoolWeights
from verdict_cli.language.expressions import summary_statistics
from verdict_cli.language.units.pools import ModePoolUnit
from verdict_cli.plan.node import PoolNode
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.metrics import numbers
from verdict_cli.studies.calibrate.fit_options import Calibrated, FitJob, enough, numbers_of, spelled
from verdict_cli.studies.calibrate.fit_weights import dawid_skene, least_squares, logistic, weight_log_odds
from verdict_cli.studies.calibrate.held_out import HeldOut, folds, held_out
from verdict_cli.studies.calibrate.labelled_rows import labelled

Said = Sequence[Sequence[Any]]


def fit_pool_weights(job: FitJob) -> Calibrated:
    """The weights of the units before the pool, by `--method`. UsageError where the method does not fit the pool."""
    (pool,) = job.nodes[:1]
    assert isinstance(pool.work, PoolNode)
    parents = [job.plan.nodes[parent] for parent in pool.parents]
    if len(pool.work.fields) != 1:
        raise UsageError(f"{pool.id} pools several fields", hint="name one of them with `field:`")
    ((name, taken),) = pool.work.fields
    method = job.wanted.method or ("logistic" if isinstance(pool.unit, ModePoolUnit) else "least_squares")
    if (method == "least_squares") == isinstance(pool.unit, ModePoolUnit):
        fit = "`logistic`, `log_odds` or `dawid_skene`" if isinstance(pool.unit, ModePoolUnit) else "`least_squares`"
        raise UsageError(f"`{method}` does not fit a {pool.unit.type_name}", hint=f"use {fit}")
    if job.wanted.target is None and method != "dawid_skene":
        raise UsageError(f"`{method}` needs --target", hint="`--method dawid_skene` needs no labels")
    rows = [
        row
        for row in labelled(job.results, parents, job.wanted.target, job.wanted.where)
        if (row.target is not None or job.wanted.target is None) and any(output is not None for output in row.outputs)
    ]
    enough(len(rows))
    said = [
        [None if output is None else take(output[name]) for output, take in zip(row.outputs, taken, strict=True)]
        for row in rows
    ]
    fit_job = _mean_pool if method == "least_squares" else _vote
    weights, figures = fit_job(job, method, said, [row.target for row in rows], np.array([row.row for row in rows]))
    content = PoolWeights.model_validate(
        job.head
        | {"fingerprint": job.marks("output"), "rows": len(rows), "method": method}
        | {"weights": weights.tolist(), "held_out": spelled(figures)}
    )
    shown = ", ".join(f"{parent.id} {weight:.3g}" for parent, weight in zip(parents, weights, strict=True))
    return Calibrated(content, {method: figures} if figures else {}, (f"weights: {shown}",))


def _vote(job: FitJob, method: str, said: Said, targets: list[Any], rows: Ints) -> tuple[Floats, dict[str, HeldOut]]:
    known = list(dict.fromkeys(value for one in said for value in one if value is not None))
    votes = np.array([[known.index(value) if value is not None else -1 for value in one] for one in said])
    truth = np.array([known.index(target) if target in known else -2 for target in targets])
    fit: Callable[[Ints, Ints], Floats]
    if method == "logistic":
        if len(known) > 2:
            raise UsageError(
                f"`logistic` is for votes between two values, here are {len(known)}", hint="use `log_odds`"
            )
        fit = _logistic
    elif method == "dawid_skene":

        def fit(votes: Ints, truth: Ints) -> Floats:
            asked = (votes >= 0).sum(axis=0)
            return weight_log_odds(dawid_skene(votes, len(known))[1] * asked, asked, len(known))
    else:

        def fit(votes: Ints, truth: Ints) -> Floats:
            return weight_log_odds((votes == truth[:, None]).sum(axis=0), (votes >= 0).sum(axis=0), len(known))

    weights = fit(votes, truth)
    if job.wanted.target is None:
        return weights, {}
    fold = folds(rows, job.wanted.folds, job.rng)
    hits = np.empty((2, len(votes)))
    for one in range(job.wanted.folds):
        kept = fit(votes[fold != one], truth[fold != one])
        for place in np.flatnonzero(fold == one):
            for side, weighing in enumerate((np.ones_like(kept), kept)):
                given = [
                    (int(vote), float(weight)) for vote, weight in zip(votes[place], weighing, strict=True) if vote >= 0
                ]
                won = summary_statistics.weighted_mode([vote for vote, _ in given], [weight for _, weight in given])
                hits[side, place] = won == truth[place]
    found = held_out(("mean",), lambda hit: numbers.number_values(hit, True), (hits[0],), (hits[1],), rows, job.rng)
    return weights, {"accuracy": found["mean"]}


def _logistic(votes: Ints, truth: Ints) -> Floats:
    kept = truth >= 0
    return logistic(votes[kept], truth[kept])


def _mean_pool(
    job: FitJob, method: str, said: Said, targets: list[Any], rows: Ints
) -> tuple[Floats, dict[str, HeldOut]]:
    whole = [place for place, one in enumerate(said) if None not in one]
    enough(len(whole))
    values = np.array([[float(value) for value in said[place]] for place in whole])
    target = numbers_of([targets[place] for place in whole])
    after = np.empty(len(whole))
    fold = folds(rows[whole], job.wanted.folds, job.rng)
    for one in range(job.wanted.folds):
        after[fold == one] = values[fold == one] @ least_squares(values[fold != one], target[fold != one])
    figures = held_out(
        ("mae", "rmse", "pearson"),
        numbers.number_pairs,
        (values.mean(axis=1), target),
        (after, target),
        rows[whole],
        job.rng,
    )
    return least_squares(values, target), figures
