"""Estimates of what people would say of all rows, from a judge's answers to all and human labels of some.

| estimate | is |
| --- | --- |
| `judged` | the mean of the judge's answers, uncorrected |
| `labelled` | the mean of the labels alone |
| `ppi` | prediction-powered, PPI++ (Angelopoulos, Duchi and Zrnic, 2023). Oracle: ppi-python |
| `rogan_gladen` | the share corrected by the judge's sensitivity and specificity (Rogan and Gladen, 1978), with the interval of Lang and Reiczigel (2014), whose labels are another sample; here they are among the rows, and the variance is that of the rows' true share plus that of estimating it |

What they are `of` changes the intervals, not the values. For the population that the rows come from, both the rows and the
labels among them are sampled; for the rows themselves the labels alone, from a finite population (Cochran, 1977, sections
2.6 and 7.4): the judge's answers are then known, `ppi` is the regression estimator, and its variance is that of the
residuals times the share of rows without a label.

A labelled row stands for one over the probability with which it was drawn of rows, as `verdict queue` draws them. Means are
those of Hajek (1971): weighted sums over the sum of the weights. `ppi` is the judge's mean over all rows times a slope, plus the
weighted mean of what the labels differ from it; the slope is that with the least variance, from 0 to 1. Variances are
linearised: the sum of the squares of what each row adds to the estimate (Saerndal, Swensson and Wretman, 1992, sections 5.5 and
5.7); for the rows themselves a label's square counts with the probability that its row was not drawn. With equal weights these
are the estimates of PPI++.

Between two runs, `ppi` has a difference over the rows that both judged: how much better people would find the second run. Each
run is corrected by its own labels, with their weights. What a row adds to the difference is what it adds to the second estimate
minus what it adds to the first, so rows that the two judges see alike, and rows with a label in both runs, cancel as in a
paired test. Clusters add up before they are squared. Repeated runs of one pipeline count as their mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct, structs
from msgspec.structs import replace

from verdict_cli.distributions import student_cdf
from verdict_cli.plural import plural
from verdict_cli.stats.columns.column import Floats, Ints, RowMask
from verdict_cli.stats.columns.row_data import GoldPairs
from verdict_cli.stats.columns.sample import as_codes
from verdict_cli.stats.intervals.interval_methods import (
    FEW_EFFECTIVE,
    FEWEST_CLUSTERS,
    NO_VARIATION,
    MetricValue,
    MetricValues,
    kish,
    normal,
    raised_design_effect,
    score,
    student,
    undefined_value,
)
from verdict_cli.stats.intervals.intervals import Draw, mean_with_interval


class GoldFacts(Struct, frozen=True):
    """The rows with a human label, the weight of the judge's answers in `ppi`, and how many labels the `half_width` needs
    with the judge (None: more than there are rows) and `alone`."""

    labels: int
    rows: int
    weight: float | None = None
    half_width: float | None = None
    needed: int | None = None
    alone: int | None = None


def corrected(
    pairs: GoldPairs, draw: Draw, half_width: float | None = None
) -> tuple[MetricValues, GoldFacts]:
    """The four estimates, and how many labels a half-width needs."""
    labelled = pairs.labelled
    count, rows = int(labelled.sum()), len(labelled)
    estimates = {"judged": _mean(pairs, np.ones(rows, bool), pairs.judge, draw)}
    if pairs.of == "rows":
        estimates["judged"] = _narrowed(estimates["judged"], 0.0)
    if count < 2:
        needs = "a label" if pairs.inclusion is None else "a label and its weight"
        none = undefined_value(f"fewer than two rows have {needs}", count)
        empty = dict.fromkeys(("labelled", "ppi", "rogan_gladen"), none)
        return estimates | empty, GoldFacts(count, rows, half_width=half_width)
    if pairs.inclusion is not None:
        weight = weighted_slope(pairs)
        estimates["labelled"] = _estimate(pairs, 0.0, draw.level, "weighted mean")
        estimates["ppi"] = _estimate(pairs, weight, draw.level, "weighted PPI")
    else:
        weight = tuned(pairs.judge, pairs.truth)
        estimates["labelled"] = _mean(pairs, labelled, pairs.truth, draw)
        if pairs.of == "rows":
            estimates["labelled"] = _narrowed(estimates["labelled"], math.sqrt(1 - count / rows))
        estimates["ppi"] = ppi(pairs, weight, draw.level)
    estimates["ppi"] = _no_wider(estimates["ppi"], estimates["labelled"])
    estimates["rogan_gladen"] = rogan_gladen(pairs, draw.level)
    warnings = label_warnings(pairs)
    estimates |= {
        name: estimates[name].warned(*warnings) for name in ("labelled", "ppi", "rogan_gladen")
    }
    needed = alone = None
    if half_width is not None:
        needed, alone = labels_needed(pairs, half_width, draw.level)
    return estimates, GoldFacts(count, rows, weight, half_width, needed, alone)


def _mean(pairs: GoldPairs, rows: RowMask, column: Floats, draw: Draw) -> MetricValue:
    cluster = None if pairs.cluster is None else pairs.cluster[rows]
    return mean_with_interval(column[rows], cluster, draw, pairs.bounds, boolean=pairs.binary)


LABELS_ALONE = "the labels alone: with the judge's answers the interval would be wider"


def _no_wider(ppi: MetricValue, labelled: MetricValue) -> MetricValue:
    """The estimate, or that of the labels alone where it is the more precise one."""
    if labelled.low is None or labelled.high is None or ppi.low is None or ppi.high is None:
        return ppi
    if ppi.high - ppi.low <= labelled.high - labelled.low:
        return ppi
    return replace(labelled, reason=LABELS_ALONE, method=f"{labelled.method} (labels alone)")


def _narrowed(estimate: MetricValue, by: float) -> MetricValue:
    """The estimate with its interval narrowed to this share of its width."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return estimate
    low = estimate.value + by * (estimate.low - estimate.value)
    return replace(estimate, low=low, high=estimate.value + by * (estimate.high - estimate.value))


