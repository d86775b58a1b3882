"""The strength of each system by one metric, and how it changes where items are left out.

Every estimate comes with its leave-out replicates (the jackknife over items, in at most 400 random groups), since systems
that answer the same items vary together: a difference of two systems is then a paired one.

- Mean score: of the system's own scored rows. With `control`, least squares of the score on the system and on the
  control's distance from its mean over the item's answers.
- Bradley-Terry (1952): maximum likelihood, a tie as half a win of each side. With `control`, a logistic regression that also
  has the difference of the two answers; the strengths are then those at equal values.
- Win rate: the share of battles won, ties as one half. With `control`, the mean probability of winning its battles at
  equal values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from verdict_cli.features.rank.arena.battles import Battles, Contests, ScoredAnswers
from verdict_cli.stats.columns.column import Floats, Ints

_MOST_STEPS = 100
_CLOSE = 1e-12


@dataclass(frozen=True, slots=True)
class Strengths:
    """The value of each system, and of each control's slope. `replicates` are those without each group, (groups, values).

    `counts` are the rows or battles of each system, `seen` whether a system is in a group, (groups, systems). `reason` says
    why there are no values.
    """

    values: Floats
    replicates: Floats
    counts: Floats
    seen: NDArray[np.bool_]
    reason: str = ""


def mean_scores(contests: Contests, group: Ints) -> Strengths:
    """The mean score of each system; `group` is that of each item."""
    answers = contests.answers
    assert answers is not None
    count, groups = len(contests.systems), int(group.max(initial=-1)) + 1
    of = group[answers.item]
    shape = (groups, count)
    cell = of * count + answers.system
    n = np.bincount(cell, minlength=groups * count).reshape(shape).astype(np.float64)
    if contests.controls:
        return _regression(answers, contests, of, n)
    sums = np.bincount(cell, weights=answers.score, minlength=groups * count).reshape(shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        replicates = (sums.sum(axis=0) - sums) / (n.sum(axis=0) - n)
        return Strengths(sums.sum(axis=0) / n.sum(axis=0), replicates, n.sum(axis=0), n > 0)


def _regression(answers: ScoredAnswers, contests: Contests, of: Ints, n: Floats) -> Strengths:
    """Least squares of the score on the systems and on each control, centred within the item."""
    sizes = np.bincount(answers.item, minlength=contests.items)
    centred = np.column_stack(
        [
            column
            - (np.bincount(answers.item, weights=column, minlength=contests.items) / np.maximum(sizes, 1))[answers.item]
            for column in answers.control.T
        ]
    )
    count, width = n.shape[1], n.shape[1] + centred.shape[1]
    scale = np.maximum(centred.std(axis=0), 1e-300)
    design = np.concatenate([np.eye(count)[answers.system], centred / scale], axis=1)
    products, sums = np.zeros((n.shape[0], width, width)), np.zeros((n.shape[0], width))
    for each in range(n.shape[0]):
        here = of == each
        products[each], sums[each] = design[here].T @ design[here], design[here].T @ answers.score[here]
    total, right = products.sum(axis=0), sums.sum(axis=0)
    if np.linalg.matrix_rank(total) < width:
        return _undefined("a control does not vary within items", n)
    values = np.linalg.solve(total, right)
    replicates = np.einsum("gij,gj->gi", np.linalg.pinv(total - products, hermitian=True), right - sums)
    values[count:] /= scale
    replicates[:, count:] /= scale
    return Strengths(values, replicates, n.sum(axis=0), n > 0)


def win_rates(contests: Contests, group: Ints) -> Strengths:
    """The share of its battles that each system wins."""
    battles, count, groups = contests.battles, len(contests.systems), int(group.max(initial=-1)) + 1
    wins, n = battle_counts(battles, count, group, groups)
    seen = n.sum(axis=2) > 0
    if count < 2:
        return Strengths(np.empty(0), np.empty((0, 0)), n.sum(axis=(0, 2)), seen, "there is one system")
    if contests.controls:
        strengths = bradley_terry(contests, group)
        if strengths.reason:
            return strengths
        return Strengths(
            _at_equal(strengths.values[:count], n.sum(axis=0)),
            np.stack(
                [
                    _at_equal(each[:count], n.sum(axis=0) - left)
                    for each, left in zip(strengths.replicates, n, strict=True)
                ]
            ),
            strengths.counts,
            seen,
        )
    won, met = wins.sum(axis=2), n.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        replicates = (won.sum(axis=0) - won) / (met.sum(axis=0) - met)
        return Strengths(won.sum(axis=0) / met.sum(axis=0), replicates, met.sum(axis=0), seen)


def _at_equal(strengths: Floats, met: Floats) -> Floats:
    """The mean probability of each system to win its battles, from strengths alone."""
    chances = expit(strengths[:, None] - strengths[None, :])
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = (chances * met).sum(axis=1) / met.sum(axis=1)
    return found


def battle_counts(battles: Battles, count: int, group: Ints, groups: int) -> tuple[Floats, Floats]:
    """How often each system won against each other and met it, (groups, systems, systems)."""
    of = group[battles.item]
    size, shape = groups * count * count, (groups, count, count)
    there = (of * count + battles.first) * count + battles.second
    back = (of * count + battles.second) * count + battles.first
    won: Floats = np.bincount(there, weights=battles.share * battles.weight, minlength=size).astype(np.float64)
    won += np.bincount(back, weights=(1 - battles.share) * battles.weight, minlength=size)
    met: Floats = np.bincount(there, weights=battles.weight, minlength=size).astype(np.float64)
    met += np.bincount(back, weights=battles.weight, minlength=size)
    return won.reshape(shape), met.reshape(shape)


def bradley_terry(contests: Contests, group: Ints) -> Strengths:
    """Maximum likelihood strengths, in log-odds against the average system.

    The replicates are one Newton step from them without each group: the data of a group may be all that connects a system.
    """
    battles, count, groups = contests.battles, len(contests.systems), int(group.max(initial=-1)) + 1
    wins, met = battle_counts(battles, count, group, groups)
    seen, counts = met.sum(axis=2) > 0, met.sum(axis=(0, 2))
    if reason := degenerate(contests.systems, wins.sum(axis=0), met.sum(axis=0)):
        return Strengths(np.empty(0), np.empty((0, 0)), counts, seen, reason)
    if not contests.controls:
        # Equal battles of a group are one row, which a fit without a control cannot distinguish.
        at, first, second = np.nonzero(np.triu(met))
        share = wins[at, first, second] / met[at, first, second]
        data = Battles(first, second, share, at, np.empty((len(at), 0)), met[at, first, second])
    else:
        data = Battles(
            battles.first, battles.second, battles.share, group[battles.item], battles.control, battles.weight
        )
    spread = np.maximum(np.sqrt((data.control**2).mean(axis=0)), 1e-300)
    model = _Logistic(data, count, groups, data.control / spread)
    fitted = model.fit()
    if fitted is None:
        return Strengths(np.empty(0), np.empty((0, 0)), counts, seen, "a control separates the winners: no fit exists")
    gradients, hessians = model.by_group(fitted)
    inverse = np.linalg.pinv(hessians.sum(axis=0) - hessians, rcond=1e-10, hermitian=True)
    replicates = fitted - np.einsum("gij,gj->gi", inverse, gradients)
    values = fitted.copy()
    for each in (values[None, :], replicates):
        each[:, :count] -= each[:, :count].mean(axis=1, keepdims=True)
        each[:, count:] /= spread
    return Strengths(values, replicates, counts, seen)


@dataclass(frozen=True)
class _Logistic:
    """The logistic regression of battles on the two systems and on controls. `data.item` is each battle's group."""

    data: Battles
    count: int
    groups: int
    control: Floats

    def chances(self, at: Floats) -> Floats:
        """The probability that the first system wins each battle."""
        strengths = at[: self.count]
        return expit(strengths[self.data.first] - strengths[self.data.second] + self.control @ at[self.count :])

    def fit(self) -> Floats | None:
        """Newton's method with halved steps; None where it does not converge."""
        at = np.zeros(self.count + self.control.shape[1])
        loss = self._loss(at)
        for _ in range(_MOST_STEPS):
            gradient, hessian = self._sums(at)
            step = np.linalg.pinv(hessian, rcond=1e-12, hermitian=True) @ gradient
            size = 1.0
            while (moved := self._loss(at + size * step)) > loss + _CLOSE and size > 1e-10:
                size /= 2
            at, loss = at + size * step, moved
            if np.abs(at).max(initial=0) > 40:
                return None
            if np.abs(step).max(initial=0) < 1e-10:
                return at
        return None

    def _loss(self, at: Floats) -> float:
        strengths = at[: self.count]
        odds = strengths[self.data.first] - strengths[self.data.second] + self.control @ at[self.count :]
        return float(self.data.weight @ (np.logaddexp(0, odds) - self.data.share * odds))

    def _design(self) -> csr_array:
        n = len(self.data.first)
        rows = np.tile(np.arange(n), 2)
        signs = np.repeat([1.0, -1.0], n)
        systems = csr_array((signs, (rows, np.concatenate([self.data.first, self.data.second]))), shape=(n, self.count))
        if not self.control.shape[1]:
            return systems
        from scipy.sparse import hstack

        return csr_array(hstack([systems, csr_array(self.control)]))

    def _sums(self, at: Floats) -> tuple[Floats, Floats]:
        design, chances = self._design(), self.chances(at)
        gradient = design.T @ (self.data.weight * (self.data.share - chances))
        curved = design.multiply((self.data.weight * chances * (1 - chances))[:, None])
        return np.asarray(gradient), np.asarray((design.T @ curved).todense())

    def by_group(self, at: Floats) -> tuple[Floats, Floats]:
        """The gradient and the information of each group's battles."""
        design, chances = self._design(), self.chances(at)
        residual = self.data.weight * (self.data.share - chances)
        bend = self.data.weight * chances * (1 - chances)
        width = len(at)
        gradients, hessians = np.zeros((self.groups, width)), np.zeros((self.groups, width, width))
        order = np.argsort(self.data.item, kind="stable")
        starts = np.searchsorted(self.data.item[order], np.arange(self.groups + 1))
        for each in range(self.groups):
            here = order[starts[each] : starts[each + 1]]
            rows = np.asarray(design[here].todense())
            gradients[each] = rows.T @ residual[here]
            hessians[each] = rows.T @ (rows * bend[here, None])
        return gradients, hessians


