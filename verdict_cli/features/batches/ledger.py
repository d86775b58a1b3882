"""What is on disk of batches: their request files, and `batches.jsonl`, what was sent to a provider and what became of it.

The intent to send a request file is written before the upload, then the ids that the provider gave, then the end. A process
that is killed between two lines leaves an intent whose batch can be looked for.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast
from uuid import uuid4

import msgspec
import orjson
from msgspec import Struct

from verdict_cli.errors import JournalError, OutputError
from verdict_cli.features.batches.batch_facts import TO_FILE, BatchFacts
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.model import Model
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.journal.entry import CallKey
from verdict_cli.storage.journal.journal import sync_directory
from verdict_cli.storage.journal.partition import PARTS


class RequestKey(Struct, frozen=True, array_like=True):
    """What a request's reply is for: its call in the journal, and how it is read.

    ``content`` is the digest of an entry inside `each`, ``cache_key`` the hex of the reply's key in the cache ("": not
    cached), ``top_logprobs`` the alternatives requested, ``mode`` the form of a request for JSON ("": none), ``sent`` the
    parameters as JSON, ``tokens`` about how many the prompt has.
    """

    custom_id: str
    row: str
    node: str
    fingerprint: str
    call: int
    attempt: int
    item: str = ""
    content: str = ""
    cache_key: str = ""
    top_logprobs: int = 0
    mode: str = ""
    sent: str = ""
    tokens: int = 0


def custom_id(key: CallKey) -> str:
    """32 hex digits that follow from the call's name in the journal: row, node, fingerprint, call, attempt, item."""
    text = "\0".join(map(str, key))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class RequestFile:
    """A request file that is written, and then sent. ``tokens`` are the prompt's, as estimated."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = self.size = self.tokens = 0
        self._digest = hashlib.sha256()
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lines, self._keys = _create(path), _create(key_path(path))

    def add(self, line: bytes, key: RequestKey) -> None:
        with disk_errors(self.path):
            self._lines.write(line)
            self._keys.write(msgspec.json.encode(key) + b"\n")
        self._digest.update(line)
        self.count += 1
        self.size += len(line)
        self.tokens += key.tokens

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def close(self) -> None:
        """Bring both files to the disk."""
        with disk_errors(self.path):
            for file in (self._lines, self._keys):
                if not file.closed:
                    file.flush()
                    os.fsync(file.fileno())
                    file.close()

    def discard(self) -> None:
        for file in (self._lines, self._keys):
            with suppress(OSError):  # a full disk, which something else reports
                file.close()
        self.path.unlink(missing_ok=True)
        key_path(self.path).unlink(missing_ok=True)

    def move(self, path: Path) -> None:
        """Give both files, which are closed, their final name."""
        with disk_errors(path):
            self.path.rename(path)
            key_path(self.path).rename(key_path(path))
        self.path = path


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise an OSError of the disk as an OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}",
            hint="free some space; the same command resumes the run",
        ) from error


def key_path(path: Path) -> Path:
    """Where the keys of a request file are."""
    return path.with_suffix(".keys")


def result_path(path: Path) -> Path:
    """Where the results of a request file's batch are kept while they are read."""
    return path.with_suffix(".results")


def read_keys(path: Path) -> Iterator[RequestKey]:
    """The keys of a request file, in its order."""
    with key_path(path).open("rb") as keys:
        for line in keys:
            yield msgspec.json.decode(line, type=RequestKey)


def split_requests(path: Path, first: int) -> tuple[RequestFile, RequestFile]:
    """Copies of the requests of a file in two, of which one has the first so many."""
    halves = RequestFile(path.with_suffix(".a.jsonl")), RequestFile(path.with_suffix(".b.jsonl"))
    with path.open("rb") as lines:
        for index, (line, key) in enumerate(zip(lines, read_keys(path), strict=True)):
            halves[index >= first].add(line, key)
    for half in halves:
        half.close()
    return halves


