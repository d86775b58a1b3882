"""A ranking of candidates as a document."""

from __future__ import annotations

from collections.abc import Iterator

from verdict_cli.report import formatting
from verdict_cli.report.document import Document, Note, Section, Table
from verdict_cli.studies.rank.standings import RankedCandidate, Ranking


def ranking_document(pipeline: str, ranking: Ranking, *, calls: int, cost_usd: float | None) -> Document:
    """The candidates, ties with rank 1, and how consistent the judge was; from a ranking and the cost of its calls."""
    compares = ranking.kind != "scores"
    headers = (
        "rank",
        "candidate",
        "rating" if compares else "score",
        "95% interval",
        *(["won"] if compares else []),
        "",
    )
    table = Table(headers, [_cells(each, compares=compares) for each in ranking.standings], (0, 2))
    cost = f"calls {calls:,} · cost {formatting.money(cost_usd)}"
    counts = Note(f"{ranking.judgements:,} judgements · failed {ranking.failed:,} · {cost}")
    return Document(
        pipeline,
        [Section("", [table, *_consistency(ranking), counts], listed=False)],
        kicker="Verdict ranking",
        data=lambda: {"pipeline": pipeline, **ranking.as_json(), "calls": calls, "cost_usd": cost_usd},
    )


def _cells(candidate: RankedCandidate, *, compares: bool) -> tuple[str, ...]:
    notes = ["not significantly different from rank 1"] if candidate.tied_with_first else []
    notes += [f"{candidate.failed} failed"] if candidate.failed else []
    won = [f"{candidate.wins:g}/{candidate.contests}"] if compares else []
    return (
        "–" if candidate.rank is None else str(candidate.rank),
        candidate.label,
        "unknown" if candidate.value is None else formatting.format_number(candidate.value),
        formatting.interval(candidate.low, candidate.high),
        *won,
        ", ".join(notes),
    )


def _consistency(ranking: Ranking) -> Iterator[Note]:
    counts = ranking.consistency
    if ranking.kind == "pairs":
        yield Note(
            f"consistency: {counts['intransitive']} of {counts['triples']} triples intransitive · "
            f"{counts['ties']} of {counts['pairs']} pairs tied · "
            f"the first position won {counts['first_place_wins']} of {counts['decided']}"
        )
        if counts["flips"] is not None:
            yield Note(f"order: {counts['flips']} of {counts['pairs_in_both_orders']} pairs changed with it")
    if ranking.kind == "groups":
        yield Note(f"wins by position: {', '.join(map(str, counts['wins_by_place']))}")
