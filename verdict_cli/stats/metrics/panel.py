"""Metrics of several judges of the same rows. Oracles: krippendorff, scikit-learn, numpy; statsmodels for `fleiss_kappa`, the
example of Shrout and Fleiss (1979) for `icc` and `icc_k`, which are over the rows that all judges judged.

- `krippendorff_alpha`: of all judges, rows with one vote left out; nominal for labels, interval for numbers.
- `pairwise_kappa`: the mean over pairs of judges (Light, 1971), each over the rows that both judged; Cohen's kappa of
  labels, weighted by squared distance of numbers. A pair that gives one label only has none and is left out.
- `error_correlation`: the mean correlation of two judges' errors (Clemen and Winkler, 1985): of being wrong where votes are
  labels, of the distance to the target where they are numbers; without a target, of the votes themselves.
- `effective_judges`: how many independent judges would be worth as much, k / (1 + (k - 1) r) of k judges with this correlation r.
  The ends of its interval are at most the number of judges.
- `pass_at_k`: the share of problems that at least one of k samples solves (Chen et al., 2021): of n samples of a problem, c of
  them right, the unbiased estimate is 1 - C(n - c, k) / C(n, k). Oracle: all subsets, by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import combinations

import numpy as np

from verdict_cli.stats.columns.column import MISSING, Floats, Ints, RowMask
from verdict_cli.stats.metrics import confusion, numbers
from verdict_cli.stats.metrics.numbers import ordinal_alpha
from verdict_cli.stats.metrics.statistic import (
    Statistic,
    Statistics,
    TransformedStatistic,
    WeightedValues,
    proportion,
    ratio,
    statistic_of,
    undefined_statistic,
)

CONSTANT_VOTES = "all votes are the same, so chance agreement is certain"
NO_PAIR = "no two judges have rows in common on which they give more than one label"
CONSTANT_RATINGS = "no two judges have errors that vary, or their errors cancel out"
NO_ORDER = "votes of more than two labels have no correlation: give a `target`, or numbers"


def panel_statistics(
    votes: Sequence[Ints], values: Sequence[Floats], errors: Sequence[Floats] | None, nominal: bool
) -> Statistics:
    """The metrics of the judges' votes at each atom.

    `votes` are codes of labels, MISSING where there is none, `values` the same as numbers, `errors` what is correlated,
    NaN where it is unknown; None where nothing can be.
    """
    codes = np.stack(votes, axis=1)
    alpha, differs = numbers.alpha(values, ordinal=False), None
    if nominal:
        alpha, differs = _nominal_alpha(codes)
    classes = (_first_votes(codes),) if nominal else ()
    varies = () if nominal else tuple(_filled(column) for column in values)
    kappas = [
        _kappa(codes, np.stack(values, axis=1), pair, nominal)
        for pair in combinations(range(len(votes)), 2)
    ]
    statistic = partial(
        statistic_of, differs=differs, classes=classes, varies=varies, labels_count_alike=False
    )
    return {
        "krippendorff_alpha": statistic("krippendorff_alpha", alpha, CONSTANT_VOTES),
        "pairwise_kappa": statistic(
            "pairwise_kappa", lambda weights: _mean(kappas, weights), NO_PAIR
        ),
        **_errors_together(errors, len(votes), varies),
    }


def _first_votes(codes: Ints) -> Floats:
    """The first vote of each row, for how often each label occurs."""
    first: Floats = codes[np.arange(len(codes)), (codes != MISSING).argmax(axis=1)].astype(
        np.float64
    )
    return first


def _filled(values: Floats) -> Floats:
    """The values with their median where there is none."""
    finite = values[np.isfinite(values)]
    return np.where(np.isfinite(values), values, np.median(finite) if len(finite) else 0.0)


def _mean(formulas: Sequence[WeightedValues], weights: Floats) -> Floats:
    """The mean of the pairs that are defined."""
    values = np.stack([formula(weights) for formula in formulas])
    finite = np.isfinite(values)
    return ratio(np.where(finite, values, 0.0).sum(axis=0), finite.sum(axis=0).astype(float))


def _uses(codes: Ints) -> Floats:
    """How often each label is used at each atom."""
    labels = np.unique(codes[codes != MISSING])
    return np.stack([(codes == label).sum(axis=1) for label in labels], axis=1).astype(np.float64)


def _nominal_alpha(codes: Ints) -> tuple[WeightedValues, Floats]:
    """Alpha with nominal distances, and the share of each row's pairs of votes that differ."""
    uses = _uses(codes)
    votes = uses.sum(axis=1)
    differing = votes**2 - (uses**2).sum(axis=1)
    within = ratio(differing, votes - 1)

    def alpha(weights: Floats) -> Floats:
        total, label_uses = weights @ votes, weights @ uses
        return 1 - ratio((total - 1) * (weights @ within), total**2 - (label_uses**2).sum(axis=1))

    return alpha, ratio(differing, votes * (votes - 1))


