"""A batch server on this machine, and polls without waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_bench import BatchBench
from batch_server import BatchServer

from verdict_cli.features.batches import pool, sent


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchBench]:
    monkeypatch.setattr(pool, "FIRST_POLL_S", 0.02)
    monkeypatch.setattr(pool, "MOST_POLL_S", 0.05)
    monkeypatch.setattr(sent, "ARRIVAL_S", 0.0)
    monkeypatch.setattr(sent, "DELAY_S", 0.01)
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with BatchServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield BatchBench(tmp_path, server)
