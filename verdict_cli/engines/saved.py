"""A run that stands on disk, read again from its own files."""

from __future__ import annotations

from pathlib import Path

from verdict_cli.engines.directory import RunDirectory
from verdict_cli.engines.sound import check_links, check_tables
from verdict_cli.errors import UsageError
from verdict_cli.places import was_url
from verdict_cli.plan import Plan, build
from verdict_cli.spec import load
from verdict_cli.values import RunFacts


def saved(path: Path) -> tuple[RunDirectory, RunFacts, Plan]:
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
        raise UsageError(
            f"the run in {path} has no results yet", hint="the command that started it goes on with it"
        )
    plan = build(load(path / "spec.yaml")).plan
    check_tables(directory.results, directory.calls, plan)
    return directory, facts, plan