def _kappa(codes: Ints, values: Floats, pair: tuple[int, int], nominal: bool) -> WeightedValues:
    both = np.flatnonzero((codes[:, list(pair)] != MISSING).all(axis=1))
    first, second = codes[both][:, pair[0]], codes[both][:, pair[1]]
    if not nominal:
        weighted = numbers.number_pairs(values[both, pair[0]], values[both, pair[1]])[
            "weighted_kappa"
        ].at
        return lambda weights: weighted(weights[:, both])
    labels = np.union1d(first, second)
    table = confusion.ConfusionTable(
        np.searchsorted(labels, first), np.searchsorted(labels, second), len(labels)
    )
    return lambda weights: confusion.cohen_kappa(table(weights[:, both]))


def _errors_together(
    errors: Sequence[Floats] | None, judges: int, varies: tuple[Floats, ...]
) -> Statistics:
    """The mean correlation of two judges' errors, and how many independent judges the panel is worth by it."""
    if errors is None:
        return dict.fromkeys(
            ("error_correlation", "effective_judges"), undefined_statistic(NO_ORDER)
        )
    correlations = [_correlation(*pair) for pair in combinations(errors, 2)]
    together = statistic_of(
        "error_correlation",
        lambda weights: _mean(correlations, weights),
        CONSTANT_RATINGS,
        varies=varies,
    )

    def effective(weights: Floats) -> Floats:
        worth = 1 + (judges - 1) * _mean(correlations, weights)
        return np.where(
            worth > MOST_NEGATIVE, ratio(np.full(len(weights), float(judges)), worth), np.nan
        )

    def worth_of(correlation: float) -> float:
        return judges / (1 + (judges - 1) * max(correlation, 0.0))

    transformed = TransformedStatistic(together, worth_of)
    return {
        "error_correlation": together,
        "effective_judges": statistic_of(
            "effective_judges", effective, CONSTANT_RATINGS, transformed=transformed
        ),
    }


def _correlation(first: Floats, second: Floats) -> WeightedValues:
    both = np.flatnonzero(np.isfinite(first) & np.isfinite(second))
    pearson = numbers.number_pairs(first[both], second[both])["pearson"].at
    return lambda weights: pearson(weights[:, both])


ONE_VOTE = "all votes are the same, or no row has every vote"
NO_NUMBERS = "it needs numbers, and the votes are labels"
NO_SPREAD = "the rows' votes do not vary, or no two rows have every vote"
MOST_NEGATIVE = 1e-9


def rater_statistics(
    votes: Sequence[Ints], values: Sequence[Floats], k: int, *, numeric: bool
) -> Statistics:
    """The metrics of the judges' votes at each atom: codes of labels, and the same as numbers, NaN where they are none."""
    numbers = np.stack(values, axis=1)
    statistics = {
        "fleiss_kappa": fleiss_kappa(np.stack(votes, axis=1)),
        "pass_at_k": pass_at_k_of_panel(numbers, k),
    }
    if numeric:
        return (
            statistics | intraclass_correlations(numbers) | {"ordinal_alpha": ordinal_alpha(values)}
        )
    of_numbers = ("icc", "icc_k", "ordinal_alpha")
    return statistics | dict.fromkeys(of_numbers, undefined_statistic(NO_NUMBERS))


