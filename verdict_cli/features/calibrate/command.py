"""`verdict calibrate RUN --target source.label`: from a run's labelled rows to a calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from msgspec import Struct

from verdict_cli.cli.console import aligned, print_json, print_message, print_report, printable
from verdict_cli.cli.options import AsJson
from verdict_cli.errors import UsageError
from verdict_cli.features.calibrate.fit_job import (
    Calibrated,
    FitJob,
    FitKind,
    FitOptions,
    HeldOut,
    check_enough_rows,
    fit_probability,
    fit_threshold,
    folds,
    held_out,
    held_out_keys,
    labelled_rows,
    numbers_of,
    read_labelled_run,
    values_of,
)
from verdict_cli.language.calibrations import PoolWeights, ScoreWeights
from verdict_cli.language.expressions import summary_statistics
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.extractors.token_probability import WeightedSummedScoreExtractor
from verdict_cli.language.units.pools import MeanPoolUnit, ModePoolUnit
from verdict_cli.plan.node import LLMNode, Node, Plan, PoolNode
from verdict_cli.plan.resolve import as_yaml
from verdict_cli.plural import plural
from verdict_cli.report.formatting import format_number, interval
from verdict_cli.run.load_run import load_run
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.metrics import numbers
from verdict_cli.storage.paths import output_errors

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
    weights = nnls(rows, np.append(target, heavy))[0]
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def weight_log_odds(hits: Floats, answered: Floats, kinds: int) -> Floats:
    """The weight of each unit's vote: the log-odds of its being right against any one other value, at least 0
    (Nitzan and Paroush, 1982); one right and one wrong answer are added to each unit's own."""
    right = (hits + 1) / (answered + 2)
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
    fitted = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * units)
    return np.asarray(fitted.x, dtype=np.float64)


def dawid_skene(votes: Ints, kinds: int) -> tuple[Floats, Floats]:
    """The probability of each value at each row, and each unit's share of right votes, without a label
    (Dawid and Skene, 1979): EM from the shares of the votes. ``votes`` are (rows, units), -1 where there is none."""
    rows, units = votes.shape
    indicators = np.zeros((rows, units, kinds))
    at = votes >= 0
    cells = np.nonzero(at)
    indicators[cells[0], cells[1], votes[at]] = 1.0
    truth = indicators.sum(axis=1)
    truth[~at.any(axis=1)] = 1.0
    truth /= truth.sum(axis=1, keepdims=True)
    last = -np.inf
    for _ in range(STEPS):
        prior = (truth.sum(axis=0) + 1) / (rows + kinds)
        confusion = np.einsum("rk,rul->ukl", truth, indicators) + 1 / kinds
        confusion /= confusion.sum(axis=2, keepdims=True)
        logs = np.log(prior) + np.einsum("rul,ukl->rk", indicators, np.log(confusion))
        most = logs.max(axis=1, keepdims=True)
        scaled = np.exp(logs - most)
        likelihood = float((np.log(scaled.sum(axis=1)) + most[:, 0]).sum())
        truth = scaled / scaled.sum(axis=1, keepdims=True)
        if likelihood - last < 1e-9 * abs(likelihood):
            break
        last = likelihood
    hits = np.einsum("rk,ruk->u", truth, indicators)
    return truth, hits / np.maximum(at.sum(axis=0), 1)


def _cross_fitted(job: FitJob, fit: Callable[[Floats, Floats], Floats], x: Floats, y: Floats, rows: Ints) -> Floats:
    """The weighted sum at each row, with weights that were fitted to the rows of other folds."""
    after = np.empty(len(x))
    fold = folds(rows, job.options.folds, job.rng)
    for index in range(job.options.folds):
        after[fold == index] = x[fold == index] @ fit(x[fold != index], y[fold != index])
    return after


