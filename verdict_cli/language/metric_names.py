"""The metrics an evaluation can name, built in or from an installed package (language.md, section 10)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from verdict_cli.language.registry import RegisteredName, Registry

MetricInput = Literal["labels", "numbers", "value", "probability"]

_NEEDS: dict[str, tuple[str, ...]] = {
    "labels": ("prediction", "target"),
    "numbers": ("prediction", "target"),
    "value": ("value",),
    "probability": ("probability", "target"),
}


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that an evaluation can ask for by the name of its entry point (group `verdict_cli.metrics`).

    ``figure`` takes arrays of one length, one item for each distinct observation, and last `weight`, how often each stands
    in the sample; its interval comes from other weights of the same items. ``of`` says which arrays:

    - `labels`: prediction and target as texts (None: no prediction, under `missing: wrong`);
    - `numbers`: prediction and target as floats;
    - `value`: the value as floats, booleans as 1 and 0;
    - `probability`: the probability, and 1 where the target is `positive`, else 0.

    It gives a float, NaN where the figure is undefined. ``least`` and ``most`` are the ends of its range.
    """

    meaning: str
    of: MetricInput
    figure: Callable[..., float]
    lower_is_better: bool = False
    least: float = -math.inf
    most: float = math.inf

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of an evaluation without which there is no figure."""
        return _NEEDS[self.of]


def metric(name: str, loaded: Any) -> Metric:
    """What an entry point holds, which must be a Metric; TypeError says so where it is something else."""
    if not isinstance(loaded, Metric) or loaded.of not in _NEEDS:
        raise TypeError(f"is not a verdict_cli.Metric of {', '.join(_NEEDS)}")
    return loaded


MetricName = Literal[
    "accuracy",
    "balanced_accuracy",
    "precision",
    "recall",
    "f1",
    "mcc",
    "cohen_kappa",
    "weighted_kappa",
    "gwet_ac1",
    "krippendorff_alpha",
    "pearson",
    "spearman",
    "kendall",
    "mae",
    "rmse",
    "auroc",
    "average_precision",
    "brier",
    "log_loss",
    "ece",
    "mean",
    "median",
    "variance",
    "confusion",
    "pearson_within",
    "spearman_within",
    "kendall_within",
    "top1",
    "kendall_distance",
    "ndcg",
    "pairwise_kappa",
    "effective_judges",
    "consistency",
    "first_position_rate",
    "longer_preference",
]
"""Every figure that can be asked for. Beyond language.md: correlations within each cluster, figures of rankings, of a
panel of judges, and of what a pairwise judge prefers."""

MEANINGS: dict[MetricName, str] = {
    "accuracy": "The share of rows whose prediction is the target.",
    "balanced_accuracy": "The mean recall of the labels that occur as targets.",
    "precision": "The share of predictions of `positive` that are right; without it, the mean over the labels.",
    "recall": "The share of targets that are `positive` which are found; without it, the mean over the labels.",
    "f1": "The harmonic mean of precision and recall of `positive`; without it, the mean over the labels.",
    "mcc": "Matthews' correlation of labels, for many labels by Gorodkin (2004).",
    "cohen_kappa": "Agreement beyond chance, chance by each side's own shares (Cohen, 1960).",
    "weighted_kappa": "Agreement of numbers beyond chance, with squared weights (Cohen, 1968).",
    "gwet_ac1": "Agreement beyond chance, chance by the mean shares (Gwet, 2008); steady where one label is rare.",
    "krippendorff_alpha": "Agreement beyond chance (Krippendorff, 2011): nominal for labels, interval for numbers.",
    "pearson": "The linear correlation of prediction and target.",
    "spearman": "The correlation of the ranks of prediction and target.",
    "kendall": "The share of pairs in the same order minus that in the other: tau-b.",
    "mae": "The mean distance of prediction and target; less is better.",
    "rmse": "The root of the mean squared distance of prediction and target; less is better.",
    "auroc": "The chance that a positive row has a higher `probability` than a negative one.",
    "average_precision": "The mean precision over the positive rows in the order of `probability`.",
    "brier": "The mean squared distance of `probability` and what is true; less is better.",
    "log_loss": "The mean surprise at what is true, in nats; less is better.",
    "ece": "The mean distance of `probability` and the share that is true, in ten bins; less is better.",
    "mean": "The mean of `value`; of true/false, the share that is true.",
    "median": "The middle of `value`.",
    "variance": "The variance of `value`, with n - 1.",
    "confusion": "How often each label was predicted for each target.",
    "pearson_within": "The mean of each `cluster`'s own linear correlation.",
    "spearman_within": "The mean of each `cluster`'s own correlation of ranks.",
    "kendall_within": "The mean of each `cluster`'s own tau-b.",
    "top1": "The share of rankings whose first item is the target's.",
    "kendall_distance": "The mean share of pairs in the wrong order; less is better.",
    "ndcg": "How well rankings put the target's first items first, discounted by place.",
    "pairwise_kappa": "The mean kappa of all pairs of a `panel`'s judges (Light, 1971).",
    "effective_judges": "How many independent judges a `panel` is worth, by how far its judges err together.",
    "consistency": "The share of pairs for which both orders give the same choice.",
    "first_position_rate": "The share of choices that are the first option, ties left out.",
    "longer_preference": "The share of choices that are the longer option, where the lengths differ.",
}
"""What each figure is, in a sentence; docs/statistics.md has the formulas' details and the intervals."""

