"""Digests of a finished run's files in its run.json, and their verification."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import orjson
from msgspec.structs import replace

from verdict_cli.errors import DataError, Problem
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.tables import TABLES
from verdict_cli.run.validate_run import RESTORE
from verdict_cli.run_facts import RunFacts

_OWN = "run.json"
SPEC = "spec.yaml"
SPEC_CHANGED = (
    "spec.yaml was changed after the run: the metrics and gates are those of the changed file"
)


def evidence(directory: RunDirectory) -> list[str]:
    """The names of the files that only `verdict run` writes: a rewritten report keeps their digests."""
    return [name for name in (*TABLES, SPEC) if (directory.path / name).is_file()]


def with_spec_digest(directory: RunDirectory, facts: RunFacts) -> RunFacts:
    """The facts with the digest of `spec.yaml` as it is, where there is one."""
    digest = _digest(directory, SPEC)
    return facts if digest is None else replace(facts, digests={**facts.digests, SPEC: digest})


def with_changed_spec(directory: RunDirectory, facts: RunFacts) -> RunFacts:
    """The facts with a warning where `spec.yaml` is not as the run wrote it, and without one where it is again."""
    warnings = [warning for warning in facts.warnings if warning != SPEC_CHANGED]
    digest = facts.digests.get(SPEC)
    if digest is not None and digest != _digest(directory, SPEC):
        warnings.append(SPEC_CHANGED)
    return replace(facts, warnings=tuple(warnings))


def with_table_digests(directory: RunDirectory, facts: RunFacts) -> RunFacts:
    """The facts with the digests of the tables and of the pipeline only, computed where there are none."""
    digests = {
        name: facts.digests.get(name) or file_digest(directory.path / name)
        for name in evidence(directory)
    }
    return replace(facts, digests=digests)


def write_digests(directory: RunDirectory, facts: RunFacts, names: Sequence[str]) -> RunFacts:
    """Write `run.json` with the digests of the tables, and of these files."""
    digests = dict(with_table_digests(directory, facts).digests)
    for name in names:
        if name != _OWN and name not in digests and (directory.path / name).is_file():
            digests[name] = file_digest(directory.path / name)
    sealed = replace(facts, digests=digests)
    sealed = replace(sealed, digests={**digests, _OWN: _facts_digest(sealed)})
    directory.write_facts(sealed)
    return sealed


def changed_files(directory: RunDirectory, facts: RunFacts) -> list[str]:
    """What differs from the digests in `run.json`, a message for each file. DataError where there are no digests."""
    if _OWN not in facts.digests:
        raise DataError(
            Problem(
                "no-digests",
                "the run has no digests: it has not ended, or an earlier version made it",
                "the command that started it resumes it; `verdict report RUN` adds digests of the files as they are",
                str(directory.path / _OWN),
            )
        )
    changes = []
    for name, digest in facts.digests.items():
        actual = _facts_digest(facts) if name == _OWN else _digest(directory, name)
        if actual is None:
            changes.append(f"{name}: the file is missing")
        elif actual != digest:
            changes.append(f"{name}: the content has changed since the run ended")
    missing = {_OWN, *evidence(directory)} - facts.digests.keys()
    return changes + [f"{name}: run.json has no digest of it" for name in sorted(missing)]


def check_digests(directory: RunDirectory, facts: RunFacts) -> None:
    """DataError where a table is not as the run wrote it. Runs of earlier versions may have no digests."""
    for name, digest in facts.digests.items():
        if not name.startswith(TABLES):
            continue
        actual = _digest(directory, name)
        if actual != digest:
            message = (
                "the file is missing"
                if actual is None
                else "the content has changed since the run ended"
            )
            raise DataError(Problem("changed-table", message, RESTORE, str(directory.path / name)))


def _digest(directory: RunDirectory, name: str) -> str | None:
    """The digest of a file of the run; None where it is missing, or no name of such a file."""
    path = directory.path / name
    if Path(name).name != name or not path.is_file():
        return None
    return file_digest(path)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file. DataError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            Problem("not-readable", f"cannot be read: {error.strerror or error}", "", str(path))
        ) from None


def _facts_digest(facts: RunFacts) -> str:
    """The SHA-256 of the facts with the digests of all other files, which chains them."""
    others = {name: digest for name, digest in facts.digests.items() if name != _OWN}
    # As a reader gets them: 0 becomes 0.0.
    read = RunFacts.from_json(replace(facts, digests=others).as_json())
    return hashlib.sha256(orjson.dumps(read.as_json(), option=orjson.OPT_SORT_KEYS)).hexdigest()
