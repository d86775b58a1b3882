"""The result of a run: as it ended, or read again from its directory."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from verdict_cli.errors import UsageError
from verdict_cli.language.load import load
from verdict_cli.messages import RunFacts
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.validate_run import check_links, check_tables
from verdict_cli.storage.object_store.folder import was_url


class RunResult(NamedTuple):
    """A run's directory, which has its tables, with its facts and its plan."""

    directory: RunDirectory
    facts: RunFacts
    plan: Plan


def load_run(path: Path) -> RunResult:
    """The run in a directory. UsageError where there is none, or it has no results yet.

    DataError where its tables hold what no run writes: the directory may come from a stranger.
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
    check_tables(directory.results, directory.calls, plan)
    return RunResult(directory, facts, plan)
