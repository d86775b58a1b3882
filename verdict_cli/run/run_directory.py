"""A run's directory: which run it belongs to, and the files in it (language.md, section 12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path

import orjson

from verdict_cli.errors import JournalError, OutputError, UsageError
from verdict_cli.messages import RunFacts
from verdict_cli.plan.node import Plan
from verdict_cli.plan.resolve import as_yaml
from verdict_cli.run.remote_directory import JOURNAL, RemoteRunDirectory
from verdict_cli.run.run_diff import RunDiff, diff_runs
from verdict_cli.run.validate_run import check_links, facts_of
from verdict_cli.storage.journal.journal import Journal
from verdict_cli.storage.object_store.folder import RemoteFolder, was_url

_NEEDED = {field.name for field in fields(RunFacts) if field.default is MISSING and field.default_factory is MISSING}
_OUTCOME = (
    "results.parquet", "results.csv", "results.jsonl", "calls.parquet",
    "report.json", "report.md", "report.html", "junit.xml",
)  # fmt: skip
"""What a run leaves when it ends."""


@dataclass(frozen=True)
class RunDirectory:
    """The directory of one run. With ``away`` it is in a store, and ``path`` its copy on this machine."""

    path: Path
    away: RemoteRunDirectory | None = None

    @classmethod
    def at(cls, url: str) -> RunDirectory:
        """That of a store. UsageError where nothing knows such a URL."""
        away = RemoteRunDirectory(RemoteFolder.at(url))
        return cls(away.copy, away)

    @property
    def shown(self) -> str:
        """Its name for the user."""
        return self.away.place.url if self.away else str(self.path)

    def held(self) -> AbstractContextManager[None]:
        """Within, a directory in a store is this process's alone; any other is while its journal is open."""
        return self.away.held() if self.away else nullcontext()

    @property
    def results(self) -> Path:
        """The scored table."""
        return self.path / "results.parquet"

    @property
    def calls(self) -> Path:
        """Every model call."""
        return self.path / "calls.parquet"

    @property
    def journal(self) -> Path:
        """The finished calls of a run that is not finished."""
        return self.path / JOURNAL

    def open_journal(self, nodes: Mapping[str, str], *, fresh: bool = False) -> Journal:
        """Its journal. Raises what `Journal.open` does."""
        segments = self.away.segments() if self.away else None
        return Journal.open(self.journal, nodes, fresh=fresh, segments=segments)

    def deliver(self, *names: str) -> None:
        """Sends files of a directory in a store there. OutputError when the store refuses."""
        if self.away:
            for name in names:
                self.away.place.send(self.path / name, name)

    def prepare(self) -> None:
        """Makes the directory, for its owner alone. OutputError when that cannot be done, JournalError for one with links."""
        check_links(self.path)
        if was_url(self.path):
            raise UsageError(
                f"{self.path} was a URL, and only `verdict run` writes to one",
                hint="name a path; `verdict run` takes a URL, with two slashes",
            )
        with refusing(self.path):
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def facts(self) -> RunFacts | None:
        """What `run.json` says; None where there is none. JournalError when it cannot be read."""
        path = self.path / "run.json"
        try:
            content = path.read_bytes()
            found = orjson.loads(content)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, orjson.JSONDecodeError) as fault:
            raise JournalError(
                f"{path} cannot be read: {fault}", hint="give --fresh to start anew, or another --out"
            ) from None
        if not isinstance(found, dict) or not found.keys() >= _NEEDED:
            raise JournalError(f"{path} is not that of a run", hint="choose another --out")
        try:
            return facts_of(content)
        except ValueError as fault:
            raise JournalError(f"{path} is not that of a run: {fault}", hint="choose another --out") from None

    def belongs_to(self, plan: Plan, now: RunFacts, *, update: bool = False) -> tuple[RunFacts | None, RunDiff | None]:
        """The facts of the run that is there, None in a new directory, and how this one differs from it.

        JournalError when it differs, unless it is to be updated.
        """
        found = self.facts()
        if found is None:
            return None, None
        difference = diff_runs(plan, found, now)
        if difference is not None and not update:
            raise JournalError(
                difference.refusal(self.path),
                hint=f"--update keeps that run and {difference.work()}; or choose another --out, or --fresh to discard it",
            )
        return found, difference

    def discard(self) -> None:
        """Removes what an earlier run left behind; files of any other name stay."""
        with refusing(self.path):
            for name in _OUTCOME:
                (self.path / name).unlink(missing_ok=True)
        if self.away:
            self.away.place.remove(name for one in _OUTCOME for name in self.away.place.names(one))

    def write_spec(self, plan: Plan) -> None:
        """Writes `spec.yaml` and the published tables that it names, so that the directory needs no other file.

        A pipeline with Python functions has no YAML form, and its directory no `spec.yaml`.
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
        """Writes `run.json`."""
        self.write("run.json", orjson.dumps(asdict(facts), option=orjson.OPT_INDENT_2) + b"\n")

    def write(self, name: str, content: bytes | str) -> Path:
        """Writes a file of the directory or of a folder in it, as a whole or not at all. OutputError for one that is elsewhere."""
        path = self.path / name
        if ".." in path.parts[len(self.path.parts) :] or not path.parent.resolve().is_relative_to(self.path.resolve()):
            raise OutputError(
                f"{name!r:.200} leaves the run's directory {self.path}", hint="a run writes to its own directory only"
            )
        part = path.with_name(f"{path.name}.part")
        with refusing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_bytes(content.encode() if isinstance(content, str) else content)
                part.replace(path)
            except OSError:
                with suppress(OSError):
                    part.unlink()
                raise
        self.deliver(name)
        return path


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turns the disk's refusal into an OutputError that names the path."""
    try:
        yield
    except OSError as fault:
        raise OutputError(
            f"{path} cannot be written: {fault.strerror or fault}", hint="free space, or choose a writable --out"
        ) from None
