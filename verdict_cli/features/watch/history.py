"""The history of a watch: `history.jsonl`, a line about the anchors and then one for each look; and the number of each anchor row in
a run's results.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from verdict_cli.errors import DataError, Problem, RowError, UsageError
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.fields.types import ScaleType, without_null
from verdict_cli.plan.node import Plan
from verdict_cli.plan.scope import RESULT_ROOTS, ResultScope
from verdict_cli.plural import plural
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.saved_rows import saved_rows
from verdict_cli.storage.datasets.dataset import DatasetFacts
from verdict_cli.storage.journal.entry import decode_entry
from verdict_cli.storage.paths import replacing

_FIELDS = ("score", "mean")


@dataclass(frozen=True)
class AnchorScore:
    """The expression whose value is watched, the function to its number, and the ends of its range."""

    text: str
    expression: Expression
    number: Callable[[Any], float | None]
    ends: tuple[float, float]

    def read(self, results: Path) -> tuple[list[float | None], list[str]]:
        """The scores of all rows, None where there is none; and the rows that did not fail and have none, in words."""
        scores: list[float | None] = []
        unreadable = []
        for row, failed, _, values in saved_rows(results, self.expression.paths):
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


@dataclass(frozen=True, slots=True)
class Look:
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


@dataclass(frozen=True, slots=True)
class WatchHistory:
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