def tuned(judge: Floats, truth: Floats) -> float:
    """The weight of the judge's answers with the smallest variance (PPI++, section 6), from 0 to 1."""
    labelled = ~np.isnan(truth)
    count, others = int(labelled.sum()), int((~labelled).sum())
    spread = float(judge.var(ddof=1))
    if not others or spread == 0:
        return 0.0
    together = float(np.cov(judge[labelled], truth[labelled])[0, 1])
    return min(max(together / ((1 + count / others) * spread), 0.0), 1.0)


def ppi(pairs: GoldPairs, weight: float, level: float) -> MetricValue:
    """The mean residual of the labelled rows, plus the judge's weighted mean on the rows without a label."""
    return _estimate(pairs, _of_all_rows(pairs, weight), level, "PPI++")


def _of_all_rows(pairs: GoldPairs, weight: float) -> float:
    """The slope on the judge's mean of all rows; PPI++ weighs that of the rows without a label."""
    others = int(np.logical_not(pairs.labelled).sum())
    return weight * len(pairs.judge) / others if others else 0.0


class _Rate(Struct, frozen=True):
    """How often the judge is right where the label is this one, of how many equally drawn `labels` this is worth, and what
    each row adds to it."""

    share: float
    labels: float
    influence: Floats

    @staticmethod
    def of(pairs: GoldPairs, label: float) -> _Rate | None:
        """None where no row has the label."""
        weights = np.zeros(len(pairs.judge))
        weights[pairs.labelled] = pairs.weights
        weights *= pairs.truth == label
        total = float(weights.sum())
        if not total:
            return None
        right = (pairs.judge == label).astype(np.float64)
        share = float(weights @ right) / total
        influence = weights * (right - share) / total
        variance = float(influence @ influence)
        labels = kish(weights)
        if variance > 0:
            labels = min(float((weights > 0).sum()), share * (1 - share) / variance)
        return _Rate(share, labels, influence)

    @property
    def shrunk(self) -> float:
        """The rate with one more right and one more wrong label."""
        return (self.labels * self.share + 1) / (self.labels + 2)

    @property
    def variance(self) -> float:
        """That of the shrunk rate."""
        return self.shrunk * (1 - self.shrunk) / (self.labels + 2)


