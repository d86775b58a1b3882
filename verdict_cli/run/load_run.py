"""A run that stands on disk, read again from its own files."""

from __future__ import annotations

from pathlib import Path

from verdict_cli.errors import UsageError
from verdict_cli.language.load import load
from verdict_cli.messages import RunFacts
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.validate_run import check_links, check_tables
from verdict_cli.storage.object_store.folder import was_url


def load_run(path: Path) -> tuple[RunDirectory, RunFacts, Plan]:
    """A finished run's directory, facts and plan, from its own files. UsageError when it is not one.

    DataError where its tables hold what no run writes: the directory may be a stranger's.
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
        raise UsageError(f"the run in {path} has no results yet", hint="the command that started it goes on with it")
    plan = build_plan(load(path / "spec.yaml")).plan
    check_tables(directory.results, directory.calls, plan)
    return directory, facts, plan
