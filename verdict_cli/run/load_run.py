"""The result of a run: as it ended, or read again from its directory."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from verdict_cli.errors import UsageError
from verdict_cli.language.load import load, validated
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.run.digests import check_digests
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.validate_run import check_links, check_rows, check_tables
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.paths import was_url
from verdict_cli.storage.tables.reader import read_table

if TYPE_CHECKING:
    import pandas


class RunResult(NamedTuple):
    """A run's directory, which has its tables, with its facts and its plan."""

    directory: RunDirectory
    facts: RunFacts
    plan: Plan

    def to_pandas(self) -> pandas.DataFrame:
        """The columns of `results.parquet`, one row a row of the data. UsageError where pandas is not installed."""
        check_pandas("to_pandas")
        import pandas

        frames = [pandas.DataFrame(columns) for columns in read_table(self.directory.results)]
        return pandas.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]


def check_pandas(what: str) -> None:
    """Raise UsageError where pandas is not installed, which only DataFrames need."""
    if find_spec("pandas") is None:
        raise UsageError(
            f"{what} gives a DataFrame, and pandas is not installed",
            hint="in a checkout of verdict: pip install '.[pandas]'; `verdict run` needs no pandas",
        )


def pipeline_key(run: RunResult) -> tuple[str, str]:
    """What two runs of one pipeline have in common: the pipeline without its seeds, and the recording that answers."""
    spec = load(run.directory.path / "spec.yaml")
    plain = replace(spec.document, data=_without_seeds(spec.document.data))
    seeded = plain.data != spec.document.data
    fingerprint = build_plan(validated(plain, spec.folder)).plan.fingerprint if seeded else run.plan.fingerprint
    return fingerprint, run.facts.replay


def _without_seeds(value: Any) -> Any:
    """A pipeline file's content without the `seed` of its models."""
    if isinstance(value, dict):
        seeded = "name" in value and isinstance(value.get("seed"), int)
        return {key: _without_seeds(item) for key, item in value.items() if not (seeded and key == "seed")}
    return [_without_seeds(item) for item in value] if isinstance(value, list) else value


def load_run(path: Path, *, unchanged: bool = False) -> RunResult:
    """The run in a directory. UsageError where there is none, or it has no results yet.

    DataError where its tables hold what no run writes, since the directory may come from a stranger, and where rows are
    missing; with `unchanged` where the tables are not, byte by byte, as the run wrote them.
    """
    directory = RunDirectory(path)
    check_links(path)
    facts = directory.facts()
    if facts is None or not (path / "spec.yaml").exists():
        raise UsageError(
            f"{path} is not the directory of a run",
            hint="copy the run from its store, and give that path"
            if was_url(path)
            else "give the --out of a `verdict run`; it holds run.json",
        )
    if not directory.results.exists():
        raise UsageError(f"the run in {path} has no results yet", hint="the command that started it resumes it")
    plan = build_plan(load(path / "spec.yaml")).plan
    check_rows(directory.results, facts)
    if unchanged:
        check_digests(directory, facts)
    check_tables(directory.results, directory.calls, plan)
    return RunResult(directory, facts, plan)
