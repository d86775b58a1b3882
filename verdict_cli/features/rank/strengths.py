"""The scored answers or battles of a leaderboard, and the strength of each system by one metric.

Every estimate comes with its leave-out replicates (the jackknife over items, in at most 400 random groups), since systems
that answer the same items vary together: a difference of two systems is then a paired one.

- Mean score: of the system's own scored rows. With `control`, least squares of the score on the system and on the
  control's distance from its mean over the item's answers.
- Bradley-Terry (1952): the most probable strengths with a normal prior, a tie as half a win of each side. With `control`, a
  logistic regression that also has the difference of the two answers; the strengths are then those at equal values. Of more
  than two, a choice is Plackett and Luce's (Luce, 1959; Plackett, 1975): `fit_strengths` is the one fit of all contests.
- Win rate: the share of battles won, ties as one half. With `control`, the mean probability of winning its battles at
  equal values.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, logsumexp, softmax

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
        return Contests(systems, len(items.labels), None, battles, *rest)
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
    unsure: Mapping[int, str] = {}
    """The systems whose value has no interval, with the reason."""
    covariance: Floats | None = None
    """That of the systems' values, where the fit gives it."""


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
    """The most probable strengths, in log-odds against the average system.

    The replicates are one Newton step from them without each group. A system that won or lost every battle, or that no
    battle connects with most others, has a value by the prior alone: it has no interval and no rank of its own.
    """
    battles, count, groups = contests.battles, len(contests.systems), int(group.max(initial=-1)) + 1
    wins, met = battle_counts(battles, count, group, groups)
    seen, counts = met.sum(axis=2) > 0, met.sum(axis=(0, 2))
    if count < 2:
        return Strengths(np.empty(0), np.empty((0, 0)), counts, seen, "there is one system")
    spread = np.maximum(np.sqrt((battles.control**2).mean(axis=0)), 1e-300)
    if contests.controls:
        choices = _pairs(battles, group[battles.item], battles.control / spread)
    else:
        # Equal battles of a group are one row, which a fit without a control cannot distinguish.
        at, first, second = np.nonzero(np.triu(met))
        weight = met[at, first, second]
        share = wins[at, first, second] / weight
        none = np.empty((len(at), 0))
        choices = _pairs(Battles(first, second, share, at, none, weight), at, none)
    fit = fit_strengths(count, [choices], groups=groups)
    left = fit.precision - fit.information
    values = fit.values.copy()
    replicates = values - np.linalg.solve(left, fit.gradients[..., None])[..., 0]
    for estimates in (values[None, :], replicates):
        estimates[:, :count] -= estimates[:, :count].mean(axis=1, keepdims=True)
        estimates[:, count:] /= spread
    unsure = by_prior(contests.systems, wins.sum(axis=0), met.sum(axis=0))
    return Strengths(values, replicates, counts, seen, unsure=unsure)


def _pairs(battles: Battles, group: Ints, control: Floats) -> Choices:
    """The battles as choices between two, with the second's control as 0."""
    return Choices(
        np.column_stack([battles.first, battles.second]),
        np.column_stack([battles.share, 1 - battles.share]),
        battles.weight,
        group,
        np.stack([control, np.zeros_like(control)], axis=1),
    )


SPREAD = 2.0
"""The standard deviation, in log-odds, of the normal prior on each strength and slope: it keeps finite who won everything."""


class Choices(Struct, frozen=True):
    """Choices among k alternatives each: `among` (choices, k), the `share` of the choice that each got, which adds up to 1,
    the choice's weight and group, and `control` (choices, k, controls)."""

    among: Ints
    share: Floats
    weight: Floats
    group: Ints
    control: Floats


class StrengthFit(Struct, frozen=True):
    """The strength of each alternative and the slope of each control, the gradient and the information of each group's
    choices there, and the precision of the values: all information and the prior's."""

    values: Floats
    gradients: Floats
    information: Floats
    precision: Floats


def fit_strengths(
    count: int, choices: Sequence[Choices], *, groups: int = 1, spread: float = SPREAD
) -> StrengthFit:
    """The most probable strengths of `count` alternatives and slopes, by Newton's method with halved steps.

    An infinite `spread` gives maximum likelihood, if it exists.
    """
    width = count + (choices[0].control.shape[2] if choices else 0)
    shrink = 0.0 if math.isinf(spread) else 1 / spread**2
    whole = [structs.replace(one, group=np.zeros_like(one.group)) for one in choices]

    def loss(at: Floats) -> float:
        total = shrink * float(at @ at) / 2
        for one in whole:
            odds = _odds(one, at, count)
            total += float(one.weight @ (logsumexp(odds, axis=1) - (one.share * odds).sum(axis=1)))
        return total

    at = np.zeros(width)
    least = loss(at)
    for _ in range(_MOST_STEPS):
        gradients, information = _sums(whole, at, count, 1)
        step = np.linalg.pinv(information[0] + shrink * np.eye(width), hermitian=True) @ (
            gradients[0] - shrink * at
        )
        size = 1.0
        while (moved := loss(at + size * step)) > least + _CLOSE and size > 1e-10:
            size /= 2
        at, least = at + size * step, moved
        if np.abs(step).max(initial=0) < 1e-10:
            break
    gradients, information = _sums(choices, at, count, groups)
    return StrengthFit(at, gradients, information, information.sum(axis=0) + shrink * np.eye(width))


