"""Digests of a finished run's files in its run.json, and their verification."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from verdict_cli.errors import DataError, Problem
from verdict_cli.run.part_files import MARK, PART_TABLES, PartMark
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.validate_run import RESTORE, facts_of
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.journal.journal import JOURNAL

_EVIDENCE = (JOURNAL, *PART_TABLES)
"""What only `verdict run` writes: a rewritten report keeps its digests, else it would vouch for damaged tables."""
_OWN = "run.json"
_PART_FILE = re.compile(r"parts/[0-9]{6,}/(done\.json|journal\.jsonl)|(results|calls)\.parquet/[0-9]{6,}\.parquet")


def evidence(directory: RunDirectory) -> list[str]:
    """The names of the files that only `verdict run` writes. A part's mark is there for its files, whose digests it has."""
    files = [name for name in _EVIDENCE if (directory.path / name).is_file()]
    parts = sorted(path.name for path in (directory.path / "parts").glob("*") if path.is_dir())
    for part in parts:
        mark = f"parts/{part}/{MARK}"
        names = [mark] if (directory.path / mark).exists() else _part_files(part)
        files += [name for name in names if _PART_FILE.fullmatch(name) and (directory.path / name).is_file()]
    marked = {name for part in parts if f"parts/{part}/{MARK}" in files for name in _part_files(part)}
    for table in PART_TABLES:
        here = sorted(f"{table}/{path.name}" for path in (directory.path / table).glob("*.parquet"))
        files += [name for name in here if name not in marked and name not in files]
    return files


def changed_in_part(directory: RunDirectory, mark: str) -> list[str]:
    """What differs from the digests in a part's mark, a message for each file."""
    part = PartMark.read(directory.path / mark)
    names = _part_files(Path(mark).parent.name)
    if part is None or part.digests.keys() != set(names):
        return [f"{mark}: it is not the mark of a part"]
    return [
        f"{name}: the {'content has changed since the part ended' if there else 'file is missing'}"
        for name in names
        if not (there := (directory.path / name).is_file()) or file_digest(directory.path / name) != part.digests[name]
    ]


def _part_files(part: str) -> list[str]:
    return [f"parts/{part}/{JOURNAL}", *(f"{table}/{part}.parquet" for table in PART_TABLES)]


def write_digests(directory: RunDirectory, facts: RunFacts, names: Sequence[str]) -> RunFacts:
    """Write `run.json` with the digests of these files, and of journal and tables where it has none."""
    known = facts.digests
    # The journal of a finished run in a store is not fetched to write its report again.
    stored = {JOURNAL} & known.keys() if directory.remote else set()
    kept = [*evidence(directory), *stored]
    digests = {
        name: known[name] if name in known and name in kept else file_digest(directory.path / name)
        for name in dict.fromkeys((*kept, *names))
        if name != _OWN and (name in stored or (directory.path / name).is_file())
    }
    sealed = replace(facts, digests=digests)
    sealed = replace(sealed, digests={**digests, _OWN: _facts_digest(sealed)})
    directory.write_facts(sealed)
    return sealed


def changed_files(directory: RunDirectory, facts: RunFacts) -> list[str]:
    """What differs from the digests in `run.json`, a message for each file. DataError where there are no digests."""
    if not facts.digests:
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
        path = directory.path / name
        if name == _OWN:
            actual = _facts_digest(facts)
        elif not (Path(name).name == name or _PART_FILE.fullmatch(name)) or not path.is_file():
            changes.append(f"{name}: the file is missing")
            continue
        else:
            actual = file_digest(path)
        if actual != digest:
            changes.append(f"{name}: the content has changed since the run ended")
        elif path.name == MARK:
            changes += changed_in_part(directory, name)
    missing = {_OWN, *evidence(directory)} - facts.digests.keys()
    return changes + [f"{name}: run.json has no digest of it" for name in sorted(missing)]


def check_digests(directory: RunDirectory, facts: RunFacts) -> None:
    """DataError where a table is not as the run wrote it. A run without digests has not ended, or is of an earlier version."""
    if not facts.digests:
        return
    digests = {name: digest for name, digest in facts.digests.items() if name not in (_OWN, JOURNAL)}
    changes = changed_files(directory, replace(facts, digests=digests))
    changed = next((message for message in changes if message.startswith(PART_TABLES)), None)
    if changed is not None:
        name, _, message = changed.partition(": ")
        raise DataError(Problem("changed-table", message, RESTORE, str(directory.path / name)))


def file_digest(path: Path) -> str:
    """The SHA-256 of a file. DataError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(Problem("not-readable", f"cannot be read: {error.strerror or error}", "", str(path))) from None


def _facts_digest(facts: RunFacts) -> str:
    """The SHA-256 of the facts with the digests of all other files, which chains them."""
    others = {name: digest for name, digest in facts.digests.items() if name != _OWN}
    read = facts_of(orjson.dumps(replace(facts, digests=others).as_json()))  # as a reader gets them: 0 becomes 0.0
    return hashlib.sha256(orjson.dumps(read.as_json(), option=orjson.OPT_SORT_KEYS)).hexdigest()
