"""Recompute published values from the recorded replies of judges, by the pipelines of `configs/reproductions`."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from verdict_cli import __version__
from verdict_cli.benchmarks.recorded import NOT_POSSIBLE
from verdict_cli.benchmarks.recorded.case import Case, PublishedValue
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.overrides import apply_override
from verdict_cli.language.package_files import named_config
from verdict_cli.messages import RunFacts
from verdict_cli.plan.load_plan import load_plan
from verdict_cli.run.job import RunJob, Stop
from verdict_cli.run.local import run_locally
from verdict_cli.run.preflight import check_dataset, recording
from verdict_cli.run.run_directory import RunDirectory, refusing
from verdict_cli.run.run_metadata import run_fingerprint, starting
from verdict_cli.stats.figures import Measures
from verdict_cli.stats.measure import measure
from verdict_cli.storage.datasets.read import scan


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
    measures = _measured(case, folder)
    return [_compare(case, published, measures) for published in case.values]


def _measured(case: Case, folder: Path) -> Mapping[str, Measures]:
    config, data, replies = folder / "pipeline.yaml", folder / "data.jsonl", folder / "replay.jsonl"
    place = RunDirectory(folder / "out")
    place.prepare()
    shutil.copy(named_config(f"reproductions/{case.pipeline}"), config)
    rows, recorded = case.inputs()
    write(data, rows)
    write(replies, recorded)
    plan = load_plan(apply_override(read_document(config), case.settings), folder).plan
    source = check_dataset(plan, [data])
    found = scan(source)
    facts = RunFacts(
        name=plan.name,
        status="running",
        config=str(config),
        dataset=str(data),
        spec_fingerprint=run_fingerprint(plan, 0, replies),
        data_fingerprint=found.fingerprint,
        version=__version__,
        started="",
        seed=0,
        rows=found.rows,
        skipped_bad_rows=0,
    )
    job = RunJob(plan, source, found, place, starting(facts, None), recording=recording(replies, plan), fresh=True)
    run_locally(job, Stop(), lambda _: None)
    return measure(plan.evaluations, place.results)


def _compare(case: Case, published: PublishedValue, measures: Mapping[str, Measures]) -> Reproduction:
    evaluation, _, metric = published.metric.rpartition(".")
    found = measures[evaluation].figures[metric]
    value, low, high = (
        None if number is None else published.convert(number) for number in (found.value, found.low, found.high)
    )
    return Reproduction(
        case.name,
        published.name,
        value,
        low,
        high,
        found.n,
        published.value,
        published.decimals,
        published.note,
        case.origin == "recomputed",
    )


TABLE_HEAD = "| case | value | ours | published | difference | command |\n| --- | --- | ---: | ---: | ---: | --- |"


def reproductions_page(results: Sequence[Reproduction]) -> str:
    """`docs/reproductions.md`: a table for each set, each value with the command that prints it."""
    sets: dict[str, list[Reproduction]] = {}
    for result in results:
        sets.setdefault(result.case.partition("/")[0], []).append(result)
    same = sum(result.same and not result.note for result in results)
    recomputed = sorted({result.case for result in results if result.recomputed})
    parts = [
        "# Reproductions",
        "Generated by `make reproductions`; not written by hand.",
        f"{len(results)} values of judges whose replies were recorded by others, recomputed from those replies with the "
        f"pipelines in `configs/reproductions`. {same} of them are the same in every digit shown; the others state the reason. "
        "RECORDINGS is the folder of the recorded sets, each in a folder of its own. With `--out DIR`, a command also "
        "leaves the pipeline, dataset, recording and results of every case there.",
    ]
    if recomputed:
        parts.append(
            "The values to reproduce are published ones, except in these cases, where the people who collected the recordings "
            f"computed them: {', '.join(recomputed)}."
        )
    for name, group in sets.items():
        parts += [f"## {name}", "\n".join([TABLE_HEAD, *map(_page_row, group)])]
    parts += ["## Not reproduced", "\n".join(f"- {name}: {why}." for name, why in NOT_POSSIBLE.items())]
    return "\n\n".join(parts) + "\n"


def _page_row(result: Reproduction) -> str:
    cells = (
        result.case,
        result.name,
        result.format(result.value),
        result.format(result.published),
        result.difference,
        f"`verdict bench {result.case} --replay RECORDINGS`",
    )
    return f"| {' | '.join(cells)} |"


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as a JSONL file, atomically, and return their number. Raises OutputError if that fails."""
    count = 0
    part = path.with_name(f"{path.name}.part")
    with refusing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            for row in rows:
                file.write(orjson.dumps(row) + b"\n")
                count += 1
        part.replace(path)
    return count
