"""Who meets whom."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.features.rank.tournament import (
    both_orders,
    group_contests,
    round_robin,
    swiss_round,
    swiss_rounds,
)

SEEDS = st.integers(0, 1000)


@given(st.integers(2, 12), SEEDS)
def test_everybody_meets_everybody_once(count, seed):
    pairs = round_robin(count, seed)
    assert sorted(tuple(sorted(pair)) for pair in pairs) == list(combinations(range(count), 2))
    assert pairs == round_robin(count, seed)


@given(st.integers(2, 40), SEEDS)
def test_swiss_rounds_never_repeat_a_pair_and_let_nobody_play_twice(count, seed):
    points = dict.fromkeys(range(count), 0.0)
    met: set[frozenset[int]] = set()
    for number in range(swiss_rounds(count)):
        pairs = swiss_round(points, met, seed + number)
        assert max(Counter(player for pair in pairs for player in pair).values(), default=1) == 1
        assert len(pairs) <= count // 2 and met.isdisjoint(map(frozenset, pairs))
        met |= {frozenset(pair) for pair in pairs}
        for pair in pairs:
            points[min(pair)] += 1
    if count > 3:
        assert max(points, key=lambda player: points[player]) == 0


@given(st.integers(2, 6), st.integers(0, 30), st.integers(1, 4), SEEDS)
def test_in_each_round_everybody_is_in_a_whole_group(size, more, rounds, seed):
    count = size + more
    groups = group_contests(count, size, rounds, seed)
    assert len(groups) == rounds * -(-count // size)
    assert all(len(set(group)) == size for group in groups)
    per_round = len(groups) // rounds
    for start in range(0, len(groups), per_round):
        assert {player for group in groups[start : start + per_round] for player in group} == set(
            range(count)
        )


def test_both_orders_follow_one_another():
    assert both_orders([(0, 1), (2, 3)]) == [(0, 1), (1, 0), (2, 3), (3, 2)]
