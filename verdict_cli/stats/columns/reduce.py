"""The rows of each group made into one (`group:` and `reduce:`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from verdict_cli.errors import DataError, Problem
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.collect import Collected
from verdict_cli.stats.columns.column import MISSING, NUMBER, Column, Factorized, Floats, Ints
from verdict_cli.stats.metrics.confusion import LabelSet


def reduced(name: str, evaluation: Evaluation, collected: Collected, results: Path) -> Collected:
    """One row a group, in order of first appearance, with the group's key as its id.

    A group with one prediction (value, probability) missing has none: what the missing one would have changed is
    unknown. Targets that are missing are left out. `by` and `cluster` are the first row's.
    """
    if collected.group is None or evaluation.reduce is None:
        return collected
    groups = collected.group.codes.astype(np.int64)
    known = np.flatnonzero(groups != MISSING)
    groups = groups[known]
    first = known[np.unique(groups, return_index=True)[1]]
    columns = {}
    for key, column in collected.columns.items():
        how = getattr(evaluation.reduce, key)
        held = column.take(known)
        _check(held, how, f"evaluate.{name}.reduce.{key}", results)
        columns[key] = _column(held, groups, how, skip_missing=key == "target")
    return Collected(
        rows=len(first),
        columns=columns,
        by=tuple(keys.take(first) for keys in collected.by),
        cluster=collected.cluster.take(first) if collected.cluster else None,
        group=None,
        ids=Factorized(np.arange(len(first), dtype=np.int32), _labels(collected.group, groups)),
        unreadable=collected.unreadable,
        undecided=collected.undecided,
    )


def _labels(group: Factorized, groups: Ints) -> tuple[object, ...]:
    return tuple(group.labels[code] for code in np.unique(groups))


def _column(column: Column, groups: Ints, how: str, *, skip_missing: bool) -> Column:
    kinds, groups = np.unique(groups, return_inverse=True)
    count = len(kinds)
    present = np.flatnonzero(column.present)
    lacking = np.bincount(groups[~column.present], minlength=count) > 0
    held, of = column.take(present), groups[present]
    numbers, codes = np.full(count, np.nan), np.full(count, MISSING, dtype=np.int32)
    types = column.types
    if how in ("first", "mode"):
        chosen = _firsts(of) if how == "first" else _modes(LabelSet.of(held).codes(held), of)
        numbers[of[chosen]], codes[of[chosen]] = held.numbers[chosen], held.codes[chosen]
    else:
        made, places = _FORMULAS[how](held.numbers, of)
        numbers[places], codes[places] = made, NUMBER
        types = frozenset({"float"}) if how in ("mean", "median") else types
    if not skip_missing:
        numbers[lacking], codes[lacking] = np.nan, MISSING
    return Column(numbers, codes, column.words, types)


def _check(column: Column, how: str, path: str, results: Path) -> None:
    truth = how in ("any", "all")
    if how in ("first", "mode") or column.types <= ({"bool"} if truth else {"bool", "int", "float"}):
        return
    needs = "true or false" if truth else "numbers"
    found = ", ".join(sorted(column.types))
    hint = "write an expression that gives them, or use `mode` or `first`"
    raise DataError(Problem("reduce", f"`{how}` needs {needs}; found {found}", hint, file=str(results), path=path))


def _firsts(groups: Ints) -> Ints:
    return np.unique(groups, return_index=True)[1]


def _modes(labels: Ints, groups: Ints) -> Ints:
    """A row of each group that has its most frequent label; ties go to the label that comes first."""
    pair = groups * (int(labels.max(initial=0)) + 1) + labels
    _, first, counts = np.unique(pair, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts, groups[first]))
    ordered = first[order]
    chosen: Ints = ordered[np.unique(groups[ordered], return_index=True)[1]]
    return chosen


Formula = Callable[[Floats, Ints], tuple[Floats, Ints]]


def _fold(ufunc: np.ufunc) -> Formula:
    def made(numbers: Floats, groups: Ints) -> tuple[Floats, Ints]:
        order = np.argsort(groups, kind="stable")
        places, starts = np.unique(groups[order], return_index=True)
        return (ufunc.reduceat(numbers[order], starts) if len(places) else np.empty(0)), places

    return made


def _mean(numbers: Floats, groups: Ints) -> tuple[Floats, Ints]:
    sums, places = _fold(np.add)(numbers, groups)
    return sums / np.bincount(groups)[places] if len(places) else sums, places


def _median(numbers: Floats, groups: Ints) -> tuple[Floats, Ints]:
    order = np.lexsort((numbers, groups))
    places, starts, counts = np.unique(groups[order], return_index=True, return_counts=True)
    ordered = numbers[order]
    return (ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2, places


_FORMULAS: dict[str, Formula] = {
    "max": _fold(np.maximum),
    "any": _fold(np.maximum),
    "min": _fold(np.minimum),
    "all": _fold(np.minimum),
    "mean": _mean,
    "median": _median,
}
