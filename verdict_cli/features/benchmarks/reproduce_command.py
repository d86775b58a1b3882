"""`verdict reproduce`: the tables and the frontier of the Verdict paper, with its results beside those of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer
from msgspec import Struct

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import execute_all_or_exit, stopping, tell_cost
from verdict_cli.cli.options import AsJson, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.cli.study import Arm, open_arms
from verdict_cli.errors import FetchError, UsageError
from verdict_cli.features.benchmarks.card import (
    Card,
    CardFile,
    card,
    cards,
    fetched_file,
    find_benchmark,
)
from verdict_cli.features.benchmarks.download import fetch_file, fetchable, findings
from verdict_cli.features.benchmarks.importers import import_benchmark
from verdict_cli.features.sweep.command import StudyCommand, run_study
from verdict_cli.features.sweep.study_file import read_study, studies
from verdict_cli.language.package_files import named_config
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.report.formatting import money
from verdict_cli.report.write_report import preload_report, write_report
from verdict_cli.run.estimate import ASSUMPTIONS, estimate_run, total
from verdict_cli.run.job import Stop
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.paths import write_rows

if TYPE_CHECKING:
    from verdict_cli.report.document import ReportDocument, Table
    from verdict_cli.report.report import PublishedComparison, Report
    from verdict_cli.run.job import RunOptions


LARGEST_FILE = 1 << 30


class PaperTable(Struct, frozen=True):
    """A table: its benchmark's card, the pipeline as printed and as the authors' library runs it, and its rows.

    ``subset`` is (column, value) of the rows in a benchmark of several sets; None: all rows.
    """

    number: int
    card: str
    printed: str
    as_run: str
    rows: int
    library: str
    """What the authors' library, or the benchmark's own protocol, does otherwise."""
    subset: tuple[str, str] | None = None

    def config(self, *, as_run: bool) -> str:
        """The pipeline's name."""
        return self.as_run if as_run else self.printed


TABLES = (
    PaperTable(
        1,
        "xstest",
        "paper/table1_xstest",
        "paper/table1_xstest",
        450,
        "the library has no such judge: it ran as printed",
    ),
    PaperTable(
        2,
        "judgebench",
        "paper/table2_judgebench",
        "paper/table2_judgebench_as_run",
        350,
        "each pair is judged in both orders, and right where both verdicts agree on the label",
    ),
    PaperTable(
        3,
        "aggrefact",
        "paper/table3_expertqa",
        "paper/table3_expertqa_as_run",
        3_702,
        "the mode of three verified judges, not the maximum; the judge at temperature 0.7, the verifier at 0",
        ("dataset", "ExpertQA"),
    ),
)
"""Tables 1 to 3 of the paper's first version."""


class PaperRows(Struct, frozen=True):
    """The rows of a table as its pipeline reads them; ``notes`` say where they differ from the paper's."""

    path: Path
    count: int
    notes: tuple[str, ...]


def prepare_rows(table: PaperTable, folder: Path, mirror: Path | None) -> PaperRows:
    """Write the table's rows to the folder: from the mirror, else the fetched file, else an earlier call of this function,
    else the network. Raises FetchError where they cannot be had, DataError where a file is not the benchmark's."""
    benchmark = card(table.card)
    target = folder / "rows.jsonl"
    notes = []
    source = fetched_file(benchmark) if mirror is None else _mirrored(benchmark, mirror)
    if source is None and not target.exists():
        source = fetch_file(benchmark, fetchable(benchmark, None), None, "", LARGEST_FILE).path
    if source is not None:
        if mirror is not None:
            notes += _deviations(benchmark.files[0], source)
        write_rows(target, _subset(table, import_benchmark(benchmark.name, source).rows()))
    with target.open("rb") as file:
        count = sum(1 for _ in file)
    if not count:
        raise FetchError(
            f"{source or target} has no row of table {table.number}",
            hint=f"its source is {benchmark.source}",
        )
    if count != table.rows:
        notes.append(f"{plural(count, 'row')}, the paper's table has {table.rows:,}")
    return PaperRows(target, count, tuple(notes))


def _subset(table: PaperTable, rows: Iterator[NamedValues]) -> Iterator[NamedValues]:
    if table.subset is None:
        return rows
    column, value = table.subset
    return (row for row in rows if row[column] == value)


def _mirrored(benchmark: Card, mirror: Path) -> Path:
    path = mirror / benchmark.name / benchmark.files[0].name
    if not path.exists():
        raise UsageError(
            f"no such file: {path}",
            hint="a mirror has NAME/FILE of each card: verdict datasets info NAME",
        )
    return path


