"""`--trace`: what it needs, where it sends, and that nothing is loaded without it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

JUDGE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The console exporter, whatever the machine has set."""
    for name in ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    yield


def test_spans_go_where_the_environment_says_and_the_document_stays_whole(shell: Any) -> None:
    done = shell("run", shell.config(JUDGE), shell.rows(2), "--out", "out", "--json", "--quiet", "--trace")
    assert done.code == 0
    assert done.json()["rows"] == 2
    assert done.err.count('"name": "chat lexical"') == 2
    assert "text 1" not in done.err


def test_prompts_are_told_with_trace_content(shell: Any) -> None:
    done = shell("run", shell.config(JUDGE), shell.rows(2), "--out", "out", "-q", "--trace", "--trace-content")
    assert "Rate text 1" in done.err


def test_content_without_a_trace_is_an_error(shell: Any) -> None:
    done = shell("run", shell.config(JUDGE), shell.rows(1), "--out", "out", "--trace-content")
    assert (done.code, "--trace" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]
)
def test_what_the_extra_does_not_send_is_an_error(
    shell: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv(name, value)
    done = shell("run", shell.config(JUDGE), shell.rows(1), "--out", "out", "--trace")
    assert done.code == 2
    assert f"{name}={value}" in done.err
    assert not (shell.folder / "out").exists()


def test_a_missing_package_names_the_extra(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    done = shell("run", shell.config(JUDGE), shell.rows(1), "--out", "out", "--trace")
    assert done.code == 2
    assert ".[otel]" in done.err
    assert not (shell.folder / "out").exists()


def test_without_the_flag_nothing_of_opentelemetry_is_loaded(shell: Any) -> None:
    config, data = shell.config(JUDGE), shell.rows(1)
    code = (
        "import sys\nfrom verdict_cli.cli.app import main\n"
        f"sys.argv = ['verdict', 'run', {str(config)!r}, {str(data)!r}, '--out', 'out', '-q']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=shell.folder,
        env={"PYTHONPATH": str(root), "PATH": "", "HOME": str(shell.folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stderr.split()
    assert "verdict_cli.run.local" in loaded
    assert not [name for name in loaded if name.startswith("opentelemetry")]
