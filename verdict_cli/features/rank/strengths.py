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

import numpy as np
from msgspec import Struct
from scipy.sparse import bsr_array, csr_array, hstack
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, logsumexp, softmax

from verdict_cli.errors import RowError
from verdict_cli.features.rank.arena_keys import arena_keys, control_names
from verdict_cli.features.rank.contest_rows import ContestRows, Winners
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.messages import NamedValues
from verdict_cli.stats.columns.column import (
    Ends,
    Floats,
    Ints,
    KeyBuilder,
    RowMask,
    disambiguate_labels,
)
from verdict_cli.stats.columns.saved_rows import SKIPPED, saved_rows
from verdict_cli.stats.intervals.interval_methods import normal
from verdict_cli.storage.tables.reader import declared_types

UNBOUNDED = (-math.inf, math.inf)
"""The ends of a scale without any."""


class ScoredAnswers(Struct, frozen=True):
    """One row for each scored answer; `control` are the values to hold equal, (rows, controls)."""

    system: Ints
    item: Ints
    score: Floats
    control: Floats


class Battles(Struct, frozen=True):
    """One row for each battle: `share` is the first system's part of the win, `control` the difference of first and
    second."""

    first: Ints
    second: Ints
    share: Floats
    item: Ints
    control: Floats


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
    bounds: Ends = UNBOUNDED


def read_contests(name: str, evaluation: Evaluation, results: Path) -> Contests:
    """The contests of one evaluation. DataError for a row whose system, item or control cannot be computed."""
    keys = arena_keys(evaluation)
    assert keys is not None
    contests = ContestRows(name, keys, evaluation.where, str(results))
    winners = Winners(contests.expressions["winner"]) if contests.battles else None
    systems, items = KeyBuilder(), KeyBuilder()
    shares, sizes = array("d"), array("d")
    rows = missing = 0
    unreadable = ""
    paths = [path for expression in contests.every() for path in expression.paths]
    for row, failed, values in saved_rows(results, paths):
        if not contests.selects(row, values):
            continue
        rows += 1
        if failed or values.get(SKIPPED):
            missing += 1
            continue
        sides = contests.systems(row, values)
        try:
            if winners is None:
                shares.append(_number(contests.expressions["score"], values))
            else:
                shares.extend(winners.read(row, sides, values))
        except RowError as error:
            missing += 1
            unreadable = unreadable or f"row {row}: {error.message}"
            continue
        sizes.extend(contests.control(row, values))
        items.codes.append(items.code(contests.item(row, values)))
        systems.codes.extend(map(systems.code, sides))
    codes, item_keys = systems.keys(), items.keys()
    names = tuple(disambiguate_labels(codes.labels))
    item_codes = item_keys.codes.astype(np.int64)
    control = np.array(sizes).reshape(len(item_codes), len(keys.control))
    common_fields = (control_names(keys), rows, missing, unreadable)
    if winners is not None:
        pairs = codes.codes.astype(np.int64).reshape(-1, 2)
        reading = contests.reading(winners) if winners.total else 0
        share = np.array(shares).reshape(-1, len(winners.READINGS))[:, reading]
        battles = Battles(pairs[:, 0], pairs[:, 1], share, item_codes, control)
        return Contests(names, len(item_keys.labels), None, battles, *common_fields)
    answers = ScoredAnswers(codes.codes.astype(np.int64), item_codes, np.array(shares), control)
    battles = battles_of_scores(answers, len(names), len(item_keys.labels))
    bounds = _bounds(contests.expressions["score"], results)
    return Contests(names, len(item_keys.labels), answers, battles, *common_fields, bounds)


def _bounds(score: Expression, results: Path) -> Ends:
    """The ends of the declared scale of the score, else infinite."""
    path = score.path or ()
    declared = None
    if len(path) == 2 and path[0] == "output":
        declared = declared_types(results).get(f"output.{path[1]}")
    return (declared.bounds if declared else None) or UNBOUNDED


