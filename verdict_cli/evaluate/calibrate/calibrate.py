"""From a run's labelled rows to a calibration, and its figures on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from verdict_cli.calibrations import Fitted
from verdict_cli.calibrations.kinds import PoolWeights, ProbabilityMap, ScoreWeights, Threshold
from verdict_cli.calibrations.mapped import mapped
from verdict_cli.errors import ReplyError, UsageError
from verdict_cli.evaluate.calibrate.bound import bound
from verdict_cli.evaluate.calibrate.held_out import HeldOut, folds, held_out
from verdict_cli.evaluate.calibrate.labelled import GIVEN, Labelled, distributions, expression, labelled
from verdict_cli.evaluate.calibrate.probability import FITS
from verdict_cli.evaluate.calibrate.weights import (
    dawid_skene,
    least_squares,
    log_odds,
    logistic,
    score_weights,
)
from verdict_cli.evaluate.column import Floats, Ints
from verdict_cli.evaluate.metrics import numbers, probability
from verdict_cli.expressions import statistics
from verdict_cli.extractors import extractor
from verdict_cli.extractors.token_probability import WeightedSummedScore
from verdict_cli.fields import OnScale
from verdict_cli.plan import Asked, Node, Plan, Pooled
from verdict_cli.scales import Boolean, Discrete
from verdict_cli.units.mean_pool import MeanPoolUnit
from verdict_cli.units.pools import ModePoolUnit

Kind = Literal["probability", "score_weights", "pool_weights", "threshold"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What can be fitted."""
METHODS: Mapping[Kind, tuple[str, ...]] = {
    "probability": tuple(FITS),
    "score_weights": (),
    "pool_weights": ("logistic", "log_odds", "least_squares", "dawid_skene"),
    "threshold": (),
}
"""How; "" chooses the first that fits."""
FEWEST = 20
"""Fewer labelled rows are not fitted to."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be fitted: to which unit (its name, of all its copies), by which expressions."""

    unit: str | None
    kind: Kind
    target: str | None
    where: str | None = None
    method: str = ""
    prediction: str = "output.score"
    confidence: str = "output.p"
    agreement: float = 0.0
    level: float = 0.95
    folds: int = 5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What was fitted, and its figures on held-out rows by method and metric; ``notes`` for the reader."""

    content: Fitted
    figures: Mapping[str, Mapping[str, HeldOut]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def calibrate(plan: Plan, results: Path, calls: Path, wanted: Wanted, *, made: str, run: str) -> Calibrated:
    """The calibration. UsageError where the run, the unit or its labels do not allow one."""
    nodes = _nodes(plan, wanted)
    fit = {
        "probability": _probability,
        "score_weights": _score_weights,
        "pool_weights": _pool_weights,
        "threshold": _threshold,
    }[wanted.kind]
    head = {
        "verdict_calibration": 1,
        "kind": wanted.kind,
        "unit": nodes[0].name,
        "made": made,
        "run": run,
        "target": wanted.target or "",
    }
    return fit(_Job(plan, nodes, results, calls, wanted, np.random.default_rng(abs(wanted.seed)), head))


@dataclass(frozen=True)
class _Job:
    plan: Plan
    nodes: Sequence[Node]
    results: Path
    calls: Path
    wanted: Wanted
    rng: np.random.Generator
    head: dict[str, Any]

    @property
    def scale(self) -> Boolean | Discrete:
        """The scale of a unit whose token probabilities are read."""
        work = self.nodes[0].work
        assert isinstance(work, Asked)
        (kind,) = work.response.fields.values()
        assert isinstance(kind, OnScale) and isinstance(kind.scale, Boolean | Discrete)
        return kind.scale

    def marks(self, *without: str) -> dict[str, str]:
        return {name: mark for name, mark in self.nodes[0].marks.items() if name not in without}


def _nodes(plan: Plan, wanted: Wanted) -> list[Node]:
    """The copies of the unit that is meant."""
    fitting = [node for node in plan.nodes if _fits(plan, node, wanted.kind)]
    names = list(dict.fromkeys(node.name for node in fitting))
    named = wanted.unit
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
    }[wanted.kind]
    said = ", ".join(names) or "none"
    if named is None:
        raise UsageError(f"--unit is needed: {len(names)} units of this run {what}: {said}")
    raise UsageError(f"no unit {named!r} of this run {what}", hint=f"these do: {said}")


def _fits(plan: Plan, node: Node, kind: Kind) -> bool:
    if kind == "pool_weights":
        return isinstance(node.work, Pooled) and isinstance(node.unit, ModePoolUnit | MeanPoolUnit)
    if kind == "threshold":
        return True
    if not isinstance(node.work, Asked) or not node.work.reading.top_logprobs:
        return False
    return kind == "probability" or isinstance(extractor(node.work.unit.extract), WeightedSummedScore)


def _read(job: _Job) -> tuple[Floats, list[Any], Ints]:
    """(probabilities, targets, row numbers) of the recorded replies whose row is labelled."""
    rows = {
        row.row: row.target
        for row in labelled(job.results, (), job.wanted.target, job.wanted.where)
        if row.target is not None
    }
    found = [(row, p) for row, _, p in distributions(job.calls, job.nodes) if row in rows]
    _enough(len({row for row, _ in found}))
    values = _values(job.scale)
    p = np.array([[one[value] for value in values] for _, one in found])
    return p, [rows[row] for row, _ in found], np.array([row for row, _ in found])


def _values(scale: Boolean | Discrete) -> list[Any]:
    return list(dict.fromkeys(value for _, value in scale.tokens()))


def _enough(rows: int) -> None:
    if rows < FEWEST:
        raise UsageError(
            f"{rows} rows have a label and an answer, {FEWEST} are needed",
            hint="label more rows, or run the judge on more of the labelled ones",
        )


def _probability(job: _Job) -> Calibrated:
    p, targets, rows = _read(job)
    values = _values(job.scale)
    truth = np.array([_place(job.scale, values, target) for target in targets])
    methods = [name for name in FITS if name == "temperature" or len(values) == 2]
    chosen = job.wanted.method or methods[-1 if len(methods) == 1 else 1]
    if chosen not in methods:
        raise UsageError(
            f"`{chosen}` maps one of two values, the scale has {len(values)}",
            hint="use `--method temperature`",
        )
    positive = values.index(True) if True in values else len(values) - 1

    def told(found: Floats) -> tuple[Floats, Floats]:
        if len(values) == 2:
            return found[:, positive], (truth == positive).astype(np.float64)
        return found.max(axis=1), (found.argmax(axis=1) == truth).astype(np.float64)

    figures: dict[str, Mapping[str, HeldOut]] = {}
    fold = folds(rows, job.wanted.folds, job.rng)
    for name in methods:
        after = np.empty_like(p)
        for one in range(job.wanted.folds):
            keys = FITS[name](p[fold != one], truth[fold != one], positive)
            after[fold == one] = _applied(name, keys, values, positive, p[fold == one])
        wanted = ("ece", "brier", "log_loss")
        figures[name] = held_out(wanted, probability.statistics, told(p), told(after), rows, job.rng)
    keys = FITS[chosen](p, truth, positive)
    if chosen != "temperature":
        keys["positive"] = values[positive]
    content = ProbabilityMap.model_validate(
        job.head
        | {"fingerprint": job.marks("output"), "method": chosen, "rows": len(set(rows.tolist())), **keys}
        | {"held_out": _spelled(figures[chosen])}
    )
    of = f"{values[positive]!r}" if len(values) == 2 else "the most probable value"
    return Calibrated(content, figures, (f"figures of the probability of {of}",))


def _applied(name: Any, keys: Mapping[str, Any], values: list[Any], positive: int, p: Floats) -> Floats:
    made = ProbabilityMap.model_construct(None, method=name, positive=values[positive], **keys)
    return np.array([list(mapped(dict(zip(values, row, strict=True)), made).values()) for row in p.tolist()])


def _place(scale: Boolean | Discrete, values: list[Any], target: Any) -> int:
    """The place of a target among the scale's values. UsageError when it is none of them."""
    if isinstance(scale, Boolean) and target in (0, 1):
        target = bool(target)
    try:
        return values.index(scale.read(target))
    except ReplyError:
        raise UsageError(
            f"the target {target!r} is not on the judge's scale ({scale.display()})",
            hint="make it one in the expression, such as `source.label == 'good'`",
        ) from None


