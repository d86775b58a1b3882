"""Whether Ray is installed is asked of the package, not of whatever bears its name."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.errors import UsageError

PIPELINE = """verdict: 1
name: p
model: baseline/lexical
pipeline:
  - {unit: JudgeUnit, prompt: "Rate {source.answer}"}
"""


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_a_folder_named_ray_is_not_taken_for_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "path" / "ray").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "path")
    assert find_spec("ray") is not None
    (tmp_path / "p.yaml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text('{"answer": "yes"}\n', encoding="utf-8")

    result = CliRunner().invoke(
        app,
        [
            "run",
            str(tmp_path / "p.yaml"),
            str(tmp_path / "rows.jsonl"),
            "--engine",
            "ray",
            "--out",
            str(tmp_path / "out"),
        ],
    )

    assert isinstance(result.exception, UsageError)
    assert result.exception.message == "--engine ray needs Ray"
