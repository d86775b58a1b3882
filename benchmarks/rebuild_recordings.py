"""Make the recordings for `verdict bench --replay` from their public repositories.

    python benchmarks/rebuild_recordings.py DIR [--mirror CLONES] [--json]

What is made is written down in `benchmarks/recordings.yaml`: repository, commit, paths, rule and checksum of each file. A file
is written only where its content has the recorded checksum. Needs git, and the network or clones.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import typer
from pydantic import Field

from verdict_cli.cli.console import print_json, print_message
from verdict_cli.config_model import ConfigModel, Seq, Whole
from verdict_cli.errors import FetchError, UsageError, VerdictError
from verdict_cli.language.document.document import read_document
from verdict_cli.plural import plural
from verdict_cli.storage.paths import replacing

DATA = Path(__file__).with_name("recordings.yaml")

Sources = Mapping[str, bytes]
"""The content of a repository's files by path, in the order in which the data file names them."""

REALMISTAKE_TASK = "answerability_classification"
WICE_ROWS = 300
"""The chunks of the first 100 claims of WiCE's test split."""


def copy(sources: Sources) -> bytes:
    """The one file as it is."""
    (content,) = sources.values()
    return content


def json_list(sources: Sources) -> bytes:
    """A JSON list as JSON lines."""
    return _lines(json.loads(copy(sources)))


def every_second_line(sources: Sources) -> bytes:
    """The first, third, fifth … object of a JSONL file."""
    return _lines(_objects(copy(sources))[::2])


def one_task(sources: Sources) -> bytes:
    """Of ReaLMistake's published values those of one task, each on a line of its own without indentation."""
    return json.dumps(
        {REALMISTAKE_TASK: json.loads(copy(sources))[REALMISTAKE_TASK]}, indent=0
    ).encode()


def judgebench_games(sources: Sources) -> bytes:
    """Each pair's id, and of its judgements the reply and the decision."""
    return _lines(
        {
            "pair_id": row["pair_id"],
            "games": [
                {"response": game["judgment"]["response"], "decision": game["decision"]}
                for game in row["judgments"]
            ],
        }
        for row in _objects(copy(sources))
    )


def wice_claims(sources: Sources) -> bytes:
    """The first chunks of evidence, numbered from 0."""
    return _lines(
        {
            "id": row["meta"]["id"],
            "chunk": chunk,
            "label": row["label"],
            "claim": row["claim"],
            "evidence": row["evidence"],
            "line_index": row["meta"]["chunk_idx"],
        }
        for chunk, row in enumerate(_objects(copy(sources))[:WICE_ROWS])
    )


def wice_replies(sources: Sources) -> bytes:
    """The replies to the first chunks; the ids are those of the chunks' own file."""
    chunks, replies = map(_objects, sources.values())
    return _lines(
        {"id": row["meta"]["id"], "chunk": chunk, "response": reply["response"]}
        for chunk, (row, reply) in enumerate(
            zip(chunks[:WICE_ROWS], replies[:WICE_ROWS], strict=True)
        )
    )


def realmistake_replies(sources: Sources) -> bytes:
    """One reply of each judge to each prompt and item; the model inputs are left out, as their authors ask."""
    return _lines(
        {
            **_realmistake_run(path, row),
            "response": row["response"],
            "prediction": row["prediction"],
        }
        for path, content in sources.items()
        for row in _objects(content)
    )


def realmistake_samples(sources: Sources) -> bytes:
    """Five replies of each judge to each item, without the model inputs."""
    return _lines(
        {
            **_realmistake_run(path, row),
            "responses": [reply["response"] for reply in row["response"]],
            "prediction": row["prediction"],
            "predictions_list": row["predictions_list"],
        }
        for path, content in sources.items()
        for row in _objects(content)
    )


def realmistake_votes(sources: Sources) -> bytes:
    """The authors' votes over three judges and four prompts."""
    return _lines(
        {
            "id": row["metadata"]["id"],
            "responder": PurePosixPath(path).parts[-3],
            "judges": PurePosixPath(path).parts[-2],
            "prediction": row["prediction"],
            "votes_count": row["votes_count"],
        }
        for path, content in sources.items()
        for row in _objects(content)
    )


def xstest_labels(sources: Sources) -> bytes:
    """The completions with GPT-4's labels, and behind them those of string matching, joined by id."""
    judged, matched = (
        list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
        for content in sources.values()
    )
    by_id = {row[0]: row[-1] for row in matched}
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([*row, by_id[row[0]]] for row in judged)
    return text.getvalue().encode()


