"""Rewards of one prompt's rollouts by a judge that compares them: of two, the best of k, or a ranking.

A rollout's reward is the mean of its comparisons, from 0 to 1: 1 for each rollout that it beat, one half for a tie. A judge of pairs sees
every pair in both orders. One of k sees the rollouts in a shuffled order; those that it leaves unranked share. Rollouts with
the same text get the same reward.
"""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from itertools import combinations

from msgspec import Struct

from verdict_cli.errors import UsageError
from verdict_cli.features.rank.candidates import (
    CandidateColumns,
    OrderReader,
    find_candidate_columns,
    judges_both_orders,
    order_reader,
)
from verdict_cli.features.rank.tournament import (
    GROUP_ROUNDS,
    both_orders,
    group_contests,
    round_robin,
)
from verdict_cli.messages import NamedValues, Result
from verdict_cli.plan.node import Plan

Rewards = list[float | None]
"""Of each rollout; None where it has none."""
JudgeRows = Callable[[Sequence[NamedValues]], Awaitable[list[Result]]]


class GroupJudge(Struct, frozen=True):
    """How a pipeline compares rollouts."""

    columns: CandidateColumns
    read: OrderReader
    both: bool
    seed: int

    @staticmethod
    def of(plan: Plan, choice: str | None, seed: int) -> GroupJudge:
        """UsageError where the pipeline's options do not say which columns take the rollouts."""
        columns = find_candidate_columns(plan, {}, ())
        both = columns.count == 2 and not judges_both_orders(plan)
        return GroupJudge(columns, order_reader(plan, choice, columns.count), both, seed)

    async def rewards(
        self, groups: Sequence[tuple[NamedValues, Sequence[str]]], judge: JudgeRows
    ) -> list[Rewards]:
        """The rewards of each group: a row that its rollouts share, and their texts. None where no comparison succeeded."""
        plans = [self._contests(shared, texts) for shared, texts in groups]
        rows, answers = [], []
        for (shared, texts), contests in zip(groups, plans, strict=True):
            for contest in contests:
                contest_texts = [texts[index] for index in contest]
                rows.append(self.columns.row(shared, contest_texts))
                answers.append(contest_texts)
        results = iter(zip(await judge(rows), answers, strict=True) if rows else ())
        return [
            self._group(texts, [(contest, *next(results)) for contest in contests])
            for (_, texts), contests in zip(groups, plans, strict=True)
        ]

    def _contests(self, shared: NamedValues, texts: Sequence[str]) -> list[tuple[int, ...]]:
        count, size = len(texts), self.columns.count
        if count < 2:
            return []
        if count < size:
            raise UsageError(
                f"the judge compares {size}, and a prompt has {count} rollouts",
                hint=f"sample at least {size} for each prompt, or use a judge of pairs",
            )
        seed = zlib.crc32(
            "\0".join([str(self.seed), repr(sorted(shared.items(), key=str)), *texts]).encode(
                "utf-8", "replace"
            )
        )
        if size == 2:
            pairs = round_robin(count, seed)
            return both_orders(pairs) if self.both else pairs
        if count == size:
            return [tuple(random.Random(seed).sample(range(count), count))]
        return group_contests(count, size, GROUP_ROUNDS, seed)

    def _group(
        self, texts: Sequence[str], judged: Sequence[tuple[tuple[int, ...], Result, Sequence[str]]]
    ) -> Rewards:
        shares = defaultdict(list)
        for contest, result, contest_texts in judged:
            order = self.read(result, contest_texts)
            if order is None:
                continue
            rank_of = {contest[position]: rank for rank, position in enumerate(order)}
            for one, other in combinations(contest, 2):
                first, second = rank_of.get(one, len(contest)), rank_of.get(other, len(contest))
                share = 0.5 if first == second else float(first < second)
                shares[one].append(share)
                shares[other].append(1 - share)
        by_text: dict[str, list[float]] = defaultdict(list)
        for index, text in enumerate(texts):
            by_text[text] += shares[index]
        return [sum(won) / len(won) if (won := by_text[text]) else None for text in texts]