def _deviations(file: CardFile, path: Path) -> list[str]:
    """How a mirror's file differs from its card."""
    wrong = [finding for finding in findings(file, path) if finding.verdict == "differs"]
    return [
        f"the mirror's {file.name} is not the benchmark's: {finding.what}: {finding.detail}"
        for finding in wrong[:1]
    ]


class TableResult(Struct, frozen=True):
    """A table and the run that reproduces it; ``model`` is the one that replaced the pipeline's, if any."""

    table: PaperTable
    rows: PaperRows
    report: Report
    model: str | None = None
    as_run: bool = False

    @property
    def comparison(self) -> PublishedComparison:
        """The run among the table's rows."""
        return next(iter(self.report.comparisons.values()))

    @property
    def title(self) -> str:
        """The benchmark's name, or that of its subset."""
        return card(self.table.card).title if self.table.subset is None else self.table.subset[1]

    @property
    def notes(self) -> list[str]:
        """Why the values are not of the same thing."""
        from verdict_cli.report.run_notes import baseline_notice

        facts = self.report.facts
        judged = facts.rows - facts.failed
        fewer = (
            []
            if judged == self.rows.count
            else [f"{judged:,} of {plural(self.rows.count, 'row has|rows have')} a verdict"]
        )
        baselines = [baseline_notice(model) for model in facts.floors]
        other = [f"judged by {self.model}, not by the table's model"] if self.model else []
        caveats = [self.comparison.caveat] if self.comparison.caveat else []
        library = [f"as run: {self.table.library}"] if self.as_run else []
        return [*library, *caveats, *self.rows.notes, *fewer, *other, *baselines]


def paper_document(results: Sequence[TableResult], folder: Path) -> ReportDocument:
    """The tables with this run's rows in them, and why they may differ."""
    from verdict_cli.report.document import Links, Note, Only, ReportDocument, Section

    sections = [Section("", [_overview(results)], essential=True)]
    for result in results:
        comparison = result.comparison
        parts = [
            _standings(comparison),
            *(Note(note, warning=True) for note in result.notes),
        ]
        title = f"Table {result.table.number}: {result.title}, {comparison.metric}"
        sections.append(
            Section(title, [*parts, Only(("html",), [Links([f"{_run(result)}/report.html"])])])
        )
    lead = "Kalra and Tang, Verdict: A Library for Scaling Judge-Time Compute, tables 1 to 3"
    return ReportDocument(
        "The paper's tables",
        sections,
        "Verdict reproduction",
        lead,
        "in paper.html",
        data=lambda: _json(results, folder),
    )


def _run(result: TableResult) -> str:
    return f"table{result.table.number}/{Path(result.report.run).name}"


def _overview(results: Sequence[TableResult]) -> Table:
    from verdict_cli.report.document import Table

    rows = []
    for result in results:
        comparison, facts = result.comparison, result.report.facts
        ours = next(row for row in comparison.standings if row.ours)
        rows.append(
            (
                f"{result.table.number}, {result.title}",
                comparison.shown(ours.value),
                comparison.shown_interval(ours),
                ", ".join(comparison.shown(row.value) for row in comparison.standings if row.own),
                f"{facts.rows - facts.failed:,} of {result.table.rows:,}",
                formatting.money(facts.cost_usd),
            )
        )
    return Table(
        ("table", "this run", "95% interval", "the paper", "rows", "cost"), rows, (1, 3, 4, 5)
    )


def _standings(comparison: PublishedComparison) -> Table:
    from verdict_cli.report.document import Table
    from verdict_cli.report.run_notes import row_origin

    rows = [
        (row.judge, comparison.shown(row.value), comparison.shown_interval(row), row_origin(row))
        for row in comparison.standings
    ]
    strong = [index for index, row in enumerate(comparison.standings) if row.ours]
    return Table(("judge", comparison.metric, "95% interval", ""), rows, (1,), strong=strong)


def _json(results: Sequence[TableResult], folder: Path) -> JsonObject:
    from verdict_cli.report.report import metric_json

    tables = []
    for result in results:
        comparison, facts = result.comparison, result.report.facts
        measures = next(iter(result.report.measures.values()))
        metric = measures.values[comparison.metric]
        tables.append(
            {
                "table": result.table.number,
                "benchmark": result.table.card,
                "pipeline": facts.name,
                "run": result.report.run,
                "rows": facts.rows,
                "failed": facts.failed,
                "calls": facts.calls,
                "cost_usd": facts.cost_usd,
                "metric": comparison.metric,
                "result": metric_json(metric),
                "published": [
                    {"judge": row.judge, "value": comparison.shown(row.value), "own": row.own}
                    for row in comparison.others
                ],
                "notes": result.notes,
            }
        )
    return {"out": str(folder), "tables": tables}


