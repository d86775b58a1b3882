"""Metrics of several judges over the rows that all of them judged: Fleiss' kappa and intraclass correlations.

Oracles: statsmodels for `fleiss_kappa`, the example of Shrout and Fleiss (1979) for `icc` and `icc_k`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from verdict_cli.stats.columns.column import MISSING, Floats, Ints
from verdict_cli.stats.metrics.ordinal import ordinal_alpha
from verdict_cli.stats.metrics.pass_at_k import of_panel
from verdict_cli.stats.metrics.statistic import FISHER, Statistic, TransformedStatistic, ratio, statistic_of

ONE_VOTE = "all votes are the same, or no row has every vote"
NO_NUMBERS = "it needs numbers, and the votes are labels"
NO_SPREAD = "the rows' votes do not vary, or no two rows have every vote"
MOST_NEGATIVE = 1e-9
PanelRows = npt.NDArray[np.bool_]


def rater_statistics(votes: Sequence[Ints], values: Sequence[Floats], k: int, *, numeric: bool) -> dict[str, Statistic]:
    """The metrics of the judges' votes at each atom: codes of labels, and the same as numbers, NaN where they are none."""
    numbers = np.stack(values, axis=1)
    found = {"fleiss_kappa": fleiss_kappa(np.stack(votes, axis=1)), "pass_at_k": of_panel(numbers, k)}
    if numeric:
        return found | intraclass_correlations(numbers) | {"ordinal_alpha": ordinal_alpha(values)}
    none = Statistic(lambda weights: np.full(len(weights), np.nan), NO_NUMBERS)
    return found | dict.fromkeys(("icc", "icc_k", "ordinal_alpha"), none)


def fleiss_kappa(codes: Ints) -> Statistic:
    """Fleiss' kappa of the votes (atoms, judges), MISSING where there is none."""
    whole = (codes != MISSING).all(axis=1).astype(float)
    judges = codes.shape[1]
    found = np.unique(codes[codes != MISSING])
    uses = np.stack([(codes == label).sum(axis=1) for label in found], axis=1).astype(float) if len(found) else None
    if uses is None:
        return statistic_of("fleiss_kappa", lambda weights: np.full(len(weights), np.nan), ONE_VOTE)
    agree = ((uses**2).sum(axis=1) - judges) / (judges * (judges - 1))

    def at(weights: Floats) -> Floats:
        counted = weights * whole
        rows = counted.sum(axis=1)
        shares = ratio(counted @ uses, judges * rows[:, None])
        chance = (shares**2).sum(axis=1)
        return ratio(ratio(counted @ agree, rows) - chance, 1 - chance)

    first = np.where(whole > 0, codes[:, 0], codes[whole > 0, 0][0] if whole.any() else 0).astype(float)
    return statistic_of(
        "fleiss_kappa", at, ONE_VOTE, differs=(1 - agree) * whole, classes=(first,), labels_count_alike=False
    )


def intraclass_correlations(values: Floats) -> dict[str, Statistic]:
    """ICC(2,1) and ICC(2,k) of the votes (atoms, judges), NaN where there is none: two-way, random judges, absolute
    agreement."""
    whole: PanelRows = np.logical_and.reduce(np.isfinite(values), axis=1)
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

    single = statistic_of("icc", icc, NO_SPREAD, varies=(np.where(whole, means, 0.0),))

    def of_mean(correlation: float) -> float:
        return float(judges * correlation / max(1 + (judges - 1) * correlation, MOST_NEGATIVE))

    def icc_k(weights: Floats) -> Floats:
        one = icc(weights)
        worth = 1 + (judges - 1) * one
        return np.where(worth > MOST_NEGATIVE, ratio(judges * one, worth), np.nan)

    return {
        "icc": single,
        "icc_k": statistic_of(
            "icc_k", icc_k, NO_SPREAD, scale=FISHER, transformed=TransformedStatistic(single, of_mean)
        ),
    }
