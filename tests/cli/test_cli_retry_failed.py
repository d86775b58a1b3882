"""`verdict run --retry-failed`: what it says, and what it leaves alone."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import urlopen

import pytest

ROWS = 6


def requests(url: str) -> int:
    """How many the server has counted."""
    with urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        return int(json.load(answer)["requests"])


@pytest.fixture
def command(shell: Any, loopback: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run whose calls each fail the first time, and the server's address."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    url = loopback.start("--fail-first", "1", "--error-rate", "offschema=1")
    config = shell.config(
        "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}",
        f"model: {{name: openai/m, api_base: '{url}', cache: false, retries: 0}}",
    )
    return ["run", config, shell.rows(ROWS), "--out", "out", "--json"], url


def test_failed_rows_are_called_again_and_then_there_is_nothing_left(shell, command):
    words, url = command
    first = shell(*words)
    assert (first.code, first.json()["failed"], requests(url)) == (3, ROWS, ROWS)
    assert "nothing left to do" in shell(*words).err
    again = shell(*words, "--retry-failed")
    assert f"out: retrying failed calls in {ROWS} rows" in again.err
    assert (again.code, again.json()["failed"], again.json()["calls"]) == (0, 0, ROWS)
    assert requests(url) == 2 * ROWS
    last = shell(*words, "--retry-failed")
    assert "out: no row failed, nothing left to do" in last.err
    assert (last.code, requests(url)) == (0, 2 * ROWS)


def test_a_new_directory_is_run_as_without_it(shell, command):
    words, url = command
    assert shell(*words, "--retry-failed").json()["failed"] == requests(url) == ROWS


def test_fresh_and_retry_failed_exclude_each_other(shell, command):
    words, url = command
    refused = shell(*words, "--fresh", "--retry-failed")
    assert (refused.code, requests(url)) == (2, 0)
    assert "--fresh leaves nothing that --retry-failed could retry" in refused.err
