"""The tables of the Verdict paper: the rows that each one needs, and its results beside those of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.errors import FetchError, UsageError
from verdict_cli.features.benchmarks.card import Card, CardFile, card, fetched_file, local_path
from verdict_cli.features.benchmarks.fetch import fetch_file, fetchable
from verdict_cli.features.benchmarks.hub import fetch_rows
from verdict_cli.features.benchmarks.importers import import_benchmark
from verdict_cli.features.benchmarks.verify import findings
from verdict_cli.report import formatting
from verdict_cli.report.document import Links, Note, Only, Part, ReportDocument, Section, Table
from verdict_cli.report.report import PublishedComparison, Report, metric_json
from verdict_cli.report.study_files import write_rows

LARGEST_FILE = 1 << 30


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table: its benchmark's card, the pipeline as printed and as the authors' library runs it, and its rows.

    ``subset`` is (column, value) of the rows in a benchmark of several sets; None: all rows.
    """

    number: int
    card: str
    printed: str
    as_run: str
    rows: int
    subset: tuple[str, str] | None = None

    def config(self, *, as_run: bool) -> str:
        """The pipeline's name."""
        return self.as_run if as_run else self.printed


TABLES = (
    PaperTable(1, "xstest", "paper/table1_xstest", "paper/table1_xstest", 450),
    PaperTable(2, "judgebench", "paper/table2_judgebench", "paper/table2_judgebench_as_run", 350),
    PaperTable(3, "aggrefact", "paper/table3_expertqa", "paper/table3_expertqa_as_run", 3_702, ("dataset", "ExpertQA")),
)
"""Tables 1 to 3 of the paper's first version."""


@dataclass(frozen=True, slots=True)
class PaperRows:
    """The rows of a table as its pipeline reads them; ``notes`` say where they differ from the paper's."""

    path: Path
    count: int
    notes: tuple[str, ...]


def prepare_rows(table: PaperTable, folder: Path, mirror: Path | None) -> PaperRows:
    """Write the table's rows to the folder: from the mirror, else the fetched file, else an earlier call of this function,
    else the network. Raises FetchError where they cannot be had, DataError where a file is not the benchmark's."""
    found = card(table.card)
    target = folder / "rows.jsonl"
    notes: list[str] = []
    source = fetched_file(found) if mirror is None else _mirrored(found, mirror)
    if source is None and not target.exists():
        source = _fetched(found, table.subset)
    if source is not None:
        if mirror is not None:
            notes += _deviations(found.files[0], source)
        write_rows(target, _subset(table, import_benchmark(found.name, source).rows()))
    with target.open("rb") as file:
        count = sum(1 for _ in file)
    if not count:
        raise FetchError(f"{source or target} has no row of table {table.number}", hint=f"its source is {found.source}")
    if count != table.rows:
        notes.append(f"{count:,} rows, the paper's table has {table.rows:,}")
    return PaperRows(target, count, tuple(notes))


def _subset(table: PaperTable, rows: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    if table.subset is None:
        return rows
    column, value = table.subset
    return (row for row in rows if row[column] == value)


def _mirrored(found: Card, mirror: Path) -> Path:
    path = mirror / found.name / found.files[0].name
    if not path.exists():
        raise UsageError(
            f"no such file: {path}", hint="a mirror has NAME/FILE of each card: verdict datasets info NAME"
        )
    return path


def _deviations(file: CardFile, path: Path) -> list[str]:
    """How a mirror's file differs from its card."""
    wrong = [finding for finding in findings(file, path) if finding.verdict == "differs"]
    return [
        f"the mirror's {file.name} is not the benchmark's: {finding.what}: {finding.detail}" for finding in wrong[:1]
    ]


def _fetched(found: Card, subset: tuple[str, str] | None) -> Path:
    file = fetchable(found, None)
    if subset is None or file.hub is None:
        return fetch_file(found, file, None, "", LARGEST_FILE).path
    target = local_path(found, file).with_suffix(f".{subset[1]}.jsonl")
    if not target.exists():
        fetch_rows(file.hub, subset, file.columns, target)
    return target


@dataclass(frozen=True, slots=True)
class TableResult:
    """A table and the run that reproduces it; ``model`` is the one that replaced the pipeline's, if any."""

    table: PaperTable
    rows: PaperRows
    report: Report
    model: str | None = None

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
        facts = self.report.facts
        judged = facts.rows - facts.failed
        fewer = [] if judged == self.rows.count else [f"{judged:,} of {self.rows.count:,} rows have a verdict"]
        baselines = [formatting.baseline_notice(model) for model in facts.floors]
        other = [f"judged by {self.model}, not by the table's model"] if self.model else []
        caveats = [self.comparison.caveat] if self.comparison.caveat else []
        return [*caveats, *self.rows.notes, *fewer, *other, *baselines]


def paper_document(results: Sequence[TableResult], folder: Path) -> ReportDocument:
    """The tables with this run's rows in them, and why they may differ."""
    sections = [Section("", [_overview(results)], listed=False, essential=True)]
    for result in results:
        comparison = result.comparison
        parts: list[Part] = [_standings(comparison), *(Note(note, warning=True) for note in result.notes)]
        title = f"Table {result.table.number}: {result.title}, {comparison.metric}"
        sections.append(Section(title, [*parts, Only(("html",), [Links([f"{_run(result)}/report.html"])])]))
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
    return Table(("table", "this run", "95% interval", "the paper", "rows", "cost"), rows, (1, 3, 4, 5))


def _standings(comparison: PublishedComparison) -> Table:
    rows = [
        (row.judge, comparison.shown(row.value), comparison.shown_interval(row), formatting.row_origin(row))
        for row in comparison.standings
    ]
    strong = [index for index, row in enumerate(comparison.standings) if row.ours]
    return Table(("judge", comparison.metric, "95% interval", ""), rows, (1,), strong=strong)


def _json(results: Sequence[TableResult], folder: Path) -> dict[str, Any]:
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
                    for row in comparison.standings
                    if not row.ours
                ],
                "notes": result.notes,
            }
        )
    return {"out": str(folder), "tables": tables}
