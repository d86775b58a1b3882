"""A run's directory: the run that it belongs to, how that differs from another one, and its files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import orjson
from msgspec import Struct, structs

from verdict_cli.errors import JournalError, OutputError, UsageError
from verdict_cli.plan.node import Plan
from verdict_cli.plan.resolve import as_yaml
from verdict_cli.run.validate_run import check_links, facts_of
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.database.database import RUN_DB
from verdict_cli.storage.file_lock import exclusive
from verdict_cli.storage.paths import output_errors, replacing, was_url
from verdict_cli.storage.stores import RunStore, open_run


def difference(earlier: RunFacts, now: RunFacts) -> str:
    """How the earlier run differs from what would be done now, in words; "" where it is the same run."""
    pairs = (
        ("pipeline", earlier.spec_fingerprint, now.spec_fingerprint),
        ("dataset", earlier.data_fingerprint, now.data_fingerprint),
    )
    return " and ".join(
        f"another {what} ({before[:12]}…, this one is {after[:12]}…)"
        for what, before, after in pairs
        if before != after
    )


def _part(facts: RunFacts) -> str:
    return f"shard {facts.shard} of a run" if facts.shard else "a whole run"


_REQUIRED = {field.name for field in structs.fields(RunFacts) if field.required}
_OUTCOME = (
    "results.parquet", "results.csv", "results.jsonl", "calls.parquet",
    "report.json", "report.md", "report.html", "junit.xml",
)  # fmt: skip
"""Files that a run writes when it ends. A new run in the directory removes them."""


LOCK = "run.lock"
"""The file that is there while a process writes to the directory."""


class RunDirectory(Struct, frozen=True):
    """The directory of one run. With ``remote`` it is in a store, and ``path`` is its copy on this machine."""

    path: Path
    remote: RunStore | None = None

    @classmethod
    def open_url(cls, url: str) -> RunDirectory:
        """A directory in a store. UsageError for an unknown kind of URL."""
        remote = open_run(url)
        return cls(remote.copy, remote)

    @property
    def display_name(self) -> str:
        """The path or URL, for messages."""
        return self.remote.folder.url if self.remote else str(self.path)

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes out of a directory in a store. On a disk `writing` does it."""
        return self.remote.lock() if self.remote else nullcontext()

    def writing(self) -> AbstractContextManager[None]:
        """Create the directory, and keep other processes of this machine from writing to it. JournalError while one does."""
        self.prepare()
        return exclusive(self.path / LOCK)

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
    def database(self) -> Path:
        """Everything that must survive: calls, finished rows, batches."""
        return self.path / RUN_DB

    def put(self, *names: str) -> None:
        """Send files of the copy to the store, where the directory is in one. OutputError when the store refuses."""
        if self.remote:
            for name in names:
                self.remote.put(name)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files from the store, where the directory is in one. OutputError when the store refuses."""
        if self.remote:
            self.remote.remove(names)

    def get(self, names: Iterable[str]) -> None:
        """Fetch files that the copy lacks from the store, where the directory is in one. OutputError when it refuses."""
        if self.remote:
            self.remote.get(names)

    def stored(self, folder: str) -> list[str]:
        """The names of the files in the store below one of the directory's; none on a disk."""
        return self.remote.folder.names(folder) if self.remote else []

    def get_tables(self) -> None:
        """Fetch the tables that the copy lacks, where the directory is in a store."""
        self.get([*self.stored(self.results.name), *self.stored(self.calls.name)])

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
        """The content of `run.json`, None where there is none. JournalError when it cannot be read, or for links beside it."""
        check_links(self.path)
        path = self.path / "run.json"
        try:
            fields = orjson.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, orjson.JSONDecodeError) as fault:
            raise JournalError(
                f"{path} cannot be read: {fault}",
                hint="give --fresh to start over, or another --out",
            ) from None
        if not isinstance(fields, dict) or not fields.keys() >= _REQUIRED:
            raise JournalError(f"{path} is not that of a run", hint="choose another --out")
        try:
            return facts_of(fields)
        except ValueError as fault:
            raise JournalError(
                f"{path} is not that of a run: {fault}", hint="choose another --out"
            ) from None

    def earlier_run(self, facts: RunFacts) -> RunFacts | None:
        """The facts of the run in the directory, None in a new one. JournalError where it is not the run with ``facts``."""
        earlier = self.facts()
        if earlier is None:
            return None
        other = difference(earlier, facts)
        if other:
            raise JournalError(
                f"{self.path} holds a run of {other}",
                hint="choose another --out (`verdict run` pays only for what differs with "
                f"--reuse {self.path}); --fresh discards the run that is there",
            )
        if earlier.shard != facts.shard:
            raise JournalError(
                f"{self.path} holds {_part(earlier)}, and this is {_part(facts)}",
                hint="give each shard a directory of its own; `verdict merge` joins them",
            )
        if (
            earlier.status != "finished"
            and not self.database.exists()
            and (self.path / "journal.jsonl").exists()
        ):
            raise JournalError(
                f"{self.path} holds an unfinished run of an earlier version, which this one cannot resume",
                hint="finish it with the version that began it, or give --fresh to start over",
            )
        return earlier

    def discard(self) -> None:
        """Remove the outcome of an earlier run; files with other names stay."""
        with output_errors(self.path):
            for name in _OUTCOME:
                (self.path / name).unlink(missing_ok=True)
        if self.remote:
            self.remove(name for name in _OUTCOME if name in self.stored(name))

    def write_spec(self, plan: Plan) -> dict[str, str]:
        """Write `spec.yaml` and the published tables that it names, so that the directory needs no other file; return them.

        A pipeline with Python functions has no YAML form and writes none.
        """
        files: dict[str, str] = {}
        if any(node.code for node in plan.nodes):
            return files
        files["spec.yaml"] = plan.yaml
        if plan.published:
            data = dict(plan.resolved)
            data["evaluate"] = {name: dict(keys) for name, keys in data["evaluate"].items()}
            for name, table in plan.published.items():
                data["evaluate"][name]["published"] = f"published/{name}.yaml"
                files[f"published/{name}.yaml"] = as_yaml(
                    table.model_dump(mode="json", exclude_none=True)
                )
            files["spec.yaml"] = as_yaml(data)
        for name, content in files.items():
            self.write(name, content)
        return files

    def write_facts(self, facts: RunFacts) -> None:
        """Write `run.json`."""
        self.write("run.json", orjson.dumps(facts.as_json(), option=orjson.OPT_INDENT_2) + b"\n")

    def write(self, name: str, content: bytes | str) -> Path:
        """Write a file of the directory or of a folder in it, completely or not at all. OutputError for a file elsewhere."""
        path = self.path / name
        if ".." in path.parts[len(self.path.parts) :] or not path.parent.resolve().is_relative_to(
            self.path.resolve()
        ):
            raise OutputError(
                f"{name!r:.200} leaves the run's directory {self.path}",
                hint="a run writes to its own directory only",
            )
        with replacing(path) as part:
            part.write_bytes(content.encode() if isinstance(content, str) else content)
        self.put(name)
        return path


def reused_database(run: Path) -> Path:
    """The database of the run that `--reuse` names. UsageError where there is none."""
    path = run / RUN_DB if run.is_dir() else run
    if not path.is_file():
        raise UsageError(
            f"--reuse: {run} has no {RUN_DB}",
            hint="name the --out of a `verdict run` of this version",
        )
    return path
