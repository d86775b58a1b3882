"""Leaderboards: simultaneous intervals of all systems, the range of ranks that the data allow for each, and the battles that a
judge of pairs needs (`verdict rank --systems`).

Two systems differ where the interval of their paired difference, at 95% for all pairs together (max-T), leaves 0 out. A
system's best rank is one below the number of systems that are significantly better, its worst one above those that are
significantly worse (Mogstad, Romano, Shaikh and Wilhelm, 2024): of equal systems, at most 5% of leaderboards distinguish any.

Without a number of battles it is a round robin: every two systems at every task. With one, the pairs take turns.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import orjson
from msgspec import Struct, structs

from verdict_cli.cli.console import print_message
from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.features.rank.arena_keys import arena_keys
from verdict_cli.features.rank.contest import Leaderboard, Standing, StandingValue, ranked
from verdict_cli.features.rank.ranks import significantly_better, standing_values
from verdict_cli.features.rank.strengths import (
    UNBOUNDED,
    Contests,
    Strengths,
    battle_counts,
    bradley_terry,
    mean_scores,
    read_contests,
    win_rates,
)
from verdict_cli.language.evaluations import Evaluations
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.regex import regex
from verdict_cli.stats.columns.column import Ints, key_text
from verdict_cli.stats.columns.sample import MOST_DELETIONS

FEW_ITEMS = 10
"""With fewer items the variance of a difference is hardly known."""

_METRICS = {"mean_score": mean_scores, "win_rate": win_rates, "bradley_terry": bradley_terry}


def leaderboards(arenas: Evaluations, results: Path, *, seed: int = 0) -> dict[str, Leaderboard]:
    """The leaderboard of each arena, from a run's `results.parquet`; an empty one with the reason where its rows cannot be
    used: a run that is paid for has its report."""
    boards = {}
    for name, evaluation in arenas.items():
        try:
            contests = read_contests(name, evaluation, results)
        except DataError as error:
            metrics = evaluation.metrics or ("win_rate",)
            reason = f"there is no ranking: {error.problem.message}; {error.problem.hint}"
            boards[name] = Leaderboard(metrics, metrics[0], (), warnings=(reason,))
        else:
            boards[name] = leaderboard(contests, evaluation.metrics, seed)
    return boards


def leaderboard(
    contests: Contests, metrics: tuple[str, ...] | None = None, seed: int = 0
) -> Leaderboard:
    """The systems, best first by the first of the metrics that is defined."""
    first = "bradley_terry" if contests.answers is None else "mean_score"
    board_metrics = metrics or (first, "win_rate")
    rows, missing = contests.rows, contests.missing
    if not contests.systems:
        warnings = tuple(_warnings(contests, {}, ""))
        return Leaderboard(
            board_metrics, board_metrics[0], (), rows=rows, missing=missing, warnings=warnings
        )
    rng = np.random.default_rng(abs(seed))
    group = rng.permutation(contests.items) % max(1, min(contests.items, MOST_DELETIONS))
    strengths = {metric: _METRICS[metric](contests, group) for metric in board_metrics}
    ranked_by = next(
        (metric for metric in board_metrics if not strengths[metric].reason), board_metrics[0]
    )
    count = len(contests.systems)
    values = {
        metric: _system_values(metric, strengths[metric], contests, group)
        for metric in board_metrics
    }
    counts = strengths[board_metrics[0]].counts
    unranked = [
        Standing(
            name,
            int(counts[system]),
            {metric: of_metric[system] for metric, of_metric in values.items()},
            index=system,
        )
        for system, name in enumerate(contests.systems)
    ]
    standings = ranked(unranked, ranked_by, significantly_better(strengths[ranked_by], count))
    order = [standing.index for standing in standings]
    # A win rate has none.
    slopes = strengths[board_metrics[0]].values[count:].tolist()
    whole = np.zeros(contests.items, np.int64)
    wins, met = (
        table[0][np.ix_(order, order)] for table in battle_counts(contests.battles, count, whole, 1)
    )
    return Leaderboard(
        board_metrics,
        ranked_by,
        standings,
        tuple(map(tuple, wins.tolist())),
        tuple(map(tuple, met.astype(np.int64).tolist())),
        contests.items,
        rows,
        missing,
        dict(zip(contests.controls, slopes, strict=False)),
        tuple(_warnings(contests, strengths, ranked_by)),
    )


def _system_values(
    metric: str, strengths: Strengths, contests: Contests, group: Ints
) -> list[StandingValue]:
    count = len(contests.systems)
    bounds = {"mean_score": contests.bounds, "win_rate": (0.0, 1.0)}
    values = standing_values(strengths, count, bounds.get(metric, UNBOUNDED))
    if not contests.controls:
        return values
    plain = _METRICS[metric](structs.replace(contests, controls=()), group)
    if plain.reason:
        return values
    return [
        structs.replace(value, uncontrolled=float(without))
        for value, without in zip(values, plain.values[:count], strict=True)
    ]


def _warnings(
    contests: Contests, strengths: Mapping[str, Strengths], ranked_by: str
) -> Iterator[str]:
    for metric, strength in strengths.items():
        if strength.reason:
            yield f"`{metric}` is undefined: {strength.reason}"
    for metric, strength in strengths.items():
        for reason in list(strength.unsure.values())[:5]:
            yield f"{reason}: the prior alone decides its `{metric}`; add battles"
    if strengths and ranked_by != next(iter(strengths)):
        yield f"the ranks are by `{ranked_by}`"
    if len(contests.systems) < 2:
        systems = "is one system" if contests.systems else "are no systems"
        yield f"there {systems}: a leaderboard needs two"
    if 0 < contests.items < FEW_ITEMS:
        items = plural(contests.items, "item is|items are")
        yield f"{items} too few for intervals and ranks to be relied on"
    elif ranked_by:
        yield from _few_items(contests, strengths[ranked_by])
    if contests.unreadable:
        yield f"left out, such as {contests.unreadable}"


def _few_items(contests: Contests, strengths: Strengths) -> Iterator[str]:
    item_counts = strengths.seen.sum(axis=0)
    few = [contests.systems[system] for system in np.flatnonzero(item_counts < FEW_ITEMS)]
    if few:
        yield f"fewer than {FEW_ITEMS} items have {', '.join(few[:5])}: their ranks cannot be relied on"


def write_battles(
    plan: Plan,
    files: Sequence[str],
    battles: int | None,
    out: Path | None,
    seed: int,
) -> None:
    """Write one row a battle, ready for `verdict run`. Raises DataError and UsageError."""
    from verdict_cli.cli.open_dataset import opened_dataset
    from verdict_cli.storage.datasets.dataset import Dataset
    from verdict_cli.storage.datasets.read import stream_rows
    from verdict_cli.storage.paths import write_rows

    columns = battle_columns(plan)
    if len(files) != 1:
        raise UsageError(
            "--systems takes one file of outputs", hint="or one folder, or a quoted glob"
        )
    with opened_dataset(plan, files[0]) as opened:
        rows = stream_rows(Dataset(opened.files))
        outputs = read_outputs((row.source for row in rows), columns, files[0])
    chosen = [battle_row(outputs, *pairing) for pairing in pairings(outputs, battles, seed)]
    counts = f"{plural(len(chosen), 'battle')} of {plural(len(outputs.systems), 'system')} at {len(outputs.rows):,} tasks"
    if battles is not None and len(chosen) < battles:
        counts += f" ({battles:,} were wanted: no other pairs are left)"
    if out is None:
        sys.stdout.buffer.write(
            b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in chosen)
        )
        print_message(counts)
        return
    write_rows(out, chosen)
    print_message(f"{counts}: {out}\nJudge them: verdict run {plan.name} {out}")


_COLUMN = regex(r"source\.([A-Za-z_]\w*)")


class BattleColumns(Struct, frozen=True):
    """The columns of battles that a pipeline reads. `system` is the name before `_a` and `_b`."""

    evaluation: str
    system: str
    item: str


def battle_columns(plan: Plan) -> BattleColumns:
    """The columns of the pipeline's leaderboard of battles. UsageError if it has none, or if they have other names."""
    for name, evaluation in plan.studies.items():
        keys = arena_keys(evaluation)
        if keys is None or keys.winner is None:
            continue
        matches = [_COLUMN.fullmatch((text or "").strip()) for text in (keys.a, keys.b, keys.item)]
        a, b, item = (match.group(1) if match else "" for match in matches)
        if item and a.endswith("_a") and b == f"{a.removesuffix('_a')}_b":
            return BattleColumns(name, a.removesuffix("_a"), item)
        raise UsageError(
            f"evaluate.{name}: the columns of the two systems cannot be filled: `a` is {keys.a}, `b` is {keys.b}",
            hint="name them NAME_a and NAME_b, such as `a: source.system_a`, `b: source.system_b`, `item: source.task`",
        )
    raise UsageError(
        "--systems needs a pipeline with a leaderboard of battles",
        hint="such as evaluate: {leaderboard: {arena: {a: source.system_a, b: source.system_b, winner: output.choice, "
        "item: source.task}}}; `arena_battles` has one",
    )


