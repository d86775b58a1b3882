"""`verdict bench NAME`: judge a benchmark, or recompute published values from the recorded replies of judges."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli import completion
from verdict_cli.cli.console import print_error, print_json, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Yes
from verdict_cli.cli.progress import show_steps
from verdict_cli.cli.run import RunCommand, judged_dataset
from verdict_cli.cli.show_report import exit_code, print_document, show_report
from verdict_cli.errors import DataError, UsageError
from verdict_cli.features.benchmarks.card import Card, find_benchmark
from verdict_cli.features.benchmarks.card import card as card_of
from verdict_cli.features.benchmarks.recorded import (
    Case,
    PublishedValue,
    select_cases,
)
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.overrides import apply_override
from verdict_cli.language.package_files import named_config
from verdict_cli.plan.build import load_plan
from verdict_cli.plural import plural
from verdict_cli.report.formatting import interval
from verdict_cli.run.job import RunOptions
from verdict_cli.run.preflight import dataset_for, load_recording
from verdict_cli.run.session import open_run
from verdict_cli.storage.datasets.read import scan
from verdict_cli.storage.paths import output_errors, write_rows

if TYPE_CHECKING:
    from verdict_cli.report.report import Report
    from verdict_cli.run.load_run import RunResult
    from verdict_cli.stats.measure import Measures


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A recomputed value beside the published one. ``low`` and ``high`` are the ends of its 95% interval.

    ``value`` is None if the run has none. ``recomputed``: the value to reproduce was not published, but computed by the people
    who collected the recordings.
    """

    case: str
    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    published: float
    decimals: int
    note: str
    recomputed: bool

    @property
    def same(self) -> bool:
        """Whether both are equal in every published digit."""
        off = None if self.value is None else abs(self.value - self.published)
        return off is not None and off <= 0.5 * 10**-self.decimals + 1e-9

    @property
    def difference(self) -> str:
        """`0`, or the difference from the published value, and its reason."""
        if self.value is None:
            return self.note or "no value"
        off = "0" if self.same else f"{self.value - self.published:+.{self.decimals}f}"
        return f"{off}: {self.note}" if self.note else off

    def format(self, value: float | None) -> str:
        """A value with the decimals of the published one."""
        return "none" if value is None else f"{value:.{self.decimals}f}"


def reproduce(case: Case, folder: Path) -> list[Reproduction]:
    """The values of a case. `folder`, created if missing, then has its pipeline, data, recording and results."""
    from verdict_cli.stats.measure import measure

    run = run_case(case, folder)
    measures = measure(run.plan.evaluations, run.directory.results)
    return [_compare(case, published, measures) for published in case.values]


def run_case(case: Case, folder: Path) -> RunResult:
    """The run of a case's recorded replies. `folder`, created if missing, then has its pipeline, data, recording and results."""
    config, data, replies = folder / "pipeline.yaml", folder / "data.jsonl", folder / "replay.jsonl"
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copy(named_config(f"reproductions/{case.pipeline}"), config)
    rows, recorded = case.read()
    write_rows(data, rows)
    write_rows(replies, recorded)
    plan = load_plan(apply_override(read_document(config), case.settings), folder).plan
    source = dataset_for(plan, [data])
    options = RunOptions(
        plan=plan,
        dataset=source,
        data=scan(source),
        config=str(config),
        source=str(data),
        out=folder / "out",
        replay=replies,
        recording=load_recording(replies, plan),
        fresh=True,
    )
    with open_run(options) as session:
        return session.execute()


def _compare(
    case: Case, published: PublishedValue, measures: Mapping[str, Measures]
) -> Reproduction:
    evaluation, _, metric = published.metric.rpartition(".")
    ours = measures[evaluation].values[metric]
    value, low, high = (
        None if number is None else published.convert(number)
        for number in (ours.value, ours.low, ours.high)
    )
    return Reproduction(
        case.name,
        published.name,
        value,
        low,
        high,
        ours.n,
        published.value,
        published.decimals,
        published.note,
        case.origin == "recomputed",
    )