def fit_score_weights(job: FitJob) -> Calibrated:
    """The numbers of the scale's values for which the weighted sum comes nearest to the target."""
    p, targets, rows = read_labelled_run(job)
    values = values_of(job.scale)
    target = numbers_of(targets)
    own = [job.scale.number(value) for value in values]
    start = np.array([float(target.mean()) if number is None else number for number in own])
    after = _cross_fitted(job, lambda x, y: score_weights(x, y, start), p, target, rows)
    metrics = held_out(
        ("mae", "rmse", "pearson"), numbers.number_pairs, (p @ start, target), (after, target), rows, job.rng
    )
    weights = score_weights(p, target, start).tolist()
    content = ScoreWeights.model_validate(
        job.head
        | {"fingerprint": job.marks("output"), "rows": len(set(rows.tolist()))}
        | {"weights": dict(zip(values, weights, strict=True)), "held_out": held_out_keys(metrics)}
    )
    return Calibrated(content, {"score_weights": metrics})


Answers = Sequence[Sequence[Any]]


def fit_pool_weights(job: FitJob) -> Calibrated:
    """The weights of the units before the pool, by `--method`. UsageError where the method does not fit the pool."""
    (pool,) = job.nodes[:1]
    assert isinstance(pool.work, PoolNode)
    parents = [job.plan.nodes[parent] for parent in pool.parents]
    if len(pool.work.fields) != 1:
        raise UsageError(f"{pool.id} pools several fields", hint="name one of them with `field:`")
    ((name, taken),) = pool.work.fields
    method = job.options.method or ("logistic" if isinstance(pool.unit, ModePoolUnit) else "least_squares")
    if (method == "least_squares") == isinstance(pool.unit, ModePoolUnit):
        fit = "`logistic`, `log_odds` or `dawid_skene`" if isinstance(pool.unit, ModePoolUnit) else "`least_squares`"
        raise UsageError(f"`{method}` does not fit a {pool.unit.type_name}", hint=f"use {fit}")
    if job.options.target is None and method != "dawid_skene":
        raise UsageError(f"`{method}` needs --target", hint="`--method dawid_skene` needs no labels")
    rows = [
        row
        for row in labelled_rows(job.results, parents, job.options)
        if (row.target is not None or job.options.target is None) and any(output is not None for output in row.outputs)
    ]
    check_enough_rows(len(rows))
    answers = [
        [None if output is None else take(output[name]) for output, take in zip(row.outputs, taken, strict=True)]
        for row in rows
    ]
    fit_job = _mean_pool if method == "least_squares" else _vote
    weights, metrics = fit_job(
        job, method, answers, [row.target for row in rows], np.array([row.cluster for row in rows])
    )
    content = PoolWeights.model_validate(
        job.head
        | {"fingerprint": job.marks("output"), "rows": len(rows), "method": method}
        | {"weights": weights.tolist(), "held_out": held_out_keys(metrics)}
    )
    shown = ", ".join(f"{parent.id} {weight:.3g}" for parent, weight in zip(parents, weights, strict=True))
    return Calibrated(content, {method: metrics} if metrics else {}, (f"weights: {shown}",))


def _vote(
    job: FitJob, method: str, answers: Answers, targets: list[Any], rows: Ints
) -> tuple[Floats, dict[str, HeldOut]]:
    known = list(dict.fromkeys(value for row in answers for value in row if value is not None))
    votes = np.array([[known.index(value) if value is not None else -1 for value in row] for row in answers])
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
            answered = (votes >= 0).sum(axis=0)
            return weight_log_odds(dawid_skene(votes, len(known))[1] * answered, answered, len(known))
    else:

        def fit(votes: Ints, truth: Ints) -> Floats:
            return weight_log_odds((votes == truth[:, None]).sum(axis=0), (votes >= 0).sum(axis=0), len(known))

    weights = fit(votes, truth)
    if job.options.target is None:
        return weights, {}
    fold = folds(rows, job.options.folds, job.rng)
    hits = np.empty((2, len(votes)))
    for index in range(job.options.folds):
        kept = fit(votes[fold != index], truth[fold != index])
        for row in np.flatnonzero(fold == index):
            for side, weighing in enumerate((np.ones_like(kept), kept)):
                given = [
                    (int(vote), float(weight)) for vote, weight in zip(votes[row], weighing, strict=True) if vote >= 0
                ]
                won = summary_statistics.weighted_mode([vote for vote, _ in given], [weight for _, weight in given])
                hits[side, row] = won == truth[row]
    metrics = held_out(("mean",), lambda hit: numbers.number_values(hit, True), (hits[0],), (hits[1],), rows, job.rng)
    return weights, {"accuracy": metrics["mean"]}


