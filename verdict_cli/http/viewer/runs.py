"""The runs below a directory. A run is named by its place there, and only what was found there is ever opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.errors import JournalError
from verdict_cli.messages import RunFacts
from verdict_cli.run.run_directory import RunDirectory

MOST_RUNS = 2_000
DEEPEST = 4
_HEADLINE_BYTES = 20_000_000


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run: its name, its directory, its facts."""

    name: str
    directory: RunDirectory
    facts: RunFacts

    @property
    def live(self) -> bool:
        """Whether its tables are still to come."""
        return not self.directory.results.is_file()

    @property
    def stamp(self) -> tuple[int, int]:
        """Changes when its table of results does."""
        try:
            stat = self.directory.results.stat()
        except FileNotFoundError:
            return 0, 0
        return stat.st_mtime_ns, stat.st_size


class Runs:
    """The runs in a directory, or the one that it is."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._facts: dict[Path, tuple[int, RunFacts]] = {}

    @property
    def single(self) -> bool:
        """Whether the directory is itself a run."""
        return (self.root / "run.json").is_file()

    def all(self) -> list[RunEntry]:
        """Every run, the latest first."""
        found = [one for path in self._paths() if (one := self._found(path)) is not None]
        return sorted(found, key=lambda one: one.facts.started, reverse=True)

    def get(self, name: str) -> RunEntry | None:
        """The run of that name; None where there is none. The name is compared, never followed."""
        path = next((path for path in self._paths() if self._name(path) == name), None)
        return None if path is None else self._found(path)

    def _paths(self) -> Iterator[Path]:
        if self.single:
            yield self.root
            return
        count = 0
        for folder, inside, files in os.walk(self.root):
            here = Path(folder)
            inside[:] = sorted(name for name in inside if not name.startswith("."))
            if "run.json" in files:
                inside.clear()
                count += 1
                yield here
            if len(here.relative_to(self.root).parts) >= DEEPEST or count >= MOST_RUNS:
                inside.clear()

    def _name(self, path: Path) -> str:
        return self.root.name if path == self.root else path.relative_to(self.root).as_posix()

    def _found(self, path: Path) -> RunEntry | None:
        directory = RunDirectory(path)
        try:
            at = (path / "run.json").stat().st_mtime_ns
            known = self._facts.get(path)
            if known is None or known[0] != at:
                facts = directory.facts()
                if facts is None:
                    return None
                known = self._facts[path] = (at, facts)
        except (JournalError, OSError):
            return None
        return RunEntry(self._name(path), directory, known[1])


def headline(run: RunEntry) -> dict[str, Any] | None:
    """The first figure of the run's report; None where there is none."""
    path = run.directory.path / "report.json"
    try:
        if path.stat().st_size > _HEADLINE_BYTES:
            return None
        evaluations = orjson.loads(path.read_bytes())["evaluations"]
        for evaluation, one in evaluations.items():
            for metric, figure in one["figures"].items():
                if metric != "confusion":
                    wanted = {key: figure.get(key) for key in ("value", "low", "high", "n")}
                    return {"evaluation": evaluation, "metric": metric, **wanted}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return None
