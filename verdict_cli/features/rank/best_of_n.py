"""Best of n over many prompts: how often the candidate that a judge chooses among n is right.

A point is the mean over prompts and over all subsets of n of a prompt's candidates, so it does not depend on their order.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, structs, to_builtins

from verdict_cli.errors import RowError, UsageError
from verdict_cli.features.rank.candidates import Candidate
from verdict_cli.features.rank.contest import Judgements, Leaderboard
from verdict_cli.features.rank.tournament import CountingJudge, RankingTask, RankingWork
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.messages import NamedValues
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.report.charts import PlanePoint, Scatter, Series
from verdict_cli.report.document import Note, ReportDocument, Section, Table
from verdict_cli.stats.columns.column import key_text
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import Draw, mean_with_interval

if TYPE_CHECKING:
    from verdict_cli.features.rank.command import RankOptions
    from verdict_cli.plan.node import Plan

AT_ONCE = 64
"""Prompts whose candidates are ranked at the same time."""


class PromptCandidates(Struct, frozen=True):
    """The candidates of one prompt, the columns that they share, and which of them are right."""

    shared: NamedValues
    candidates: tuple[Candidate, ...]
    correct: tuple[bool, ...]


class BestOfN(Struct, frozen=True):
    """The accuracy of the candidate chosen among n; `possible` is the share of choices with a right candidate."""

    n: int
    prompts: int
    accuracy: MetricValue
    possible: float


def read_prompts(plan: Plan, data: str, prompt: str, correct: str) -> list[PromptCandidates]:
    """The rows of a dataset by prompt. UsageError for a row without prompt or truth, and for a prompt with one candidate."""
    from verdict_cli.cli.open_dataset import opened_dataset
    from verdict_cli.storage.datasets.read import stream_rows

    names, truths = (compile_expression(text, ("source",)) for text in (prompt, correct))
    groups: dict[str, list[tuple[NamedValues, bool]]] = {}
    with opened_dataset(plan, data) as dataset:
        for row in stream_rows(dataset):
            try:
                name, truth = names({"source": row.source}), truths({"source": row.source})
            except RowError as error:
                raise UsageError(f"row {row.index}: {error.message}", hint=error.hint) from None
            if name is None or not isinstance(truth, bool | int) or truth not in (0, 1):
                raise UsageError(
                    f"row {row.index}: --prompt gives {name!r:.60} and --correct {truth!r:.60}",
                    hint="--correct is true or false, such as source.label == 'right'",
                )
            groups.setdefault(key_text(name), []).append((row.source, bool(truth)))
    for name, rows in groups.items():
        if len(rows) < 2:
            raise UsageError(
                f"the prompt {name!r:.60} has one candidate",
                hint="give a row for each candidate of a prompt, with --prompt equal in all of them",
            )
    return [_prompt(rows) for rows in groups.values()]


def _prompt(rows: Sequence[tuple[NamedValues, bool]]) -> PromptCandidates:
    first = rows[0][0]
    shared = {
        column: value
        for column, value in first.items()
        if all(row.get(column) == value for row, _ in rows)
    }
    candidates = [
        Candidate(str(index), {key: value for key, value in row.items() if key not in shared})
        for index, (row, _) in enumerate(rows)
    ]
    return PromptCandidates(shared, tuple(candidates), tuple(truth for _, truth in rows))


def plan_prompts(
    plan: Plan, prompts: Sequence[PromptCandidates], options: RankOptions, seed: int
) -> tuple[RankingWork, list[RankingWork]]:
    """The rankings of all prompts: what they are in all, and each of them."""
    works = [
        RankingTask(plan, prompt.shared, prompt.candidates, options, seed).plan_work()
        for prompt in prompts
    ]
    rows = sum(work.rows for work in works)
    text = f"{plural(len(works), 'prompt')}, each {works[0].text}"
    return RankingWork(text, rows, works[0].sample, works[0].rank), works


async def rank_prompts(works: Sequence[RankingWork], judge: CountingJudge) -> list[Leaderboard]:
    """The ranking of each prompt's candidates."""
    places = asyncio.Semaphore(AT_ONCE)

    async def ranking(work: RankingWork) -> Leaderboard:
        async with places:
            return await work.rank(judge)

    return list(await asyncio.gather(*map(ranking, works)))


def best_of(values: Sequence[float | None], correct: Sequence[bool], n: int) -> float:
    """The mean over all subsets of n of whether their best candidate is right; equal ones are chosen equally often.

    A candidate without a value is chosen only where none has one, and then the choice is wrong.
    """
    total = math.comb(len(values), n)
    distinct_values = sorted({value for value in values if value is not None})
    below = sum(value is None for value in values)
    mean = 0.0
    for value in distinct_values:
        right = [
            truth
            for candidate_value, truth in zip(values, correct, strict=True)
            if candidate_value == value
        ]
        subsets = math.comb(below + len(right), n) - math.comb(below, n)
        mean += subsets / total * sum(right) / len(right)
        below += len(right)
    return mean


def curve(
    prompts: Sequence[PromptCandidates], boards: Sequence[Leaderboard], level: float
) -> list[BestOfN]:
    """A point for each n, over the prompts that have so many candidates."""
    valued = []
    for prompt, board in zip(prompts, boards, strict=True):
        values = {
            standing.index: standing.values[board.ranked_by].value for standing in board.standings
        }
        valued.append(([values.get(index) for index in range(len(prompt.correct))], prompt.correct))
    points = []
    for n in range(1, max(len(values) for values, _ in valued) + 1):
        enough = [(values, correct) for values, correct in valued if len(values) >= n]
        chosen = np.array([best_of(values, correct, n) for values, correct in enough])
        possible = [
            1 - math.comb(correct.count(False), n) / math.comb(len(correct), n)
            for _, correct in enough
        ]
        draw = Draw(np.random.default_rng(0), level)
        accuracy = mean_with_interval(np.round(chosen, 12), None, draw, (0.0, 1.0))
        points.append(BestOfN(n, len(enough), accuracy, fmean(possible)))
    return points


def best_of_n_document(
    pipeline: str, kind: str, points: Sequence[BestOfN], counts: Judgements
) -> ReportDocument:
    """The accuracy of the chosen candidate against n."""
    rows, places = [], []
    for point in points:
        accuracy, possible = point.accuracy, formatting.format_number(point.possible)
        cells = formatting.number_cells(accuracy)
        rows.append((str(point.n), *cells, possible, f"{point.prompts:,}"))
        places.append(PlanePoint(point.n, accuracy.value, accuracy.low, accuracy.high))
    headers = ("n", "accuracy", "95% interval", "a right one is there", "prompts")
    notes = [counts.note()]
    if kind != "scores":
        text = "Candidates are chosen by their strength in the tournament of all of a prompt's candidates."
        notes.append(Note(text))
    chart = Scatter("Best of n", [Series("", places, joined=True)], "n", "accuracy")
    first, last = points[0], points[-1]
    return ReportDocument(
        pipeline,
        [Section("", [Table(headers, rows, (0, 1, 3, 4)), *notes, chart])],
        kicker="Verdict best of n",
        data=lambda: {
            "pipeline": pipeline,
            "kind": kind,
            "best_of_n": to_builtins(points),
            **structs.asdict(counts),
        },
        conclusion=f"the chosen one is right in {first.accuracy.value or 0:.1%} with 1 candidate, "
        f"{last.accuracy.value or 0:.1%} with {last.n}",
    )