def _score_weights(job: _Job) -> Calibrated:
    p, targets, rows = _read(job)
    values = _values(job.scale)
    target = _numbers(targets)
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
        | {"weights": dict(zip(values, found, strict=True)), "held_out": _spelled(figures)}
    )
    return Calibrated(content, {"score_weights": figures})


def _numbers(targets: Sequence[Any]) -> Floats:
    for target in targets:
        if not isinstance(target, int | float):
            raise UsageError(f"the target {target!r} is no number", hint="make it one in the expression")
    return np.array(targets, dtype=np.float64)


def _pool_weights(job: _Job) -> Calibrated:
    (pool,) = job.nodes[:1]
    assert isinstance(pool.work, Pooled)
    parents = [job.plan.nodes[parent] for parent in pool.parents]
    if len(pool.work.fields) != 1:
        raise UsageError(f"{pool.id} pools several fields", hint="name one of them with `field:`")
    ((name, taken),) = pool.work.fields
    method = job.wanted.method or ("logistic" if isinstance(pool.unit, ModePoolUnit) else "least_squares")
    if (method == "least_squares") == isinstance(pool.unit, ModePoolUnit):
        fit = (
            "`logistic`, `log_odds` or `dawid_skene`"
            if isinstance(pool.unit, ModePoolUnit)
            else "`least_squares`"
        )
        raise UsageError(f"`{method}` does not fit a {pool.unit.type_name}", hint=f"use {fit}")
    if job.wanted.target is None and method != "dawid_skene":
        raise UsageError(f"`{method}` needs --target", hint="`--method dawid_skene` needs no labels")
    rows = [
        row
        for row in labelled(job.results, parents, job.wanted.target, job.wanted.where)
        if (row.target is not None or job.wanted.target is None)
        and any(output is not None for output in row.outputs)
    ]
    _enough(len(rows))
    said = [
        [
            None if output is None else take(output[name])
            for output, take in zip(row.outputs, taken, strict=True)
        ]
        for row in rows
    ]
    fit_job = _mean_pool if method == "least_squares" else _vote
    weights, figures = fit_job(
        job, method, said, [row.target for row in rows], np.array([row.row for row in rows])
    )
    content = PoolWeights.model_validate(
        job.head
        | {"fingerprint": job.marks("output"), "rows": len(rows), "method": method}
        | {"weights": weights.tolist(), "held_out": _spelled(figures)}
    )
    shown = ", ".join(f"{parent.id} {weight:.3g}" for parent, weight in zip(parents, weights, strict=True))
    return Calibrated(content, {method: figures} if figures else {}, (f"weights: {shown}",))