def _number(expression: Expression, values: NamedValues) -> float:
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
    columns = np.column_stack([answers.score, answers.control])
    sums = np.stack([np.bincount(cell, column, size) for column in columns.T], axis=1)
    counts = np.bincount(cell, minlength=size)
    with np.errstate(invalid="ignore"):
        means = (sums / counts[:, None]).reshape(items, systems, columns.shape[1])
    has_answer = counts.reshape(items, systems) > 0
    pairs = np.array([*combinations(range(systems), 2)], dtype=np.int64).reshape(-1, 2)
    shared = [np.flatnonzero(has_answer[:, one] & has_answer[:, other]) for one, other in pairs]
    item = np.concatenate([np.empty(0, np.int64), *shared])
    first, second = np.repeat(pairs, [*map(len, shared)], axis=0).T
    difference = means[item, first] - means[item, second]
    share = (np.sign(difference[:, 0]) + 1) / 2
    return Battles(first, second, share, item, difference[:, 1:])


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
    seen: RowMask
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
    sums = np.bincount(cell, answers.score, groups * count).astype(np.float64).reshape(shape)
    return _means_without_each(sums, n)


def _regression(answers: ScoredAnswers, contests: Contests, group_of: Ints, n: Floats) -> Strengths:
    """Least squares of the score on the systems and on each control, centred within the item."""
    groups, count = n.shape
    width = count + answers.control.shape[1]
    sizes = np.maximum(np.bincount(answers.item, minlength=contests.items), 1)
    means = np.column_stack(
        [np.bincount(answers.item, column, contests.items) / sizes for column in answers.control.T]
    )
    centred = answers.control - means[answers.item]
    scale = np.maximum(centred.std(axis=0), 1e-300)
    design = np.concatenate([np.eye(count)[answers.system], centred / scale], axis=1)
    products, sums = np.zeros((groups, width, width)), np.zeros((groups, width))
    for index in range(groups):
        group_design = design[group_of == index]
        products[index] = group_design.T @ group_design
        sums[index] = group_design.T @ answers.score[group_of == index]
    total, right = products.sum(axis=0), sums.sum(axis=0)
    if np.linalg.matrix_rank(total) < width:
        return _undefined("a control does not vary within items", n)
    inverses = np.linalg.pinv(total - products, hermitian=True)
    values = np.linalg.solve(total, right)
    replicates = np.einsum("gij,gj->gi", inverses, right - sums)
    for estimates in (values, replicates):
        estimates[..., count:] /= scale
    return Strengths(values, replicates, n.sum(axis=0), n > 0)


def win_rates(contests: Contests, group: Ints) -> Strengths:
    """The share of its battles that each system wins."""
    count, groups = len(contests.systems), int(group.max(initial=-1)) + 1
    wins, met = battle_counts(contests.battles, count, group, groups)
    has_battle = met.sum(axis=2) > 0
    if count < 2:
        return _undefined("there is one system", met.sum(axis=2))
    all_met = met.sum(axis=0)
    if contests.controls:
        strengths = bradley_terry(contests, group)
        values = _at_equal(strengths.values[:count], all_met)
        replicates = [
            _at_equal(replicate[:count], all_met - group_met)
            for replicate, group_met in zip(strengths.replicates, met, strict=True)
        ]
        return Strengths(values, np.stack(replicates), strengths.counts, has_battle)
    return _means_without_each(wins.sum(axis=2), met.sum(axis=2))


def _means_without_each(sums: Floats, n: Floats) -> Strengths:
    """The means of all groups, and those without each: of the groups' sums and counts, (groups, systems)."""
    total, counts = sums.sum(axis=0), n.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Strengths(total / counts, (total - sums) / (counts - n), counts, n > 0)


def _at_equal(strengths: Floats, met: Floats) -> Floats:
    """The mean probability of each system to win its battles, from strengths alone."""
    chances = expit(strengths[:, None] - strengths[None, :])
    with np.errstate(invalid="ignore", divide="ignore"):
        rates: Floats = (chances * met).sum(axis=1) / met.sum(axis=1)
    return rates


