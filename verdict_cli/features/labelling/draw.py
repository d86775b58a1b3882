"""Draws of rows to label, each row with a known probability: evenly, or by how much doubt a run has about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.plan.node import Plan
from verdict_cli.plan.scope import panel_expressions
from verdict_cli.plural import plural
from verdict_cli.stats.columns.collect import Collected, collect
from verdict_cli.stats.columns.column import MISSING, Floats, Ints, LabelSet
from verdict_cli.storage.tables.human_labels import label_key
from verdict_cli.storage.tables.label_queue import LabelQueue, QueueDraw, QueuedRow
from verdict_cli.storage.tables.reader import table_columns, table_rows

FLOOR = 0.1
"""The size of a row of which the judge is sure, where that of the least sure is `FLOOR` + 1: their ratio bounds the weights at 11."""


def inclusion_probabilities(sizes: Floats, n: int) -> Floats:
    """The probability of each row in a draw of `n` rows in proportion to the sizes, none above 1; they sum to `n`.

    Shape (rows,); all sizes are above 0, and `n` is at most their number.
    """
    certain = np.zeros(len(sizes), bool)
    while True:
        remainder = n - int(certain.sum())
        uncertain_sizes = np.where(certain, 0.0, sizes)
        inclusion = np.where(
            certain, 1.0, remainder * uncertain_sizes / uncertain_sizes.sum() if remainder else 0.0
        )
        above = (inclusion >= 1) & ~certain
        if not above.any():
            return inclusion
        certain |= above


def stratified_probabilities(strata: Ints, n: int) -> Floats:
    """The probability of each row where each stratum gives the same number of rows, as far as it has them. They sum to `n`."""
    codes, sizes = np.unique(strata, return_counts=True)
    allocation = np.zeros(len(codes))
    remainder, open_ = float(n), np.ones(len(codes), bool)
    while remainder > 1e-9 and open_.any():
        share = remainder / open_.sum()
        more = np.where(open_, np.minimum(share, sizes - allocation), 0.0)
        allocation += more
        remainder -= more.sum()
        open_ = allocation < sizes - 1e-9
    inclusion = (allocation / sizes)[np.searchsorted(codes, strata)]
    return inclusion


def systematic_draw(inclusion: Floats, rng: np.random.Generator) -> Ints:
    """The rows that are drawn, in a random order. Every row has its probability, and their sum is the number of rows."""
    order = rng.permutation(len(inclusion))
    ends = np.cumsum(inclusion[order])
    steps = rng.uniform() + np.arange(round(float(ends[-1])))
    drawn = order[np.minimum(np.searchsorted(ends, steps, side="right"), len(order) - 1)].astype(
        np.int64
    )
    return rng.permutation(drawn)


def scaled_sizes(measure: Floats) -> Floats:
    """Sizes from a measure of doubt: `FLOOR` for the least, `FLOOR` + 1 for the greatest; a row without a measure counts as most
    doubtful."""
    finite = np.isfinite(measure)
    if not finite.any() or np.ptp(measure[finite]) == 0:
        return np.ones(len(measure))
    low, high = float(measure[finite].min()), float(measure[finite].max())
    return FLOOR + np.where(finite, (measure - low) / (high - low), 1.0)


_DOUBTS = (
    ("agreement", "1 - output.agreement"),
    ("margin", "1 - output.margin"),
    ("variance", "output.variance"),
)
"""Output fields that say how sure a verdict is, with the expression of the doubt."""


def draw_queue(
    plan: Plan,
    results: Path,
    n: int,
    choose: QueueDraw,
    by: str | None,
    annotators: int,
    *,
    blind: bool,
    seed: int,
) -> tuple[LabelQueue, str]:
    """Draw `n` rows to label, among those that did not fail. Return the queue, and what it was drawn by.

    `by` is an expression: for `stratified` the value whose rows are drawn evenly, for `uncertain` a number that is larger where the
    judge is less sure, for `disagree` the field of the units, such as `judge.score`. UsageError where it is needed and cannot be
    found, or where there are fewer rows; DataError for rows with the same id.
    """
    ids, positions = _judged_rows(results)
    if n > len(ids):
        raise UsageError(
            f"--n {n:,} is more than the {plural(len(ids), 'row')} that were judged",
            hint=f"at most --n {len(ids)}",
        )
    if choose == "random":
        inclusion, drawn_by = np.full(len(ids), n / len(ids)), ""
    else:
        rows, drawn_by = _measured(plan, results, choose, by)
        values = rows[positions]
        if choose == "stratified":
            inclusion = stratified_probabilities(values.astype(np.int64), n)
        else:
            inclusion = inclusion_probabilities(scaled_sizes(values), n)
    drawn = systematic_draw(inclusion, np.random.default_rng(seed))
    queued = tuple(
        QueuedRow(ids[index], int(positions[index]), round(float(inclusion[index]), 12))
        for index in drawn
    )
    return LabelQueue(choose, annotators, blind, seed, queued), drawn_by


def _judged_rows(results: Path) -> tuple[list[object], Floats]:
    """The ids and positions of the rows that did not fail."""
    ids = []
    positions = []
    keys = set()
    for position, (row_id, status) in enumerate(table_rows(results, ["id", "status"])):
        key = label_key(row_id)
        if key in keys:
            message = f"two rows have the id {row_id!r}, so a label would count for both"
            hint = "set `dataset.id` to a column that is unique"
            raise DataError(Problem("ambiguous-rows", message, hint, str(results)))
        keys.add(key)
        if status == "ok":
            ids.append(row_id)
            positions.append(position)
    return ids, np.array(positions, dtype=np.int64)


def _measured(plan: Plan, results: Path, choose: QueueDraw, by: str | None) -> tuple[Floats, str]:
    """The stratum or the doubt of each row of the table, and the expression."""
    if choose == "disagree":
        text, panel = _panel(plan, by)
        return _spread(_collected(Evaluation(panel=panel), results, by)), text
    if by is not None:
        text = by
    elif choose == "stratified":
        text = _stratum(plan)
    else:
        text = _doubt(plan, results)
    evaluation = Evaluation(value=text, metrics=("mean",))
    column = _collected(evaluation, results, by).columns["value"]
    if choose == "stratified":
        return LabelSet.of(column).codes(column).astype(np.float64), text
    if not column.numeric:
        raise UsageError(
            f"--by {text} is not a number",
            hint="give one that is larger where the judge is less sure",
        )
    return column.numbers, text


def _collected(evaluation: Evaluation, results: Path, by: str | None) -> Collected:
    """The columns of the evaluation. UsageError where `--by` is without a value on some rows, or what stands for it on all."""
    columns = collect({"queue": evaluation}, results)["queue"]
    for count, first in columns.unreadable.values():
        if by is not None or count == columns.rows:
            name = "the measure" if by is None else "--by"
            raise UsageError(
                f"{name} cannot be computed on {plural(count, 'row')}; {first}",
                hint="give a --by that has a value on each row",
            )
    return columns


def _stratum(plan: Plan) -> str:
    text = next(
        (
            evaluation.prediction
            for evaluation in plan.evaluations.values()
            if evaluation.prediction is not None
        ),
        None,
    )
    if text is None:
        raise UsageError(
            "no evaluation has a `prediction` to draw by",
            hint="give --by, such as --by output.score",
        )
    return text


def _doubt(plan: Plan, results: Path) -> str:
    probability = next(
        (
            evaluation.probability
            for evaluation in plan.evaluations.values()
            if evaluation.probability is not None
        ),
        None,
    )
    if probability is not None:
        return f"1 - (2 * ({probability}) - 1) | abs"
    columns = set(table_columns(results))
    text = next((text for field, text in _DOUBTS if f"output.{field}" in columns), None)
    if text is None:
        raise UsageError(
            "nothing in this run says how sure the judge was",
            hint="give --by EXPR, a number that is larger where it is less sure; or `agreement: true` on the pool, an evaluation with "
            "`probability`, or --choose disagree",
        )
    return text


def _panel(plan: Plan, by: str | None) -> tuple[str, tuple[str, ...]]:
    """The expressions of the votes, and how they are named: those of `by`, else of the first units that are asked side by side."""
    if by is not None:
        return by, _named(plan, by)
    for field in ("score", "choice"):
        beside: dict[tuple[int, ...], list[str]] = {}
        for node, _ in plan.llm_nodes:
            if field in node.result.fields:
                beside.setdefault(node.parents, []).append(node.id)
        votes = next((ids for ids in beside.values() if len(ids) > 1), None)
        if votes is not None:
            return ", ".join(f"{name}.{field}" for name in votes), tuple(
                f"nodes[{name!r}].{field}" for name in votes
            )
    raise UsageError(
        "this run has no two units side by side that could disagree",
        hint="use `repeat`, several `models` or several judges in a layer; or --choose uncertain",
    )


def _named(plan: Plan, by: str) -> tuple[str, ...]:
    ids = [node.id for node in plan.nodes]
    names = [text.strip() for text in by.split(",")]
    panel = (
        panel_expressions(names[0], ids) if len(names) == 1 else tuple(map(_field_of(ids), names))
    )
    if not panel:
        raise UsageError(
            f"--by {by} does not name a field of two or more units",
            hint=f"the units are {', '.join(ids)}",
        )
    return panel


def _field_of(ids: Sequence[str]) -> Callable[[str], str]:
    def expression(text: str) -> str:
        name, _, field = text.rpartition(".")
        if name not in ids or not field.isidentifier():
            raise UsageError(
                f"--by: there is no unit {name or text!r}",
                hint=f"write UNIT.FIELD; the units are {', '.join(ids)}",
            )
        return f"nodes[{name!r}].{field}"

    return expression


def _spread(collected: Collected) -> Floats:
    """The share of pairs of votes that differ; of numbers, their standard deviation. NaN with fewer than two votes."""
    columns = [column for key, column in collected.columns.items() if key.startswith("panel[")]
    if all(column.numeric and column.types != {"bool"} for column in columns if column.types):
        values = np.stack([column.numbers for column in columns], axis=1)
        finite = np.isfinite(values)
        count = finite.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(finite, values, 0.0).sum(axis=1) / count
            spread = np.sqrt(
                np.where(finite, (values - mean[:, None]) ** 2, 0.0).sum(axis=1) / count
            )
        return np.where(count > 1, spread, np.nan)
    labels = LabelSet.of(*columns)
    votes = np.stack([labels.codes(column) for column in columns], axis=1)
    return np.array([_differing(row[row != MISSING].tolist()) for row in votes])


def _differing(votes: Sequence[int]) -> float:
    n = len(votes)
    if n < 2:
        return float("nan")
    same = sum(votes.count(vote) - 1 for vote in votes)
    return 1 - same / (n * (n - 1))