class SystemOutputs(Struct, frozen=True):
    """The output of each system at each item: `rows` by item and system. `shared` are the columns that are equal for all
    systems of every item, such as the question."""

    systems: tuple[str, ...]
    rows: Mapping[str, Mapping[str, NamedValues]]
    shared: frozenset[str]

    def items_of(self, one: str, other: str) -> list[str]:
        """The items at which both have an output."""
        return [item for item, outputs in self.rows.items() if one in outputs and other in outputs]


def read_outputs(rows: Iterator[NamedValues], columns: BattleColumns, file: str) -> SystemOutputs:
    """The outputs of a file. DataError for a row without its system or item, and for two outputs of one system."""
    outputs: dict[str, dict[str, NamedValues]] = defaultdict(dict)

    def fault(kind: str, message: str, hint: str) -> DataError:
        return DataError(Problem(kind, message, hint, file=file))

    systems: dict[str, None] = {}
    for number, row in enumerate(rows):
        for column in (columns.system, columns.item):
            if row.get(column) is None:
                has = ", ".join(row)
                message = f"row {number} has no {column!r}; it has {has:.200}"
                hint = "one row for each output of a system: the system, the task and its columns"
                raise fault("missing-column", message, hint)
        system, item = key_text(row[columns.system]), key_text(row[columns.item])
        if system in outputs[item]:
            message = f"row {number}: {system!r:.60} has two outputs for {item!r:.60}"
            raise fault("ambiguous-rows", message, "keep one output of each system for a task")
        systems[system] = None
        outputs[item][system] = row
    if len(systems) < 2:
        message = f"{plural(len(systems), 'system')}: battles need at least 2"
        raise fault("too-few", message, f"the column {columns.system!r} names the system")
    return SystemOutputs(tuple(systems), outputs, frozenset(_shared(outputs)))


