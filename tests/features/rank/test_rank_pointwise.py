"""Ranking by score: means, intervals, and which candidates differ."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from scipy import stats

from verdict_cli.errors import RowError
from verdict_cli.features.rank.candidates import Candidate, CandidateColumns
from verdict_cli.features.rank.contest import Leaderboard
from verdict_cli.features.rank.tournament import rank_by_score

COLUMN = CandidateColumns(("answer",), 1)


def reward(result: Any) -> float:
    if result.outputs[0]["value"] == "unreadable":
        raise RowError("no number", kind="no-answer")
    return float(result.outputs[0]["value"])


def ranked(
    judge: Any,
    candidates: list[Candidate],
    columns: CandidateColumns | None = COLUMN,
    samples: int = 1,
) -> Leaderboard:
    return asyncio.run(
        rank_by_score(judge, reward, columns, {"question": "q"}, candidates, samples, None)
    )


def samples_of(*scores: list[Any]) -> Any:
    """A rule that gives candidate i its scores in turn."""
    queues = {str(index): list(values) for index, values in enumerate(scores)}
    return lambda row: queues[row["answer"]].pop(0)


def test_each_candidate_is_judged_in_its_row_and_sorted_by_score(rule_judge):
    judge = rule_judge(lambda row: len(row["answer"]))
    ranking = ranked(judge, [Candidate("x", "a"), Candidate("y", "aaa"), Candidate("z", "aa")])
    assert [standing.name for standing in ranking.standings] == ["y", "z", "x"]
    assert judge.rows[1] == {"question": "q", "answer": "aaa"}
    assert (ranking.kind, ranking.rows, ranking.missing, ranking.consistency) == (
        "scores",
        3,
        0,
        {},
    )
    assert ranking.standings[0].values["score"].low is None
    assert {standing.rank for standing in ranking.standings} == {
        (1, 3)
    }  # one sample each separates none


def test_objects_become_columns(rule_judge):
    judge = rule_judge(lambda row: row["a"] + row["b"])
    ranking = ranked(
        judge, [Candidate("0", {"a": 1, "b": 2}), Candidate("1", {"a": 5, "b": 0})], None
    )
    assert [standing.index for standing in ranking.standings] == [1, 0]
    assert judge.rows[0] == {"question": "q", "a": 1, "b": 2}


def test_samples_give_intervals_that_hold_for_all_candidates_together(rule_judge):
    rule = samples_of([1, 2, 3], [3, 3, 3])
    first, second = ranked(
        rule_judge(rule), [Candidate("0", "0"), Candidate("1", "1")], samples=3
    ).standings
    reach = stats.t.ppf((1 + 0.95**0.5) / 2, 4) * (0.5 / 3) ** 0.5
    assert (first.index, second.index, second.n) == (1, 0, 3)
    first, second = (standing.values["score"] for standing in (first, second))
    assert (first.value, second.value) == (3, 2)
    assert (first.low, first.high) == (pytest.approx(3 - reach), pytest.approx(3 + reach))
    assert (second.low, second.high) == (pytest.approx(2 - reach), pytest.approx(2 + reach))


def test_candidates_is_better_by_tukeys_test_at_five_percent(rule_judge):
    apart = samples_of([1, 1, 2, 1], [5, 5, 4, 5])
    two = [Candidate("0", "0"), Candidate("1", "1")]
    standings = ranked(rule_judge(apart), two, samples=4).standings
    assert [standing.rank for standing in standings] == [(1, 1), (2, 2)]
    close = samples_of([1, 2, 3, 4], [2, 3, 4, 5])
    standings = ranked(rule_judge(close), two, samples=4).standings
    assert {standing.rank for standing in standings} == {(1, 2)}


def test_samples_without_variance_is_better_by_their_values(rule_judge):
    rule = samples_of([2, 2], [3, 3], [3, 3])
    standings = ranked(
        rule_judge(rule), [Candidate(name, name) for name in "012"], samples=2
    ).standings
    assert [(standing.index, standing.rank) for standing in standings] == [
        (1, (1, 2)),
        (2, (1, 2)),
        (0, (3, 3)),
    ]


def test_failed_rows_and_unreadable_rewards_are_counted_and_left_out(rule_judge):
    rule = samples_of([4, None, 4], ["unreadable", 1, 1], [None, None, "unreadable"])
    ranking = ranked(rule_judge(rule), [Candidate(name, name) for name in "012"], samples=3)
    assert [
        (standing.index, standing.values["score"].value, standing.failed)
        for standing in ranking.standings
    ] == [
        (0, 4, 1),
        (1, 1, 1),
        (2, None, 3),
    ]
    assert ranking.missing == 5 and ranking.standings[2].rank is None


def test_of_equal_candidates_at_most_5_of_100_rankings_separate_any(rule_judge):
    """Everybody was compared with the observed best at 5%: 64% of such rankings separated some."""
    rng = np.random.default_rng(8)
    separated = 0
    for _ in range(60):
        rule = samples_of(*rng.integers(1, 6, (10, 5)).tolist())
        names = [Candidate(str(index), str(index)) for index in range(10)]
        standings = ranked(rule_judge(rule), names, samples=5).standings
        separated += any(standing.rank != (1, 10) for standing in standings)
    assert separated <= 8  # 99.5% of binomial(60, 0.05) are


def test_equal_candidates_whose_scores_vary_unequally_are_rarely_separated():
    """One common variance separated candidates with spreads of 0.2 and 2 in 14% of rankings, and constant scores in 10%."""
    import numpy as np

    from verdict_cli.features.rank.tournament import _is_better, _pooled

    rng, apart = np.random.default_rng(1), 0
    for index in range(60):
        if index % 2:
            scores = [
                [4.0] * 3 if candidate < 2 else rng.choice([3.0, 5.0], 3).tolist()
                for candidate in range(8)
            ]
        else:
            scores = [rng.normal(0, spread, 8).tolist() for spread in (0.2, 0.2, 0.2, 0.2, 2)]
        first = max(
            range(len(scores)),
            key=lambda candidate: sum(scores[candidate]) / len(scores[candidate]),
        )
        pooled = _pooled(scores)
        apart += any(
            _is_better(scores[first], scores[candidate], pooled)
            for candidate in range(len(scores))
            if candidate != first
        )
    assert apart <= 5
