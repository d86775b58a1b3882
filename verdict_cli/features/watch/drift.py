"""The history of a watched judge, its document, and intervals of the drift that stay valid however often one looks.

The mean change of the rows since the reference is compared with a bound like Bernstein's: the
variance of a row's answers, and their largest change, are those between neighbouring looks, so that rows which always answer
alike hide nothing. Look t has the error alpha / (t (t + 1)), shared by windows of 1, 2, 4, ... looks that end there: together at
most alpha, for any number of looks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from msgspec import Struct

from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.report.charts import PlanePoint, Scatter, Series
from verdict_cli.report.document import PAGE_FORMATS, FactList, Note, Only, Part, ReportDocument, Section, Table
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.columns.column import Floats
from verdict_cli.storage.datasets.dataset import DatasetFacts
from verdict_cli.storage.paths import replacing

if TYPE_CHECKING:
    from verdict_cli.features.watch.command import AnchorScore

_RARE = 6.0
"""Half of Bernstein's term for changes that are rare, as Poisson's tail needs it beside the normal quantile (measured by
benchmarks/drift.py: no false alarm in a year, also where one answer in a thousand turns)."""


class DriftInterval(Struct, frozen=True):
    """The change since the reference, of the window of looks that says most: from `since` to the last look.

    `low` and `high` hold for all looks and windows together. `smallest` is half the width: no smaller drift could be seen.
    """

    look: int
    since: int
    change: float
    low: float
    high: float

    @property
    def drifted(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0

    @property
    def smallest(self) -> float:
        """The smallest change that this interval could distinguish from none."""
        return (self.high - self.low) / 2


def drift_intervals(scores: Floats, reference: int = 1, alpha: float = 0.05) -> list[DriftInterval]:
    """The interval at each look after the first `reference` ones; `scores` are (looks, rows) from 0 to 1, NaN where missing."""
    known = np.isfinite(scores)
    filled = np.where(known, scores, 0.0)
    counts = known[:reference].sum(axis=0)
    base = filled[:reference].sum(axis=0) / np.maximum(counts, 1)
    steps = np.diff(scores, axis=0)
    intervals = []
    for look in range(reference, len(scores)):
        seen = steps[:look][np.isfinite(steps[:look])]
        variance, largest = (float((seen**2).mean()) / 2, float(np.abs(seen).max())) if len(seen) else (1.0, 1.0)
        later = look - reference + 1
        lengths = [2**power for power in range(later.bit_length()) if 2**power <= later]
        error = alpha / (2 * len(lengths) * later * (later + 1))
        quantile, log = -NormalDist().inv_cdf(error), -math.log(error)
        windows = [_change(known, filled, counts, base, look + 1 - length, look) for length in lengths]
        best = DriftInterval(look, look, 0.0, -1.0, 1.0)
        for start, change, spread, rows in windows:
            share = max(1 / (look + 1 - start), 1 / reference)  # of a row's change, by one answer
            if rows:
                reach = (quantile * math.sqrt(spread * variance) + largest * share * log / _RARE) / rows
                interval = DriftInterval(look, start, change, max(change - reach, -1.0), min(change + reach, 1.0))
                if abs(change) - reach > abs(best.change) - (best.high - best.low) / 2:
                    best = interval
        intervals.append(best)
    return intervals


def _change(
    known: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    filled: Floats,
    counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    base: Floats,
    start: int,
    look: int,
) -> tuple[int, float, float, int]:
    """The first look of a window, the rows' mean change there, the variance of their sum in that of one answer, and the
    rows."""
    here = known[start : look + 1].sum(axis=0)
    rows = (here > 0) & (counts > 0)
    if not rows.any():
        return start, 0.0, 0.0, 0
    means = filled[start : look + 1].sum(axis=0)[rows] / here[rows]
    return start, float((means - base[rows]).mean()), float((1 / here[rows] + 1 / counts[rows]).sum()), int(rows.sum())


HISTORY_FILE = "history.jsonl"


class Look(Struct, frozen=True):
    """One run over the anchors. `served` counts the replies by the model that the provider says has answered."""

    started: str
    run: str
    failed: int
    served: dict[str, int]
    scores: list[float | None]

    @property
    def mean(self) -> float | None:
        """The mean of the rows that have a score."""
        known = [score for score in self.scores if score is not None]
        return sum(known) / len(known) if known else None

    def as_json(self, number: int) -> dict[str, Any]:
        """Its part of the file and of the report."""
        return {
            "look": number,
            "started": self.started,
            "run": self.run,
            "mean": self.mean,
            "failed": self.failed,
            "served_models": self.served,
        }


class WatchHistory(Struct, frozen=True):
    """What is watched, and the looks so far. `head` is the first line of the file."""

    folder: Path
    head: dict[str, Any]
    looks: tuple[Look, ...]

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the score's range."""
        low, high = self.head["range"]
        return float(low), float(high)

    def scores(self) -> Floats:
        """The scores of all looks from 0 to 1, (looks, rows), NaN where missing."""
        low, high = self.ends
        rows = [[np.nan if score is None else score for score in look.scores] for look in self.looks]
        scaled: Floats = (np.array(rows, dtype=np.float64).reshape(len(rows), -1) - low) / (high - low)
        return scaled

    def with_look(self, look: Look) -> WatchHistory:
        """Store the look, and return the history with it."""
        grown = WatchHistory(self.folder, self.head, (*self.looks, look))
        self.folder.mkdir(parents=True, exist_ok=True)
        looks = [look.as_json(number) | {"scores": look.scores} for number, look in enumerate(grown.looks)]
        with replacing(self.folder / HISTORY_FILE) as part:
            part.write_bytes(
                b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in (self.head, *looks))
            )
        return grown