def _shared(rows: Mapping[str, Mapping[str, NamedValues]]) -> set[str]:
    every = [list(outputs.values()) for outputs in rows.values()]
    columns = {column for outputs in every for row in outputs for column in row} - {"id"}
    pairs = [(row, first) for first, *other_rows in every for row in other_rows]
    return {
        column
        for column in columns
        if all(column in row and row[column] == first.get(column) for row, first in pairs)
    }


def pairings(
    outputs: SystemOutputs, battles: int | None, seed: int
) -> Iterator[tuple[str, str, str]]:
    """Item, first and second system of each battle; which system is first is drawn."""
    draw = random.Random(seed)
    order = {item: index for index, item in enumerate(outputs.rows)}
    meetings = []
    for pair in combinations(outputs.systems, 2):
        items = outputs.items_of(*pair)
        draw.shuffle(items)
        meetings += [(turn, item, pair) for turn, item in enumerate(items)]
    if battles is None:
        meetings.sort(key=lambda meeting: order[meeting[1]])
    else:
        meetings.sort(key=lambda meeting: meeting[0])
    for _, item, pair in meetings[:battles]:
        one, other = pair if draw.random() < 0.5 else pair[::-1]
        yield item, one, other


def battle_row(outputs: SystemOutputs, item: str, first: str, second: str) -> JsonObject:
    """The row of a battle: shared columns as they are, the others with `_a` and `_b`."""
    a, b = outputs.rows[item][first], outputs.rows[item][second]
    row: JsonObject = {"id": f"{item}:{first}:{second}"}
    for column in dict.fromkeys((*a, *b)):
        if column == "id":
            continue
        if column in outputs.shared:
            row[column] = a[column]
        else:
            row |= {f"{column}_a": a.get(column), f"{column}_b": b.get(column)}
    return row
