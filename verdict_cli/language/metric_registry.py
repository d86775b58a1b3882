"""The metrics that an evaluation can name: one record for each, built in or from an installed package.

A record declares what validation, the schema and `verdict explain` need, without importing numpy. The formula of a built-in
metric is the statistic of its name in `verdict_cli.stats.metrics`; that of any other metric is a function of arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Literal

from msgspec import Struct

from verdict_cli.config_model import RegisteredName
from verdict_cli.registry import Registry

EvaluationKind = Literal["classification", "ordinal", "numeric", "pairwise", "ranking"]
"""What the predictions and targets of an evaluation are."""

MetricInput = Literal[
    "labels",
    "numbers",
    "ranking",
    "probability",
    "value",
    "within",
    "panel",
    "consistent",
    "choice",
    "choice_length",
    "evaluator",
    "lengths",
    "samples",
]
"""Which columns of an evaluation a metric is computed from; `within` is numbers cluster by cluster, `samples` values
problem by problem, `evaluator` what measures evaluations of a feature's own kind."""

REQUIRED_KEYS: dict[MetricInput, tuple[str, ...]] = {
    "labels": ("prediction", "target"),
    "numbers": ("prediction", "target"),
    "ranking": ("prediction", "target"),
    "probability": ("probability", "target"),
    "value": ("value",),
    "within": ("prediction", "target", "cluster"),
    "panel": ("panel",),
    "consistent": ("consistent",),
    "choice": ("prediction",),
    "choice_length": ("prediction", "options"),
    "evaluator": (),
    "lengths": ("prediction", "options"),
    "samples": ("value", "cluster"),
}
"""The keys of an evaluation that give each kind of input."""

CHOICE_INPUTS: tuple[MetricInput, ...] = ("consistent", "choice", "choice_length", "lengths")
"""What a pairwise judge prefers, which needs no target."""

ARRAY_INPUTS: tuple[MetricInput, ...] = ("labels", "numbers", "value", "probability")
"""Inputs that a formula of arrays can have."""

IntervalMethod = Literal[
    "proportion",
    "jackknife",
    "skewness",
    "order_statistics",
    "inverted_test",
    "transformed",
    "none",
]
"""How a metric's interval is computed; `verdict_cli.stats.intervals` has the methods and their sources."""

IntervalScale = Literal["identity", "fisher", "logit", "log"]
"""The transformation under which a jackknife interval is symmetric."""

REAL_LINE = (-math.inf, math.inf)
UNIT = (0.0, 1.0)
SIGNED = (-1.0, 1.0)
POSITIVE = (0.0, math.inf)


def variance_ends(low: float, high: float) -> tuple[float, float]:
    """The smallest and the largest sample variance of numbers between these: that of two rows, one at each end."""
    width = high - low
    return 0.0, width * width / 2  # `**` overflows for a width whose square is infinite


