"""Ranks that the data allow, and the document of a ranking."""

from __future__ import annotations

import io
from itertools import permutations

import numpy as np
from rich.console import Console

from verdict_cli.features.rank.contest import Judgements, Leaderboard, Standing, StandingValue
from verdict_cli.features.rank.tournament import candidate_board, ranking_document
from verdict_cli.report.document import ReportDocument
from verdict_cli.report.renderers.terminal import render_terminal


def board(*values: float | None, alike: tuple[int, ...] = ()) -> Leaderboard:
    """The ranking of these scores, which differ but for those of `alike`."""
    better = np.zeros((len(values), len(values)), dtype=bool)
    for first_index, second_index in permutations(range(len(values)), 2):
        first, second = values[first_index], values[second_index]
        is_better = first is not None and second is not None and first > second
        better[first_index, second_index] = is_better and not {first_index, second_index} <= set(
            alike
        )
    standings = [
        Standing("abcd"[index], 2, {"score": StandingValue(value)}, index=index)
        for index, value in enumerate(values)
    ]
    return candidate_board("scores", "score", standings, better, rows=4, missing=1)


def ranks(leaderboard: Leaderboard) -> list[tuple[str, tuple[int, int] | None]]:
    return [(standing.name, standing.rank) for standing in leaderboard.standings]


def test_candidates_are_sorted_and_equal_values_share_their_ranks():
    assert ranks(board(1, 3, 2, 3)) == [
        ("b", (1, 2)),
        ("d", (1, 2)),
        ("c", (3, 3)),
        ("a", (4, 4)),
    ]


def test_a_candidate_without_a_value_is_last_and_has_no_rank():
    assert ranks(board(None, 1, None, 2, alike=(1, 3))) == [
        ("d", (1, 4)),
        ("b", (1, 4)),
        ("a", None),
        ("c", None),
    ]


def test_the_conclusion_names_all_that_may_be_first():
    leaderboard = board(1, 4, 3, 2, alike=(1, 2))
    assert ranks(leaderboard)[:2] == [("b", (1, 2)), ("c", (1, 2))]
    assert (
        leaderboard.conclusion()
        == "2 of 4 candidates may be first: b, c, without 1 of 4 judgements"
    )


def document_of(leaderboard: Leaderboard, calls: int, cost_usd: float | None) -> ReportDocument:
    counts = Judgements(leaderboard.rows, leaderboard.missing, calls, cost_usd)
    return ranking_document("p", leaderboard, counts)


def text_of(leaderboard: Leaderboard) -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(
        render_terminal(document_of(leaderboard, calls=6, cost_usd=0.5))
    )
    return out.getvalue()


def test_the_document_of_scores_has_no_contests():
    text = text_of(board(1, None, 2, 3))
    assert "score" in text and "won" not in text and "consistency" not in text
    assert "4 judgements · failed 1 · calls 6 · cost $0.5" in text


def test_the_document_of_pairs_has_wins_and_consistency():
    consistency = {
        "pairs": 3, "ties": 1, "pairs_in_both_orders": 3, "flips": 2, "triples": 1, "intransitive": 0,
        "first_place_wins": 4, "decided": 5,
    }  # fmt: skip
    standings = [
        Standing(
            name,
            2,
            {"bradley_terry": StandingValue(value, value - 1, value + 1)},
            index=index,
            wins=value,
        )
        for index, (name, value) in enumerate(zip("abc", (2, 1, 0), strict=True))
    ]
    leaderboard = candidate_board(
        "pairs",
        "bradley_terry",
        standings,
        np.zeros((3, 3), dtype=bool),
        rows=6,
        consistency=consistency,
    )
    text = text_of(leaderboard)
    assert "won" in text and text.count("1–3") == 3
    assert "0 of 1 triples intransitive · 1 of 3 pairs tied · the first position won 4 of 5" in text
    assert "order: 2 of 3 pairs changed with it" in text
    document = document_of(leaderboard, calls=6, cost_usd=None).data()
    assert document["best"] == {"index": 0, "candidate": "a"}
    assert (document["pipeline"], document["calls"], document["cost_usd"]) == ("p", 6, None)


def test_without_any_value_there_is_no_best():
    leaderboard = board(None, None, None, None)
    assert document_of(leaderboard, calls=0, cost_usd=None).data()["best"] is None
    assert leaderboard.conclusion() == "no candidate has a rank: every judgement failed"
