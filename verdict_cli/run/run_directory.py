"""A run's directory: the run that it belongs to, how that differs from another one, and its files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, fields
from pathlib import Path

import orjson
from msgspec import Struct

from verdict_cli.errors import JournalError, OutputError, UsageError
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.plan.resolve import as_yaml
from verdict_cli.run.validate_run import check_links, facts_of
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.journal.journal import JOURNAL, Journal
from verdict_cli.storage.paths import output_errors, replacing, was_url
from verdict_cli.storage.stores import RunStore, StoreFolder, store_of


class RunDiff(Struct, frozen=True):
    """``changes`` has (what, the earlier fingerprint, the new one) of the pipeline and the dataset where they differ.

    ``units`` are the units that call a model and whose calls change, of ``llm_units`` in all.
    """

    changes: tuple[tuple[str, str, str], ...]
    units: tuple[str, ...]
    llm_units: int

    def refusal(self, directory: Path) -> str:
        """Why the run is not resumed without `--update`."""
        others = " and ".join(
            f"another {what} ({earlier[:12]}…, this one is {now[:12]}…)" for what, earlier, now in self.changes
        )
        return f"{directory} holds a run of {others}"

    def work(self) -> str:
        """What `--update` does, as a phrase."""
        parts = []
        if any(what == "pipeline" for what, _, _ in self.changes):
            names = f": {', '.join(self.units[:6])}{', …' if len(self.units) > 6 else ''}" if self.units else ""
            parts.append(f"calls {len(self.units)} of {self.llm_units} units again{names}")
        if any(what == "dataset" for what, _, _ in self.changes):
            parts.append("calls models for rows that it does not have")
        return " and ".join(parts)


def diff_runs(plan: Plan, earlier: RunFacts, now: RunFacts) -> RunDiff | None:
    """How the earlier run differs from what the plan would do now; None where it is the same run."""
    changes = tuple(
        (what, before, after)
        for what, before, after in (
            ("pipeline", earlier.spec_fingerprint, now.spec_fingerprint),
            ("dataset", earlier.data_fingerprint, now.data_fingerprint),
        )
        if before != after
    )
    if not changes:
        return None
    llm_units = [node.id for node in plan.nodes if isinstance(node.work, LLMNode)]
    units = tuple(name for name in llm_units if earlier.nodes.get(name) != now.nodes[name])
    return RunDiff(changes, units, len(llm_units))


_REQUIRED = {field.name for field in fields(RunFacts) if field.default is MISSING and field.default_factory is MISSING}
_OUTCOME = (
    "results.parquet", "results.csv", "results.jsonl", "calls.parquet",
    "report.json", "report.md", "report.html", "junit.xml",
)  # fmt: skip
"""Files that a run writes when it ends. A new run in the directory removes them."""


class RunDirectory(Struct, frozen=True):
    """The directory of one run. With ``remote`` it is in a store, and ``path`` is its copy on this machine."""

    path: Path
    remote: RunStore | None = None

    @classmethod
    def open_url(cls, url: str) -> RunDirectory:
        """A directory in a store. UsageError for an unknown kind of URL."""
        remote = store_of(url).run(url)
        return cls(remote.copy, remote)

    @property
    def display_name(self) -> str:
        """The path or URL, for messages."""
        return self.remote.folder.url if self.remote else str(self.path)

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes out of a directory in a store. On a disk the lock of the open journal does it."""
        return self.remote.lock() if self.remote else nullcontext()

    @property
    def confirm_lease(self) -> Callable[[], Awaitable[None]] | None:
        """What to await before a call, where another process may have taken the directory over; None on a disk."""
        return self.remote.confirm_lease if self.remote else None

    @property
    def results(self) -> Path:
        """One row per row of the dataset."""
        return self.path / "results.parquet"

    @property
    def calls(self) -> Path:
        """One row per model call."""
        return self.path / "calls.parquet"

    @property
    def journal(self) -> Path:
        """The completed calls of a run, to resume it."""
        return self.path / JOURNAL

    def open_journal(self, nodes: Mapping[str, str], *, fresh: bool = False) -> Journal:
        """Open the journal. Raises what `Journal.open` raises."""
        segments = self.remote.segments() if self.remote else None
        return Journal.open(self.journal, nodes, fresh=fresh, segments=segments)

    def put(self, *names: str) -> None:
        """Send files of the copy to the store, where the directory is in one. OutputError when the store refuses."""
        if self.remote:
            for name in names:
                self.remote.put(name)

    def put_journal(self) -> None:
        """Send the copy's journal, which is closed, to the store, and remove it here. OutputError when the store refuses."""
        if self.remote:
            self.remote.put_journal()

    def remove(self, names: Iterable[str]) -> None:
        """Remove files from the store, where the directory is in one. OutputError when the store refuses."""
        if self.remote:
            self.remote.remove(names)

    def get(self, names: Iterable[str]) -> None:
        """Fetch files that the copy lacks from the store, where the directory is in one. OutputError when it refuses."""
        if self.remote:
            self.remote.get(names)

    @property
    def store_folder(self) -> StoreFolder | None:
        """The directory in its store; None on a disk."""
        return self.remote.folder if self.remote else None

    def stored(self, folder: str) -> list[str]:
        """The names of the files in the store below one of the directory's; none on a disk."""
        return self.remote.folder.names(folder) if self.remote else []

    def get_tables(self) -> None:
        """Fetch the tables that the copy lacks, where the directory is in a store."""
        self.get([*self.stored(self.results.name), *self.stored(self.calls.name)])

    def below(self, name: str) -> RunDirectory:
        """A folder in it, as the directory of a run."""
        return RunDirectory(self.path / name, self.remote and self.remote.below(name))

    def prepare(self) -> None:
        """Create the directory, readable by its owner only. OutputError when the disk refuses, JournalError for links in it."""
        check_links(self.path)
        if was_url(self.path):
            raise UsageError(
                f"{self.path} was a URL, and only `verdict run` writes to one",
                hint="name a path; `verdict run` takes a URL, with two slashes",
            )
        with output_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def facts(self) -> RunFacts | None:
        """The content of `run.json`, None where there is none. JournalError when it cannot be read."""
        path = self.path / "run.json"
        try:
            content = path.read_bytes()
            content_fields = orjson.loads(content)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, orjson.JSONDecodeError) as fault:
            raise JournalError(
                f"{path} cannot be read: {fault}", hint="give --fresh to start over, or another --out"
            ) from None
        if not isinstance(content_fields, dict) or not content_fields.keys() >= _REQUIRED:
            raise JournalError(f"{path} is not that of a run", hint="choose another --out")
        try:
            return facts_of(content)
        except ValueError as fault:
            raise JournalError(f"{path} is not that of a run: {fault}", hint="choose another --out") from None

    def earlier_run(
        self, plan: Plan, facts: RunFacts, *, update: bool = False
    ) -> tuple[RunFacts | None, RunDiff | None]:
        """The facts of the run in the directory, None in a new one, and how the run with ``facts`` differs from it.

        JournalError where they differ, unless ``update``.
        """
        earlier = self.facts()
        if earlier is None:
            return None, None
        difference = diff_runs(plan, earlier, facts)
        if difference is not None and not update:
            raise JournalError(
                difference.refusal(self.path),
                hint=f"--update keeps that run and {difference.work()}; or choose another --out, or --fresh to discard it",
            )
        return earlier, difference

    def discard(self) -> None:
        """Remove the outcome of an earlier run; files with other names stay."""
        with output_errors(self.path):
            for name in _OUTCOME:
                if not (self.path / name).is_dir():
                    (self.path / name).unlink(missing_ok=True)
        if self.remote:
            self.remove(name for name in _OUTCOME if name in self.stored(name))

    def write_spec(self, plan: Plan) -> None:
        """Write `spec.yaml` and the published tables that it names, so that the directory needs no other file.

        A pipeline with Python functions has no YAML form and writes none.
        """
        if any(node.code for node in plan.nodes):
            return
        data = dict(plan.resolved)
        if plan.published:
            data["evaluate"] = {name: dict(keys) for name, keys in data["evaluate"].items()}
            for name, table in plan.published.items():
                data["evaluate"][name]["published"] = f"published/{name}.yaml"
                content = as_yaml(table.model_dump(mode="json", exclude_none=True))
                self.write(f"published/{name}.yaml", content)
        self.write("spec.yaml", as_yaml(data))

    def write_facts(self, facts: RunFacts) -> None:
        """Write `run.json`."""
        self.write("run.json", orjson.dumps(facts.as_json(), option=orjson.OPT_INDENT_2) + b"\n")

    def write(self, name: str, content: bytes | str) -> Path:
        """Write a file of the directory or of a folder in it, completely or not at all. OutputError for a file elsewhere."""
        path = self.path / name
        if ".." in path.parts[len(self.path.parts) :] or not path.parent.resolve().is_relative_to(self.path.resolve()):
            raise OutputError(
                f"{name!r:.200} leaves the run's directory {self.path}", hint="a run writes to its own directory only"
            )
        with replacing(path) as part:
            part.write_bytes(content.encode() if isinstance(content, str) else content)
        self.put(name)
        return path