class Metric(Struct, frozen=True):
    """A metric: what it means, what it is computed from, and how its interval is made.

    An installed package offers one as an entry point of the same name in the group `verdict_cli.metrics`.

    Attributes:
        name: What an evaluation calls it.
        meaning: A sentence for `verdict explain`.
        inputs: The columns that it is computed from. A custom metric has one of `labels`, `numbers`, `value` and
            `probability`.
        formula: A function, or its dotted name as `module:function`, of arrays of one length with an item for each distinct
            observation, and last `weight`, how often each occurs in the sample. `labels` gives prediction and target as
            texts (None: no prediction, under `missing: wrong`), `numbers` both as floats, `value` the value as floats
            (booleans as 1 and 0), `probability` the probability and 1 where the target is `positive`, else 0. It
            returns a float, NaN where the metric is undefined. None: the statistic of this name in `verdict_cli.stats`.
        kinds: The kinds of evaluation that compute it when `metrics:` names none.
        bounds: The ends of its range.
        lower_is_better: Whether it counts errors: a drop against a baseline is then a rise of it.
        interval: How its interval is computed. A formula of arrays has `jackknife` or `skewness`.
        scale: The transformation under which that interval is symmetric.
        keys: Further keys of the evaluation that it needs.
        by_name: Whether only an evaluation whose `metrics` names it computes it.
        worst_case: The inputs of which it is worst where every missing row is wrong, so that missing rows can be bounded.
        unchanged_by: What may be done to all answers of a run without changing it: `ranks` of them, or a `linear` map. Two
            runs with scales of their own are brought to one scale by it before they are compared.
        averaged: Whether it is of one label, `positive`, and averaged over the labels where none is named.
        beyond_chance: Whether it says more than a share of rows: a report shows one such metric beside the first.
    """

    name: str
    meaning: str
    inputs: tuple[MetricInput, ...]
    formula: Callable[..., float] | str | None = None
    kinds: tuple[EvaluationKind, ...] = ()
    bounds: tuple[float, float] = REAL_LINE
    lower_is_better: bool = False
    interval: IntervalMethod = "jackknife"
    scale: IntervalScale = "identity"
    keys: tuple[str, ...] = ()
    by_name: bool = False
    worst_case: tuple[MetricInput, ...] = ()
    unchanged_by: Literal["", "ranks", "linear"] = ""
    averaged: bool = False
    beyond_chance: bool = False

    @property
    def has_own_unit(self) -> bool:
        """Whether it is in units of its own, and shares no axis with metrics from -1 to 1."""
        return not (SIGNED[0] <= self.bounds[0] and self.bounds[1] <= SIGNED[1])

    def load_formula(self) -> Callable[..., float] | None:
        """The function of arrays, imported if it is a dotted name; None for a built-in statistic."""
        if not isinstance(self.formula, str):
            return self.formula
        module, _, function = self.formula.partition(":")
        formula: Callable[..., float] = getattr(import_module(module), function)
        return formula


_CLASSES: tuple[EvaluationKind, ...] = ("classification",)
_NOMINAL: tuple[EvaluationKind, ...] = ("classification", "pairwise")
_LABELS: tuple[EvaluationKind, ...] = ("classification", "pairwise", "ordinal")
_NUMBERS: tuple[EvaluationKind, ...] = ("ordinal", "numeric")


def _correlation(
    name: str, meaning: str, inputs: tuple[MetricInput, ...], **attributes: Any
) -> Metric:
    """A metric from -1 to 1 whose interval is symmetric under Fisher's transformation."""
    attributes |= {"bounds": SIGNED, "interval": "skewness", "scale": "fisher"}
    return Metric(name, meaning, inputs, **attributes)


