"""`batches.jsonl`: what was sent to a provider and what became of it, on disk before it counts.

The intent to send a request file is written before the upload, then the ids that the provider gave, then the end. A process
that is killed between two lines leaves an intent whose batch can be looked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, cast
from uuid import uuid4

import orjson

from verdict_cli.errors import JournalError
from verdict_cli.features.batches.batch_facts import BatchFacts
from verdict_cli.features.batches.request_file import RequestFile, disk_errors, key_path, result_path
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.model import Model
from verdict_cli.storage.journal.journal import sync_directory

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
        """Add other sums."""
        self.replies += other.replies
        self.completion += other.completion
        self.prompt += other.prompt
        self.estimated += other.estimated


@dataclass
class SentBatch:
    """One batch, from the intent to send it to its end."""

    number: int
    tag: str
    wave: int
    provider: str
    model: Model
    requests: int
    sha256: str
    intended: float
    expected_usd: float = 0.0
    file_id: str = ""
    id: str = ""
    status: str = "sending"
    submitted: str = ""
    ended: str = ""
    answered: int = 0
    cost_usd: float | None = None
    saved_usd: float | None = None
    counts: TokenCounts = field(default_factory=TokenCounts)

    @property
    def facts(self) -> BatchFacts:
        """What `run.json` says of it."""
        return BatchFacts(
            self.id,
            self.provider,
            self.model.name,
            self.requests,
            self.status,
            self.submitted,
            self.ended,
            self.wave,
            self.answered,
            self.cost_usd,
            self.saved_usd,
        )


class LedgerStore(Protocol):
    """The place of a run's directory in an object store."""

    def put(self, *names: str) -> None:
        """Send files of the folder to the store."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove files from the store."""


@dataclass
class BatchLedger:
    """The batches of a run, by number, and the form of JSON requests that each model takes in batches.

    With ``store`` the folder is a copy: an event counts once it is in the store, and so are the requests before they are sent.
    """

    folder: Path
    batches: dict[int, SentBatch] = field(default_factory=dict)
    modes: dict[str, JsonMode] = field(default_factory=dict)
    store: LedgerStore | None = None

    @classmethod
    def read(cls, folder: Path, store: LedgerStore | None = None) -> BatchLedger:
        """The ledger in a run's directory. A torn last line is left out. JournalError for a line that cannot be read."""
        ledger = cls(folder, store=store)
        try:
            lines = (folder / LEDGER).read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return ledger
        for line in lines:
            if not line.endswith(b"\n"):
                break
            try:
                ledger._apply(orjson.loads(line))
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as fault:
                raise JournalError(
                    f"{folder / LEDGER} cannot be read: {fault!r:.200}", hint="choose another --out, or --fresh"
                ) from None
        return ledger

    def clear(self) -> None:
        """Forget all batches, for a run that starts over."""
        (self.folder / LEDGER).unlink(missing_ok=True)
        if self.store is not None:
            self.store.remove([LEDGER])
        self.batches.clear()
        self.modes.clear()
        self.remove_unsent()

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
        return self.folder / REQUESTS / f"{number:05}.jsonl"

    def next_number(self) -> int:
        return max(self.batches, default=0) + 1

    def intend(self, file: RequestFile, provider: str, model: Model, wave: int, expected_usd: float) -> SentBatch:
        """Write the intent to send a request file, which is on disk."""
        number = self.next_number()
        file.move(self.request_file(number))
        sync_directory(self.folder / REQUESTS)
        if self.store is not None:
            self.store.put(*(f"{REQUESTS}/{path.name}" for path in (file.path, key_path(file.path))))
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
        self._remove([path for path in self._files() if path.name.partition(".")[0] not in kept])

    def _remove(self, paths: list[Path]) -> None:
        """Remove files of requests and results."""
        for path in paths:
            path.unlink(missing_ok=True)
        if self.store is not None and paths:
            self.store.remove(f"{REQUESTS}/{path.name}" for path in paths)

    def _files(self) -> Iterator[Path]:
        folder = self.folder / REQUESTS
        return iter(sorted(folder.iterdir()) if folder.is_dir() else ())

    def _apply(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "mode":
            self.modes[event["model"]] = cast("JsonMode", event["mode"])
            return
        number = event["batch"]
        if kind == "intent":
            model = Model.model_validate(event["model"])
            self.batches[number] = SentBatch(
                number,
                event["tag"],
                event["wave"],
                event["provider"],
                model,
                event["requests"],
                event["sha256"],
                event["at"],
                event["expected_usd"],
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
        path = self.folder / LEDGER
        line = orjson.dumps(event) + b"\n"
        with disk_errors(path):
            new = not path.exists()
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
            try:
                os.lseek(descriptor, _end_of_lines(descriptor), os.SEEK_SET)
                os.write(descriptor, line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if new:
                sync_directory(self.folder)
        if self.store is not None:
            self.store.put(LEDGER)
        self._apply(event)


def _end_of_lines(descriptor: int) -> int:
    """Where the last complete line ends; what is behind it was torn by a crash and is cut off."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    step = 1 << 16
    end = size
    while end:
        start = max(0, end - step)
        os.lseek(descriptor, start, os.SEEK_SET)
        found = os.read(descriptor, end - start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)
    return end


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