def _odds(choices: Choices, at: Floats, count: int) -> Floats:
    odds: Floats = at[choices.among] + choices.control @ at[count:]
    return odds


def _sums(choices: Sequence[Choices], at: Floats, count: int, groups: int) -> tuple[Floats, Floats]:
    """The gradient of the log-likelihood and the information of each group's choices."""
    width = len(at)
    gradients, information = np.zeros((groups, width)), np.zeros((groups, width, width))
    for one in choices:
        chances = softmax(_odds(one, at, count), axis=1)
        residual = one.weight[:, None] * (one.share - chances)
        bend = np.eye(one.among.shape[1]) * chances[:, :, None]
        bend = one.weight[:, None, None] * (bend - chances[:, :, None] * chances[:, None, :])
        group, rows, columns = one.group[:, None], one.among[:, :, None], one.among[:, None, :]
        gradients += _scattered(gradients.shape, (group, one.among), residual)
        information += _scattered(information.shape, (group[..., None], rows, columns), bend)
        if width == count:
            continue
        slopes = np.arange(count, width)
        along = np.einsum("nk,nkc->nc", residual, one.control)
        gradients += _scattered(gradients.shape, (group, slopes), along)
        mixed = np.einsum("nij,njc->nic", bend, one.control)
        places = (group[..., None], rows, slopes)
        both = _scattered(information.shape, places, mixed)
        squares = np.einsum("nic,nid->ncd", one.control, mixed)
        places = (group[..., None], slopes[:, None], slopes)
        information += both + both.transpose(0, 2, 1)
        information += _scattered(information.shape, places, squares)
    return gradients, information


def _scattered(shape: tuple[int, ...], places: tuple[Ints, ...], values: Floats) -> Floats:
    """An array of this shape with the values added at their places."""
    flat = np.ravel_multi_index(np.broadcast_arrays(*places), shape)
    sums = np.bincount(flat.ravel(), values.ravel(), math.prod(shape))
    return sums.astype(np.float64).reshape(shape)


class Choice(Struct, frozen=True):
    """``chosen`` was preferred to the others ``among``, which holds it too."""

    chosen: int
    among: tuple[int, ...]
    weight: float = 1.0


def fit_choices(count: int, choices: Sequence[Choice], spread: float = SPREAD) -> StrengthFit:
    """The strengths of `count` candidates by single choices."""
    sizes: dict[int, list[Choice]] = defaultdict(list)
    for choice in choices:
        if choice.weight:
            sizes[len(choice.among)].append(choice)
    grouped = [
        Choices(
            np.array([choice.among for choice in same]),
            np.array([[float(one == choice.chosen) for one in choice.among] for choice in same]),
            np.array([choice.weight for choice in same]),
            np.zeros(len(same), np.int64),
            np.empty((len(same), size, 0)),
        )
        for size, same in sizes.items()
    ]
    return fit_strengths(count, grouped, spread=spread)


def choice_strengths(count: int, choices: Sequence[Choice], spread: float = SPREAD) -> Strengths:
    """The strengths against their mean, with Laplace's approximation of their covariance; NaN for one without a choice."""
    fit = fit_choices(count, choices, spread)
    centre = np.eye(count) - 1 / count
    covariance = centre @ np.linalg.pinv(fit.precision, hermitian=True) @ centre
    counts = np.zeros(count)
    for choice in choices:
        counts[list(choice.among)] += choice.weight
    values = np.where(counts > 0, fit.values - fit.values.mean(), np.nan)
    none = np.zeros((0, count))
    return Strengths(values, none, counts, none > 0, covariance=covariance)


def by_prior(systems: tuple[str, ...], wins: Floats, met: Floats) -> dict[int, str]:
    """The systems whose strength the battles do not bound, with the reason.

    They bound those that have, over a chain of others, both beaten and been beaten by each other (Ford, 1957): here those of
    the largest such group.
    """
    part = connected_components(wins > 0, directed=True, connection="strong")[1]
    sizes = np.bincount(part)
    outside = np.flatnonzero((part != sizes.argmax()) | (sizes.max() == 1))
    won, battles = wins.sum(axis=1), met.sum(axis=1)
    unsure = {}
    for system in outside.tolist():
        name = systems[system]
        if 0 < won[system] == battles[system]:
            unsure[system] = f"{name} never lost"
        elif battles[system] and not won[system]:
            unsure[system] = f"{name} never won"
        else:
            unsure[system] = f"the battles do not connect {name} with the other systems both ways"
    return unsure


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