RULES: Mapping[str, Callable[[Sources], bytes]] = {
    rule.__name__: rule
    for rule in (
        copy, json_list, every_second_line, one_task, judgebench_games, wice_claims, wice_replies,
        realmistake_replies, realmistake_samples, realmistake_votes, xstest_labels,
    )
}  # fmt: skip
"""The rules by the name that `benchmarks/recordings.yaml` has for them."""


def _objects(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.decode("utf-8").split("\n") if line.strip()]


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _realmistake_run(path: str, row: Mapping[str, Any]) -> dict[str, Any]:
    *_, responder, judge, file = PurePosixPath(path).parts
    prompt = file.removeprefix("baseline_errordetection_").removesuffix(".jsonl")
    return {
        "id": row["metadata"]["id"],
        "responder": responder,
        "judge": judge,
        "prompt": prompt,
        "label": row["label"],
    }


SITE = "https://github.com"
DOWNLOAD_TIMEOUT_S = 900
"""The longest that one call of git may take: ReaLMistake's outputs are some 100 MB."""

Checksum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class RecordedFile(ConfigModel):
    """One file of the recordings: its checksum, and either a rule with paths or why there is none."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")]
    """The file's name in the folder of its set; `.gz` is compressed."""
    sha256: Checksum
    """The SHA-256 of the content, uncompressed."""
    bytes: Annotated[int, Field(ge=0), Whole]
    """The size of the content, uncompressed."""
    paths: Seq[str] = ()
    """The repository's files that it is made from, in order; `{a,b}` stands for each of the alternatives."""
    rule: str | None = None
    """How it is made, a name in `RULES`."""
    missing: str | None = None
    """Why it cannot be made: what the rule does not say exactly enough to give the same bytes."""


class RecordedSet(ConfigModel):
    """The files that come from one commit of one repository."""

    folder: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
    """Its folder in the recordings."""
    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    """OWNER/NAME on github.com."""
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    """The commit."""
    licence: str
    """The licence of the files."""
    files: Annotated[Seq[RecordedFile], Field(min_length=1)]
    """Its files."""


class Recordings(ConfigModel):
    """The content of `benchmarks/recordings.yaml`."""

    sets: Annotated[Seq[RecordedSet], Field(min_length=1)]
    """The sets."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What became of one file: made, there already, failed, or without a rule; `reason` says why not."""

    file: str
    outcome: Literal["made", "kept", "failed", "no-rule"]
    reason: str = ""


def recorded_sets() -> Sequence[RecordedSet]:
    """The sets of the data file next to this script."""
    return Recordings.model_validate(read_document(DATA).data).sets


def rebuild_sets(
    target: Path, sets: Sequence[RecordedSet], mirror: Path | None = None
) -> Iterator[Rebuilt]:
    """Makes each file that is not there yet, from clones in `mirror` or else from github.com, and tells what became of it."""
    for recorded in sets:
        with tempfile.TemporaryDirectory(prefix="verdict-") as scratch:
            clone = Clone(recorded, mirror, Path(scratch))
            for file in recorded.files:
                yield _rebuilt(target / recorded.folder / file.name, recorded, file, clone)


def _rebuilt(target: Path, recorded: RecordedSet, file: RecordedFile, clone: Clone) -> Rebuilt:
    name = f"{recorded.folder}/{file.name}"
    if _checksum_of(target) == file.sha256:
        return Rebuilt(name, "kept")
    if file.rule is None:
        return Rebuilt(name, "no-rule", file.missing or "")
    try:
        content = RULES[file.rule]({path: clone.content(path) for path in _paths(file.paths)})
    except FetchError as error:
        return Rebuilt(
            name, "failed", f"{error.message}; {error.hint}" if error.hint else error.message
        )
    except (ValueError, KeyError, TypeError, IndexError) as fault:
        return Rebuilt(
            name,
            "failed",
            f"the repository's file has another form: {type(fault).__name__}: {fault}",
        )
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        reason = f"made {len(content):,} bytes with the SHA-256 {digest}, expected {file.bytes:,} bytes with {file.sha256}"
        return Rebuilt(name, "failed", reason)
    _write(target, content)
    return Rebuilt(name, "made")


def _checksum_of(path: Path) -> str | None:
    """The checksum of a file's content; None where it is missing or not readable as such."""
    try:
        content = path.read_bytes()
        return hashlib.sha256(
            gzip.decompress(content) if path.suffix == ".gz" else content
        ).hexdigest()
    except (OSError, EOFError, ValueError):
        return None


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as part:
        part.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _paths(patterns: Sequence[str]) -> Iterator[str]:
    """Every path, `{a,b}` as each of its alternatives in their order."""
    for pattern in patterns:
        pieces = [
            piece[1:-1].split(",") if piece[:1] == "{" else [piece]
            for piece in re.split(r"(\{[^}]*\})", pattern)
        ]
        yield from map("".join, itertools.product(*pieces))