def degenerate(systems: tuple[str, ...], wins: Floats, met: Floats) -> str:
    """Why no finite Bradley-Terry strengths exist, in words; "" where they do (Ford, 1957).

    They exist where each system has, over a chain of others, both beaten and been beaten by every other one.
    """
    if len(systems) < 2:
        return "there is one system"
    parts, part = connected_components((met > 0).astype(np.float64), directed=False)
    if parts > 1:
        least = np.argmin(np.bincount(part))
        alone = _named([name for name, each in zip(systems, part, strict=True) if each == least])
        return f"the battles do not connect {alone} with the other systems: add battles between them"
    groups, group = connected_components((wins > 0).astype(np.float64), directed=True, connection="strong")
    if groups == 1:
        return ""
    for each in np.argsort(np.bincount(group), kind="stable"):  # the fewest systems are the shortest explanation
        own = group == each
        names = _named([name for name, mine in zip(systems, own, strict=True) if mine])
        if not wins[~own][:, own].any():
            return f"{names} never lost to another system: the strength is infinite; see `win_rate`, or add battles"
        if not wins[own][:, ~own].any():
            return f"{names} never won against another system: the strength is infinite; see `win_rate`, or add battles"
    return "the wins do not connect all systems"


def _named(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _undefined(reason: str, n: Floats) -> Strengths:
    return Strengths(np.empty(0), np.empty((0, 0)), n.sum(axis=0), n > 0, reason)