def open_history(folder: Path, plan: Plan, data: DatasetFacts, source: str, score: AnchorScore) -> WatchHistory:
    """The history in the folder, or a new one. UsageError where it is of other anchors, another pipeline or score."""
    head = {
        "watch": 1,
        "pipeline": plan.name,
        "fingerprint": plan.fingerprint,
        "anchors": {"file": source, "rows": data.rows, "fingerprint": data.fingerprint},
        "score": score.text,
        "range": list(score.ends),
    }
    file = folder / HISTORY_FILE
    if not file.is_file():
        return WatchHistory(folder, head, ())
    known = read_history(folder)
    before = known.head
    if before["anchors"]["fingerprint"] != data.fingerprint:
        raise UsageError(
            f"the anchors have changed: {folder} has looks at {plural(before['anchors']['rows'], 'row')} of "
            f"{before['anchors']['file']} ({before['anchors']['fingerprint'][:12]}…), these are {plural(data.rows, 'row')} of "
            f"{source} ({data.fingerprint[:12]}…)",
            hint="restore the anchors, or start another history: --history DIR",
        )
    if before["fingerprint"] != plan.fingerprint:
        raise UsageError(
            f"the pipeline has changed ({before['fingerprint'][:12]}…, this one is {plan.fingerprint[:12]}…): a change of "
            "its verdicts would not be drift",
            hint="restore the pipeline and the model, or start another history: --history DIR",
        )
    if (before["score"], before["range"]) != (head["score"], head["range"]):
        raise UsageError(
            f"{folder} watches `{before['score']}` from {before['range'][0]:g} to {before['range'][1]:g}",
            hint="give the same --score and --range, or start another history: --history DIR",
        )
    return known


def read_history(folder: Path) -> WatchHistory:
    """The history in a folder. DataError for a file that `verdict watch` did not write."""
    file = folder / HISTORY_FILE
    try:
        head, *lines = (orjson.loads(line) for line in file.read_bytes().splitlines())
        looks = tuple(
            Look(line["started"], line["run"], int(line["failed"]), dict(line["served_models"]), list(line["scores"]))
            for line in lines
        )
        history = WatchHistory(folder, head, looks)
        if head["watch"] != 1 or len({len(look.scores) for look in looks} | {head["anchors"]["rows"]}) != 1:
            raise ValueError
        history.scores()
    except OSError as error:
        raise DataError(Problem("unreadable", f"cannot be read: {error.strerror}", "", str(file))) from None
    except (ValueError, LookupError, TypeError, AttributeError):
        message = "not a history of `verdict watch`"
        raise DataError(
            Problem("history", message, "restore it, or start another one: --history DIR", str(file))
        ) from None
    return history


def served_models(facts: RunFacts) -> dict[str, int]:
    """How many replies each model gave, by the name that the provider sent with the reply."""
    served: Counter[str] = Counter()
    for names in facts.served.values():
        served.update(names)
    return dict(served.most_common())


MOST_LOOKS_PRINTED = 20
CHANGE_TITLE = "Change since the reference"


class WatchResult(Struct, frozen=True):
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
        return next((interval.look for interval in self.intervals if interval.drifted), None)

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
        known = {interval.look: interval for interval in self.intervals}
        for number, look in enumerate(self.history.looks):
            yield look.as_json(number) | self.interval_json(known.get(number))

    def interval_json(self, interval: DriftInterval | None) -> dict[str, Any]:
        """The interval on the score's own scale; nulls where there is none."""
        if interval is None:
            return {"change": None, "low": None, "high": None, "since": None, "drifted": False}
        ends = {name: getattr(interval, name) * self.width for name in ("change", "low", "high")}
        return {**ends, "since": interval.since, "drifted": interval.drifted}


def watch_result(history: WatchHistory, reference: int, level: float) -> WatchResult:
    """The intervals of a history with at least one look."""
    return WatchResult(history, reference, level, tuple(drift_intervals(history.scores(), reference, 1 - level)))


def verdict_text(result: WatchResult) -> str:
    """What the watch says, in a sentence."""
    looks, now = len(result.history.looks), result.now
    if now is None:
        left = result.reference + 1 - looks
        return (
            f"the reference has {looks} of {plural(result.reference, 'look')}: {left} more until the first comparison"
        )
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
        ("anchors", f"{plural(anchors['rows'], 'row')} of {anchors['file']}"),
        ("score", f"{head['score']} from {result.history.ends[0]:g} to {result.history.ends[1]:g}"),
        ("reference", f"first {plural(result.reference, 'look')}" if result.reference > 1 else "first look"),
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
    for look in result.trend():
        change = "–" if look["change"] is None else formatting.format_number(look["change"])
        interval = formatting.interval(look["low"], look["high"])
        mark = "drift" if look["drifted"] else ""
        when = str(look["started"])[:16].replace("T", " ")
        rows.append((f"{look['look']}", when, formatting.format_number(look["mean"]), change, interval, mark))
        if look["change"] is not None:
            points.append(PlanePoint(look["look"], look["change"], look["low"], look["high"], label=when))
    if points:
        chart = Scatter(
            CHANGE_TITLE, (Series("", points, joined=True),), "look", "change",
            caption="The window of looks that says most, with the interval that holds for all looks together.",
        )  # fmt: skip
        yield Only(PAGE_FORMATS, [chart])
    headers = ("look", "started", "mean", "change", f"{result.level:.0%} interval", "")
    yield Table(headers, rows[::-1], (0, 2, 3), most_rows=MOST_LOOKS_PRINTED)
