"""`verdict watch CONFIG ANCHORS`: whether a watched judge has drifted."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import execute_or_exit, stopping, tell_cost
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import AsJson, Config, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.errors import DataError, Problem, RowError, UsageError
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.fields.types import ScaleType, without_null
from verdict_cli.plan.node import Plan
from verdict_cli.plan.scope import RESULT_ROOTS, ResultScope
from verdict_cli.report.write_report import write_report
from verdict_cli.run.job import Stop
from verdict_cli.run.session import open_run
from verdict_cli.stats.columns.saved_rows import saved_rows

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
    from verdict_cli.features.watch.drift import Look, open_history, served_models, watch_document, watch_result

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
    look = Look(run.facts.started, name, missing, served_models(run.facts), scores)
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