def _logistic(votes: Ints, truth: Ints) -> Floats:
    kept = truth >= 0
    return logistic(votes[kept], truth[kept])


def _mean_pool(
    job: FitJob, method: str, answers: Answers, targets: list[Any], rows: Ints
) -> tuple[Floats, dict[str, HeldOut]]:
    whole = [index for index, row in enumerate(answers) if None not in row]
    check_enough_rows(len(whole))
    values = np.array([[float(value) for value in answers[index]] for index in whole])
    target = numbers_of([targets[index] for index in whole])
    after = _cross_fitted(job, least_squares, values, target, rows[whole])
    metrics = held_out(
        ("mae", "rmse", "pearson"),
        numbers.number_pairs,
        (values.mean(axis=1), target),
        (after, target),
        rows[whole],
        job.rng,
    )
    return least_squares(values, target), metrics


class Fit(Struct, frozen=True):
    """One of the values of `--fit`: what a unit that it fits does, and what a pipeline without such a unit lacks."""

    function: Callable[[FitJob], Calibrated]
    unit_property: str
    needed: str
    methods: tuple[str, ...] = ()
    """What `--method` takes; without it, the first that is possible is used."""


FIT_KINDS: Mapping[FitKind, Fit] = {
    "probability": Fit(
        fit_probability,
        "reads token probabilities",
        "add `extract: token_probability` to the judge, with a model that returns log-probabilities",
        ("temperature", "platt", "isotonic"),
    ),
    "score_weights": Fit(
        fit_score_weights,
        "sums up token probabilities (`weighted_summed_score`)",
        "add `extract: weighted_summed_score` to the judge, with a model that returns log-probabilities",
    ),
    "pool_weights": Fit(
        fit_pool_weights,
        "is a ModePoolUnit or a MeanPoolUnit",
        "add a ModePoolUnit or a MeanPoolUnit after several judges",
        ("logistic", "log_odds", "least_squares", "dawid_skene"),
    ),
    "threshold": Fit(fit_threshold, "could escalate", "add a judge"),
}


def calibrate_run(plan: Plan, results: Path, calls: Path, options: FitOptions, *, made: str, run: str) -> Calibrated:
    """The calibration. UsageError where the run, the unit or its labels do not allow one."""
    nodes = _nodes(plan, options)
    head = {
        "verdict_calibration": 1,
        "kind": options.kind,
        "unit": nodes[0].name,
        "made": made,
        "run": run,
        "target": options.target or "",
    }
    return FIT_KINDS[options.kind].function(
        FitJob(plan, nodes, results, calls, options, np.random.default_rng(abs(options.seed)), head)
    )


def _nodes(plan: Plan, options: FitOptions) -> list[Node]:
    """The copies of the unit that is meant."""
    fitting = [node for node in plan.nodes if _fits(plan, node, options.kind)]
    names = list(dict.fromkeys(node.name for node in fitting))
    named = options.unit
    if named is None and len(names) == 1:
        named = names[0]
    matching = [node for node in fitting if named in (node.name, node.id)]
    if matching:
        return matching
    kind = FIT_KINDS[options.kind]
    what = kind.unit_property
    if not names:
        raise UsageError(f"no unit of this run {what}", hint=f"{kind.needed}, and run the pipeline again")
    if named is None:
        raise UsageError(
            f"--unit is missing: {plural(len(names), 'unit')} of this run {what}", hint=f"give {' or '.join(names)}"
        )
    raise UsageError(f"no unit {named!r} of this run {what}", hint=f"these do: {', '.join(names)}")


def _fits(plan: Plan, node: Node, kind: FitKind) -> bool:
    if kind == "pool_weights":
        return isinstance(node.work, PoolNode) and isinstance(node.unit, ModePoolUnit | MeanPoolUnit)
    if kind == "threshold":
        return True
    if not isinstance(node.work, LLMNode) or not node.work.reading.top_logprobs:
        return False
    return kind == "probability" or isinstance(
        resolve_extractor(node.work.unit.extract_key), WeightedSummedScoreExtractor
    )