def rogan_gladen(pairs: GoldPairs, level: float) -> MetricValue:
    """The judge's share, corrected by its sensitivity and specificity."""
    rows = len(pairs.judge)
    if not pairs.binary:
        return undefined_value("it is for shares: true or false, or a `positive` label", rows)
    sensitivity, specificity = _Rate.of(pairs, 1.0), _Rate.of(pairs, 0.0)
    if sensitivity is None or specificity is None:
        return undefined_value("the labels are all the same", rows)
    slope = sensitivity.share + specificity.share - 1
    if slope <= 0:
        return undefined_value("on the labelled rows the judge is no better than chance", rows)
    share = float(pairs.judge.mean())
    value = (share + specificity.share - 1) / slope
    influence = (pairs.judge - share) / rows - value * sensitivity.influence
    influence = (influence + (1 - value) * specificity.influence) / slope

    gain = sensitivity.shrunk + specificity.shrunk - 1
    if gain <= 0:
        return undefined_value("so few labels do not tell the judge from chance", rows)
    z = normal(level)
    p = share if pairs.of == "rows" else (rows * share + z * z / 2) / (rows + z * z)
    middle = (p + specificity.shrunk - 1) / gain
    of_misses, of_alarms = middle * sensitivity.variance, (1 - middle) * specificity.variance
    unlabelled = 1 - (sensitivity.labels + specificity.labels) / rows
    variance = unlabelled * (middle * of_misses + (1 - middle) * of_alarms)
    if pairs.of == "population":
        inside = min(max(middle, 0.0), 1.0)
        variance += inside * (1 - inside) / rows * gain**2
    error = math.sqrt(variance * design_effect(pairs, influence)) / gain
    quantile = z if pairs.cluster is None else student(level, labelled_freedom(pairs))
    # Rates that leave no share from 0 to 1 say that it is next to an end, not that it is known.
    centre = pairs.clip(middle + 2 * z * z * (of_misses - of_alarms))
    value = pairs.clip(value)
    low = min(pairs.clip(centre - quantile * error), value)
    high = max(pairs.clip(centre + quantile * error), value)
    return MetricValue(value, low, high, rows, se=error, method="Lang and Reiczigel", level=level)


def labels_needed(pairs: GoldPairs, half_width: float, level: float) -> tuple[int | None, int]:
    """The labels for an interval of `ppi` of this half-width on as many rows, None where all of them are too few; and
    those without the judge."""
    judge, rows = pairs.judge, len(pairs.judge)
    human, judged = pairs.truth[pairs.labelled], judge[pairs.labelled]
    (spread, together), _ = np.cov(human, judged, aweights=pairs.weights)
    if spread == 0:
        return 2, 2
    of_judge = float(judge.var(ddof=1))
    shared = min(float(together) ** 2 / spread / of_judge, 1.0) if of_judge else 0.0
    variance = half_width**2 / (normal(level) ** 2 * spread)
    if pairs.of == "rows":  # labels of all of them leave nothing open
        variance += 1 / rows
    alone = math.ceil(1 / variance)
    room = variance - shared / rows
    needed = max(math.ceil((1 - shared) / room), 2) if room > 0 else None
    return (needed if needed is not None and needed <= rows else None), alone


NOT_RANDOM = 0.01
"""The p-value below which labelled rows are taken to differ from the others: a false alarm in one of 100 evaluations."""
LABELS_NOT_RANDOM = (
    "the labels are not a random sample of the rows: the judge's mean is {labelled:.3g} on the labelled rows "
    "and {others:.3g} on the others"
)
WEIGHTS_DO_NOT_FIT = (
    "the labels are not a sample with these weights: the judge's mean is {labelled:.3g} on the labelled rows, weighted, "
    "and {every:.3g} on all"
)


def weighted_slope(pairs: GoldPairs) -> float:
    """The slope of the labels on the judge's answers that makes the weighted residuals' variance least, from 0 to 1."""
    weights, has = pairs.weights, pairs.labelled
    squares = weights**2 * _not_drawn(pairs)
    total = weights.sum()
    judge, truth = (
        column[has] - weights @ column[has] / total for column in (pairs.judge, pairs.truth)
    )
    spread = float(squares @ judge**2)
    return min(max(float(squares @ (judge * truth)) / spread, 0.0), 1.0) if spread > 0 else 0.0


def weighted_influence(pairs: GoldPairs, slope: float) -> tuple[float, Floats]:
    """The estimate with this slope, and what each row adds to it; the sum of their squares is its variance."""
    weights, has, rows = pairs.weights, pairs.labelled, len(pairs.judge)
    total, effective = float(weights.sum()), kish(weights)
    residuals = pairs.truth[has] - slope * pairs.judge[has]
    mean = float(weights @ residuals) / total
    fitted = 2 if slope and pairs.inclusion is not None else 1
    labels = (
        weights * (residuals - mean) / total * math.sqrt(effective / max(effective - fitted, 0.5))
    )
    level = float(pairs.judge.mean())
    influence = np.zeros(rows) if pairs.of == "rows" else slope * (pairs.judge - level) / rows
    influence[has] += labels * np.sqrt(_not_drawn(pairs)) if pairs.of == "rows" else labels
    return mean + slope * level, influence


