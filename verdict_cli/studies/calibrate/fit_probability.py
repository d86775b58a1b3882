"""Fitting a map of token probabilities to a unit, and its figures on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from verdict_cli.errors import ReplyError, UsageError
from verdict_cli.language.calibrations import ProbabilityMap, apply_map
from verdict_cli.language.scales import Scale
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.metrics import probability
from verdict_cli.studies.calibrate.fit_options import Calibrated, FitJob, read_labelled_run, spelled, values_of
from verdict_cli.studies.calibrate.held_out import HeldOut, folds, held_out
from verdict_cli.studies.calibrate.probability_maps import FITS


def fit_probability(job: FitJob) -> Calibrated:
    """The map of the unit's token probabilities, by `--method`, and how every method does on held-out rows."""
    p, targets, rows = read_labelled_run(job)
    values = values_of(job.scale)
    truth = np.array([_place(job.scale, values, target) for target in targets])
    methods = [name for name in FITS if name == "temperature" or len(values) == 2]
    chosen = job.wanted.method or methods[-1 if len(methods) == 1 else 1]
    if chosen not in methods:
        raise UsageError(
            f"`{chosen}` maps one of two values, the scale has {len(values)}", hint="use `--method temperature`"
        )
    positive = values.index(True) if True in values else len(values) - 1

    def told(found: Floats) -> tuple[Floats, Floats]:
        if len(values) == 2:
            return found[:, positive], (truth == positive).astype(np.float64)
        return found.max(axis=1), (found.argmax(axis=1) == truth).astype(np.float64)

    figures: dict[str, Mapping[str, HeldOut]] = {}
    fold = folds(rows, job.wanted.folds, job.rng)
    for name in methods:
        after = crossed(name, p, truth, values, positive, fold)
        wanted = ("ece", "brier", "log_loss")
        figures[name] = held_out(wanted, probability.probability_statistics, told(p), told(after), rows, job.rng)
    keys = FITS[chosen](p, truth, positive)
    if chosen != "temperature":
        keys["positive"] = values[positive]
    content = ProbabilityMap.model_validate(
        job.head
        | {"fingerprint": job.marks("output"), "method": chosen, "rows": len(set(rows.tolist())), **keys}
        | {"held_out": spelled(figures[chosen])}
    )
    of = f"{values[positive]!r}" if len(values) == 2 else "the most probable value"
    return Calibrated(content, figures, (f"figures of the probability of {of}",))


def crossed(name: str, p: Floats, truth: Ints, values: list[Any], positive: int, fold: Ints) -> Floats:
    """The probabilities (rows, values), each row's mapped by what was fitted to the rows of other folds."""
    after = np.empty_like(p)
    for one in np.unique(fold):
        keys = FITS[name](p[fold != one], truth[fold != one], positive)
        after[fold == one] = _applied(name, keys, values, positive, p[fold == one])
    return after


def _applied(name: Any, keys: Mapping[str, Any], values: list[Any], positive: int, p: Floats) -> Floats:
    made = ProbabilityMap.model_construct(None, method=name, positive=values[positive], **keys)
    return np.array([list(apply_map(dict(zip(values, row, strict=True)), made).values()) for row in p.tolist()])


def _place(scale: Scale, values: list[Any], target: Any) -> int:
    """The place of a target among the scale's values. UsageError when it is none of them."""
    if scale.json_schema() == {"type": "boolean"} and target in (0, 1):
        target = bool(target)
    try:
        return values.index(scale.read(target))
    except ReplyError:
        raise UsageError(
            f"the target {target!r} is not on the judge's scale ({scale.display()})",
            hint="make it one in the expression, such as `source.label == 'good'`",
        ) from None
