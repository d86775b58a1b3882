"""The scored answers or battles of a leaderboard, and the strength of each system by one metric.

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

import math
from array import array
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from verdict_cli.errors import RowError
from verdict_cli.features.rank.arena_keys import ArenaKeys, arena_keys, control_names
from verdict_cli.features.rank.contest_rows import ContestRows, WinnerError, Winners
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.stats.columns.column import Floats, Ints, KeyBuilder, disambiguate_labels
from verdict_cli.stats.columns.saved_rows import SKIPPED, saved_rows
from verdict_cli.stats.intervals.interval_methods import normal
from verdict_cli.storage.tables.reader import declared_types


class ScoredAnswers(Struct, frozen=True):
    """One row for each scored answer; `control` are the values to hold equal, (rows, controls)."""

    system: Ints
    item: Ints
    score: Floats
    control: Floats


class Battles(Struct, frozen=True):
    """One row for each battle: `share` is the first system's part of the win, `control` the difference of first and
    second, and `weight` how many equal battles the row stands for."""

    first: Ints
    second: Ints
    share: Floats
    item: Ints
    control: Floats
    weight: Floats


class Contests(Struct, frozen=True):
    """What a leaderboard is made from. `rows` counts those that `where` selects; of them `missing` have no score or winner.

    `unreadable` has an example of a row that did not fail and yet has none. `bounds` are the ends of the score's scale.
    """

    systems: tuple[str, ...]
    items: int
    answers: ScoredAnswers | None
    battles: Battles
    controls: tuple[str, ...]
    rows: int
    missing: int
    unreadable: str = ""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    item_labels: tuple[Any, ...] = ()


def read_contests(name: str, evaluation: Evaluation, results: Path) -> Contests:
    """The contests of one evaluation. DataError for a row whose system, item or control cannot be computed."""
    keys = arena_keys(evaluation)
    assert keys is not None
    reader = _Reader(name, keys, evaluation.where, results)
    shares = reader.read()
    codes = reader.systems.keys()
    systems = tuple(disambiguate_labels(codes.labels))
    items = reader.items.keys()
    at = items.codes.astype(np.int64)
    value = np.array(shares, dtype=np.float64)
    control = np.array(reader.sizes, dtype=np.float64).reshape(len(value), len(keys.control))
    rest = (control_names(keys), reader.rows, reader.missing, reader.unreadable)
    if keys.winner is not None:
        pairs = codes.codes.astype(np.int64).reshape(-1, 2)
        battles = Battles(pairs[:, 0], pairs[:, 1], value, at, control, np.ones(len(value)))
        return Contests(systems, len(items.labels), None, battles, *rest, item_labels=items.labels)
    answers = ScoredAnswers(codes.codes.astype(np.int64), at, value, control)
    battles = battles_of_scores(answers, len(systems), len(items.labels))
    return Contests(systems, len(items.labels), answers, battles, *rest, bounds=reader.bounds())


class _Reader:
    """Reads the rows of one evaluation."""

    def __init__(self, name: str, keys: ArenaKeys, where: str | None, results: Path) -> None:
        self.systems, self.items = KeyBuilder(), KeyBuilder()
        self.sizes = array("d")
        self.values = (array("d"), array("d"), array("d"))
        self.rows = self.missing = 0
        self.unreadable = ""
        self.results = results
        self.contests = ContestRows(name, keys, where, str(results))
        self.winners = (
            Winners(self.contests.expressions["winner"]) if self.contests.battles else None
        )

    def bounds(self) -> tuple[float, float]:
        """The ends of the declared scale of the score, else infinite."""
        match self.contests.expressions["score"].path:
            case ("output", str(column)):
                declared = declared_types(self.results).get(f"output.{column}")
                return (declared.bounds if declared else None) or (-math.inf, math.inf)
        return (-math.inf, math.inf)

    def read(self) -> array[float]:
        """Read all rows that count. Returns each one's score, or the first system's share of the win. Raises DataError."""
        paths = [path for expression in self.contests.every() for path in expression.paths]
        for row, failed, values in saved_rows(self.results, paths):
            if not self.contests.selects(row, values):
                continue
            self.rows += 1
            if failed or values.get(SKIPPED):
                self.missing += 1
                continue
            self._row(row, values)
        if self.winners is None or not self.winners.total:
            return self.values[0]
        try:
            return self.values[self.winners.reading()]
        except WinnerError as error:
            raise self.contests.winner_error(error) from None

    def _row(self, row: int, values: Mapping[str, Any]) -> None:
        systems = self.contests.systems(row, values)
        try:
            shares = self._shares(row, systems, values)
        except RowError as error:
            self.missing += 1
            self.unreadable = self.unreadable or f"row {row}: {error.message}"
            return
        control = self.contests.control(row, values)
        for system in systems:
            self.systems.add(system)
        self.items.add(self.contests.item(row, values))
        for column, share in zip(self.values, shares, strict=False):
            column.append(share)
        self.sizes.extend(control)

    def _shares(self, row: int, systems: list[Any], values: Mapping[str, Any]) -> tuple[float, ...]:
        """The score, or the share of the win by each reading. RowError for a row without one."""
        if self.winners is None:
            return (_number(self.contests.expressions["score"], values),)
        expression = self.contests.expressions["winner"]
        winner = expression(values)
        if winner is None:
            raise RowError(f"`{expression.text}` is null")
        return self.winners.add(row, systems, winner)


def _number(expression: Expression, values: Mapping[str, Any]) -> float:
    value = expression(values)
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    raise RowError(f"`{expression.text}` gives {value!r:.80}, not a number")


def battles_of_scores(answers: ScoredAnswers, systems: int, items: int) -> Battles:
    """A battle for each item and each two systems with a score there: the higher score wins, equal ones share.

    Several scores of one system for one item count as their mean.
    """
    cell = answers.item * systems + answers.system
    size = items * systems
    counts = np.bincount(cell, minlength=size)

    def means(column: Floats) -> Floats:
        sums = np.bincount(cell, weights=column, minlength=size)
        mean: Floats = np.divide(sums, counts, out=np.full(size, np.nan), where=counts > 0).reshape(
            items, systems
        )
        return mean

    scores = means(answers.score)
    controls = [means(answers.control[:, index]) for index in range(answers.control.shape[1])]
    parts: list[tuple[Ints, Ints, Floats, Ints, Floats]] = []
    for one, other in combinations(range(systems), 2):
        both = np.flatnonzero(np.isfinite(scores[:, one]) & np.isfinite(scores[:, other]))
        share = (np.sign(scores[both, one] - scores[both, other]) + 1) / 2
        control = (
            np.stack([column[both, one] - column[both, other] for column in controls], axis=1)
            if controls
            else None
        )
        parts.append(
            (
                np.full(len(both), one, dtype=np.int64),
                np.full(len(both), other, dtype=np.int64),
                share,
                both.astype(np.int64),
                np.empty((len(both), 0)) if control is None else control,
            )
        )
    if not parts:
        none = np.empty(0, np.int64)
        return Battles(none, none, np.empty(0), none, np.empty((0, len(controls))), np.empty(0))
    first, second, share, item, control = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    return Battles(first, second, share, item, control, np.ones(len(first)))


_MOST_STEPS = 100
_CLOSE = 1e-12


class Strengths(Struct, frozen=True):
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
    group_of = group[answers.item]
    shape = (groups, count)
    cell = group_of * count + answers.system
    n = np.bincount(cell, minlength=groups * count).reshape(shape).astype(np.float64)
    if contests.controls:
        return _regression(answers, contests, group_of, n)
    sums = np.bincount(cell, weights=answers.score, minlength=groups * count).reshape(shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        replicates = (sums.sum(axis=0) - sums) / (n.sum(axis=0) - n)
        return Strengths(sums.sum(axis=0) / n.sum(axis=0), replicates, n.sum(axis=0), n > 0)


def _regression(answers: ScoredAnswers, contests: Contests, group_of: Ints, n: Floats) -> Strengths:
    """Least squares of the score on the systems and on each control, centred within the item."""
    sizes = np.bincount(answers.item, minlength=contests.items)
    centred = np.column_stack(
        [
            column
            - (
                np.bincount(answers.item, weights=column, minlength=contests.items)
                / np.maximum(sizes, 1)
            )[answers.item]
            for column in answers.control.T
        ]
    )
    count, width = n.shape[1], n.shape[1] + centred.shape[1]
    scale = np.maximum(centred.std(axis=0), 1e-300)
    design = np.concatenate([np.eye(count)[answers.system], centred / scale], axis=1)
    products, sums = np.zeros((n.shape[0], width, width)), np.zeros((n.shape[0], width))
    for index in range(n.shape[0]):
        here = group_of == index
        products[index], sums[index] = (
            design[here].T @ design[here],
            design[here].T @ answers.score[here],
        )
    total, right = products.sum(axis=0), sums.sum(axis=0)
    if np.linalg.matrix_rank(total) < width:
        return _undefined("a control does not vary within items", n)
    values = np.linalg.solve(total, right)
    replicates = np.einsum(
        "gij,gj->gi", np.linalg.pinv(total - products, hermitian=True), right - sums
    )
    values[count:] /= scale
    replicates[:, count:] /= scale
    return Strengths(values, replicates, n.sum(axis=0), n > 0)


def win_rates(contests: Contests, group: Ints) -> Strengths:
    """The share of its battles that each system wins."""
    battles, count, groups = contests.battles, len(contests.systems), int(group.max(initial=-1)) + 1
    wins, n = battle_counts(battles, count, group, groups)
    seen = n.sum(axis=2) > 0
    if count < 2:
        return Strengths(
            np.empty(0), np.empty((0, 0)), n.sum(axis=(0, 2)), seen, "there is one system"
        )
    if contests.controls:
        strengths = bradley_terry(contests, group)
        if strengths.reason:
            return strengths
        return Strengths(
            _at_equal(strengths.values[:count], n.sum(axis=0)),
            np.stack(
                [
                    _at_equal(replicate[:count], n.sum(axis=0) - left)
                    for replicate, left in zip(strengths.replicates, n, strict=True)
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
        rates: Floats = (chances * met).sum(axis=1) / met.sum(axis=1)
    return rates


def battle_counts(battles: Battles, count: int, group: Ints, groups: int) -> tuple[Floats, Floats]:
    """How often each system won against each other and met it, (groups, systems, systems)."""
    group_of = group[battles.item]
    size, shape = groups * count * count, (groups, count, count)
    there = (group_of * count + battles.first) * count + battles.second
    back = (group_of * count + battles.second) * count + battles.first
    won: Floats = np.bincount(there, weights=battles.share * battles.weight, minlength=size).astype(
        np.float64
    )
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
            battles.first,
            battles.second,
            battles.share,
            group[battles.item],
            battles.control,
            battles.weight,
        )
    spread = np.maximum(np.sqrt((data.control**2).mean(axis=0)), 1e-300)
    model = _Logistic(data, count, groups, data.control / spread)
    fitted = model.fit()
    if fitted is None:
        return Strengths(
            np.empty(0),
            np.empty((0, 0)),
            counts,
            seen,
            "a control separates the winners: no fit exists",
        )
    gradients, hessians = model.by_group(fitted)
    inverse = np.linalg.pinv(hessians.sum(axis=0) - hessians, rcond=1e-10, hermitian=True)
    replicates = fitted - np.einsum("gij,gj->gi", inverse, gradients)
    values = fitted.copy()
    for estimates in (values[None, :], replicates):
        estimates[:, :count] -= estimates[:, :count].mean(axis=1, keepdims=True)
        estimates[:, count:] /= spread
    return Strengths(values, replicates, counts, seen)


class _Logistic(Struct, frozen=True):
    """The logistic regression of battles on the two systems and on controls. `data.item` is each battle's group."""

    data: Battles
    count: int
    groups: int
    control: Floats

    def chances(self, at: Floats) -> Floats:
        """The probability that the first system wins each battle."""
        strengths = at[: self.count]
        return expit(
            strengths[self.data.first]
            - strengths[self.data.second]
            + self.control @ at[self.count :]
        )

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
        odds = (
            strengths[self.data.first]
            - strengths[self.data.second]
            + self.control @ at[self.count :]
        )
        return float(self.data.weight @ (np.logaddexp(0, odds) - self.data.share * odds))

    def _design(self) -> csr_array:
        n = len(self.data.first)
        rows = np.tile(np.arange(n), 2)
        signs = np.repeat([1.0, -1.0], n)
        systems = csr_array(
            (signs, (rows, np.concatenate([self.data.first, self.data.second]))),
            shape=(n, self.count),
        )
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
        for index in range(self.groups):
            here = order[starts[index] : starts[index + 1]]
            rows = np.asarray(design[here].todense())
            gradients[index] = rows.T @ residual[here]
            hessians[index] = rows.T @ (rows * bend[here, None])
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
        alone = _named(
            [
                name
                for name, part_of_system in zip(systems, part, strict=True)
                if part_of_system == least
            ]
        )
        return (
            f"the battles do not connect {alone} with the other systems: add battles between them"
        )
    groups, group = connected_components(
        (wins > 0).astype(np.float64), directed=True, connection="strong"
    )
    if groups == 1:
        return ""
    for index in np.argsort(
        np.bincount(group), kind="stable"
    ):  # the fewest systems are the shortest explanation
        own = group == index
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


def largest_errors(covariance: Floats, level: float, draws: int = 10_000) -> tuple[float, float]:
    """The points below which the largest standardised error of single values, and of their differences, is with this
    probability (max-T, by seeded normal draws)."""
    values, vectors = np.linalg.eigh(covariance)
    noise = np.random.default_rng(0).normal(size=(draws, len(values)))
    drawn = noise @ (vectors * np.sqrt(np.maximum(values, 0))).T
    spread = np.diag(covariance)
    largest = np.zeros(draws)
    for one in range(1, len(values)):
        variance = spread[one] + spread[:one] - 2 * covariance[one, :one]
        known = variance > 0
        if known.any():
            away = np.abs(drawn[:, :one] - drawn[:, [one]])[:, known] / np.sqrt(variance[known])
            largest = np.maximum(largest, away.max(axis=1))
    alone = np.abs(drawn / np.sqrt(np.maximum(spread, 1e-300))).max(axis=1)
    return float(np.quantile(alone, level)), max(float(np.quantile(largest, level)), normal(level))