class Clone:
    """Reads files of one commit by git: from a clone that is there, or one without files that is made in `scratch`."""

    def __init__(self, recorded: RecordedSet, mirror: Path | None, scratch: Path) -> None:
        self._set = recorded
        self._mirror = (
            None if mirror is None else mirror / recorded.repository.replace("/", "+") / "repo"
        )
        self._scratch = scratch
        self._fault: FetchError | None = None
        self._ready = False

    def content(self, path: str) -> bytes:
        """The file at the commit. FetchError where the clone, the commit or the file is missing."""
        self._prepare()
        at = f"{self._set.commit}:{path}"
        return self._git(
            "cat-file",
            "blob",
            at,
            fault=f"{self._set.repository} has no file {path} at {self._set.commit[:12]}",
        )

    def _prepare(self) -> None:
        if self._fault is not None:
            raise self._fault
        if self._ready:
            return
        try:
            self._fetch() if self._mirror is None else self._check(self._mirror)
        except FetchError as fault:
            self._fault = fault
            raise
        self._ready = True

    def _check(self, mirror: Path) -> None:
        if not mirror.is_dir():
            raise FetchError(
                f"there is no clone {mirror}",
                hint=f"git clone {SITE}/{self._set.repository} {mirror}",
            )
        fault = f"{mirror} does not have the commit {self._set.commit}"
        self._git(
            "cat-file",
            "-e",
            f"{self._set.commit}^{{commit}}",
            fault=fault,
            hint=f"git -C {mirror} fetch --all",
        )

    def _fetch(self) -> None:
        """Fetch the commit alone; git then fetches each file when it is read."""
        url, fault = f"{SITE}/{self._set.repository}", f"{self._set.repository} cannot be fetched"
        hint = "is there a network? --mirror DIR takes clones"
        self._git("init", "--quiet", "--bare", fault=fault)
        self._git("remote", "add", "origin", url, fault=fault)
        self._git("config", "remote.origin.promisor", "true", fault=fault)
        self._git("config", "remote.origin.partialclonefilter", "blob:none", fault=fault)
        self._git(
            "fetch",
            "--quiet",
            "--depth=1",
            "--filter=blob:none",
            "origin",
            self._set.commit,
            fault=fault,
            hint=hint,
        )

    def _git(self, *words: str, fault: str, hint: str = "") -> bytes:
        folder = self._scratch if self._mirror is None else self._mirror
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *words],
                capture_output=True,
                timeout=DOWNLOAD_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise FetchError(
                "git is not installed", hint="install git, then run the same command"
            ) from None
        except subprocess.TimeoutExpired:
            raise FetchError(
                f"{fault}: git took more than {DOWNLOAD_TIMEOUT_S} seconds",
                hint="run the same command again",
            ) from None
        if done.returncode:
            messages = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise FetchError(f"{fault} ({messages[-1]})" if messages else fault, hint=hint)
        return done.stdout


def rebuild(
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of recordings to make or complete.")
    ],
    mirror: Annotated[
        Path | None,
        typer.Option(
            "--mirror", help="A folder of clones, OWNER+NAME/repo each. [default: github.com]"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make the recorded sets for `bench --replay` from their public repositories, by commit and checksum.

    A file is written only if its content has the recorded SHA-256; files that already have it are kept. Files whose
    rule is not known exactly enough are named with the reason. Exits with 2 if a file with a rule cannot be made.

    Example: python benchmarks/rebuild_recordings.py recordings
    """
    if mirror is not None and not mirror.is_dir():
        raise UsageError(
            f"there is no folder {mirror}", hint="give a folder of clones, OWNER+NAME/repo each"
        )
    signs = {"made": "✓", "kept": "✓", "failed": "✗", "no-rule": "–"}
    results = []
    for result in rebuild_sets(target, recorded_sets(), mirror):
        results.append(result)
        if not as_json:
            sys.stdout.write(
                f"{signs[result.outcome]} {result.file}: {result.outcome}{result.reason and f': {result.reason}'}\n"
            )
            sys.stdout.flush()
    counts = {outcome: sum(result.outcome == outcome for result in results) for outcome in signs}
    if as_json:
        print_json({"files": [asdict(result) for result in results], **counts})
    else:
        summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        print_message(
            f"{plural(len(results), 'file')}: {summary}; verdict bench all --replay {target}"
        )
    if counts["failed"]:
        raise typer.Exit(FetchError.exit_code)


if __name__ == "__main__":
    try:
        typer.run(rebuild)
    except VerdictError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
