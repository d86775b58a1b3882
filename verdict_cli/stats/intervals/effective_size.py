"""What a sample is worth: effective clusters, design effects, and warnings where an interval cannot be relied on.

- Clusters of unequal size are worth as many equal ones as Kish's (1965) formula gives; Student's quantile has that
  number minus one as its degrees of freedom (Carter, Schnepel and Steigerwald, 2017).
- The design effect is the cluster variance over that of independent rows. A few clusters without an error, or with
  one, cannot show that errors come together. Its estimate is therefore raised, as by two more clusters with an
  intra-cluster correlation of 0.4, where its own information is the clusters times 4 p (1 - p) for a share p.
- An interval has a warning where a label (or all values but the most frequent one) has too few rows or clusters.
"""

from __future__ import annotations

import numpy as np

from verdict_cli.plural import plural
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.metrics.statistic import Statistic

ASSUMED_CORRELATION, ASSUMED_CLUSTERS = 0.4, 2.0
"""The intra-cluster correlation that is assumed before clusters show theirs, and how many clusters this is worth:
measured by benchmarks/interval_coverage.py, correlations up to 0.6 are covered and the interval of many clusters stays
as it is."""
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

SHOWN_FROM, SHOWN_IF_SKEWED_FROM, NOT_NORMAL = 30, 80, 0.05
"""Fewer rows than the first hide heavy tails; fewer than the second do if they are plainly not normal, by a test at this level."""
MOST_TESTED = 5000
"""The p-value of scipy's test is not accurate for more values."""
UNEQUAL, ROWS_OF_CLUSTER = 3, 3
"""Clusters of which so many are worth one of equal size count as one row each, since a large one decides what tails there
are; others as at most so many."""
FEW_VALUES, ROWS_ON_SCALE = 12, 5
"""Scales have at most so many points, each used twice on average. A row on a scale shows its tails as so many others do."""

FEW_UNIFORM, UNIFORM = 150, 0.05
"""Of fewer rows, one in fifty may lie at the other end of the scale unseen. Values that vary by less than this share of the
variance that the scale allows are close together."""

FEW_EFFECTIVE = "the clusters are worth {effective:.1f} of equal size: the interval is rough"
FEW_OF_LABEL = "the rarest label has {rows}: the interval may be too narrow"
FEW_OTHER_LABELS = "{rows} another label than the most frequent one: the interval may be too narrow"
FEW_CLUSTERS_OF_LABEL = "the rarest label is in clusters worth {effective:.1f}: the interval may be too narrow"
CERTAIN_ROWS = "{rows} next to 0 or 1: how often these are wrong decides this value, and few rows do not show it"
CLOSE_TOGETHER = (
    "{rows} close together on a long scale do not show whether others lie far away: the interval may be too narrow"
)
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


def cluster_sizes(sample: Sample, kept: Floats | None = None) -> Floats:
    """The rows of each cluster; of the atoms in `kept` (1 or 0), if given."""
    assert sample.cluster is not None
    rows = None if kept is None else kept[sample.atom]
    return np.bincount(sample.cluster, rows, minlength=sample.units).astype(np.float64)


def effective_clusters(sample: Sample) -> float:
    """How many equal clusters the sample's are worth; of independent rows, their number."""
    return float(sample.n) if sample.cluster is None else kish(cluster_sizes(sample))


def cluster_freedom(sample: Sample) -> float:
    """Student's degrees of freedom: effective clusters, or rows, minus one."""
    return max(effective_clusters(sample) - 1, LEAST_CLUSTER_FREEDOM)


def raised_design_effect(found: float, sizes: Floats, share: float) -> float:
    """The design effect of a metric in clusters of these sizes, of which a share of rows (or all others) decides."""
    information = 4 * share * (1 - share) * kish(sizes)
    assumed = 1 + (float((sizes**2).sum()) / float(sizes.sum()) - 1) * ASSUMED_CORRELATION
    mixed = (found * information + assumed * ASSUMED_CLUSTERS) / (information + ASSUMED_CLUSTERS)
    return max(found, mixed, 1.0)


def most_frequent_share(values: Floats, sample: Sample) -> float:
    """The share of rows that have the most frequent of the values."""
    return float(np.bincount(np.unique(values, return_inverse=True)[1], sample.counts).max()) / sample.n


def reliability_warnings(statistic: Statistic, sample: Sample) -> list[str]:
    """Why the interval of this statistic may not hold; [] where it does."""
    found = []
    share = statistic.share is not None
    if sample.cluster is not None:
        effective = effective_clusters(sample)
        if effective < (FEWEST_CLUSTERS if share else FEW_CLUSTERS_OF_METRIC):
            found.append(FEW_EFFECTIVE.format(effective=effective))
    for classes in statistic.classes:
        found += _few_of_rarest(classes, sample, statistic)
    for values in statistic.varies:
        found += _few_others(values, sample)
    if statistic.scale_ends is not None and hidden_by_uniformity(statistic.varies[0], sample, statistic.scale_ends):
        found.append(CLOSE_TOGETHER.format(rows=plural(sample.n, "row")))
    if statistic.certain is not None and (certain := int(sample.counts @ statistic.certain)):
        found.append(CERTAIN_ROWS.format(rows=plural(certain, "probability is|probabilities are")))
    return found


