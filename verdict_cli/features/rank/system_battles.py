"""Battles of systems from a file of their outputs (`verdict rank --systems`): rows that a judge of pairs compares.

Without a number of battles it is a round robin: every two systems at every task. With one, each next battle is of the two
systems about whose difference the model knows least for what the battle can tell: the largest gain of information about the
strengths, `log(1 + p (1 - p) v)` with `v` the variance of their difference. Earlier battles, of a finished run, count.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from scipy.special import expit

from verdict_cli.cli.console import print_message
from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.features.rank.arena_keys import arena_keys
from verdict_cli.features.rank.strengths import battle_counts, read_contests
from verdict_cli.features.rank.tournament import SPREAD, Choice, fit_ratings
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.stats.columns.column import Floats, key_text


def write_battles(
    plan: Plan, files: Sequence[str], battles: int | None, after: Path | None, out: Path | None, seed: int
) -> None:
    """Write one row a battle, ready for `verdict run`. Raises DataError and UsageError."""
    from verdict_cli.cli.open_dataset import open_dataset
    from verdict_cli.report.study_files import write_rows
    from verdict_cli.run.load_run import load_run
    from verdict_cli.storage.datasets.read import stream_rows

    columns = battle_columns(plan)
    if len(files) != 1:
        raise UsageError("--systems takes one file of outputs", hint="or one folder, or a quoted glob")
    with tempfile.TemporaryDirectory() as spool:
        from verdict_cli.storage.datasets.dataset import Dataset

        opened = open_dataset(plan, files[0], Path(spool))
        dataset = Dataset(opened.files)
        outputs = read_outputs((row.source for row in stream_rows(dataset)), columns, files[0])
    judged = None
    if after is not None:
        directory, _, earlier = load_run(after)
        known = battle_columns(earlier)
        judged = earlier_battles(
            known.evaluation, earlier.studies[known.evaluation], directory.results, outputs.systems
        )
    chosen = [battle_row(outputs, *pairing) for pairing in pairings(outputs, battles, seed, judged)]
    counts = (
        f"{plural(len(chosen), 'battle')} of {plural(len(outputs.systems), 'system')} at {len(outputs.rows):,} tasks"
    )
    if battles is not None and len(chosen) < battles:
        counts += f" ({battles:,} were wanted: no other pairs are left)"
    if out is None:
        sys.stdout.buffer.write(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in chosen))
        print_message(counts)
        return
    write_rows(out, chosen)
    print_message(f"{counts}: {out}\nJudge them: verdict run {plan.name} {out}")


_COLUMN = re.compile(r"source\.([A-Za-z_]\w*)")


@dataclass(frozen=True)
class BattleColumns:
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


@dataclass(frozen=True)
class SystemOutputs:
    """The output of each system at each item: `rows` by item and system. `shared` are the columns that are equal for all
    systems of every item, such as the question."""

    systems: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Mapping[str, Any]]]
    shared: frozenset[str]

    def items_of(self, one: str, other: str) -> list[str]:
        """The items at which both have an output."""
        return [item for item, outputs in self.rows.items() if one in outputs and other in outputs]


def read_outputs(rows: Iterator[Mapping[str, Any]], columns: BattleColumns, file: str) -> SystemOutputs:
    """The outputs of a file. DataError for a row without its system or item, and for two outputs of one system."""
    outputs: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    systems: dict[str, None] = {}
    for number, row in enumerate(rows):
        for column in (columns.system, columns.item):
            if row.get(column) is None:
                has = ", ".join(row)
                message = f"row {number} has no {column!r}; it has {has:.200}"
                hint = "one row for each output of a system: the system, the task and its columns"
                raise DataError(Problem("missing-column", message, hint, file=file))
        system, item = key_text(row[columns.system]), key_text(row[columns.item])
        if system in outputs[item]:
            message = f"row {number}: {system!r:.60} has two outputs for {item!r:.60}"
            raise DataError(Problem("ambiguous-rows", message, "keep one output of each system for a task", file=file))
        systems[system] = None
        outputs[item][system] = row
    if len(systems) < 2:
        message = f"{plural(len(systems), 'system')}: battles need at least 2"
        raise DataError(Problem("too-few", message, f"the column {columns.system!r} names the system", file=file))
    return SystemOutputs(tuple(systems), outputs, frozenset(_shared(outputs)))


def _shared(rows: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> set[str]:
    columns = {column for outputs in rows.values() for row in outputs.values() for column in row}
    for outputs in rows.values():
        first, *others = outputs.values()
        columns = {
            column for column in columns if all(column in row and row[column] == first.get(column) for row in others)
        }
    return columns - {"id"}


@dataclass(frozen=True)
class EarlierBattles:
    """Earlier battles: the pairs of each item, and the strengths and information that they give."""

    met: frozenset[tuple[str, str, str]]
    strengths: Floats
    covariance: Floats


def earlier_battles(name: str, evaluation: Evaluation, results: Path, systems: Sequence[str]) -> EarlierBattles:
    """What a finished run knows of these systems; strengths have a prior, so that few battles are no certainty."""
    contests = read_contests(name, evaluation, results)
    index_of = {system: index for index, system in enumerate(systems)}
    wins, _ = battle_counts(contests.battles, len(contests.systems), np.zeros(contests.items, np.int64), 1)
    known = [(index, index_of[system]) for index, system in enumerate(contests.systems) if system in index_of]
    choices = [
        Choice(mine, (mine, yours), float(wins[0, one, other]))
        for one, mine in known
        for other, yours in known
        if wins[0, one, other]
    ]
    ratings = fit_ratings(len(systems), choices)
    information = np.eye(len(systems)) / SPREAD**2
    for choice in choices:
        one, other = choice.among
        p = float(expit(ratings.strengths[one] - ratings.strengths[other]))
        contrast = np.eye(len(systems))[one] - np.eye(len(systems))[other]
        information += choice.weight * p * (1 - p) * np.outer(contrast, contrast)
    items = [key_text(label) for label in contests.item_labels]
    met = frozenset(
        (items[item], *sorted((contests.systems[one], contests.systems[other])))
        for item, one, other in zip(
            contests.battles.item.tolist(),
            contests.battles.first.tolist(),
            contests.battles.second.tolist(),
            strict=True,
        )
    )
    return EarlierBattles(met, ratings.strengths, np.linalg.inv(information).astype(np.float64))


def pairings(
    outputs: SystemOutputs, battles: int | None, seed: int, judged: EarlierBattles | None = None
) -> Iterator[tuple[str, str, str]]:
    """Item, first and second system of each battle; which system is first is drawn."""
    draw = random.Random(seed)
    met = judged.met if judged is not None else frozenset()
    count = len(outputs.systems)
    left: dict[tuple[int, int], list[str]] = {}
    for one, other in combinations(range(count), 2):
        names = sorted((outputs.systems[one], outputs.systems[other]))
        items = [item for item in outputs.items_of(names[0], names[1]) if (item, names[0], names[1]) not in met]
        if items:
            draw.shuffle(items)
            left[one, other] = items
    if battles is None:
        order = {item: index for index, item in enumerate(outputs.rows)}
        everything = [(order[item], item, pair) for pair, items in left.items() for item in items]
        chosen: Iterator[tuple[str, tuple[int, int]]] = ((item, pair) for _, item, pair in sorted(everything))
    else:
        chosen = _most_informative(left, battles, count, judged, draw)
    for item, pair in chosen:
        one, other = pair if draw.random() < 0.5 else pair[::-1]
        yield item, outputs.systems[one], outputs.systems[other]


def _most_informative(
    left: dict[tuple[int, int], list[str]], battles: int, count: int, judged: EarlierBattles | None, draw: random.Random
) -> Iterator[tuple[str, tuple[int, int]]]:
    strengths = np.zeros(count) if judged is None else judged.strengths
    covariance = np.eye(count) * SPREAD**2 if judged is None else judged.covariance.copy()
    used: dict[str, int] = defaultdict(int)
    for _ in range(battles):
        pairs = sorted(left)
        if not pairs:
            return
        one, other = np.array(pairs).T
        chances = expit(strengths[one] - strengths[other])
        weight = chances * (1 - chances)
        variance = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
        gain = np.log1p(weight * variance)
        best = np.flatnonzero(gain >= gain.max() - 1e-12)
        at = int(draw.choice(best.tolist()))
        pair = pairs[at]
        items = left[pair]
        item = min(
            items, key=lambda candidate: used[candidate]
        )  # items are shuffled; the least used one is new evidence
        items.remove(item)
        used[item] += 1
        if not items:
            del left[pair]
        change = covariance[:, pair[0]] - covariance[:, pair[1]]
        covariance -= np.outer(change, change) * weight[at] / (1 + weight[at] * variance[at])
        yield item, pair


def battle_row(outputs: SystemOutputs, item: str, first: str, second: str) -> dict[str, Any]:
    """The row of a battle: shared columns as they are, the others with `_a` and `_b`."""
    a, b = outputs.rows[item][first], outputs.rows[item][second]
    row: dict[str, Any] = {"id": f"{item}:{first}:{second}"}
    for column in dict.fromkeys((*a, *b)):
        if column == "id":
            continue
        if column in outputs.shared:
            row[column] = a[column]
        else:
            row |= {f"{column}_a": a.get(column), f"{column}_b": b.get(column)}
    return row
