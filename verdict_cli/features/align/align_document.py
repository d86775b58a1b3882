"""An alignment as a document: the conclusion, old against new on the sealed rows, and everything that was tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from verdict_cli.features.align.selection import HalvingRound, is_better
from verdict_cli.report import formatting
from verdict_cli.report.document import Note, Part, ReportDocument, Section, Table
from verdict_cli.report.report import metric_json
from verdict_cli.stats.paired import Difference

if TYPE_CHECKING:
    from verdict_cli.features.align.search import PromptCandidate


@dataclass(frozen=True, slots=True)
class Alignment:
    """A finished search: the candidates, the first of them the pipeline as it was; what each round found; the winner against the first
    on the sealed rows. `parts` counts the rows of each part, `dropped` says why proposals could not be used."""

    unit: str
    metric: str
    parts: Mapping[str, int]
    candidates: Sequence[PromptCandidate]
    rounds: Sequence[HalvingRound]
    winner: int
    sealed: Difference | None
    cost_usd: float | None
    dropped: Sequence[str] = ()

    @property
    def better(self) -> bool:
        """Whether the winner is shown to be better."""
        return self.winner != 0 and self.sealed is not None and is_better(self.sealed.change.value, self.sealed.p)


def align_conclusion(found: Alignment) -> str:
    """The result in one sentence."""
    if found.winner == 0:
        return f"nothing that was tried is better than the pipeline as it was, on {found.parts['select']:,} rows"
    name = found.candidates[found.winner].name
    if found.sealed is None or found.sealed.change.value is None:
        return f"{name} was best on the rows of `select`, but could not be compared on the sealed rows"
    change = found.sealed.change
    test = f"{found.metric} {formatting.format_number(found.sealed.first)} to {formatting.format_number(found.sealed.second)}"
    gain = f"difference {formatting.format_number(change.value)} {formatting.interval(change.low, change.high)}".strip()
    p = "" if found.sealed.p is None else f", p {found.sealed.p:.3g}"
    rows = f"on {change.n:,} sealed rows"
    if found.better:
        return f"{name} is better {rows}: {test}, {gain}{p}"
    return f"nothing is shown to be better: {name}, the best of `select`, gives {test}, {gain}{p} {rows}"


def align_document(title: str, found: Alignment, facts: Mapping[str, Any]) -> ReportDocument:
    """The document of an alignment; `facts` are its files and options, as its JSON has them."""
    counted = ", ".join(f"{count:,} {name}" for name, count in found.parts.items())
    parts: list[Part] = [
        Note(
            f"unit {formatting.visible_text(found.unit)}; labelled rows by part: {counted}; cost {formatting.money(found.cost_usd)}"
        )
    ]
    rows = []
    for index, candidate in enumerate(found.candidates):
        latest = next((each for each in reversed(found.rounds) if index in each.means), None)
        mean = "–" if latest is None else formatting.format_number(latest.means[index])
        judged = "0" if latest is None else f"{latest.rows:,}"
        rows.append((candidate.name, candidate.origin, judged, mean))
    parts.append(Table(("candidate", "what it is", "rows judged", "mean score"), rows, (2, 3), strong=(found.winner,)))
    parts += [Note(text, warning=True) for text in found.dropped]
    return ReportDocument(
        title,
        [Section("", parts, listed=False, essential=True)],
        "Verdict align",
        elsewhere="in align.html",
        data=lambda: align_json(found, facts),
        conclusion=align_conclusion(found),
    )


def align_json(found: Alignment, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The document of `verdict align --json`, and `align.json`."""
    sealed = found.sealed
    return {
        **facts,
        "better": found.better,
        "unit": found.unit,
        "metric": found.metric,
        "parts": dict(found.parts),
        "winner": found.candidates[found.winner].name,
        "sealed": None
        if sealed is None
        else {"old": sealed.first, "new": sealed.second, "difference": metric_json(sealed.change), "p": sealed.p},
        "candidates": [asdict(each) for each in found.candidates],
        "rounds": [
            {"rows": each.rows, "means": {found.candidates[index].name: mean for index, mean in each.means.items()}}
            for each in found.rounds
        ],
        "dropped": list(found.dropped),
        "cost_usd": found.cost_usd,
    }
