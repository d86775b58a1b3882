"""Runs that are killed at random moments and started again: nothing is lost, and only what was in flight is repeated."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

pytestmark = pytest.mark.slow  # `make test-all`


SCRIPT = ROOT / "benchmarks" / "kills.py"


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark, with fewer kills."""
    spec = importlib.util.spec_from_file_location("kills", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "kills", module)
    spec.loader.exec_module(module)
    # Beside other tests, a commit waits for the disk and for a processor.
    monkeypatch.setattr(module, "UNCOMMITTED_S", 0.06)
    return module


@pytest.mark.parametrize(
    "name", ["run --no-cache", "run, with the cache", "run, all calls in one row"]
)
def test_a_run_killed_at_random_ends_with_the_same_table_and_few_repeated_calls(
    name: str, kills: Any, loopback: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    (case,) = [case for case in kills.CASES if case.name == name]
    urls = (loopback.start(*case.server[1:]), loopback.start(*case.server[1:]))
    outcome = kills.ended(case, tmp_path, urls, kills=3, concurrency=8)
    assert (outcome.kills, outcome.calls) == (3, 2 * 3 * case.rows)
    assert outcome.same
    assert 0 <= outcome.repeated <= outcome.bound