Said = Sequence[Sequence[Any]]


def _vote(
    job: _Job, method: str, said: Said, targets: list[Any], rows: Ints
) -> tuple[Floats, dict[str, HeldOut]]:
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
            return log_odds(dawid_skene(votes, len(known))[1] * asked, asked, len(known))
    else:

        def fit(votes: Ints, truth: Ints) -> Floats:
            return log_odds((votes == truth[:, None]).sum(axis=0), (votes >= 0).sum(axis=0), len(known))

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
                    (int(vote), float(weight))
                    for vote, weight in zip(votes[place], weighing, strict=True)
                    if vote >= 0
                ]
                won = statistics.weighted_mode([vote for vote, _ in given], [weight for _, weight in given])
                hits[side, place] = won == truth[place]
    found = held_out(("mean",), lambda hit: numbers.values(hit, True), (hits[0],), (hits[1],), rows, job.rng)
    return weights, {"accuracy": found["mean"]}


def _logistic(votes: Ints, truth: Ints) -> Floats:
    kept = truth >= 0
    return logistic(votes[kept], truth[kept])


def _mean_pool(
    job: _Job, method: str, said: Said, targets: list[Any], rows: Ints
) -> tuple[Floats, dict[str, HeldOut]]:
    whole = [place for place, one in enumerate(said) if None not in one]
    _enough(len(whole))
    values = np.array([[float(value) for value in said[place]] for place in whole])
    target = _numbers([targets[place] for place in whole])
    after = np.empty(len(whole))
    fold = folds(rows[whole], job.wanted.folds, job.rng)
    for one in range(job.wanted.folds):
        after[fold == one] = values[fold == one] @ least_squares(values[fold != one], target[fold != one])
    figures = held_out(
        ("mae", "rmse", "pearson"),
        numbers.pairs,
        (values.mean(axis=1), target),
        (after, target),
        rows[whole],
        job.rng,
    )
    return least_squares(values, target), figures


def _threshold(job: _Job) -> Calibrated:
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
    _enough(len(pairs))
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


def _spelled(figures: Mapping[str, HeldOut]) -> dict[str, Any]:
    """The figures as the file holds them."""
    kept = ("value", "low", "high")
    return {
        name: {side: {key: figure[key] for key in kept} for side, figure in asdict(one).items()}
        for name, one in figures.items()
    }
