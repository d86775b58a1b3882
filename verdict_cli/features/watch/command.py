"""`verdict watch CONFIG ANCHORS`: whether a watched judge has drifted, and its document."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import execute_or_exit
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import AsJson, Config, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.cli.signals import stopping
from verdict_cli.cli.spending import tell_cost
from verdict_cli.errors import UsageError
from verdict_cli.features.watch.history import Look, WatchHistory, anchor_score, open_history, served_models
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.report.charts import PlanePoint, Scatter, Series
from verdict_cli.report.document import PAGE_FORMATS, FactList, Note, Only, Part, ReportDocument, Section, Table
from verdict_cli.report.write_report import write_report
from verdict_cli.run.job import Stop
from verdict_cli.run.session import open_run
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
            interval = known.get(number)
            yield {
                "look": number,
                "started": look.started,
                "run": look.run,
                "mean": look.mean,
                "failed": look.failed,
                "served_models": look.served,
                **self.interval_json(interval),
            }

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


def watch(
    config: Config,
    anchors: Annotated[str, typer.Argument(help="The rows that are judged at every look, as for `verdict run`.")],
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="DIR", help="The directory of the history. [default: watch/NAME]"),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            "--score",
            metavar="EXPR",
            help="The number or condition that is watched. [default: the score of the last step]",
        ),
    ] = None,
    ends: Annotated[
        str | None,
        typer.Option(
            "--range", metavar="LOW,HIGH", help="The ends of the score. [default: those of its scale, else 0,1]"
        ),
    ] = None,
    reference: Annotated[
        int,
        typer.Option("--reference", min=1, help="How many of the first looks are what later ones are compared with."),
    ] = 1,
    level: Annotated[
        float,
        typer.Option("--level", min=0.5, max=0.999, help="The probability that no look ever calls a false drift."),
    ] = 0.95,
    *,
    how: RowOptions,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Judge frozen anchor rows again, and say whether the judge has drifted since the first run.

    Each run of the command is a look. The interval of the change stays valid however often you look. Exits with 1 if the judge
    has drifted. Replies are never taken from the cache.

    Example: verdict watch grounded grounded_sample --model baseline/lexical --history watch/grounded
    """
    plan = how.plan(config)
    watched = anchor_score(plan, score, None if ends is None else _ends(ends))
    recording = how.recording(plan)
    folder = history or Path("watch") / plan.name
    uncached = replace(how, no_cache=True)
    stop = Stop()
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, stopping(stop):
        dataset = open_dataset(plan, anchors, Path(spool_to))
        data = check_data(plan, dataset, limit=how.limit, sample=how.sample, seed=how.seed, quiet=how.quiet)
        known = open_history(folder, plan, data, anchors, watched)
        name = f"looks/{len(known.looks):04d}"
        options = uncached.run_options(plan, dataset, data, (str(config), anchors), recording, out=folder / name)
        with open_run(options) as session:
            if session.earlier is not None and session.earlier.status != "finished" and not how.quiet:
                print_message(f"{session.directory.display_name}: resuming where it stopped")
            tell_cost([session], yes=yes, quiet=how.quiet)
            run = execute_or_exit(session, stop, uncached)
            write_report(run, warn=print_error)
    scores, unreadable = watched.read(run.directory.results)
    for text in unreadable[:3]:
        print_error(f"warning: {text}")
    missing = sum(score is None for score in scores)
    if missing == len(scores):
        raise UsageError(
            f"no anchor has a score: {run.directory.path} is not counted as a look",
            hint="its report has the failures; --fresh judges the anchors again",
        )
    look = Look(run.facts.started, name, missing, served_models(run.directory), scores)
    result = watch_result(known.with_look(look), reference, level)
    show_study(watch_document(result), folder, "watch", as_json=as_json)
    raise typer.Exit(1 if result.drifted else 3 if missing else 0)


def _ends(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(","))
        if low < high:
            return low, high
    except ValueError:
        pass
    raise UsageError(f"--range {text!r:.60} is not two numbers, the smaller one first", hint="such as --range 1,5")
