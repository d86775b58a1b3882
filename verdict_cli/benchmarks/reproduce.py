"""Figures of recorded judges, made anew from their replies by the pipelines of `configs/reproductions`."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from verdict_cli import __version__
from verdict_cli.benchmarks.recorded.case import Case, PublishedFigure
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
from verdict_cli.stats.measure import Measures, measure
from verdict_cli.storage.datasets.read import scan


@dataclass(frozen=True, slots=True)
class Reproduced:
    """One figure beside the given one; `low` and `high` are the ends of its 95% interval, in its own unit.

    `value` is None where there is none; `recomputed` tells that the given figure is not a published one.
    """

    case: str
    what: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    given: float
    decimals: int
    note: str
    recomputed: bool

    @property
    def same(self) -> bool:
        """Whether both are equal in every digit of the given one."""
        off = None if self.value is None else abs(self.value - self.given)
        return off is not None and off <= 0.5 * 10**-self.decimals + 1e-9

    @property
    def difference(self) -> str:
        """`0`, or by how much ours is above, and why."""
        if self.value is None:
            return self.note or "no value"
        off = "0" if self.same else f"{self.value - self.given:+.{self.decimals}f}"
        return f"{off}: {self.note}" if self.note else off

    def written(self, value: float | None) -> str:
        """A value with the given figure's decimals."""
        return "none" if value is None else f"{value:.{self.decimals}f}"


def reproduced(case: Case, folder: Path) -> list[Reproduced]:
    """The figures of a case. `folder`, made where it is missing, then holds its pipeline, data, recording and results."""
    measures = _measured(case, folder)
    return [_beside(case, figure, measures) for figure in case.figures]


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


def _beside(case: Case, figure: PublishedFigure, measures: Mapping[str, Measures]) -> Reproduced:
    evaluation, _, metric = figure.at.rpartition(".")
    found = measures[evaluation].values[metric]
    value, low, high = (None if each is None else figure.made(each) for each in (found.value, found.low, found.high))
    return Reproduced(
        case.name,
        figure.what,
        value,
        low,
        high,
        found.n,
        figure.given,
        figure.decimals,
        figure.note,
        case.origin == "recomputed",
    )


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Writes rows as JSONL, the file as a whole or not at all, and returns their number. OutputError when refused."""
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