def battle_counts(battles: Battles, count: int, group: Ints, groups: int) -> tuple[Floats, Floats]:
    """How often each system won against each other and met it, (groups, systems, systems)."""
    shape = groups, count, count
    places_ahead = group[battles.item], battles.first, battles.second
    back = group[battles.item], battles.second, battles.first
    cells = np.concatenate([np.ravel_multi_index(places, shape) for places in (places_ahead, back)])
    shares = np.concatenate([battles.share, 1 - battles.share])
    won, met = (
        np.bincount(cells, weights, math.prod(shape)).astype(np.float64).reshape(shape)
        for weights in (shares, None)
    )
    return won, met


def bradley_terry(contests: Contests, group: Ints) -> Strengths:
    """The most probable strengths, in log-odds against the average system.

    The replicates are one Newton step from them without each group. A system that won or lost every battle, or that no
    battle connects with most others, has a value by the prior alone: it has no interval and no rank of its own.
    """
    battles, count, groups = contests.battles, len(contests.systems), int(group.max(initial=-1)) + 1
    wins, met = battle_counts(battles, count, group, groups)
    n = met.sum(axis=2)
    if count < 2:
        return _undefined("there is one system", n)
    squares = (battles.control**2).sum(axis=0) / max(len(battles.control), 1)
    spread = np.maximum(np.sqrt(squares), 1e-300)
    if contests.controls:
        row_groups, pairs = group[battles.item], [battles.first, battles.second]
        share, weight = battles.share, np.ones(len(row_groups))
        control = battles.control / spread
    else:
        # Equal battles of a group are one row, which a fit without a control cannot distinguish.
        row_groups, *pairs = np.nonzero(np.triu(met))
        weight = met[row_groups, *pairs]
        share = wins[row_groups, *pairs] / weight
        control = np.empty((len(row_groups), 0))
    choices = Choices(
        np.column_stack(pairs),
        np.column_stack([share, 1 - share]),
        weight,
        row_groups,
        np.stack([control, np.zeros_like(control)], axis=1),
    )
    fit = fit_strengths(count, [choices], groups=groups)
    outer_precision = fit.precision - fit.information
    values = fit.values.copy()
    replicates = values - np.linalg.solve(outer_precision, fit.gradients[..., None])[..., 0]
    for estimates in (values[None, :], replicates):
        estimates[:, :count] -= estimates[:, :count].mean(axis=1, keepdims=True)
        estimates[:, count:] /= spread
    unsure = by_prior(contests.systems, wins.sum(axis=0), met.sum(axis=0))
    return Strengths(values, replicates, n.sum(axis=0), n > 0, unsure=unsure)


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

    def design(self, count: int) -> csr_array:
        """What each alternative adds to the odds, (choices * k, strengths and slopes)."""
        alternatives = self.among.ravel()
        places = np.arange(len(alternatives)), alternatives
        system_columns = csr_array(
            (np.ones(len(alternatives)), places), shape=(len(alternatives), count)
        )
        slopes = csr_array(self.control.reshape(len(alternatives), self.control.shape[2]))
        design = hstack([system_columns, slopes], format="csr")
        return design

    def by_group(self, design: csr_array, groups: int) -> csr_array:
        """The design with columns of their own for each group, (choices * k, groups * columns)."""
        rows, columns = design.shape
        row_groups = np.repeat(self.group, self.among.shape[1])
        indices = design.indices + np.repeat(row_groups * columns, np.diff(design.indptr))
        return csr_array((design.data, indices, design.indptr), shape=(rows, groups * columns))


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
    designs = [choice.design(count) for choice in choices]
    width = designs[0].shape[1] if designs else count
    shrink = 0.0 if math.isinf(spread) else 1 / spread**2

    def loss(point: Floats) -> float:
        total = shrink * float(point @ point) / 2
        for choice, design in zip(choices, designs, strict=True):
            odds = (design @ point).reshape(choice.share.shape)
            total += float(
                choice.weight @ (logsumexp(odds, axis=1) - (choice.share * odds).sum(axis=1))
            )
        return total

    estimate = np.zeros(width)
    least = loss(estimate)
    for _ in range(_MOST_STEPS):
        gradients, information = _sums(choices, designs, designs, estimate)
        precision = information + shrink * np.eye(width)
        step = np.linalg.pinv(precision, hermitian=True) @ (gradients - shrink * estimate)
        size = 1.0
        while (moved := loss(estimate + size * step)) > least + _CLOSE and size > 1e-10:
            size /= 2
        estimate, least = estimate + size * step, moved
        if np.abs(step).max(initial=0) < 1e-10:
            break
    by_group = [
        choice.by_group(design, groups) for choice, design in zip(choices, designs, strict=True)
    ]
    gradients, information = _sums(choices, designs, by_group, estimate)
    information = information.reshape(groups, width, width)
    precision = information.sum(axis=0) + shrink * np.eye(width)
    return StrengthFit(estimate, gradients.reshape(groups, width), information, precision)


