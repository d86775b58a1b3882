"""Fixtures of the tests that damage a run's files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl
from small_run import CONFIG, Command, reply_to


@pytest.fixture
def command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scripted_model: Any,
) -> Command:
    """`verdict` with these words in a folder, which gets `p.yaml` and `d.jsonl`: the exit code, and the JSON document."""
    from verdict_cli.cli.app import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(CONFIG)
    rows = [{"text": f"text {number}", "label": 1 + number % 5} for number in range(40)]
    (tmp_path / "d.jsonl").write_text(jsonl(rows))
    scripted_model.answer = reply_to

    def call(*words: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["verdict", *words, "--json"])
        with pytest.raises(SystemExit) as caught:
            main()
        out = capsys.readouterr().out
        return int(caught.value.code or 0), json.loads(out) if out.startswith("{") else {}

    return call