Reproducible = Literal["paper", "figure3", "frontier"]
"""What can be reproduced."""


def reproduce(
    what: Annotated[
        Reproducible,
        typer.Argument(help="The paper's tables, its figure 3, or the frontier of a pipeline."),
    ],
    pipeline: Annotated[
        str | None, typer.Argument(help="The pipeline of `frontier`, or its name.")
    ] = None,
    tables: Annotated[
        list[int] | None,
        typer.Option(
            "--table", metavar="N", help="Only this table; may be repeated. [default: 1, 2, 3]"
        ),
    ] = None,
    as_run: Annotated[
        bool,
        typer.Option(
            "--as-run",
            help="The judges as the authors' library and JudgeBench run them, not as printed.",
        ),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", help="The rows of `frontier`. [default: those of the pipeline's benchmark]"
        ),
    ] = None,
    mirror: Annotated[
        Path | None,
        typer.Option(
            "--mirror",
            help="A folder with the benchmarks' files, NAME/FILE each. [default: their sources]",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The directory of the runs and the result. [default: runs/WHAT]"
        ),
    ] = None,
    yes: Yes = False,
    *,
    how: RowOptions,
    as_json: AsJson = False,
) -> None:
    """Run the judges of the paper's tables or figure 3, and show the results beside the paper's.

    Fetches the rows that are needed, shows calls, tokens and cost, and on a terminal asks before it calls a model. `figure3`
    and `frontier` draw the Pareto frontier of accuracy against cost and latency; their variants are in configs/studies.
    Rerun the same command to resume.

    Example: verdict reproduce figure3 --model baseline/lexical --limit 50
    """
    _check_words(what, pipeline, data, tables, as_run=as_run)
    if mirror is not None and what == "frontier":
        raise UsageError("frontier takes no --mirror", hint="give the rows with --data")
    if mirror is not None and not mirror.is_dir():
        raise UsageError(
            f"there is no folder {mirror}", hint="give a folder with NAME/FILE of each benchmark"
        )
    folder = out or Path("runs") / what
    if what == "paper":
        chosen = [table for table in TABLES if table.number in (tables or [1, 2, 3])]
        _reproduce_tables(chosen, folder, mirror, how, as_run=as_run, as_json=as_json, yes=yes)
    if what == "figure3":
        command = _figure3(folder, mirror)
    else:
        command = _frontier(pipeline or "", data, folder)
    if how.model is not None:
        note = f"judged by {how.model}, not by the models of the study {command.path.stem}"
        command = replace(command, notes=(*command.notes, note))
    run_study(command, how, as_json=as_json, yes=yes)


def _check_words(
    target: Reproducible,
    pipeline: str | None,
    data: str | None,
    tables: list[int] | None,
    *,
    as_run: bool,
) -> None:
    """Raises UsageError for options of another reproduction."""
    unknown = set(tables or ()) - {table.number for table in TABLES}
    if unknown:
        raise UsageError(f"there is no table {min(unknown)}", hint="--table takes 1, 2 or 3")
    if target != "paper" and (tables or as_run):
        raise UsageError(f"{target} has no tables", hint="remove --table and --as-run")
    if target != "frontier" and (pipeline or data):
        raise UsageError(
            f"the pipeline and the data of {target} are fixed",
            hint="verdict reproduce frontier PIPELINE --data DATA takes any",
        )
    if target == "frontier" and pipeline is None:
        raise UsageError("frontier needs a pipeline", hint="verdict reproduce frontier xstest")


def _figure3(folder: Path, mirror: Path | None) -> StudyCommand:
    """The paper's figure 3, on the rows of table 3; on this project's sample where they cannot be fetched."""
    table = TABLES[2]
    benchmark = card(table.card)
    available = mirror is not None or fetched_file(benchmark) is not None
    available = available or (folder / "rows.jsonl").exists() or bool(os.environ.get("HF_TOKEN"))
    if available:
        rows = prepare_rows(table, folder, mirror)
        source, notes = str(rows.path), rows.notes
    else:
        source = (benchmark.sample or "").removesuffix(".jsonl")
        notes = (
            f"the rows are this project's sample {source}, not those of figure 3: accept the terms of {benchmark.source} and set "
            "HF_TOKEN, or give --mirror",
        )
        print_error(f"warning: {notes[0]}")
    return _study_command("figure3", {"figure": ""}, source, folder, notes)


