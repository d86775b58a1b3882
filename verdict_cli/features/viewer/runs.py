"""The runs below a directory. A run is named by its relative path, and no other path is ever opened."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.errors import JournalError
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts

KINDS = ("sweep", "audit", "align", "watch", "paper", "comparison")
"""The kinds of study. Each writes a page of this name, and all but a comparison a JSON file."""
_MOST_BYTES = 20_000_000
_HEAD_CHARACTERS = 100_000
"""The style sheet and the first lines of a page."""


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """A study: its kind, the relative name of its folder, and its page."""

    kind: str
    name: str
    page: Path

    def as_json(self) -> dict[str, Any]:
        """The study as the list shows it; `conclusion` is "" where its file does not say anything."""
        try:
            changed = self.page.stat().st_mtime
        except OSError:
            changed = None
        content = _content(self.page.with_suffix(".json"))
        try:
            conclusion = str(content.get("conclusion") or _page_conclusion(self.page))
            if not conclusion and self.kind in _FACTS:
                conclusion = _FACTS[self.kind](content)
        except (LookupError, TypeError, ValueError, AttributeError):  # a file that verdict did not write
            conclusion = ""
        return {
            "kind": self.kind,
            "folder": self.name,
            "pipeline": str(content.get("pipeline") or ""),
            "dataset": str(content.get("dataset") or ""),
            "conclusion": conclusion,
            "changed": changed,
        }


def find_studies(root: Path) -> list[StudyEntry]:
    """Every study below the directory, by name, never through links."""
    studies = []
    for folder, subfolders, files in os.walk(root):
        current = Path(folder)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        name = root.name if current == root else current.relative_to(root).as_posix()
        studies += [
            StudyEntry(kind, name, current / f"{kind}.html")
            for kind in KINDS
            if f"{kind}.html" in files and not (current / f"{kind}.html").is_symlink()
        ]
        # The runs of a study are below it, but no other study is.
        if "run.json" in files or len(current.relative_to(root).parts) >= DEEPEST or len(studies) >= MOST_RUNS:
            subfolders.clear()
    return studies


def study_page(root: Path, kind: str, name: str) -> Path | None:
    """The page of that study; None where there is none. The names are compared, never used as a path."""
    return next((study.page for study in find_studies(root) if (study.kind, study.name) == (kind, name)), None)


def _content(file: Path) -> Mapping[str, Any]:
    try:
        if file.is_symlink() or file.stat().st_size > _MOST_BYTES:
            return {}
        content = orjson.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _page_conclusion(page: Path) -> str:
    """The conclusion that the page shows; "" where there is none."""
    try:
        with page.open(encoding="utf-8", errors="replace") as file:
            conclusion = re.search(r'<p class="conclusion">([^<]*)</p>', file.read(_HEAD_CHARACTERS))
    except OSError:
        return ""
    return "" if conclusion is None else html.unescape(conclusion[1]).strip()


def _sweep_facts(content: Mapping[str, Any]) -> str:
    best, variants = content["best"], len(content["variants"])
    if best is None:
        return f"{plural(variants, 'variant')}, {content['metric']}"
    ends = formatting.interval(best["low"], best["high"])
    value = f"{content['metric']} {formatting.format_number(best['value'])} {ends}".strip()
    return f"Best of {plural(variants, 'variant')}: {best['name']}, {value}"


def _audit_facts(content: Mapping[str, Any]) -> str:
    effects = content["effects"]
    shown = [effect["name"] for effect in effects if effect["p_holm"] is not None and effect["p_holm"] < 0.05]
    names = f": {', '.join(map(str, shown[:3]))}{', …' if len(shown) > 3 else ''}" if shown else ""
    return f"{len(shown)} of {len(effects)} effects with p < 0.05 (Holm){names}"


def _watch_facts(content: Mapping[str, Any]) -> str:
    looks = int(content["looks"])
    state = "the judge has drifted" if content["drifted"] else "no drift"
    return f"{state}, {plural(looks, 'look')}"


_FACTS = {"sweep": _sweep_facts, "audit": _audit_facts, "watch": _watch_facts}
"""What the list says of a study whose file has no conclusion of its own."""


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