# fmt: off
BUILT_IN_METRICS = (
    Metric("accuracy", "The share of rows whose prediction is the target.",
           ("labels", "ranking"), kinds=(*_LABELS, "ranking"), bounds=UNIT, interval="proportion", worst_case=("labels", "ranking")),
    Metric("balanced_accuracy", "The mean recall of the labels that occur as targets.",
           ("labels",), kinds=_CLASSES, bounds=UNIT, interval="skewness", scale="fisher", worst_case=("labels",)),
    Metric("precision", "The share of predictions of `positive` that are right; without it, the mean over the labels.",
           ("labels",), kinds=_CLASSES, bounds=UNIT, interval="skewness", scale="fisher", worst_case=("labels",), averaged=True),
    Metric("recall", "The share of targets that are `positive` which are found; without it, the mean over the labels.",
           ("labels",), kinds=_CLASSES, bounds=UNIT, interval="skewness", scale="fisher", worst_case=("labels",), averaged=True),
    Metric("f1", "The harmonic mean of precision and recall of `positive`; without it, the mean over the labels.",
           ("labels",), kinds=_CLASSES, bounds=UNIT, interval="skewness", scale="fisher", worst_case=("labels",), averaged=True),
    Metric("specificity", "The share of targets that are not `positive` which are not predicted as it; without it, over the labels.",
           ("labels",), bounds=UNIT, interval="skewness", scale="fisher", worst_case=("labels",), averaged=True),
    Metric("f_beta", "F1 with recall counting `beta` times as much as precision; without `positive`, the mean over the labels.",
           ("labels",), bounds=UNIT, interval="skewness", scale="fisher", keys=("beta",), worst_case=("labels",), averaged=True),
    _correlation("mcc", "Matthews' correlation of labels, for many labels by Gorodkin (2004).",
           ("labels",), worst_case=("labels",), beyond_chance=True),
    _correlation("cohen_kappa", "Agreement beyond chance, chance by each side's own shares (Cohen, 1960).",
           ("labels",), kinds=_NOMINAL, worst_case=("labels",), beyond_chance=True),
    _correlation("weighted_kappa", "Agreement of numbers beyond chance, with squared weights (Cohen, 1968).",
           ("numbers",), kinds=("ordinal",), worst_case=("numbers",), beyond_chance=True),
    _correlation("linear_weighted_kappa", "Agreement of numbers beyond chance, with linear weights (Cohen, 1968).",
           ("numbers",), worst_case=("numbers",)),
    _correlation("ordinal_alpha", "Krippendorff's alpha at the ordinal level: how many answers lie between two values.",
           ("numbers", "panel"), by_name=True, worst_case=("numbers",)),
    _correlation("gwet_ac1", "Agreement beyond chance, chance by the mean shares (Gwet, 2008); stable where one label is rare.",
           ("labels",), worst_case=("labels",), beyond_chance=True),
    _correlation("krippendorff_alpha", "Agreement beyond chance (Krippendorff, 2011): nominal for labels, interval for numbers.",
           ("labels", "numbers", "panel"), worst_case=("labels", "numbers"), beyond_chance=True),
    _correlation("pearson", "The linear correlation of prediction and target.",
           ("numbers",), kinds=("numeric",), unchanged_by="linear"),
    _correlation("spearman", "The correlation of the ranks of prediction and target.",
           ("numbers", "ranking"), kinds=(*_NUMBERS, "ranking"), worst_case=("ranking",), beyond_chance=True, unchanged_by="ranks"),
    _correlation("kendall", "The share of pairs in the same order minus that in the other: tau-b.",
           ("numbers", "ranking"), kinds=("ranking",), worst_case=("ranking",), unchanged_by="ranks"),
    Metric("mae", "The mean distance of prediction and target; lower is better.",
           ("numbers",), kinds=_NUMBERS, bounds=POSITIVE, lower_is_better=True, interval="skewness", scale="log", worst_case=("numbers",)),
    Metric("rmse", "The root of the mean squared distance of prediction and target; lower is better.",
           ("numbers",), bounds=POSITIVE, lower_is_better=True, interval="transformed", scale="log", worst_case=("numbers",)),
    Metric("auroc", "The chance that a positive row has a higher `probability` than a negative one.",
           ("probability",), bounds=UNIT, scale="logit", worst_case=("probability",), beyond_chance=True, unchanged_by="ranks"),
    Metric("average_precision", "The mean precision over the positive rows in the order of `probability`.",
           ("probability",), bounds=UNIT, scale="logit", worst_case=("probability",), unchanged_by="ranks"),
    Metric("brier", "The mean squared distance of `probability` and what is true; lower is better.",
           ("probability",), bounds=UNIT, lower_is_better=True, interval="skewness", scale="log", worst_case=("probability",)),
    Metric("log_loss", "The mean surprise at what is true, in nats; lower is better.",
           ("probability",), bounds=POSITIVE, lower_is_better=True, interval="skewness", scale="log"),
    Metric("ece", "The mean distance of `probability` and the share that is true, in ten bins; lower is better.",
           ("probability",), bounds=UNIT, lower_is_better=True, interval="inverted_test"),
    Metric("mean", "The mean of `value`; of true/false, the share that is true.", ("value",), worst_case=("value",)),
    Metric("median", "The middle of `value`.", ("value",), interval="order_statistics", worst_case=("value",)),
    Metric("variance", "The variance of `value`, with n - 1.", ("value",), bounds=POSITIVE, interval="skewness", scale="log"),
    Metric("confusion", "How often each label was predicted for each target.",
           ("labels",), kinds=_LABELS, interval="none"),
    Metric("pearson_within", "The mean of each `cluster`'s own linear correlation.", ("within",), bounds=SIGNED),
    Metric("spearman_within", "The mean of each `cluster`'s own correlation of ranks.", ("within",), bounds=SIGNED),
    Metric("kendall_within", "The mean of each `cluster`'s own tau-b.", ("within",), bounds=SIGNED),
    Metric("top1", "The share of rankings whose first item is the target's.",
           ("ranking",), kinds=("ranking",), bounds=UNIT, interval="proportion", worst_case=("ranking",)),
    Metric("kendall_distance", "The mean share of pairs in the wrong order; lower is better.",
           ("ranking",), kinds=("ranking",), bounds=UNIT, lower_is_better=True, worst_case=("ranking",)),
    Metric("ndcg", "How well rankings put the target's first items first, discounted by rank.",
           ("ranking",), kinds=("ranking",), bounds=UNIT, worst_case=("ranking",)),
    _correlation("pairwise_kappa", "The mean kappa of all pairs of a `panel`'s judges (Light, 1971).",
           ("panel",)),
    _correlation("fleiss_kappa", "Agreement of a `panel`'s labels beyond chance, over the rows with every vote (Fleiss, 1971).",
           ("panel",), by_name=True),
    _correlation("icc", "The reliability of one judge of a `panel`: ICC(2,1) (Shrout and Fleiss, 1979).",
           ("panel",), by_name=True),
    Metric("icc_k", "The reliability of the mean of a `panel`'s judges: ICC(2,k) (Shrout and Fleiss, 1979).",
           ("panel",), bounds=(-math.inf, 1.0), interval="transformed", by_name=True),
    _correlation("error_correlation", "How far a `panel`'s judges err together: the mean correlation of two judges' errors.",
           ("panel",)),
    Metric("effective_judges", "How many independent judges a `panel` is worth, by how far its judges err together.",
           ("panel",), bounds=(1.0, math.inf), interval="transformed", by_name=True),
    Metric("consistency", "The share of pairs for which both orders give the same choice.",
           ("consistent",), bounds=UNIT, interval="proportion", worst_case=("consistent",)),
    Metric("first_position_rate", "The share of choices that are the first option, ties left out.",
           ("choice",), kinds=("pairwise",), bounds=UNIT, interval="proportion", worst_case=("choice",)),
    Metric("longer_preference", "The share of choices that are the longer option, where the lengths differ.",
           ("choice_length",), bounds=UNIT, interval="proportion"),
    Metric("length_controlled_win_rate", "How often option A would win if both were of equal length (Dubois et al., 2024).",
           ("lengths",), bounds=UNIT, scale="logit", by_name=True),
    Metric("pass_at_k", "The share of problems that one of `k` samples solves (Chen et al., 2021).",
           ("samples", "panel"), bounds=UNIT, keys=("k",), by_name=True, worst_case=("samples",)),
)
# fmt: on

