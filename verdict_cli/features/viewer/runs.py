"""The runs below a directory. A run is named by its relative path, and no other path is ever opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from verdict_cli.errors import JournalError
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts

MOST_RUNS = 2_000
DEEPEST = 4


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run: its name, its directory and its facts."""

    name: str
    directory: RunDirectory
    facts: RunFacts

    @property
    def live(self) -> bool:
        """Whether the run has no results yet."""
        return not self.directory.results.exists()

    @property
    def stamp(self) -> tuple[int, int]:
        """Changes when the table of results changes."""
        try:
            stat = self.directory.results.stat()
        except FileNotFoundError:
            return 0, 0
        return stat.st_mtime_ns, stat.st_size


class Runs:
    """The runs below a directory, or the run that the directory is."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._facts: dict[Path, tuple[int, RunFacts]] = {}

    @property
    def single(self) -> bool:
        """Whether the directory is itself a run."""
        return (self.root / "run.json").is_file()

    def all(self) -> list[RunEntry]:
        """All runs, the newest first."""
        entries = [entry for path in self._paths() if (entry := self._entry(path)) is not None]
        return sorted(entries, key=lambda entry: entry.facts.started, reverse=True)

    def get(self, name: str) -> RunEntry | None:
        """The run of that name, or None. The name is compared with those found, never used as a path."""
        path = next((path for path in self._paths() if self._name(path) == name), None)
        return None if path is None else self._entry(path)

    def _paths(self) -> Iterator[Path]:
        if self.single:
            yield self.root
            return
        count = 0
        for folder, subfolders, files in os.walk(self.root):
            current = Path(folder)
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
            if "run.json" in files:
                subfolders.clear()
                count += 1
                yield current
            if len(current.relative_to(self.root).parts) >= DEEPEST or count >= MOST_RUNS:
                subfolders.clear()

    def _name(self, path: Path) -> str:
        return self.root.name if path == self.root else path.relative_to(self.root).as_posix()

    def _entry(self, path: Path) -> RunEntry | None:
        directory = RunDirectory(path)
        try:
            modified = (path / "run.json").stat().st_mtime_ns
            known = self._facts.get(path)
            if known is None or known[0] != modified:
                facts = directory.facts()
                if facts is None:
                    return None
                known = self._facts[path] = (modified, facts)
        except (JournalError, OSError):
            return None
        return RunEntry(self._name(path), directory, known[1])