def _estimate(pairs: GoldPairs, slope: float, level: float, method: str) -> MetricValue:
    """The estimate with its interval; a slope of 0 gives the labels alone."""
    value, influence = weighted_influence(pairs, slope)
    value = pairs.clip(value)
    variance = float((influence**2).sum()) * design_effect(pairs, influence) + unseen_error(pairs)
    quantile, effective = student(level, labelled_freedom(pairs)), kish(pairs.weights)
    if pairs.binary and variance:
        # Wilson's, of as many rows as the variance is worth at a share that is not quite 0 or 1.
        inside = min(max(value, 0.5 / effective), 1 - 0.5 / effective)
        low, high = score(value, inside * (1 - inside) / variance, quantile)
    else:
        low, high = value - quantile * math.sqrt(variance), value + quantile * math.sqrt(variance)
    low, high = min(pairs.clip(low), value), max(pairs.clip(high), value)
    n = len(pairs.judge) if slope or pairs.inclusion is None else int(pairs.labelled.sum())
    return MetricValue(value, low, high, n, se=math.sqrt(variance), method=method, level=level)


def _not_drawn(pairs: GoldPairs) -> Floats:
    """For each labelled row, the probability that it was not drawn and labelled. Where only part of the rows that were
    drawn have their label, the weights add up to fewer rows than there are, by the share that has it."""
    weights = pairs.weights
    share = min(float(weights.sum()) / len(pairs.judge), 1.0)
    remainder: Floats = np.maximum(1 - share / weights, 0.0)
    return remainder


def labelled_freedom(pairs: GoldPairs) -> float:
    """What the labelled rows, or their clusters, are worth with their weights, minus one."""
    if pairs.cluster is None:
        return max(kish(pairs.weights) - 1, 1.0)
    cluster_of = as_codes(pairs.cluster[pairs.labelled])
    return max(kish(np.bincount(cluster_of, pairs.weights).astype(np.float64)) - 1, 1.0)


def design_effect(pairs: GoldPairs, influence: Floats) -> float:
    """How much larger the variance of an estimate is in clusters, from what each row adds to it; 1 without clusters."""
    if pairs.cluster is None:
        return 1.0
    cluster_of = as_codes(pairs.cluster)
    alone = float((influence**2).sum())
    if not alone:
        return 1.0
    sizes = np.bincount(cluster_of).astype(np.float64)
    sums = np.bincount(cluster_of, influence)
    effect = float((sums**2).sum()) * len(sums) / max(len(sums) - 1, 1) / alone
    return raised_design_effect(effect, sizes, 0.5)


def unseen_error(pairs: GoldPairs) -> float:
    """The variance of one more error of the judge than the labels show; of the rows themselves, of those without a label."""
    if not pairs.binary:
        return 0.0
    labels = int(pairs.labelled.sum())
    return (
        (1 - labels / len(pairs.judge) if pairs.of == "rows" else 1.0)
        / kish(pairs.weights)
        / labels
    )


FEW_LABELS = 15
"""Of ratings near an end of their scale, 10 labels leave out the truth on one side in 7% of samples."""
FEW_LABELS_OF_NUMBERS = "only {labels}: the interval may be too narrow"


def label_warnings(pairs: GoldPairs) -> list[str]:
    """Why the estimates from labels may not hold: the judge says something else on labelled rows than on all (the mean of
    a sample from a finite population: Cochran, 1977, section 2.6), or few rows or clusters have labels."""
    warnings = []
    labelled, others = pairs.judge[pairs.labelled], pairs.judge[~pairs.labelled]
    if not pairs.binary and len(labelled) < FEW_LABELS:
        warnings.append(FEW_LABELS_OF_NUMBERS.format(labels=plural(len(labelled), "label")))
    if len(labelled) and len(others) and np.ptp(pairs.judge) > 0:
        weights, effective = pairs.weights, kish(pairs.weights)
        mean, every = float(np.average(labelled, weights=weights)), float(pairs.judge.mean())
        variance = float(pairs.judge.var(ddof=1)) * (1 / effective - 1 / len(pairs.judge))
        if pairs.inclusion is not None:
            variance = max(
                variance, float(((weights / weights.sum() * (labelled - mean)) ** 2).sum())
            )
        # Half a row less: the continuity correction of a count.
        away = abs(mean - every) - (0.5 / effective if pairs.binary else 0.0)
        if away > normal(1 - NOT_RANDOM) * math.sqrt(max(variance, 0.0)):
            text = LABELS_NOT_RANDOM if pairs.inclusion is None else WEIGHTS_DO_NOT_FIT
            warnings.append(text.format(labelled=mean, others=others.mean(), every=every))
    if pairs.cluster is not None and (effective := labelled_freedom(pairs) + 1) < FEWEST_CLUSTERS:
        warnings.append(FEW_EFFECTIVE.format(effective=effective))
    return warnings