def _create(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
    return os.fdopen(descriptor, "wb")


LEDGER = "batches.jsonl"
REQUESTS = "batches"
"""The folder of request files that are not finished with, beside the ledger."""
LOST = "lost"
SPLIT = "refused"
"""Own words for the end of a batch: it was never created, or was over the account's limit of queued tokens."""


@dataclass
class TokenCounts:
    """Sums over replies: their number, their tokens, and their prompts' tokens as charged and as estimated before."""

    replies: int = 0
    completion: int = 0
    prompt: int = 0
    estimated: int = 0

    def add(self, other: TokenCounts) -> None:
        self.replies += other.replies
        self.completion += other.completion
        self.prompt += other.prompt
        self.estimated += other.estimated


@dataclass(kw_only=True)
class SentBatch(BatchFacts):
    """One batch, from the intent to send it to its end; ``sent_to`` is its model with its settings."""

    number: int
    tag: str
    sent_to: Model
    sha256: str
    intended: float
    expected_usd: float = 0.0
    file_id: str = ""
    counts: TokenCounts = field(default_factory=TokenCounts)

    @property
    def is_at_provider(self) -> bool:
        """Whether the provider has it, and it has not ended."""
        return bool(self.id) and not self.ended and self.provider != TO_FILE

    @property
    def facts(self) -> BatchFacts:
        """What `run.json` says of it."""
        return BatchFacts(*(getattr(self, fact.name) for fact in fields(BatchFacts)))


@dataclass
class BatchLedger:
    """The batches of a run, by number, and the form of JSON requests that each model takes in batches.

    Where the directory is in a store, an event counts once it is there, and so are the requests before they are sent.
    """

    directory: RunDirectory
    batches: dict[int, SentBatch] = field(default_factory=dict)
    modes: dict[str, JsonMode] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: RunDirectory) -> BatchLedger:
        """The ledger in a run's directory. A torn last line is left out. JournalError for a line that cannot be read."""
        ledger = cls(directory)
        try:
            lines = ledger.path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return ledger
        for line in lines:
            if not line.endswith(b"\n"):
                break
            try:
                ledger._apply(orjson.loads(line))
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as fault:
                raise JournalError(
                    f"{ledger.path} cannot be read: {fault!r:.200}", hint="choose another --out, or --fresh"
                ) from None
        return ledger

    def clear(self) -> None:
        """Forget all batches, for a run that starts over."""
        self.path.unlink(missing_ok=True)
        self.directory.remove([LEDGER])
        self.batches.clear()
        self.modes.clear()
        self.remove_unsent()

    @property
    def path(self) -> Path:
        return self.directory.path / LEDGER

    @property
    def requests(self) -> Path:
        """The folder of the request files."""
        return self.directory.path / REQUESTS

    @property
    def in_flight(self) -> list[SentBatch]:
        """The batches that have not ended, in the order of their intents."""
        return [batch for batch in self.batches.values() if not batch.ended]

    @property
    def facts(self) -> tuple[BatchFacts, ...]:
        """Every batch that was or may have been sent, for `run.json`."""
        return tuple(batch.facts for batch in self.batches.values() if batch.status not in (LOST, SPLIT))

    @property
    def wave(self) -> int:
        """The last wave."""
        return max((batch.wave for batch in self.batches.values()), default=0)

    def request_file(self, number: int) -> Path:
        """Where the requests of a batch are, until it has ended."""
        return self.requests / f"{number:05}.jsonl"

    def intend(self, file: RequestFile, provider: str, model: Model, wave: int, expected_usd: float) -> SentBatch:
        """Write the intent to send a request file, which is on disk."""
        number = max(self.batches, default=0) + 1
        file.move(self.request_file(number))
        sync_directory(self.requests)
        self.directory.put(*(f"{REQUESTS}/{path.name}" for path in (file.path, key_path(file.path))))
        self._write(
            {
                "event": "intent",
                "batch": number,
                "tag": uuid4().hex,
                "wave": wave,
                "provider": provider,
                "model": model.model_dump(mode="json", exclude_defaults=True),
                "requests": file.count,
                "sha256": file.sha256,
                "at": datetime.now(UTC).timestamp(),
                "expected_usd": expected_usd,
            }
        )
        return self.batches[number]

    def uploaded(self, batch: SentBatch, file_id: str) -> None:
        self._write({"event": "file", "batch": batch.number, "id": file_id})

    def sent(self, batch: SentBatch, batch_id: str, status: str) -> None:
        self._write({"event": "sent", "batch": batch.number, "id": batch_id, "status": status, "at": _now()})

    def end(self, batch: SentBatch, status: str, **more: Any) -> None:
        """Note the end of a batch whose results are in the journal, and remove its files."""
        self._write(
            {
                "event": "ended",
                "batch": batch.number,
                "status": status,
                "at": _now(),
                "cost_usd": 0.0,
                "saved_usd": 0.0,
                **more,
            }
        )
        path = self.request_file(batch.number)
        self._remove([path, key_path(path), result_path(path)])

    def choose_mode(self, model: str, mode: JsonMode) -> None:
        """Note the form in which a model takes requests for JSON."""
        if self.modes.get(model) != mode:
            self._write({"event": "mode", "model": model, "mode": mode})

    def remove_unsent(self) -> None:
        """Remove request files that no intent names: their requests are written again."""
        kept = {self.request_file(batch.number).stem for batch in self.in_flight}
        files = sorted(self.requests.iterdir()) if self.requests.is_dir() else []
        self._remove([path for path in files if path.name.partition(".")[0] not in kept])

    def _remove(self, paths: list[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)
        if paths:
            self.directory.remove(f"{REQUESTS}/{path.name}" for path in paths)

    def _apply(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "mode":
            self.modes[event["model"]] = cast("JsonMode", event["mode"])
            return
        number = event["batch"]
        if kind == "intent":
            known = ("tag", "wave", "provider", "requests", "sha256", "expected_usd")
            model = Model.model_validate(event["model"])
            self.batches[number] = SentBatch(
                id="",
                model=model.name,
                status="sending",
                number=number,
                sent_to=model,
                intended=event["at"],
                **{name: event[name] for name in known},
            )
            return
        batch = self.batches[number]
        if kind == "file":
            batch.file_id = event["id"]
        elif kind == "sent":
            batch.id, batch.status, batch.submitted = event["id"], event["status"], event["at"]
        elif kind == "ended":
            batch.status, batch.ended = event["status"], event["at"]
            batch.answered = event.get("answered", 0)
            batch.cost_usd, batch.saved_usd = event.get("cost_usd"), event.get("saved_usd")
            batch.counts = TokenCounts(*event.get("counts", ()))

    def _write(self, event: Mapping[str, Any]) -> None:
        """Append a line and bring it to the disk."""
        line = orjson.dumps(event) + b"\n"
        with disk_errors(self.path):
            new = not self.path.exists()
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
            with os.fdopen(descriptor, "r+b") as file:
                end = file.read().rfind(b"\n") + 1  # what is behind it was torn by a crash
                file.truncate(end)
                file.seek(end)
                file.write(line)
                file.flush()
                os.fsync(descriptor)
            if new:
                sync_directory(self.directory.path)
        self.directory.put(LEDGER)
        self._apply(event)


def read_ledgers(directory: RunDirectory) -> list[BatchLedger]:
    """The ledger of a run's directory, and those of its parts that have sent batches, as far as they are on this machine."""
    parts = sorted((directory.path / PARTS).glob(f"*/{LEDGER}"))
    return [
        BatchLedger.read(directory),
        *(BatchLedger.read(directory.below(f"{PARTS}/{path.parent.name}")) for path in parts),
    ]


def fetch_ledgers(directory: RunDirectory) -> list[BatchLedger]:
    """As `read_ledgers`, with those that are in a store only."""
    names = [*directory.stored(LEDGER), *directory.stored(PARTS)]
    directory.get(name for name in names if name.rpartition("/")[2] == LEDGER)
    return read_ledgers(directory)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