def _sums(
    choices: Sequence[Choices],
    designs: Sequence[csr_array],
    by_group: Sequence[csr_array],
    point: Floats,
) -> tuple[Floats, Floats]:
    """The gradient of the log-likelihood and the information, a row for each column of the designs by group."""
    rows = by_group[0].shape[1] if by_group else len(point)
    gradient, information = np.zeros(rows), np.zeros((rows, len(point)))
    for choice, design, columns in zip(choices, designs, by_group, strict=True):
        chances = softmax((design @ point).reshape(choice.share.shape), axis=1)
        residual = choice.weight[:, None] * (choice.share - chances)
        bend = np.eye(chances.shape[1]) * chances[:, :, None]
        bend = choice.weight[:, None, None] * (bend - chances[:, :, None] * chances[:, None, :])
        places = np.arange(len(bend) + 1)
        blocks = bsr_array((bend, places[:-1], places), shape=(residual.size, residual.size))
        gradient += columns.T @ residual.ravel()
        information += (columns.T @ blocks @ design).toarray()
    return gradient, information


class Choice(Struct, frozen=True):
    """``chosen`` was preferred to the others ``among``, which holds it too."""

    chosen: int
    among: tuple[int, ...]
    weight: float = 1.0


def choice_strengths(count: int, choices: Sequence[Choice], spread: float = SPREAD) -> Strengths:
    """The strengths against their mean, with Laplace's approximation of their covariance; NaN for one without a choice."""
    counts = np.zeros(count)
    sizes = defaultdict(list)
    for choice in choices:
        counts[list(choice.among)] += choice.weight
        if choice.weight:
            sizes[len(choice.among)].append(choice)
    grouped = []
    for size, same in sizes.items():
        among = np.array([choice.among for choice in same])
        chosen = np.array([choice.chosen for choice in same])
        weight = np.array([choice.weight for choice in same])
        share = (among == chosen[:, None]).astype(np.float64)
        none = np.empty((len(same), size, 0))
        grouped.append(Choices(among, share, weight, np.zeros(len(same), np.int64), none))
    fit = fit_strengths(count, grouped, spread=spread)
    centre = np.eye(count) - 1 / count
    covariance = centre @ np.linalg.pinv(fit.precision, hermitian=True) @ centre
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
    count = len(covariance)
    drawn = np.random.default_rng(0).multivariate_normal(
        np.zeros(count), covariance, draws, check_valid="ignore", method="eigh"
    )
    spread = np.diag(covariance)
    alone = np.abs(drawn / np.sqrt(np.maximum(spread, 1e-300))).max(axis=1)
    largest = np.zeros(draws)
    for system in range(1, count):
        variance = spread[system] + spread[:system] - 2 * covariance[system, :system]
        error = np.sqrt(np.where(variance > 0, variance, np.inf))
        away = np.abs(drawn[:, :system] - drawn[:, [system]]) / error
        largest = np.maximum(largest, away.max(axis=1))
    return float(np.quantile(alone, level)), max(float(np.quantile(largest, level)), normal(level))