METRICS: tuple[MetricName, ...] = get_args(MetricName)
OF_PROBABILITY: frozenset[str] = frozenset({"auroc", "average_precision", "brier", "log_loss", "ece"})
"""Figures of a probability and a target."""
OF_VALUE: frozenset[str] = frozenset({"mean", "median", "variance"})
"""Figures of a value alone."""
OF_GOLD: tuple[str, ...] = ("judged", "labelled", "ppi", "rogan_gladen")
"""Figures that `gold` gives: what the judge says, what the labels say alone, and two corrections."""
OF_RANKING: frozenset[str] = frozenset({"top1", "kendall_distance", "ndcg"})
"""Figures of rankings alone."""
WITHIN: frozenset[str] = frozenset({"pearson_within", "spearman_within", "kendall_within"})
"""The mean of each cluster's own correlation."""
OF_PANEL: frozenset[str] = frozenset({"krippendorff_alpha", "pairwise_kappa", "effective_judges"})
"""Figures of several judges of the same rows."""
OF_CHOICE: Mapping[str, tuple[str, ...]] = {
    "consistency": ("consistent",),
    "first_position_rate": ("prediction",),
    "longer_preference": ("prediction", "options"),
}
"""Figures of what a pairwise judge prefers, with the keys that they need."""
LOWER_IS_BETTER: frozenset[str] = frozenset({"mae", "rmse", "brier", "log_loss", "ece", "kendall_distance"})
"""Figures that count errors: a drop against a baseline is a rise of these."""

METRIC_PLUGINS: Registry[Metric | None] = Registry(__package__, dict.fromkeys(METRICS), "verdict_cli.metrics", metric)
"""Metrics by name. Those of installed packages are `Metric` objects; built-in ones are computed by `verdict_cli.stats`."""

MetricKey = Annotated[str, RegisteredName(METRIC_PLUGINS)]
"""A metric in an evaluation."""


def foreign(name: str) -> Metric | None:
    """The figure of an installed package, None for one of our own and where nobody offers it."""
    return None if name in OF_GOLD else METRIC_PLUGINS.plugin(name)


def lower_is_better(name: str) -> bool:
    """Whether a smaller figure is the better one."""
    offered = foreign(name)
    return name in LOWER_IS_BETTER if offered is None else offered.lower_is_better
