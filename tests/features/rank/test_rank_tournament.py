"""Tournaments of pairs and groups with judges that follow a rule."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from verdict_cli.features.rank.candidates import Candidate, CandidateColumns
from verdict_cli.features.rank.tournament import Tournament, swiss_rounds

PAIR = CandidateColumns(("one", "two"), 2)


def read(result: Any, _: Any) -> tuple[int, ...] | None:
    value = result.outputs[0]["value"]
    return None if value in (None, "unreadable") else tuple(value)


def tournament(
    judge: Any, count: int, columns: CandidateColumns = PAIR, *, both: bool = True
) -> Tournament:
    texts = [str(number) for number in range(count)]
    return Tournament(
        judge, read, columns, {}, [Candidate(text, text) for text in texts], texts, both
    )


def higher(row: Any) -> tuple[int, ...]:
    return (0,) if int(row["one"]) > int(row["two"]) else (1,)


def test_a_consistent_judge_orders_all_candidates(rule_judge):
    judge = rule_judge(higher)
    ranking = asyncio.run(tournament(judge, 5).rank_pairs(None, 0))
    assert [standing.index for standing in ranking.standings] == [4, 3, 2, 1, 0]
    winner = ranking.standings[0]
    assert (winner.wins, winner.n, winner.failed) == (4, 4, 0)
    assert ranking.rows == len(judge.rows) == 20
    assert ranking.consistency == {
        "pairs": 10, "ties": 0, "pairs_in_both_orders": 10, "flips": 0, "triples": 10, "intransitive": 0,
        "first_place_wins": 10, "decided": 20,
    }  # fmt: skip


def test_a_judge_that_prefers_the_first_position_ties_every_pair(rule_judge):
    ranking = asyncio.run(tournament(rule_judge(lambda _: (0,)), 3).rank_pairs(None, 0))
    assert {standing.rank for standing in ranking.standings} == {(1, 3)}
    assert (ranking.consistency["flips"], ranking.consistency["ties"]) == (3, 3)
    assert ranking.consistency["first_place_wins"] == ranking.consistency["decided"] == 6


def test_one_order_each_has_no_flips_to_count(rule_judge):
    ranking = asyncio.run(tournament(rule_judge(higher), 3, both=False).rank_pairs(None, 0))
    assert ranking.rows == 3
    assert ranking.consistency["flips"] is ranking.consistency["pairs_in_both_orders"] is None
    assert [standing.n for standing in ranking.standings] == [2, 2, 2]


def test_a_tie_counts_half_for_both(rule_judge):
    ranking = asyncio.run(tournament(rule_judge(lambda _: ()), 2).rank_pairs(None, 0))
    assert [(standing.wins, standing.rank) for standing in ranking.standings] == [
        (0.5, (1, 2)),
        (0.5, (1, 2)),
    ]
    assert (ranking.consistency["ties"], ranking.consistency["decided"]) == (1, 0)


def test_a_cycle_is_intransitive(rule_judge):
    beats = {("0", "1"), ("1", "2"), ("2", "0")}
    judge = rule_judge(lambda row: (0,) if (row["one"], row["two"]) in beats else (1,))
    ranking = asyncio.run(tournament(judge, 3).rank_pairs(None, 0))
    assert (ranking.consistency["triples"], ranking.consistency["intransitive"]) == (1, 1)


@pytest.mark.parametrize("failure", [None, "unreadable"])
def test_a_pair_with_one_failed_order_counts_the_other(rule_judge, failure):
    judge = rule_judge(lambda row: failure if row["one"] == "0" else higher(row))
    ranking = asyncio.run(tournament(judge, 2).rank_pairs(None, 0))
    assert [standing.index for standing in ranking.standings] == [1, 0]
    assert (ranking.missing, ranking.rows) == (1, 2)
    assert (ranking.consistency["pairs"], ranking.consistency["pairs_in_both_orders"]) == (1, 0)
    assert [standing.failed for standing in ranking.standings] == [1, 1]


def test_a_candidate_whose_contests_all_fail_has_no_rank(rule_judge):
    judge = rule_judge(lambda row: None if "0" in row.values() else higher(row))
    ranking = asyncio.run(tournament(judge, 3).rank_pairs(None, 0))
    assert [(standing.index, standing.rank) for standing in ranking.standings] == [
        (2, (1, 3)),
        (1, (1, 3)),
        (0, None),
    ]
    assert ranking.missing == 4


def test_swiss_rounds_pair_winners_and_repeat_no_pair(rule_judge):
    judge = rule_judge(higher)
    ranking = asyncio.run(tournament(judge, 16).rank_pairs(swiss_rounds(16), 3))
    pairs = [frozenset(row.values()) for row in judge.rows]
    assert all(pairs.count(pair) == 2 for pair in pairs)
    assert ranking.standings[0].index == 15
    assert ranking.rows < 16 * 15


def by_value(row: Any) -> tuple[int, ...]:
    return tuple(sorted(range(4), key=lambda position: -int(row["options"][position])))


@pytest.mark.parametrize("choose", [by_value, lambda row: by_value(row)[:1]])
def test_groups_are_ranked_by_full_orders_or_by_the_best(rule_judge, choose):
    judge = rule_judge(choose)
    columns = CandidateColumns(("options",), 4, listed=True)
    ranking = asyncio.run(tournament(judge, 8, columns, both=False).rank_groups(4, 1))
    assert ranking.standings[0].index == 7
    assert ranking.kind == "groups" and ranking.consistency["groups"] == len(judge.rows) == 8
    assert sum(ranking.consistency["wins_by_place"]) == 8
    assert sum(standing.wins for standing in ranking.standings) == 8