CORRECTED = "ppi"
"""The corrected estimate that has a difference between runs."""
NO_GOLD = "the {side} run's evaluation has no `gold`"
FEW_LABELS_OF_RUN = "fewer than two rows of the {side} run have a label; a label counts for the run that it was given in"
LABELS_OF_RUN = "{side} run: {warning}"
SIDES = ("first", "second")

GoldOrReason = GoldPairs | str | None
"""A run's answers and labels, why they cannot be compared, or None without `gold`."""
CorrectedPair = tuple[float | None, float | None, MetricValue, float | None]
"""Both estimates, the second minus the first, and its p-value."""


def corrected_difference(
    golds: Sequence[GoldOrReason], rows: Sequence[Ints], level: float, first: int = 1
) -> CorrectedPair:
    """The difference over these rows, whose indices in each run are `rows`: the mean of the runs after the `first` ones minus
    that of these. Clusters are the last run's."""
    shared = corrected_runs(golds, rows, first)
    if isinstance(shared, MetricValue):
        return None, None, shared, None
    runs, last = (shared[:first], shared[first:]), shared[-1].pairs
    old, new = (float(np.mean([run.value for run in side])) for side in runs)
    before, after = (np.mean([run.influence for run in side], axis=0) for side in runs)
    change, influence = new - old, after - before
    variance = float((influence**2).sum()) * design_effect(last, influence)
    # Repeated runs have the same labels: an error that these do not show is in all of them.
    variance += sum(float(np.mean([unseen_error(run.pairs) for run in side])) for side in runs)
    freedom = min(labelled_freedom(run.pairs) for run in shared)
    value = MetricValue(
        change, None, None, len(last.judge), NO_VARIATION, method="paired PPI", level=level
    )
    p = None
    if variance > 0:
        error = math.sqrt(variance)
        low, high = (change + sign * student(level, freedom) * error for sign in (-1, 1))
        widest = widest_difference(shared[first - 1].pairs, last)
        value = replace(
            value, low=max(low, -widest), high=min(high, widest), reason="", se=error, df=freedom
        )
        p = 2 * student_cdf(freedom, -abs(change) / error)
    warnings = (
        LABELS_OF_RUN.format(side=SIDES[index >= first], warning=warning)
        for index, run in enumerate(shared)
        for warning in label_warnings(run.pairs)
    )
    return old, new, value.warned(*warnings), p


class CorrectedRun(Struct, frozen=True):
    """A run's answers and labels, its corrected estimate, and what each row adds to it."""

    pairs: GoldPairs
    value: float
    influence: Floats


def corrected_runs(
    golds: Sequence[GoldOrReason], rows: Sequence[Ints], first: int = 1
) -> list[CorrectedRun] | MetricValue:
    """Each run over the rows that all runs answer, with the last run's clusters and what its estimates are of; the value that
    says why there is none."""
    gold_pairs = [pairs for pairs in golds if isinstance(pairs, GoldPairs)]
    if len(gold_pairs) < len(golds):
        side = SIDES[all(isinstance(pairs, GoldPairs) for pairs in golds[:first])]
        reasons = (why for why in golds if isinstance(why, str))
        return undefined_value(next(reasons, NO_GOLD.format(side=side)))
    each = [*zip(gold_pairs, rows, strict=True)]
    common = np.logical_and.reduce([pairs.answered[positions] for pairs, positions in each])
    shared = [pairs.take(positions[common]) for pairs, positions in each]
    runs = []
    for index, own in enumerate(shared):
        if int(own.labelled.sum()) < 2:
            few = FEW_LABELS_OF_RUN.format(side=SIDES[index >= first])
            return undefined_value(few, len(own.judge))
        pairs = structs.replace(own, cluster=shared[-1].cluster, of=shared[-1].of)
        value, influence = weighted_influence(pairs, _slope(pairs))
        runs.append(CorrectedRun(pairs, pairs.clip(value), influence))
    return runs


def widest_difference(old: GoldPairs, new: GoldPairs) -> float:
    """The most by which two estimates can differ."""
    return min(old.range, new.range) if old.binary == new.binary else math.inf


def _slope(pairs: GoldPairs) -> float:
    if pairs.inclusion is not None:
        return weighted_slope(pairs)
    return _of_all_rows(pairs, tuned(pairs.judge, pairs.truth))