def raised_rank_variance(variance: float, value: float, separates: Floats, sample: Sample) -> tuple[float, float]:
    """The variance of a metric of how two classes are ranked, raised as by a few more rows of each class that vary as much
    as they can, and its degrees of freedom: those of the rarer class. Near the ceiling a sample often lacks the one row
    of the rarer class that lies among the others, and its variance is then next to nothing."""
    sides = []
    for side in (separates, 1 - separates):
        sides.append(float(sample.counts @ side) if sample.cluster is None else kish(cluster_sizes(sample, side)))
    rarer = max(min(sides), 1.0)
    most = value * (1 - value) * sum(1 / max(side, 1.0) for side in sides)
    return (rarer * variance + ASSUMED_RANKED * most) / (rarer + ASSUMED_RANKED), max(rarer - 1, LEAST_CLUSTER_FREEDOM)


def hiding_rows(statistic: Statistic, sample: Sample, design_effect: float) -> float | None:
    """How many rows there are, if so few do not show how heavy the tails of a statistic's values are; None if they do.

    Rows in clusters count as the independent ones that they are worth, at most three for each cluster of equal size.
    """
    rows = sample.n / design_effect
    if sample.cluster is not None:
        effective = effective_clusters(sample)
        rows = min(rows, effective * (1 if effective < sample.units / UNEQUAL else ROWS_OF_CLUSTER))
    if max(len(np.unique(each)) for each in statistic.varies) <= min(FEW_VALUES, sample.n / 2):
        rows *= ROWS_ON_SCALE
    few = sample.n < SHOWN_FROM or (rows < SHOWN_IF_SKEWED_FROM and not near_normal(statistic.tails[0][sample.atom]))
    return rows if few and rows < SHOWN_IF_SKEWED_FROM else None


def hidden_by_uniformity(values: Floats, sample: Sample, bounds: tuple[float, float]) -> bool:
    """Whether so few rows lie so close together within the ends of their scale that a few rows at the other end, which no row
    shows, would decide the mean."""
    if sample.n >= FEW_UNIFORM:
        return False
    mean = float(sample.counts @ values) / sample.n
    variance = float(sample.counts @ (values - mean) ** 2) / sample.n
    return 0 < variance < UNIFORM * (mean - bounds[0]) * (bounds[1] - mean)


def near_normal(values: Floats, level: float = NOT_NORMAL) -> bool:
    """Whether the test of Shapiro and Wilk (1965) at this level does not reject that the values are normal."""
    from scipy.stats import shapiro

    some = values[:: len(values) // MOST_TESTED + 1]
    return bool(np.isfinite(some).all()) and float(shapiro(some).pvalue) >= level


def _few_of_rarest(classes: Floats, sample: Sample, statistic: Statistic) -> list[str]:
    """Of metrics in which labels count by their share of the rows, all labels but the most frequent one count as one: a
    label that nobody uses does not decide them."""
    keys, inverse = np.unique(classes, return_inverse=True)
    counts = np.bincount(inverse, sample.counts)
    if len(keys) < 2:
        return [ONE_LABEL]
    if not statistic.labels_count_alike:
        inverse = (inverse != counts.argmax()).astype(np.int64)
        counts = np.bincount(inverse, sample.counts)
    if (fewest := int(counts.min())) < statistic.least_rows:
        if statistic.labels_count_alike:
            return [FEW_OF_LABEL.format(rows=plural(fewest, "row"))]
        return [FEW_OTHER_LABELS.format(rows="only " + plural(fewest, "row has|rows have"))]
    if sample.cluster is None:
        return []
    each = [kish(cluster_sizes(sample, (inverse == index).astype(np.float64))) for index in range(len(counts))]
    return [FEW_CLUSTERS_OF_LABEL.format(effective=min(each))] if min(each) < FEWEST_CLUSTERS else []


def _few_others(values: Floats, sample: Sample) -> list[str]:
    inverse = np.unique(values, return_inverse=True)[1]
    counts = np.bincount(inverse, sample.counts)
    others = sample.n - int(counts.max())
    if others and counts.max() >= CONCENTRATED * sample.n and others < FEW_ROWS:
        return [FEW_OTHERS.format(rows=plural(others, "row differs|rows differ"))]
    if sample.cluster is None or not others or counts.max() < CONCENTRATED * sample.n:
        return []
    effective = kish(cluster_sizes(sample, (inverse != counts.argmax()).astype(np.float64)))
    return [FEW_CLUSTERS_OF_OTHERS.format(effective=effective)] if effective < FEWEST_CLUSTERS else []