def calibrate(
    run: Annotated[Path, typer.Argument(help="The directory of a run with labelled rows.")],
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="The expression of the true label: source.label, or human.label for labels given in `verdict view`.",
        ),
    ] = None,
    fit: Annotated[
        FitKind | None,
        typer.Option("--fit", help="What to fit. [default: threshold with --agreement, else probability]"),
    ] = None,
    unit: Annotated[
        str | None, typer.Option("--unit", help="The unit to fit. [default: the only one possible]")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="temperature, platt, isotonic; logistic, log_odds, least_squares, dawid_skene (needs no labels).",
        ),
    ] = "",
    agreement: Annotated[
        float | None,
        typer.Option("--agreement", help="Choose the confidence threshold above which this share of answers is right."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="The confidence level of --agreement.")] = 0.95,
    prediction: Annotated[
        str, typer.Option("--prediction", help="With --agreement: the expression of the unit's answer.")
    ] = "output.score",
    confidence: Annotated[
        str,
        typer.Option(
            "--confidence", help="With --agreement: the expression of the unit's confidence; higher is more confident."
        ),
    ] = "output.p",
    where: Annotated[
        str | None, typer.Option("--where", help="Fit only to rows for which this expression is true.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            help="The expression that is equal for rows with correlated errors: they count once, and stay in one fold.",
        ),
    ] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, max=100, help="Folds of the cross-validation.")] = 5,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the folds.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write. [default: RUN/calibrations/UNIT-KIND.yaml]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a judge to the labelled rows of a run, and write a calibration file for its pipeline. No model is called.

    Example: verdict calibrate runs/cascade --target source.correct --agreement 0.9
    """
    kind: FitKind = fit or ("probability" if agreement is None else "threshold")
    fit_options = FitOptions(
        unit, kind, target, where, method, prediction, confidence, agreement or 0.0, level, folds, seed, cluster
    )
    _check(fit_options, agreement)
    directory, facts, plan = load_run(run)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    result = calibrate_run(plan, directory.results, directory.calls, fit_options, made=created, run=facts.name)
    path = out or directory.path / "calibrations" / f"{result.content.unit}-{kind}.yaml"
    _write(path, result)
    if as_json:
        changes = {
            name: {metric: asdict(change) for metric, change in metrics.items()}
            for name, metrics in result.metrics.items()
        }
        content = result.content.model_dump(mode="json", exclude_none=True)
        print_json({"file": str(path), "calibration": content, "figures": changes, "notes": result.notes})
        return
    print_report(_table(result))
    print_message(f"written: {path}")


def _check(options: FitOptions, agreement: float | None) -> None:
    known = FIT_KINDS[options.kind].methods
    if options.method and options.method not in known:
        raise UsageError(
            f"--method {options.method} does not fit {options.kind}",
            hint=f"--method takes {', '.join(known)}" if known else "remove --method",
        )
    if options.target is None and options.method != "dawid_skene":
        raise UsageError(
            "--target is missing", hint="give the expression of the true label: source.label, or human.label"
        )
    if (options.kind == "threshold") != (agreement is not None):
        raise UsageError("--agreement and --fit threshold go together", hint="such as `--agreement 0.95`")
    for name, value in (("--agreement", agreement), ("--level", options.level)):
        if value is not None and not 0 < value < 1:
            raise UsageError(f"{name} {value:g} is not between 0 and 1")


def _write(path: Path, result: Calibrated) -> None:
    content = result.content.model_dump(mode="json", exclude_none=True)
    if content.get("weights") and isinstance(content["weights"], dict):
        content["weights"] = dict(getattr(result.content, "weights"))  # noqa: B009
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_yaml(content), encoding="utf-8")


def _table(result: Calibrated) -> str:
    content = result.content
    lines = [f"{content.unit}: {content.model_dump()['kind']}, fitted to {plural(content.rows, 'row')}"]
    cells = [("method", "metric", "before", "after (held out)", "difference", "95% interval")]
    for method, metrics in result.metrics.items():
        for metric, change in metrics.items():
            ends = interval(change.change.low, change.change.high)
            cells.append(
                (
                    method,
                    metric,
                    format_number(change.before.value),
                    format_number(change.after.value),
                    format_number(change.change.value),
                    ends,
                )
            )
    if len(cells) > 1:
        lines += [f"  {line}" for line in aligned(cells)]
    return printable("\n".join([*lines, *(f"  {note}" for note in result.notes)])) + "\n"
