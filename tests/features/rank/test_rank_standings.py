"""Ranks, ties with rank 1, and the document of a ranking."""

from __future__ import annotations

import io

from rich.console import Console

from verdict_cli.features.rank.candidates import Candidate
from verdict_cli.features.rank.tournament import (
    CandidateResult,
    RankedCandidate,
    Ranking,
    rank_candidates,
    ranking_document,
)
from verdict_cli.report.renderers.terminal import render_terminal

CANDIDATES = [Candidate(name, name) for name in "abcd"]


def ranked(*values: float | None, differ: bool = True) -> tuple[RankedCandidate, ...]:
    return rank_candidates(
        CANDIDATES, [CandidateResult(value) for value in values], lambda *_: differ
    )


def test_candidates_are_sorted_and_equal_values_share_a_rank() -> None:
    assert [(each.label, each.rank) for each in ranked(1, 3, 2, 3)] == [
        ("b", 1),
        ("d", 1),
        ("c", 3),
        ("a", 4),
    ]


def test_values_closer_than_the_fit_share_a_rank() -> None:
    assert [each.rank for each in ranked(2, 2 - 1e-8, 2 - 1e-3, 0)] == [1, 1, 3, 4]


def test_a_candidate_without_a_value_is_last_and_has_no_rank() -> None:
    standings = ranked(None, 1, None, 2, differ=False)
    assert [(each.label, each.rank, each.tied_with_first) for each in standings] == [
        ("d", 1, False),
        ("b", 2, True),
        ("a", None, False),
        ("c", None, False),
    ]


def test_ties_are_with_the_first_only() -> None:
    pairs: list[tuple[int, int]] = []
    rank_candidates(
        CANDIDATES,
        [CandidateResult(value) for value in (1, 4, 3, 2)],
        lambda *pair: bool(pairs.append(pair)),
    )
    assert pairs == [(1, 2), (1, 3), (1, 0)]


def text_of(ranking: Ranking) -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(
        render_terminal(ranking_document("p", ranking, calls=6, cost_usd=0.5))
    )
    return out.getvalue()


def test_the_document_of_scores_has_no_contests() -> None:
    text = text_of(Ranking("scores", ranked(1, None, 2, 3), 4, 1, {}))
    assert "score" in text and "won" not in text and "consistency" not in text
    assert "unknown" in text and "4 judgements · failed 1 · calls 6 · cost $0.5" in text


def test_the_document_of_pairs_has_wins_and_consistency() -> None:
    consistency = {
        "pairs": 3, "ties": 1, "pairs_in_both_orders": 3, "flips": 2, "triples": 1, "intransitive": 0,
        "first_place_wins": 4, "decided": 5,
    }  # fmt: skip
    results = [
        CandidateResult(value, value - 1, value + 1, wins=value, contests=2, failed=0)
        for value in (2, 1, 0)
    ]
    ranking = Ranking(
        "pairs", rank_candidates(CANDIDATES, results, lambda *_: False), 6, 0, consistency
    )
    text = text_of(ranking)
    assert "rating" in text and "2/2" in text
    assert text.count("not significantly different from rank 1") == 2
    assert "0 of 1 triples intransitive · 1 of 3 pairs tied · the first position won 4 of 5" in text
    assert "order: 2 of 3 pairs changed with it" in text
    document = ranking_document("p", ranking, calls=6, cost_usd=None).data()
    assert document["best"] == {"candidate": 0, "label": "a"}
    assert (document["pipeline"], document["calls"], document["cost_usd"]) == ("p", 6, None)


def test_without_any_value_there_is_no_best() -> None:
    assert Ranking("scores", ranked(None, None, None, None), 4, 4, {}).as_json()["best"] is None
