"""`verdict reproduce paper`."""

from __future__ import annotations

import sys
import tempfile
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.console import print_error, print_json, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson
from verdict_cli.errors import FetchError, UsageError

if TYPE_CHECKING:
    from verdict_cli.features.benchmarks.paper import PaperRows, PaperTable
    from verdict_cli.plan.node import Plan
    from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts


class Reproducible(StrEnum):
    """What can be reproduced."""

    PAPER = "paper"


def reproduce(
    what: Annotated[Reproducible, typer.Argument(help="The paper that verdict implements.")],
    tables: Annotated[
        list[int] | None,
        typer.Option("--table", metavar="N", help="Only this table; may be repeated. [default: 1, 2, 3]"),
    ] = None,
    as_run: Annotated[
        bool,
        typer.Option("--as-run", help="The judges as the authors' library and JudgeBench run them, not as printed."),
    ] = False,
    mirror: Annotated[
        Path | None,
        typer.Option("--mirror", help="A folder with the benchmarks' files, NAME/FILE each. [default: their sources]"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The directory of the runs and the result.")] = Path("runs/paper"),
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Do not ask before money is spent. Without a terminal, nothing is asked anyway."
        ),
    ] = False,
    *,
    how: RowOptions,
    as_json: AsJson = False,
) -> None:
    """Run the judges of the paper's tables 1 to 3, and show the results beside the paper's.

    Fetches the rows that each table needs, shows calls, tokens and cost, and on a terminal asks before it calls a model.
    Rerun the same command to resume.

    Example: verdict reproduce paper --table 1 --model gpt-4o-mini --budget 2
    """
    from verdict_cli.cli.multi_run import execute_all_or_exit
    from verdict_cli.cli.open_dataset import check_data, open_dataset
    from verdict_cli.cli.show_report import to_terminal
    from verdict_cli.cli.signals import stopping
    from verdict_cli.features.benchmarks.paper import TABLES, TableResult, paper_document
    from verdict_cli.language.package_files import named_config
    from verdict_cli.report.renderers.terminal import render_terminal
    from verdict_cli.report.study_files import write_study
    from verdict_cli.report.write_report import preload_report, write_report
    from verdict_cli.run.job import Stop
    from verdict_cli.run.run_directory import RunDirectory
    from verdict_cli.run.session import open_run

    chosen = [table for table in TABLES if table.number in (tables or [1, 2, 3])]
    unknown = set(tables or ()) - {table.number for table in chosen}
    if unknown:
        raise UsageError(f"there is no table {min(unknown)}", hint="--table takes 1, 2 or 3")
    if mirror is not None and not mirror.is_dir():
        raise UsageError(f"there is no folder {mirror}", hint="give a folder with NAME/FILE of each benchmark")
    rows = {table.number: _rows(table, out, mirror) for table in chosen}
    stop = Stop()
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, stopping(stop):
        ready = []
        for table in chosen:
            plan = how.plan(named_config(table.config(as_run=as_run)))
            dataset = open_dataset(plan, str(rows[table.number].path), Path(spool_to))
            ready.append(
                (table, plan, dataset, check_data(plan, dataset, limit=how.limit, sample=how.sample, seed=how.seed))
            )
        if not how.quiet:
            _announce(ready)
        options = [
            how.run_options(
                plan,
                dataset,
                facts,
                (table.config(as_run=as_run), str(rows[table.number].path)),
                how.recording(plan),
                out=out / f"table{table.number}" / plan.name,
                preload=partial(preload_report, plan),
            )
            for table, plan, dataset, facts in ready
        ]
        sessions = [open_run(option) for option in options]
        if not yes and how.replay is None and not all(session.is_finished for session in sessions):
            _confirm()
        results = execute_all_or_exit(sessions, out, stop, how)
    reports = [write_report(result, warn=print_error) for result in results]
    found = [
        TableResult(table, rows[table.number], report, how.model) for table, report in zip(chosen, reports, strict=True)
    ]
    document = paper_document(found, out)
    write_study(RunDirectory(out), "paper", document)
    if as_json:
        print_json(document.data())
    else:
        to_terminal(render_terminal(document))
        if not how.quiet:
            print_message(f"page: {out / 'paper.html'}")
    raise typer.Exit(3 if any(report.facts.failed for report in reports) else 0)


def _rows(table: PaperTable, out: Path, mirror: Path | None) -> PaperRows:
    from verdict_cli.features.benchmarks.paper import prepare_rows

    try:
        return prepare_rows(table, out / f"table{table.number}", mirror)
    except FetchError as error:
        raise FetchError(
            f"table {table.number}: {error.message}",
            hint=f"{error.hint}; --table leaves out the other tables, --mirror takes the files from a folder",
        ) from None


def _announce(ready: list[tuple[PaperTable, Plan, Dataset, DatasetFacts]]) -> None:
    """Print the calls, tokens and cost of each table."""
    from verdict_cli.report.formatting import money
    from verdict_cli.run.estimate import ASSUMPTIONS, estimate_run, total
    from verdict_cli.storage.datasets.read import stream_rows

    sums = []
    for table, plan, dataset, facts in ready:
        units = estimate_run(plan, stream_rows(dataset, facts.selection), facts.rows)
        models = ", ".join(dict.fromkeys(line.model for line in units))
        sums.append(total(units, f"table {table.number}: {facts.rows:,} rows,", f" of {models}"))
    for line in (*sums, total(sums, "in all:", "")):
        tokens = [
            "unknown" if count is None else f"{count:,}" for count in (line.prompt_tokens, line.completion_tokens)
        ]
        print_message(
            f"{line.unit} {line.calls:,} calls{line.model}, {tokens[0]} prompt tokens, {tokens[1]} reply tokens, "
            f"{money(line.cost_usd)}"
        )
    for assumption in ASSUMPTIONS:
        print_message(f"- {assumption}")


def _confirm() -> None:
    """Ask on a terminal whether to call the models. Exits where the answer is no."""
    if on_terminal() and not typer.confirm("Call the models?", default=True, err=True):
        print_error("stopped: no call was made")
        raise typer.Exit(130)


def on_terminal() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()
