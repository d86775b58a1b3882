"""`verdict watch CONFIG ANCHORS`: whether a watched judge has drifted, and its document."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import orjson
import typer
from msgspec import Struct

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import execute_or_exit, stopping, tell_cost
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import AsJson, Config, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.errors import DataError, Problem, RowError, UsageError
from verdict_cli.features.watch.drift import DriftInterval, drift_intervals
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.fields.types import ScaleType, without_null
from verdict_cli.plan.node import Plan
from verdict_cli.plan.scope import RESULT_ROOTS, ResultScope
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.report.charts import PlanePoint, Scatter, Series
from verdict_cli.report.document import PAGE_FORMATS, FactList, Note, Only, Part, ReportDocument, Section, Table
from verdict_cli.report.write_report import write_report
from verdict_cli.run.job import Stop
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.session import open_run
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.saved_rows import saved_rows
from verdict_cli.storage.datasets.dataset import DatasetFacts
from verdict_cli.storage.journal.entry import decode_entry
from verdict_cli.storage.paths import replacing

_FIELDS = ("score", "mean")


class AnchorScore(Struct, frozen=True):
    """The expression whose value is watched, the function to its number, and the ends of its range."""

    text: str
    expression: Expression
    number: Callable[[Any], float | None]
    ends: tuple[float, float]

    def read(self, results: Path) -> tuple[list[float | None], list[str]]:
        """The scores of all rows, None where there is none; and the rows that did not fail and have none, in words."""
        scores: list[float | None] = []
        unreadable = []
        for row, failed, values in saved_rows(results, self.expression.paths):
            score = None
            if not failed:
                try:
                    score = self.number(self.expression(values))
                except RowError as error:
                    unreadable.append(f"row {row}: {error.message}")
            if score is not None and not self.ends[0] <= score <= self.ends[1]:
                ends = f"{self.ends[0]:g} to {self.ends[1]:g}"
                message = f"row {row}: `{self.text}` is {score:g}, outside {ends}"
                hint = "give the ends of its scale: --range LOW,HIGH"
                raise DataError(Problem("off-range", message, hint, file=str(results)))
            scores.append(score)
        return scores, unreadable


def anchor_score(plan: Plan, text: str | None, ends: tuple[float, float] | None) -> AnchorScore:
    """The score that `--score` names, or that of the last step. UsageError where neither is a number."""
    scope = ResultScope(plan.nodes, plan.outputs)
    if text is None:
        fields = {} if plan.output_node is None else plan.output_node.result.fields
        name = next((name for name in _FIELDS if name in fields and fields[name].numeric() is not False), None)
        if name is None:
            raise UsageError(
                f"{plan.name} gives no number that can be watched",
                hint="name one, or a condition: --score \"output.choice == 'A'\"",
            )
        text = f"output.{name}"
    try:
        expression = compile_expression(text, RESULT_ROOTS, scope.resolve)
        kind = None if expression.path is None else scope.resolve(expression.path).type
    except ExpressionError as error:
        raise UsageError(f"--score `{text}`: {error.message}", hint=error.hint) from None
    known = None if kind is None else without_null(kind)
    if isinstance(known, ScaleType):
        numbers = known.scale.bounds()
        if numbers is None:
            raise UsageError(
                f"`{text}` is a label without a number", hint=f'watch a condition: --score "{text} == source.label"'
            )
        return AnchorScore(text, expression, known.scale.number, ends or numbers)
    return AnchorScore(text, expression, _number, ends or (0.0, 1.0))


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    raise RowError(f"the score is {value!r:.80}, expected a number or a condition")


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
        """Its line in the file."""
        return {
            "look": number,
            "started": self.started,
            "run": self.run,
            "mean": self.mean,
            "failed": self.failed,
            "served_models": self.served,
            "scores": self.scores,
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
        lines = [self.head, *(look.as_json(number) for number, look in enumerate(grown.looks))]
        with replacing(self.folder / HISTORY_FILE) as part:
            part.write_bytes(b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines))
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


def served_models(directory: RunDirectory) -> dict[str, int]:
    """How many replies each model gave, by the name that the provider sent with the reply; empty for built-in models and
    recordings, which are not journalled."""
    served: Counter[str] = Counter()
    if not directory.journal.is_file():
        return {}
    with directory.journal.open("rb") as lines:
        for line in lines:
            try:
                reply = decode_entry(line).reply
            except ValueError:
                continue
            if reply is not None:
                served[reply.model or "unknown"] += 1
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
