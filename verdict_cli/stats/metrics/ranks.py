"""Metrics of order: Spearman's and Kendall's coefficients on numbers, and on rankings row by row. Oracle: scipy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.metrics.statistic import (
    IDENTITY,
    Statistic,
    Statistics,
    Sums,
    mean_of_values,
    proportion,
    ratio,
    statistic_of,
    undefined_statistic,
)

MOST_ATOMS = 5000
"""More distinct pairs than this are not compared each with each: the matrix of signs would take over 100 MB."""
CONSTANT_RANKS = "the predictions or the targets are all the same value"


class Midranks:
    """Midranks of a column in each resample, around their mean."""

    def __init__(self, values: Floats) -> None:
        self._sums = Sums(values)

    def __call__(self, weights: Floats) -> Floats:
        sums = self._sums(weights)
        middle = np.cumsum(sums, axis=1) - sums / 2 - sums.sum(axis=1, keepdims=True) / 2
        ranks: Floats = middle[:, self._sums.inverse]
        return ranks

    def ties(self, weights: Floats) -> Floats:
        """The number of pairs that are tied in this column."""
        sums = self._sums(weights)
        tied: Floats = (sums * (sums - 1)).sum(axis=1) / 2
        return tied


def rank_pairs(x: Floats, y: Floats) -> Statistics:
    """Spearman's rho and Kendall's tau-b of two columns of numbers at each atom."""
    rx, ry = Midranks(x), Midranks(y)

    def spearman(weights: Floats) -> Floats:
        a, b = rx(weights), ry(weights)
        weighted = weights * a
        both, aa = (weighted * b).sum(axis=1), (weighted * a).sum(axis=1)
        weighted = np.multiply(weights, b, out=weighted)
        return np.clip(ratio(both, np.sqrt(aa * (weighted * b).sum(axis=1))), -1, 1)

    many = len(x) > MOST_ATOMS
    signs = None if many else _signs(x) * _signs(y)

    def kendall(weights: Floats) -> Floats:
        if signs is None:
            return np.array([_kendall_of_rows(x, y, row) for row in weights])
        n = weights.sum(axis=1)
        exact = (
            signs if n.max(initial=0) < 2**24 else signs.astype(np.float64)
        )  # float32 counts to 2**24 exactly
        balance = ((weights.astype(exact.dtype) @ exact).astype(np.float64) * weights).sum(
            axis=1
        ) / 2
        total = n * (n - 1) / 2
        return np.clip(
            ratio(balance, np.sqrt((total - rx.ties(weights)) * (total - ry.ties(weights)))), -1, 1
        )

    return {
        "spearman": statistic_of("spearman", spearman, CONSTANT_RANKS, varies=(x, y)),
        "kendall": statistic_of("kendall", kendall, CONSTANT_RANKS, pairwise=True, varies=(x, y)),
    }


def _signs(values: Floats) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    greater = (values[:, None] > values[None, :]).astype(np.float32)
    return greater - greater.T


def _kendall_of_rows(x: Floats, y: Floats, weights: Floats) -> float:
    from scipy.stats import kendalltau

    times = weights.astype(np.int64)
    a, b = np.repeat(x, times), np.repeat(y, times)
    if len(a) < 2 or a.min() == a.max() or b.min() == b.max():
        return float("nan")
    return float(kendalltau(a, b).statistic)


OF_ORDER = ("spearman", "kendall", "top1", "kendall_distance", "ndcg")
NO_RANKING = "a row without a prediction has no order, so `missing: wrong` has no meaning here"


def rankings(targets: Sequence[Any], predictions: Sequence[Any]) -> Statistics:
    """The mean coefficients of each row's two rankings at each atom, how often they and their first items are the same.

    A ranking lists items from first to last. All are undefined where two rankings are not of the same items;
    where one is missing, all but the accuracy, in which it is wrong.
    """
    pairs = [*zip(targets, predictions, strict=True)]
    same = np.array([target == prediction for target, prediction in pairs], float)
    accuracy = {"accuracy": proportion("accuracy", same, np.ones(len(same)))}
    of_rows = [_coefficients(*pair) for pair in pairs]
    if None in of_rows:
        target, prediction = pairs[of_rows.index(None)]
        if prediction is None:
            return accuracy | dict.fromkeys(OF_ORDER, undefined_statistic(NO_RANKING))
        why = f"{prediction} and {target} are not two rankings of the same items"
        return dict.fromkeys(("accuracy", *OF_ORDER), undefined_statistic(why))
    rho, tau, gain, first = np.array(of_rows, float).reshape(-1, 4).T
    return accuracy | {
        "spearman": _mean_of_rows("spearman", rho),
        "kendall": _mean_of_rows("kendall", tau),
        "top1": proportion("top1", first, np.ones(len(first))),
        "kendall_distance": _mean_of_rows("kendall_distance", (1 - tau) / 2),
        "ndcg": _mean_of_rows("ndcg", gain),
    }


def _mean_of_rows(name: str, values: Floats) -> Statistic:
    return statistic_of(
        name,
        mean_of_values(values),
        interval="skewness",
        scale=IDENTITY,
        varies=(values,),
        mean_of=values,
    )


def _coefficients(target: Any, prediction: Any) -> tuple[float, float, float, bool] | None:
    """Spearman's and Kendall's coefficient and NDCG of two rankings without ties, and whether they begin alike; None where they
    cannot be compared.

    NDCG (Järvelin and Kekäläinen, 2002): the target's last item gains 0, the one before it 1, and so on.
    """
    if not isinstance(target, list) or not isinstance(prediction, list):
        return None
    wanted, texts = ([repr(item) for item in ranking] for ranking in (target, prediction))
    k = len(wanted)
    if k < 2 or len(set(wanted)) < k or sorted(wanted) != sorted(texts):
        return None
    order: Ints = np.array([texts.index(item) for item in wanted])
    squared_distance = float(((order - np.arange(k)) ** 2).sum())
    discordant = sum(int((order[index + 1 :] < order[index]).sum()) for index in range(k))
    gains = np.arange(k - 1, -1, -1)
    ndcg = float((gains / np.log2(order + 2)).sum() / (gains / np.log2(np.arange(k) + 2)).sum())
    rho = 1 - 6 * squared_distance / (k * (k**2 - 1))
    return rho, 1 - 4 * discordant / (k * (k - 1)), ndcg, wanted[0] == texts[0]
