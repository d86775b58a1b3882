"""Whether a watched judge has drifted, and its document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from verdict_cli.features.watch.history import WatchHistory
from verdict_cli.report import formatting
from verdict_cli.report.charts import PlanePoint, Scatter, Series
from verdict_cli.report.document import PAGE_FORMATS, FactList, Note, Only, Part, ReportDocument, Section, Table
from verdict_cli.stats.confidence_sequence import DriftInterval, drift_intervals

MOST_LOOKS_PRINTED = 20
CHANGE_TITLE = "Change since the reference"


@dataclass(frozen=True)
class WatchResult:
    """A history with the interval of each look after the reference. ``level`` is that of all intervals together."""

    history: WatchHistory
    reference: int
    level: float
    intervals: tuple[DriftInterval, ...]

    @property
    def now(self) -> DriftInterval | None:
        """The interval of the last look; None while there is only the reference."""
        return self.intervals[-1] if self.intervals else None

    @property
    def drifted(self) -> bool:
        """Whether the judge has drifted, by the last look."""
        return self.now is not None and self.now.drifted

    @property
    def first_drift(self) -> int | None:
        """The first look that said so."""
        return next((each.look for each in self.intervals if each.drifted), None)

    @property
    def width(self) -> float:
        """What a change of 1 of the interval is on the score's own scale."""
        low, high = self.history.ends
        return high - low

    def served_changes(self) -> Iterator[tuple[int, list[str], list[str]]]:
        """The looks that other models answered than the look before, with both."""
        before: list[str] | None = None
        for number, look in enumerate(self.history.looks):
            models = sorted(look.served)
            if before and models and models != before:
                yield number, before, models
            before = models or before

    def trend(self) -> Iterator[dict[str, Any]]:
        """Each look, for JSON."""
        known = {each.look: each for each in self.intervals}
        for number, look in enumerate(self.history.looks):
            found = known.get(number)
            yield {
                "look": number,
                "started": look.started,
                "run": look.run,
                "mean": look.mean,
                "failed": look.failed,
                "served_models": look.served,
                **self.interval_json(found),
            }

    def interval_json(self, found: DriftInterval | None) -> dict[str, Any]:
        """The interval on the score's own scale; nulls where there is none."""
        if found is None:
            return {"change": None, "low": None, "high": None, "since": None, "drifted": False}
        ends = {name: getattr(found, name) * self.width for name in ("change", "low", "high")}
        return {**ends, "since": found.since, "drifted": found.drifted}


def watch_result(history: WatchHistory, reference: int, level: float) -> WatchResult:
    """The intervals of a history with at least one look."""
    return WatchResult(history, reference, level, tuple(drift_intervals(history.scores(), reference, 1 - level)))


def verdict_text(result: WatchResult) -> str:
    """What the watch says, in a sentence."""
    looks, now = len(result.history.looks), result.now
    if now is None:
        left = result.reference + 1 - looks
        return f"the reference has {looks} of {result.reference} looks: {left} more until the first comparison"
    change = formatting.format_number(now.change * result.width)
    ends = formatting.interval(now.low * result.width, now.high * result.width)
    if now.drifted:
        return f"the judge has drifted: {change} {ends} since look {now.since}"
    smallest = formatting.format_number(now.smallest * result.width)
    return f"no drift: {change} {ends} since look {now.since}; a change below {smallest} could not be seen yet"


def watch_document(result: WatchResult) -> ReportDocument:
    """The verdict, changes of the served model, and the trend."""
    head = result.history.head
    anchors = head["anchors"]
    facts = [
        ("looks", f"{len(result.history.looks):,}"),
        ("anchors", f"{anchors['rows']:,} rows of {anchors['file']}"),
        ("score", f"{head['score']} from {result.history.ends[0]:g} to {result.history.ends[1]:g}"),
        ("reference", f"first {result.reference} looks" if result.reference > 1 else "first look"),
        ("level", f"{result.level:.0%} for all looks together"),
    ]
    parts: list[Part] = [FactList(facts)]
    for number, before, after in result.served_changes():
        text = f"look {number} was answered by {', '.join(after)}, the looks before by {', '.join(before)}"
        parts.append(Note(text, warning=True))
    missing = [(number, look.failed) for number, look in enumerate(result.history.looks) if look.failed]
    if missing:
        shown = ", ".join(f"{failed:,} at look {number}" for number, failed in missing[-5:])
        parts.append(Note(f"anchors without a score are left out: {shown}", warning=True))
    trend = Section("Trend", [*_trend(result)])
    data = {
        "history": str(result.history.folder),
        "pipeline": head["pipeline"],
        "looks": len(result.history.looks),
        **result.interval_json(result.now),
        "smallest": None if result.now is None else result.now.smallest * result.width,
        "first_drift": result.first_drift,
        "level": result.level,
        "reference": result.reference,
        "served_model_changes": [
            {"look": number, "before": before, "after": after} for number, before, after in result.served_changes()
        ],
        "trend": list(result.trend()),
    }
    return ReportDocument(
        head["pipeline"],
        [Section("", parts, listed=False, essential=True), trend],
        kicker="Verdict watch",
        elsewhere="in watch.html",
        data=lambda: data,
        conclusion=verdict_text(result),
    )


def _trend(result: WatchResult) -> Iterator[Part]:
    rows = []
    points = []
    for each in result.trend():
        change = "–" if each["change"] is None else formatting.format_number(each["change"])
        interval = formatting.interval(each["low"], each["high"])
        mark = "drift" if each["drifted"] else ""
        when = str(each["started"])[:16].replace("T", " ")
        rows.append((f"{each['look']}", when, formatting.format_number(each["mean"]), change, interval, mark))
        if each["change"] is not None:
            points.append(PlanePoint(each["look"], each["change"], each["low"], each["high"], label=when))
    if points:
        chart = Scatter(
            CHANGE_TITLE, (Series("", points, joined=True),), "look", "change",
            caption="The window of looks that says most, with the interval that holds for all looks together.",
        )  # fmt: skip
        yield Only(PAGE_FORMATS, [chart])
    headers = ("look", "started", "mean", "change", f"{result.level:.0%} interval", "")
    yield Table(headers, rows[::-1], (0, 2, 3), most_rows=MOST_LOOKS_PRINTED)