def fleiss_kappa(codes: Ints) -> Statistic:
    """Fleiss' kappa of the votes (atoms, judges), MISSING where there is none."""
    whole = (codes != MISSING).all(axis=1).astype(float)
    judges, uses = codes.shape[1], _uses(codes)
    agree = ((uses**2).sum(axis=1) - judges) / (judges * (judges - 1))

    def value_of(weights: Floats) -> Floats:
        counted = weights * whole
        rows = counted.sum(axis=1)
        shares = ratio(counted @ uses, judges * rows[:, None])
        chance = (shares**2).sum(axis=1)
        return ratio(ratio(counted @ agree, rows) - chance, 1 - chance)

    return statistic_of(
        "fleiss_kappa",
        value_of,
        ONE_VOTE,
        differs=(1 - agree) * whole,
        classes=(_first_votes(codes),),
        labels_count_alike=False,
    )


def intraclass_correlations(values: Floats) -> Statistics:
    """ICC(2,1) and ICC(2,k) of the votes (atoms, judges), NaN where there is none: two-way, random judges, absolute
    agreement."""
    whole: RowMask = np.logical_and.reduce(np.isfinite(values), axis=1)
    judges = values.shape[1]
    middle = values[whole].mean() if whole.any() else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        centred = np.where(whole[:, None], values - middle, 0.0)
        means, squares = centred.mean(axis=1), (centred**2).sum(axis=1)

    def icc(weights: Floats) -> Floats:
        counted = weights * whole
        n = counted.sum(axis=1)
        columns = ratio(counted @ centred, n[:, None])
        whole_mean = columns.mean(axis=1)
        of_rows = judges * (counted @ means**2 - n * whole_mean**2)
        of_judges = n * (columns**2).sum(axis=1) - judges * n * whole_mean**2
        rest = counted @ squares - judges * n * whole_mean**2 - of_rows - of_judges
        rows, between = ratio(of_rows, n - 1), of_judges / (judges - 1)
        error = np.maximum(ratio(rest, (n - 1) * (judges - 1)), 0.0)
        return ratio(rows - error, rows + (judges - 1) * error + judges * ratio(between - error, n))

    single = statistic_of("icc", icc, NO_SPREAD, varies=tuple(centred.T))

    def of_mean(correlation: float) -> float:
        return float(judges * correlation / max(1 + (judges - 1) * correlation, MOST_NEGATIVE))

    def icc_k(weights: Floats) -> Floats:
        single_value = icc(weights)
        worth = 1 + (judges - 1) * single_value
        return np.where(worth > MOST_NEGATIVE, ratio(judges * single_value, worth), np.nan)

    return {
        "icc": single,
        "icc_k": statistic_of(
            "icc_k", icc_k, NO_SPREAD, transformed=TransformedStatistic(single, of_mean)
        ),
    }


TOO_FEW_SAMPLES = "no problem has {k} samples that are true or false, or 0 or 1"


def pass_at_k(samples: Floats, k: int) -> float:
    """The estimate of one problem from its samples, 1 for right and 0 for wrong; NaN with fewer than k, or other values."""
    n, wrong = len(samples), int((samples == 0).sum())
    if n < k or wrong + int((samples == 1).sum()) < n:
        return math.nan
    return 1 - math.comb(wrong, k) / math.comb(n, k)


def pass_at_k_of_panel(votes: Floats, k: int) -> Statistic:
    """The mean over rows whose votes (atoms, judges) are the samples, NaN where a vote is missing."""
    estimates = np.array([pass_at_k(row[np.isfinite(row)], k) for row in votes])
    finite = np.isfinite(estimates).astype(float)
    values = np.nan_to_num(estimates)

    undefined = TOO_FEW_SAMPLES.format(k=k)
    if np.isin(values, (0.0, 1.0)).all():
        return proportion("pass_at_k", values * finite, finite, undefined)

    def value_of(weights: Floats) -> Floats:
        return ratio(weights @ (values * finite), weights @ finite)

    return statistic_of("pass_at_k", value_of, undefined, varies=(values,), mean_of=values)
