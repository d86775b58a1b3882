"""The progress of a running run, read from its journal. Each reading continues where the last one ended."""

from __future__ import annotations

from collections import Counter, deque
from pathlib import Path
from threading import Lock
from time import time
from typing import Any

from verdict_cli.storage.journal.entry import JournalEntry, decode_entry

LATEST = 30
_MOST_BYTES = 32 << 20
"""The most bytes per reading; the next one reads on."""


class LiveRun:
    """Counts the finished calls in a run's journal, and in those of its parts."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._lock = Lock()
        self._reset()

    def _reset(self) -> None:
        self._offsets: Counter[Path] = Counter()
        self._answered: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._rows: set[int] = set()
        self._cost: float | None = 0.0
        self._tokens = [0, 0]
        self._latest: deque[dict[str, Any]] = deque(maxlen=LATEST)

    def state(self) -> dict[str, Any]:
        """Read on, and return calls by unit, started rows, cost, tokens, and the latest calls, newest first."""
        with self._lock:
            self._read()
            return {
                "started": len(self._rows),
                "units": [
                    {"unit": unit, "answered": self._answered[unit], "failed": self._failed[unit]}
                    for unit in dict.fromkeys([*self._answered, *self._failed])
                ],
                "cost_usd": self._cost,
                "tokens": list(self._tokens),
                "idle_s": self._idle_s(),
                "latest": list(reversed(self._latest)),
            }

    def _idle_s(self) -> float | None:
        """Seconds since the last call ended."""
        try:
            return max(0.0, time() - max(path.stat().st_mtime for path in self._journals()))
        except OSError:
            return None

    def _journals(self) -> list[Path]:
        return [self._journal, *sorted(self._journal.parent.glob(f"parts/*/{self._journal.name}"))]

    def _read(self) -> None:
        left = _MOST_BYTES
        for path in self._journals():
            try:
                left -= self._read_journal(path, left)
            except OSError:
                continue

    def _read_journal(self, path: Path, most: int) -> int:
        """Read on in a journal, and return how many bytes."""
        with path.open("rb") as file:
            if file.seek(0, 2) < self._offsets[path]:
                self._reset()
            file.seek(self._offsets[path])
            size = 0
            for line in file:
                if not line.endswith(b"\n") or size > most:
                    break
                size += len(line)
                try:
                    self._count(decode_entry(line))
                except ValueError:
                    continue
            self._offsets[path] += size
        return size

    def _count(self, entry: JournalEntry) -> None:
        self._rows.add(hash(entry.row))
        (self._failed if entry.failure else self._answered)[entry.node] += 1
        reply = entry.reply
        if reply is not None:
            self._tokens[0] += reply.usage.prompt_tokens
            self._tokens[1] += reply.usage.completion_tokens
            known = self._cost is not None and reply.cost_usd is not None
            self._cost = (self._cost or 0.0) + (reply.cost_usd or 0.0) if known else None
        self._latest.append(
            {
                "unit": entry.node,
                "model": "" if reply is None else reply.model,
                "reply": "" if reply is None else reply.text[:300],
                "failure": entry.failure,
                "seconds": entry.latency_s,
            }
        )