def _frontier(pipeline: str, data: str | None, folder: Path) -> StudyCommand:
    """The frontier of a pipeline, by several models."""
    name = pipeline.removesuffix(".yaml")
    benchmark = next((card for card in cards().values() if card.config == name), None)
    notes: tuple[str, ...] = ()
    if data is None and benchmark is None:
        raise UsageError(
            f"{pipeline} is not the pipeline of a benchmark, so its data are not known",
            hint=f"verdict reproduce frontier {pipeline} --data DATA",
        )
    if data is None and benchmark is not None:
        located = find_benchmark(benchmark, None)
        data = str(located.path)
        if located.sample:
            notes = (f"the rows are this project's sample, not {benchmark.title}",)
            print_error(f"warning: {notes[0]}: verdict datasets fetch {benchmark.name}")
    command = _study_command("frontier", {"frontier": ""}, data or "", folder, notes)
    study = command.study.model_copy(update={"pipeline": pipeline})
    return replace(command, study=study)


def _study_command(
    name: str, facts: JsonObject, data: str, folder: Path, notes: Sequence[str]
) -> StudyCommand:
    """The command of a study that comes with verdict."""
    path = studies()[name]
    study = read_study(path)
    assert study is not None
    return StudyCommand(
        study, path, data, folder, facts, tuple(notes), "Verdict reproduction", name
    )


def _reproduce_tables(
    chosen: Sequence[PaperTable],
    out: Path,
    mirror: Path | None,
    how: RowOptions,
    *,
    as_run: bool,
    as_json: bool,
    yes: bool,
) -> NoReturn:
    """Judge the rows of each table, and show it with this run's row."""
    rows = {table.number: _rows(table, out, mirror) for table in chosen}
    arms = []
    for table in chosen:
        config = table.config(as_run=as_run)
        plan = how.plan(named_config(config))
        arms.append(
            Arm(
                f"table {table.number}",
                plan,
                config,
                str(rows[table.number].path),
                out / f"table{table.number}" / plan.name,
                change=partial(replace, preload=partial(preload_report, plan)),
            )
        )
    with stopping(stop := Stop()), open_arms(arms, how) as sessions:
        if not how.quiet:
            _announce(
                [(arm.name, session.options) for arm, session in zip(arms, sessions, strict=True)]
            )
        tell_cost(sessions, yes=yes, quiet=True)  # the tables' costs are told above
        results = execute_all_or_exit(sessions, out, stop, how)
    reports = [write_report(result, warn=print_error) for result in results]
    table_results = [
        TableResult(table, rows[table.number], report, how.model, as_run)
        for table, report in zip(chosen, reports, strict=True)
    ]
    page = "" if how.quiet else f"page: {out / 'paper.html'}"
    show_study(paper_document(table_results, out), out, "paper", as_json=as_json, message=page)
    raise typer.Exit(3 if any(report.facts.failed for report in reports) else 0)


def _rows(table: PaperTable, out: Path, mirror: Path | None) -> PaperRows:
    try:
        return prepare_rows(table, out / f"table{table.number}", mirror)
    except FetchError as error:
        raise FetchError(
            f"table {table.number}: {error.message}",
            hint=f"{error.hint}; --table leaves out the other tables, --mirror takes the files from a folder",
        ) from None


def _announce(runs: Sequence[tuple[str, RunOptions]]) -> None:
    """Print the calls, tokens and cost of each table."""
    sums = []
    for name, run in runs:
        rows = stream_rows(run.dataset, run.data.selection)
        units = estimate_run(run.plan, rows, run.data.rows)
        models = ", ".join(dict.fromkeys(line.model for line in units))
        sums.append(total(units, f"{name}: {plural(run.data.rows, 'row')},", f" of {models}"))
    for line in (*sums, total(sums, "in all:", "")):
        tokens = [
            "unknown" if count is None else f"{count:,}"
            for count in (line.prompt_tokens, line.completion_tokens)
        ]
        print_message(
            f"{line.unit} {plural(line.calls, 'call')}{line.model}, {tokens[0]} prompt tokens, {tokens[1]} reply tokens, "
            f"{money(line.cost_usd)}"
        )
    for assumption in ASSUMPTIONS:
        print_message(f"- {assumption}")