AVERAGED = tuple(metric.name for metric in BUILT_IN_METRICS if metric.averaged)
"""The metrics of one label that are averaged over the labels where none is positive."""

GOLD_ESTIMATES: tuple[str, ...] = ("judged", "labelled", "ppi", "rogan_gladen")
"""What `gold` gives: the judge's mean, that of the human labels alone, and two corrections."""


def _plugin_metric(name: str, loaded: Any) -> Metric:
    """The metric that an entry point holds. TypeError says what it should be."""
    if (
        not isinstance(loaded, Metric)
        or len(loaded.inputs) != 1
        or loaded.inputs[0] not in (*ARRAY_INPUTS, "evaluator")
    ):
        raise TypeError(
            f"is not a verdict_cli.Metric with one of {', '.join(ARRAY_INPUTS)} as `inputs`"
        )
    if loaded.name != name:
        raise TypeError(f"is named {name!r}, and its Metric {loaded.name!r}")
    if loaded.inputs == ("evaluator",):
        return loaded
    if loaded.formula is None or loaded.interval not in ("jackknife", "skewness"):
        raise TypeError("needs a `formula`, and `jackknife` or `skewness` as `interval`")
    return loaded


RECORDS = {metric.name: metric for metric in BUILT_IN_METRICS}
"""The built-in metrics by name."""
METRICS: Registry[Metric] = Registry("", RECORDS, "verdict_cli.metrics", _plugin_metric)
"""Metrics by name: the built-in ones, in the order in which they are listed, and those of features and installed packages."""


def find_metric(name: str) -> Metric | None:
    """The metric of that name, built in or of an installed package; None where there is none."""
    if name in GOLD_ESTIMATES:
        return None
    return RECORDS.get(name) or METRICS.plugin(name)


MetricKey = Annotated[str, RegisteredName(METRICS)]
"""How a file names a metric."""
