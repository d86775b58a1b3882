"""Recompute the published values of judges from their recorded replies.

    python benchmarks/recorded_judges.py NAME RECORDINGS [--out DIR] [--json]

NAME is `all`, a set, or the beginning of a case's name such as `llmbar/GPT-4`. RECORDINGS is the folder that
`benchmarks/rebuild_recordings.py` makes. A set of which a file is missing is skipped and counted. Exit code 1: a value differs
without a known reason.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recorded import Case, PublishedValue, SkippedSet, select_cases

from verdict_cli.cli.console import print_error, print_json, print_message
from verdict_cli.cli.progress import show_steps
from verdict_cli.cli.show_report import print_document
from verdict_cli.errors import DataError, VerdictError
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.overrides import apply_override
from verdict_cli.language.package_files import named_config
from verdict_cli.plan.build import load_plan
from verdict_cli.plural import plural
from verdict_cli.report.document import ReportDocument, Section, Table
from verdict_cli.report.formatting import interval
from verdict_cli.run.job import RunOptions
from verdict_cli.run.preflight import dataset_for, load_recording
from verdict_cli.run.session import open_run
from verdict_cli.storage.datasets.read import scan
from verdict_cli.storage.paths import output_errors, write_rows

if TYPE_CHECKING:
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
    rows, recorded = case.inputs()
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


def reproduce_all(
    name: str, recordings: Path, out: Path | None
) -> tuple[list[Reproduction], list[SkippedSet]]:
    """The results of the cases, and what is left out because a file of it is missing. DataError where that is everything."""
    selection = select_cases(name, recordings)
    results = []
    skipped = list(selection.skipped)
    steps = show_steps("reproducing", "cases")
    with tempfile.TemporaryDirectory(prefix="verdict-") as scratch, steps as show:
        for index, case in enumerate(selection.cases):
            show(index, len(selection.cases))
            try:
                results += reproduce(case, (out or Path(scratch)) / case.name)
            except DataError as error:
                if error.problem.code != "file-not-found":
                    raise
                skipped.append(SkippedSet(case.name, error.problem))
    if skipped and not results:
        raise DataError(skipped[0].problem)
    for one in skipped:
        print_error(f"skipped: {one.name}: {DataError(one.problem)}")
    if out is not None:
        print_message(f"pipeline, data, recording and results of each case: {out}")
    return results, skipped


def show(results: Sequence[Reproduction], skipped: Sequence[SkippedSet], *, as_json: bool) -> None:
    """Print the values beside the published ones."""
    same = sum(result.same and not result.note for result in results)
    if as_json:
        figures = [{**asdict(result), "same": result.same} for result in results]
        print_json({"figures": figures, "same": same, "skipped": [one.name for one in skipped]})
        return
    rows = [
        (
            result.case,
            result.name,
            result.format(result.value),
            interval(result.low, result.high),
            result.format(result.published),
            result.difference,
        )
        for result in results
    ]
    headers = ("case", "metric", "ours", "95% interval", "published", "difference")
    table = Table(headers, rows, (2, 4))
    print_document(
        ReportDocument("Recorded judges", [Section("", [table], listed=False)]), as_json=False
    )
    left_out = f"; {plural(len(skipped), 'set or case|sets or cases')} skipped" if skipped else ""
    sys.stdout.write(
        f"{same:,} of {len(results):,} results equal the published ones in every digit{left_out}\n"
    )


def main(words: Sequence[str] | None = None) -> int:
    """The exit code of the script with these arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("recordings", metavar="RECORDINGS", type=Path)
    parser.add_argument("--out", type=Path, help="keep pipeline, data and results of each case")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args(words)
    try:
        results, skipped = reproduce_all(options.name, options.recordings, options.out)
    except VerdictError as error:
        print_error(str(error))
        return error.exit_code
    show(results, skipped, as_json=options.as_json)
    return 0 if all(result.same or result.note for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