def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="The benchmark. With --replay RECORDINGS also one of its recorded judges, or `all`.",
            autocompletion=completion.benchmarks,
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="The benchmark's own file. [default: the fetched file]"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The run's directory. With RECORDINGS, the directory of the cases."
        ),
    ] = None,
    *,
    options: RowOptions,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Judge a benchmark with its pipeline, and show the metrics next to the published results.

    With --replay RECORDINGS, the folder of the recorded sets (one folder each), reproduce the published results from the
    recorded replies.

    Example: verdict bench xstest --model baseline/lexical
    """
    if markdown and as_json:
        raise UsageError("--markdown and --json cannot be combined", hint="give one of them")
    replay = options.replay
    if replay is not None and not replay.exists():
        raise UsageError(
            f"there is no recording {replay}",
            hint="give a run, its calls, or the folder of recorded sets",
        )
    if replay is not None and replay.is_dir() and not (replay / "calls.parquet").exists():
        if options.model or options.limit or data or options.settings or options.budget is not None:
            raise UsageError(
                "the models, data and pipelines of recorded judges are fixed",
                hint="remove --model, --limit, --data, --set and --budget",
            )
        results, skipped = _reproduce(name, replay, out, quiet=options.quiet)
        _show_results(results, skipped, markdown=markdown, as_json=as_json)
        raise typer.Exit(0 if all(result.same or result.note for result in results) else 1)
    if name == "all":
        raise UsageError("`all` needs recordings", hint="verdict bench all --replay RECORDINGS")
    card = card_of(name)
    if card.config is None:
        raise UsageError(
            f"{name} has no pipeline to judge it with",
            hint=f"its recorded judges: verdict bench {name} --replay RECORDINGS",
        )
    located = find_benchmark(card, data)
    report = judged_dataset(
        named_config(card.config),
        str(located.path),
        replace(options, settings=[*card.settings, *(options.settings or ())]),
        RunCommand(yes=yes),
        out=out,
    )
    _show_report(report, card, sample=located.sample, markdown=markdown, as_json=as_json)
    raise typer.Exit(exit_code(report))


def _show_report(
    report: Report, card: Card, *, sample: bool, markdown: bool, as_json: bool
) -> None:
    from verdict_cli.report.renderers.markdown import render_markdown
    from verdict_cli.report.report import full_json, summary_json
    from verdict_cli.report.run_document import run_document

    if as_json:
        print_json(
            {
                **summary_json(report),
                "benchmark": card.name,
                "dataset": report.facts.dataset,
                "sample": sample,
                "wall_s": report.facts.wall_s,
                "published": full_json(report)["published"],
            }
        )
        return
    if sample:
        sys.stdout.write(
            f"! this is not the data of {card.title}, but this project's small sample ({card.sample}). Its metrics say\n"
            f"  nothing about {card.title}. For the data, `verdict datasets fetch {card.name}`, or give --data PATH.\n\n"
        )
    if markdown:
        sys.stdout.write(render_markdown(run_document(report)))
    else:
        show_report(report, as_json=False)


def _reproduce(
    name: str, recordings: Path, out: Path | None, *, quiet: bool
) -> tuple[list[Reproduction], list[str]]:
    """The results of the cases, and what is left out because a file of it is missing. DataError where that is everything."""
    cases, skipped = select_cases(name, recordings)
    results = []
    steps = show_steps("reproducing", "cases", quiet=quiet)
    with tempfile.TemporaryDirectory(prefix="verdict-") as scratch, steps as show:
        for index, case in enumerate(cases):
            show(index, len(cases))
            try:
                results += reproduce(case, (out or Path(scratch)) / case.name)
            except DataError as error:
                if error.problem.code != "file-not-found":
                    raise
                skipped[case.name] = error.problem
    if skipped and not results:
        raise DataError(next(iter(skipped.values())))
    for omission, problem in skipped.items():
        print_error(f"skipped: {omission}: {DataError(problem)}")
    if out is not None and not quiet:
        print_message(f"pipeline, data, recording and results of each case: {out}")
    return results, list(skipped)


def _show_results(
    results: Sequence[Reproduction],
    skipped: Sequence[str],
    *,
    markdown: bool,
    as_json: bool,
) -> None:
    from verdict_cli.report.document import ReportDocument, Section, Table
    from verdict_cli.report.renderers.markdown import render_markdown

    same = sum(result.same and not result.note for result in results)
    if as_json:
        print_json(
            {
                "figures": [{**asdict(result), "same": result.same} for result in results],
                "same": same,
                "skipped": skipped,
            }
        )
        return
    rows = [
        (
            result.case,
            result.name,
            result.format(result.value),
            interval(result),
            result.format(result.published),
            result.difference,
        )
        for result in results
    ]
    headers = ("case", "metric", "ours", "95% interval", "published", "difference")
    document = ReportDocument("Recorded judges", [Section("", [Table(headers, rows, (2, 4))])])
    if markdown:
        sys.stdout.write(render_markdown(document))
    else:
        print_document(document, as_json=False)
    left_out = f"; {plural(len(skipped), 'set or case|sets or cases')} skipped" if skipped else ""
    sys.stdout.write(
        f"{same:,} of {len(results):,} results equal the published ones in every digit{left_out}\n"
    )
