"""The methods of intervals: exact ones of shares, Wilson's of agreement, and the jackknife with Hall's correction.

- A share of rows: exact (Clopper and Pearson, 1934). In clusters, of as many rows as the leverage-corrected variance is worth
  (CR3, the jackknife of whole clusters: Bell and McCaffrey, 2002), with Student's quantile on the effective number of clusters.
- Agreement of labels (kappa, averages over the labels and the like): one minus the metric is taken as the share of rows that
  disagree, times the mean weight of a disagreement. That share has Wilson's interval of as many rows as its jackknife variance
  is worth (Dean and Pagano, 2015), with Student's quantile.
- Other metrics: the jackknife with Hall's (1992) correction for skewness.
- Clusters of unequal size are worth as many equal ones as Kish's (1965) formula gives; Student's quantile has that
  number minus one as its degrees of freedom (Carter, Schnepel and Steigerwald, 2017).
- The design effect is the cluster variance over that of independent rows. A few clusters without an error, or with
  one, cannot show that errors come together. Its estimate is therefore raised, as by two more clusters with an
  intra-cluster correlation of 0.4, where its own information is the clusters times 4 p (1 - p) for a share p.
- An interval has a warning where a label (or all values but the most frequent one) has too few rows or clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, structs
from msgspec.structs import replace

from verdict_cli.distributions import (
    NORMAL,
    beta_quantile,
    normal_cdf,
    student_quantile,
)
from verdict_cli.plural import plural
from verdict_cli.stats.columns.column import Ends, Floats, Ints, RowMask
from verdict_cli.stats.columns.sample import MOST_DELETIONS, Sample
from verdict_cli.stats.metrics.statistic import (
    IDENTITY,
    LOG,
    NEAR,
    NormalizingScale,
    Proportion,
    Statistic,
)

ASSUMED_CORRELATION, ASSUMED_CLUSTERS = 0.4, 2.0
"""The intra-cluster correlation that is assumed before clusters show theirs, and how many clusters this is worth:
measured by benchmarks/interval_coverage.py, correlations up to 0.6 are covered and the interval of many clusters stays
as it is."""
ASSUMED_CORRELATION_OF_SKEWED = 0.6
"""The same for means of skewed values."""
ASSUMED_RANKED = 2.0
"""How many rows of a class are assumed to vary as much as they can before the sample shows how its ranks vary (measured)."""
LEAST_CLUSTER_FREEDOM = 1.0
"""Student's degrees of freedom of unequal clusters at least: with fewer, no interval is narrower than the metric's range."""
FEWEST_CLUSTERS = 5
"""With fewer effective clusters the variance is known too badly for any method."""
FEW_CLUSTERS_OF_METRIC = 10
"""The same for metrics that are not shares of rows."""
FEW_ROWS = 10
"""Fewer rows of a label than this decide a metric of agreement by chance."""
CONCENTRATED = 0.8
"""If so many rows have one value, only the other rows say how the value varies."""

SHOWN_FROM, SHOWN_IF_SKEWED_FROM = 30, 80
"""Fewer rows than the first hide heavy tails; fewer than the second do if they do not look normal."""
UNEQUAL, ROWS_OF_CLUSTER = 3, 3
"""Clusters of which so many are worth one of equal size count as one row each, since a large one decides what tails there
are; others as at most so many."""
LIKE_NORMAL = 0.4
"""Values that a test at this level does not reject look normal (measured on log-normal ones and Student's with 3 degrees)."""
FEW_VALUES, ROWS_ON_SCALE = 12, 5
"""Scales have at most so many points, each used twice on average. A row on a scale shows its tails as so many others do."""

ONE_FAR_ROW = 1.5
"""Where the values vary by less than so many rows at the far end of their scale would make them, such rows may be unseen."""

FEW_EFFECTIVE = "the clusters are worth {effective:.1f} of equal size: the interval is rough"
FEW_OF_LABEL = "the rarest label has {rows}: the interval may be too narrow"
FEW_OTHER_LABELS = (
    "only {rows} another label than the most frequent one: the interval may be too narrow"
)
FEW_CLUSTERS_OF_LABEL = (
    "the rarest label is in clusters worth {effective:.1f}: the interval may be too narrow"
)
CERTAIN_ROWS = "{rows} next to 0 or 1: how often these are wrong decides this value, and few rows do not show it"
CLOSE_TOGETHER = "{rows} close together on a long scale do not show whether others lie far away: the interval may be too narrow"
ONE_LABEL = "all rows have the same label: the interval may be too narrow"
FEW_OTHERS = "{rows} from the most frequent value: the interval may be too narrow"
FEW_CLUSTERS_OF_OTHERS = (
    "the rows that differ from the most frequent value are in clusters worth {effective:.1f}: "
    "the interval may be too narrow"
)


def kish(sizes: Floats) -> float:
    """How many clusters of equal size these are worth (Kish, 1965)."""
    squares = float((sizes**2).sum())
    return float(sizes.sum()) ** 2 / squares if squares else 0.0


def cluster_sums(sample: Sample, column: Floats | RowMask) -> Floats:
    """The sum over each cluster's rows of a value at each atom; of 1 or 0 how many of its rows count."""
    assert sample.cluster is not None
    sums = np.bincount(sample.cluster, column[sample.atom], minlength=sample.units)
    return sums.astype(np.float64)


def cluster_sizes(sample: Sample) -> Floats:
    """The rows of each cluster."""
    return cluster_sums(sample, np.ones(len(sample.counts)))


def effective_clusters(sample: Sample) -> float:
    """How many equal clusters the sample's are worth; of independent rows, their number."""
    return float(sample.n) if sample.cluster is None else kish(cluster_sizes(sample))


def cluster_freedom(sample: Sample) -> float:
    """Student's degrees of freedom: effective clusters, or rows, minus one."""
    return max(effective_clusters(sample) - 1, LEAST_CLUSTER_FREEDOM)


def raised_design_effect(
    effect: float, sizes: Floats, share: float, *, skewed: bool = False
) -> float:
    """The design effect of a metric in clusters of these sizes, of which a share of rows (or all others) decides.

    A sample that lacks the long tail of skewed values also lacks the correlation of its rows, the more so the fewer
    clusters have most of the rows: unequal clusters then show less of it, and more is assumed.
    """
    clusters = kish(sizes)
    information = 4 * share * (1 - share) * clusters * (clusters / len(sizes) if skewed else 1.0)
    correlation = ASSUMED_CORRELATION_OF_SKEWED if skewed else ASSUMED_CORRELATION
    assumed = 1 + (float((sizes**2).sum()) / float(sizes.sum()) - 1) * correlation
    mixed = (effect * information + assumed * ASSUMED_CLUSTERS) / (information + ASSUMED_CLUSTERS)
    return max(effect, mixed, 1.0)


def reliability_warnings(statistic: Statistic, sample: Sample) -> list[str]:
    """Why the interval of this statistic may not hold; [] where it does."""
    warnings = []
    share = statistic.share is not None
    if sample.cluster is not None:
        effective = effective_clusters(sample)
        if effective < (FEWEST_CLUSTERS if share else FEW_CLUSTERS_OF_METRIC):
            warnings.append(FEW_EFFECTIVE.format(effective=effective))
    for classes in statistic.classes:
        warnings += _few_of_rarest(classes, sample, statistic)
    for values in statistic.varies:
        warnings += _few_others(values, sample)
    ends = statistic.scale_ends
    if ends is not None and hides_far_rows(statistic.varies[0], sample, ends):
        warnings.append(CLOSE_TOGETHER.format(rows=plural(sample.n, "row")))
    if statistic.certain is not None and (certain := int(sample.counts @ statistic.certain)):
        warnings.append(
            CERTAIN_ROWS.format(rows=plural(certain, "probability is|probabilities are"))
        )
    return warnings


def raised_rank_variance(variance: float, value: float, separates: Floats, sample: Sample) -> Ends:
    """The variance of a metric of how two classes are ranked, raised as by a few more rows of each class that vary as much
    as they can, and its degrees of freedom: those of the rarer class. Near the ceiling a sample often lacks the one row
    of the rarer class that lies among the others, and its variance is then next to nothing."""
    sides = []
    for side in (separates, 1 - separates):
        sides.append(
            float(sample.counts @ side)
            if sample.cluster is None
            else kish(cluster_sums(sample, side))
        )
    rarer = max(min(sides), 1.0)
    most = value * (1 - value) * sum(1 / max(side, 1.0) for side in sides)
    return (rarer * variance + ASSUMED_RANKED * most) / (rarer + ASSUMED_RANKED), max(
        rarer - 1, LEAST_CLUSTER_FREEDOM
    )


def hiding_rows(statistic: Statistic, sample: Sample, design_effect: float) -> float | None:
    """How many rows there are, if so few do not show how heavy the tails of a statistic's values are; None if they do.

    Rows in clusters count as the independent ones that they are worth, at most three for each cluster of equal size.
    """
    rows = sample.n / design_effect
    if sample.cluster is not None:
        effective = effective_clusters(sample)
        rows = min(rows, effective * (1 if effective < sample.units / UNEQUAL else ROWS_OF_CLUSTER))
    if max(len(np.unique(values)) for values in statistic.varies) <= min(FEW_VALUES, sample.n / 2):
        rows *= ROWS_ON_SCALE
    return None if rows >= SHOWN_IF_SKEWED_FROM or _looks_normal(statistic, sample) else rows


def _looks_normal(statistic: Statistic, sample: Sample) -> bool:
    """Whether there are rows enough to show heavy tails, and they do not."""
    return sample.n >= SHOWN_FROM and near_normal(statistic.tails[0][sample.atom])


def hides_far_rows(values: Floats, sample: Sample, ends: Ends) -> bool:
    """Whether rows lie so close together within the ends of their scale that a row at the far end, which none may be, would
    vary more than all of them."""
    mean = float(sample.counts @ values) / sample.n
    variance = float(sample.counts @ (values - mean) ** 2) / sample.n
    far = max(mean - ends[0], ends[1] - mean)
    return 0 < effective_clusters(sample) * variance < ONE_FAR_ROW * far**2


def near_normal(values: Floats) -> bool:
    """Whether the skewness and the kurtosis above that of normal values are no larger than theirs, by the test of Jarque and
    Bera (1980)."""
    deviations = values - values.mean()
    with np.errstate(over="ignore"):
        spread = float(np.sqrt(np.mean(deviations**2)))
    if not math.isfinite(spread) or not spread:
        return math.isfinite(spread)
    ratios = deviations / spread
    skewness, excess = float(np.mean(ratios**3)), max(float(np.mean(ratios**4)) - 3, 0.0)
    return math.exp(-len(values) / 12 * (skewness**2 + excess**2 / 4)) >= LIKE_NORMAL


def _few_of_rarest(classes: Floats, sample: Sample, statistic: Statistic) -> list[str]:
    """Of metrics in which labels count by their share of the rows, all labels but the most frequent one count as one: a
    label that nobody uses does not decide them."""
    keys, labels, counts = _occurrences(classes, sample)
    if len(keys) < 2:
        return [ONE_LABEL]
    if statistic.labels_count_alike:
        each = [labels == label for label in range(len(keys))]
        return _few(each, sample, FEW_OF_LABEL, "row", FEW_CLUSTERS_OF_LABEL)
    others, form = labels != counts.argmax(), "row has|rows have"
    return _few([others, ~others], sample, FEW_OTHER_LABELS, form, FEW_CLUSTERS_OF_LABEL)


def _few_others(values: Floats, sample: Sample) -> list[str]:
    _, labels, counts = _occurrences(values, sample)
    if not CONCENTRATED * sample.n <= counts.max() < sample.n:
        return []
    others, form = labels != counts.argmax(), "row differs|rows differ"
    return _few([others], sample, FEW_OTHERS, form, FEW_CLUSTERS_OF_OTHERS)


def _occurrences(values: Floats, sample: Sample) -> tuple[Floats, Ints, Floats]:
    """The distinct values, which of them each atom has, and in how many rows they occur."""
    keys, labels = np.unique(values, return_inverse=True)
    counts = np.bincount(labels, sample.counts).astype(np.float64)
    return keys, labels.astype(np.int64), counts


def _few(
    groups: Sequence[RowMask], sample: Sample, of_rows: str, form: str, of_clusters: str
) -> list[str]:
    """The warning of a group of too few rows, or in too few clusters."""
    fewest = min(int(sample.counts @ group) for group in groups)
    if fewest < FEW_ROWS:
        return [of_rows.format(rows=plural(fewest, form))]
    if sample.cluster is None:
        return []
    worth = min(kish(cluster_sums(sample, group)) for group in groups)
    return [of_clusters.format(effective=worth)] if worth < FEWEST_CLUSTERS else []


NO_VARIATION = "the rows do not vary, and nothing says how far others may lie"
LEAST_FREEDOM = 4
"""The degrees of freedom that a jackknife variance has at least, so that one extreme row does not make the interval infinite."""
FLAT = 1e-12
"""The root of a sum of squared changes below this is rounding: no row matters."""
STRAIGHT = 1e-6
"""A skewness below this is 0: the correction divides by it."""
RAISED_BY_FEW = 10.0
RAISED = (0.0, 1.0, 2.0, 4.0)
"""How a skewness s of n rows is raised before Hall's correction: to s (1 + 10 / n), and where squares decide the metric
also to s (1 + 10 / n + c s) for these c (benchmarks/interval_coverage.py)."""


class MetricValue(Struct, frozen=True):
    """A metric of `n` rows with the ends of its interval at `level`.

    `value` is None where the metric is undefined, and `reason` says why; `low` and `high` are None where there is no
    interval, as where all resamples give the same value (`reason` says so). `warnings` say why the
    interval may be too narrow; `reason` repeats them for readers. The value of `confusion` is `{"labels": […],
    "counts": [[…]]}`, rows by target and columns by prediction. `se` is the standard error, `method` that of the
    interval, `df` the degrees of freedom of its quantile (None: normal). In clusters, `clusters` counts them,
    `effective_n` is how many independent rows the sample is worth and `design_effect` is `n` over that.
    """

    value: Any
    low: float | None
    high: float | None
    n: int
    reason: str = ""
    clusters: int | None = None
    effective_n: float | None = None
    se: float | None = None
    method: str = ""
    df: float | None = None
    level: float = 0.95
    design_effect: float | None = None
    warnings: tuple[str, ...] = ()

    def warned(self, *warnings: str) -> MetricValue:
        """The value with more warnings; those that it has already, and empty ones, are left out."""
        new = tuple(dict.fromkeys(text for text in warnings if text and text not in self.warnings))
        reason = "; ".join(filter(None, (self.reason, *new)))
        return replace(self, reason=reason, warnings=(*self.warnings, *new)) if new else self


MetricValues = dict[str, MetricValue]


def undefined_value(reason: str, n: int = 0) -> MetricValue:
    """A metric that has no value, for this reason."""
    return MetricValue(None, None, None, n, reason)


def normal(level: float) -> float:
    """The normal quantile of a two-sided interval: its half-width in standard errors."""
    return NORMAL.inv_cdf((1 + level) / 2)


def student(level: float, freedom: float) -> float:
    """Student's quantile of a two-sided interval; the degrees of freedom need not be whole."""
    return student_quantile(freedom, (1 + level) / 2)


def clopper_pearson(hits: float, rows: float, level: float) -> Ends:
    """The ends of the exact interval of a proportion (Clopper and Pearson, 1934); counts need not be whole."""
    tail = (1 - level) / 2
    low = 0.0 if hits <= 0 else beta_quantile(hits, rows - hits + 1, tail)
    high = 1.0 if hits >= rows else beta_quantile(hits + 1, rows - hits, 1 - tail)
    return low, high


def score(share: float, rows: float, quantile: float) -> Ends:
    """The ends of Wilson's interval of a share; the number of rows need not be whole."""
    reach = quantile**2 / rows
    middle = (share + reach / 2) / (1 + reach)
    half = float(np.sqrt(reach * share * (1 - share) + reach**2 / 4)) / (1 + reach)
    return middle - half, middle + half


class StandardError(Struct, frozen=True):
    """A metric's standard error with its degrees of freedom.

    `skewness` is the metric's own, by the adjusted coefficient (Joanes and Gill, 1998); `design_effect` that of clusters.
    """

    error: float
    freedom: float
    skewness: float = 0.0
    design_effect: float | None = None


def deleted_values(
    statistics: Sequence[Statistic],
    sample: Sample,
    rng: np.random.Generator,
    most: int = MOST_DELETIONS,
) -> tuple[Floats, Floats]:
    """The value of each statistic (rows) without each unit or group, and how many units each of these stands for."""
    width = max(statistic.width for statistic in statistics)
    values, counts = [], []
    for weights, units in sample.deletions(rng, width, most):
        values.append(np.stack([statistic.at(weights) for statistic in statistics]))
        counts.append(units)
    return np.concatenate(values, axis=1), np.concatenate(counts)


def jackknife_errors(
    statistics: Mapping[str, Statistic],
    sample: Sample,
    rng: np.random.Generator,
    most: int = MOST_DELETIONS,
) -> dict[str, StandardError | None]:
    """The standard error of each statistic, None where no row changes it; NaN where it needs every row to be defined."""
    if not statistics:
        return {}
    without, units = deleted_values([*statistics.values()], sample, rng, most)
    each = zip(statistics, without, strict=True)
    errors = {name: _jackknife_error(values, units) for name, values in each}
    if sample.cluster is None:
        return errors
    alone = jackknife_errors(statistics, structs.replace(sample, cluster=None), rng, most)
    return {
        name: _in_clusters(error, alone[name], statistics[name], sample)
        for name, error in errors.items()
    }


def _in_clusters(
    error: StandardError | None, alone: StandardError | None, statistic: Statistic, sample: Sample
) -> StandardError | None:
    """The error of a metric in clusters, with its raised design effect and the clusters' degrees of freedom."""
    if (
        error is None
        or alone is None
        or not np.isfinite(error.error)
        or not np.isfinite(alone.error)
    ):
        return error
    if statistic.differs is not None:
        share = float(sample.counts @ statistic.differs) / sample.n
    else:
        columns = statistic.varies or statistic.classes
        most = (float(_occurrences(values, sample)[2].max()) for values in columns)
        share = max(most, default=sample.n / 2) / sample.n
    effect = (error.error / alone.error) ** 2
    skewed = statistic.interval == "skewness" and not statistic.tails and statistic.differs is None
    raised = raised_design_effect(effect, cluster_sizes(sample), max(share, 0.5), skewed=skewed)
    freedom = min(error.freedom, cluster_freedom(sample))
    return structs.replace(
        error, error=alone.error * math.sqrt(raised), freedom=freedom, design_effect=raised
    )


def _jackknife_error(values: Floats, counts: Floats) -> StandardError | None:
    finite = np.isfinite(values)
    values, counts = values[finite], counts[finite]
    n = float(counts.sum())
    if n < 2:
        return StandardError(np.nan, LEAST_FREEDOM)
    deviation = values - float(values @ counts) / n
    largest = float(np.abs(deviation).max())
    if not math.isfinite(largest):
        return StandardError(np.nan, LEAST_FREEDOM)
    if not largest:
        return None
    deviation = (
        deviation / largest
    )  # fourth powers of the differences themselves overflow beyond 1e77
    squares = float(counts @ deviation**2)
    if math.sqrt(squares) * largest <= FLAT * max(1.0, float(np.abs(values).max())):
        return None
    kurtosis = n * float(counts @ deviation**4) / squares**2
    information = 2 * n / (kurtosis - 1) if kurtosis > 1 else n - 1
    skewness = (
        -float(counts @ deviation**3)
        / squares**1.5
        * (n * n / ((n - 1) * (n - 2)) if n > 2 else 1.0)
    )
    freedom = min(n - 1, max(information, LEAST_FREEDOM))
    return StandardError(largest * math.sqrt((n - 1) / n * squares), freedom, skewness)


def student_interval(
    value: float, error: StandardError, scale: NormalizingScale, quantile: float
) -> Ends:
    """The ends of Student's interval of this quantile, symmetric on the scale."""
    reach = quantile * error.error * scale.slope(value)
    middle = scale.to(value)
    return scale.back(middle - reach), scale.back(middle + reach)


def perfect_agreement_interval(
    value: float, statistic: Statistic, sample: Sample, level: float
) -> Ends | None:
    """The ends where all rows agree: what Wilson's z² rows that disagree would make of the value; None elsewhere."""
    if statistic.with_disagreement is None or value < statistic.bounds[1] - NEAR:
        return None
    rows = normal(level) ** 2 * sample.n / sample.units
    low = statistic.with_disagreement(sample.counts, rows)
    return (low, value) if np.isfinite(low) else None


def skewness_corrected_interval(
    value: float, error: StandardError, statistic: Statistic, sample: Sample, level: float
) -> Ends:
    """The ends of Student's interval with Hall's (1992) cubic correction for skewness, of rows or effective clusters.

    On the side of the long tail the skewness is raised: few rows show too little of it, and those of squares of values
    with heavy tails never show it all. The end is the farthest that any of these skewnesses gives, or that of Student's
    interval on the statistic's scale.
    """
    scale = IDENTITY if statistic.scale is LOG else statistic.scale
    middle, spread, skewness = (
        scale.to(value),
        error.error * scale.slope(value),
        abs(error.skewness),
    )
    quantile, away = student(level, error.freedom), -1.0 if error.skewness < 0 else 1.0
    plain = [scale.to(end) for end in student_interval(value, error, statistic.scale, quantile)]
    # Of values that are never negative, the near end is corrected too.
    corrected = middle - away * spread * _uncorrected(quantile, skewness)
    near = corrected if statistic.scale is LOG else plain[int(away < 0)]
    units = effective_clusters(sample)
    # Tails that look like normal ones need no more than what few rows hide of any skewness.
    heavy = bool(statistic.tails) and not _looks_normal(statistic, sample)
    factors = RAISED if heavy else RAISED[:1]
    raised = [1 + RAISED_BY_FEW / units + factor * skewness for factor in factors]
    reach = max(spread * abs(_uncorrected(-quantile, skewness * times)) for times in raised)
    far = middle + away * max(reach, away * (plain[int(away > 0)] - middle))
    low, high = scale.back(min(near, far)), scale.back(max(near, far))
    if statistic.hidden is not None:
        rows = hiding_rows(statistic, sample, error.design_effect or 1.0)
        if rows is not None:
            end = statistic.hidden(rows, sample.counts)
            low, high = min(low, end), max(high, end)
    return low, high


def stretched(value: float, ends: Ends, skewness: float, units: float, quantile: float) -> Ends:
    """The ends of a share in clusters, the one on the side of the long tail as far as Hall's correction puts it. Where large
    clusters are judged worse, the share's errors have a long tail, which a symmetric quantile does not reach."""
    far = abs(_uncorrected(-quantile, abs(skewness) * (1 + RAISED_BY_FEW / units))) / quantile
    low, high = ends
    if skewness < 0:
        low = value - (value - low) * max(far, 1.0)
    elif skewness > 0:
        high = value + (high - value) * max(far, 1.0)
    return max(low, 0.0), high


def _uncorrected(ratio: float, skewness: float) -> float:
    """Student's ratio whose cubic is `ratio`; `skewness` is that of the metric, over the root of the units."""
    if abs(skewness) < STRAIGHT:
        return ratio
    return 3 / skewness * (math.cbrt(1 + skewness * (ratio - skewness / 6)) - 1)


def agreement_interval(
    value: float, error: StandardError, statistic: Statistic, sample: Sample, level: float
) -> Ends | None:
    """The ends of an agreement's interval; None where no row disagrees, or the metric is not an agreement.

    One more row that disagrees is allowed for, since a kind of error that no row shows would add to the variance.
    """
    if statistic.differs is None:
        return None
    share = float(sample.counts @ statistic.differs) / sample.n
    if not share or value >= 1 or (share == 1 and error.error):
        return None
    disagreement = share / (1 - value)
    row = 1 / disagreement / sample.n
    if statistic.with_disagreement is not None:
        more = value - statistic.with_disagreement(sample.counts, 1.0)
        row = more if math.isfinite(more) else row
    variance = (jackknife_variance(error, sample) + row**2) * disagreement**2
    if not variance:  # no row changes the value: F-beta of a label that is never right stays 0
        return None
    quantile = student(level, cluster_freedom(sample))
    rows = share * (1 - share) / variance if share < 1 else effective_clusters(sample)
    ends = score(share, rows, quantile)
    skewness = -error.skewness  # of the disagreement
    if skewness < 0:
        # Wilson's interval takes what is rare to have its long tail on the other side.
        ends = min(ends[0], share - quantile * math.sqrt(variance)), ends[1]
    elif sample.cluster is None:
        skewness = 0.0
    low, high = stretched(share, ends, skewness, effective_clusters(sample), quantile)
    return 1 - min(high, 1.0) / disagreement, 1 - low / disagreement


def jackknife_variance(error: StandardError, sample: Sample) -> float:
    """The jackknife's variance without its factor n / (n - 1)."""
    return error.error**2 * (sample.units - 1) / sample.units


def median_metric(value: float, ordered: Floats, sample: Sample, level: float) -> MetricValue:
    """Woodruff: the quantiles at the ends of the exact interval of the share of rows below the median."""
    keys, inverse = np.unique(ordered, return_inverse=True)
    if len(keys) == 1:
        return MetricValue(value, None, None, sample.n, NO_VARIATION, warnings=(NO_VARIATION,))
    below = ((ordered < value).astype(np.float64) + (ordered <= value)) / 2
    share = effective_share(Proportion(below, np.ones(len(ordered))), sample).interval(level)
    cumulated = np.cumsum(np.bincount(inverse, sample.counts))
    first = max(math.ceil(share[0] * sample.n - 1e-9), 1)
    last = sample.n + 1 - max(math.ceil((1 - share[1]) * sample.n - 1e-9), 1)
    low, high = (float(keys[np.searchsorted(cumulated, rank)]) for rank in (first, last))
    return MetricValue(
        value, min(low, value), max(high, value), sample.n, method="order statistics"
    )


class EffectiveShare(Struct, frozen=True):
    """A share of `rows` that count, and how many independent rows it is worth; in clusters also how many of these count, and
    Student's degrees of freedom."""

    value: float
    rows: float
    worth: float
    clusters: int | None = None
    freedom: float = math.inf
    skewness: float = 0.0

    def interval(self, level: float) -> Ends:
        """The ends of the exact interval of so many independent rows, as wide as Student's quantile makes it."""
        if self.clusters is None:
            return clopper_pearson(self.value * self.rows, self.rows, level)
        if self.clusters < 2:
            return 0.0, 1.0
        quantile = student(level, max(self.freedom, LEAST_CLUSTER_FREEDOM))
        wide = 2 * normal_cdf(quantile) - 1
        ends = clopper_pearson(self.value * self.worth, self.worth, wide)
        return stretched(self.value, ends, self.skewness, self.freedom + 1, quantile)


def share_metric(value: float, share: Proportion, sample: Sample, level: float) -> MetricValue:
    """The metric of a share with its interval; of clusters also how many there are, and what they are worth."""
    effective = effective_share(share, sample)
    low, high = map(share.metric_of, effective.interval(level))
    inside = min(max(effective.value, 1e-6), 1 - 1e-6)
    spread = math.sqrt(effective.value * (1 - effective.value) / effective.worth)
    metric = MetricValue(
        value,
        low,
        high,
        int(effective.rows),
        se=float(share.slope(inside) * spread),
        method="Clopper-Pearson",
    )
    if effective.clusters is None:
        return metric
    worth = effective.freedom + 1
    return replace(
        metric,
        method="Clopper-Pearson of effective rows (CR3)",
        df=max(effective.freedom, LEAST_CLUSTER_FREEDOM),
        design_effect=effective.rows / effective.worth,
    ).warned(FEW_EFFECTIVE.format(effective=worth) if worth < FEWEST_CLUSTERS else "")


def effective_share(share: Proportion, sample: Sample) -> EffectiveShare:
    """The share with what its rows are worth."""
    if sample.cluster is None:
        value, rows = share.share(sample.counts)
        return EffectiveShare(value, rows, rows)
    sums = cluster_sums(sample, share.trials)
    hits, trials = cluster_sums(sample, share.hits)[sums > 0], sums[sums > 0]
    clusters, rows = len(trials), float(trials.sum())
    value, effective = float(hits.sum()) / rows, min(kish(trials), rows)
    if clusters < 2 or not 0 < value < 1:
        return EffectiveShare(value, rows, effective, clusters, effective - 1)
    without = (hits - value * trials) / (rows - trials)
    squares = float((without**2).sum())
    variance = (clusters - 1) / clusters * squares
    skewness = -float(((without - without.mean()) ** 3).sum()) / squares**1.5 if squares else 0.0
    effect = variance * rows / (value * (1 - value))
    worth = rows / raised_design_effect(effect, trials, value)
    return EffectiveShare(value, rows, worth, clusters, effective - 1, skewness)
