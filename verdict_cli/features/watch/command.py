"""`verdict watch CONFIG ANCHORS`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_error, print_json, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Config, Yes
from verdict_cli.errors import UsageError


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
    from verdict_cli.cli.multi_run import execute_or_exit
    from verdict_cli.cli.open_dataset import check_data, open_dataset
    from verdict_cli.cli.show_report import to_terminal
    from verdict_cli.cli.signals import stopping
    from verdict_cli.cli.spending import tell_cost
    from verdict_cli.features.watch.anchor_scores import anchor_score
    from verdict_cli.features.watch.history import Look, open_history, served_models
    from verdict_cli.features.watch.watch_document import watch_document, watch_result
    from verdict_cli.report.renderers.terminal import render_terminal
    from verdict_cli.report.study_files import write_study
    from verdict_cli.report.write_report import write_report
    from verdict_cli.run.job import Stop
    from verdict_cli.run.run_directory import RunDirectory
    from verdict_cli.run.session import open_run

    plan = how.plan(config)
    watched = anchor_score(plan, score, None if ends is None else _ends(ends))
    recording = how.recording(plan)
    folder = history or Path("watch") / plan.name
    uncached = replace(how, no_cache=True)
    stop = Stop()
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, stopping(stop):
        dataset = open_dataset(plan, anchors, Path(spool_to))
        data = check_data(plan, dataset, limit=how.limit, sample=how.sample, seed=how.seed)
        known = open_history(folder, plan, data, anchors, watched)
        name = f"looks/{len(known.looks):04d}"
        options = uncached.run_options(plan, dataset, data, (str(config), anchors), recording, out=folder / name)
        with open_run(options) as session:
            if session.earlier is not None and session.earlier.status != "finished" and not how.quiet:
                print_message(f"{session.directory.display_name}: resuming where it stopped")
            tell_cost(session, yes=yes, quiet=how.quiet)
            run = execute_or_exit(session, stop, uncached)
            write_report(run, warn=print_error)
    scores, unreadable = watched.read(run.directory.results)
    for text in unreadable[:3]:
        print_error(f"warning: {text}")
    missing = sum(one is None for one in scores)
    if missing == len(scores):
        raise UsageError(
            f"no anchor has a score: {run.directory.path} is not counted as a look",
            hint="its report has the failures; --fresh judges the anchors again",
        )
    look = Look(run.facts.started, name, missing, served_models(run.directory), scores)
    result = watch_result(known.with_look(look), reference, level)
    outcome = watch_document(result)
    write_study(RunDirectory(folder), "watch", outcome)
    if as_json:
        print_json(outcome.as_json())
    else:
        to_terminal(render_terminal(outcome))
    raise typer.Exit(1 if result.drifted else 3 if missing else 0)


def _ends(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(","))
        if low < high:
            return low, high
    except ValueError:
        pass
    raise UsageError(f"--range {text!r:.60} is not two numbers, the smaller one first", hint="such as --range 1,5")
