"""The command line, called in this process, or as a process of its own where signals or imports matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Outcome:
    """What a command gave back."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The one document on standard output."""
        assert self.out, self.err
        return json.loads(self.out)


@dataclass
class Shell:
    """A folder with files, and commands run in it."""

    folder: Path
    call: Callable[..., Outcome]
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(self, *arguments: str | Path) -> Outcome:
        return self.call(*[str(argument) for argument in arguments])

    def write(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def config(self, steps: str, head: str = "model: baseline/lexical", name: str = "pipeline.yaml") -> Path:
        return self.write(name, f"verdict: 1\nname: t\n{head}\npipeline:\n{steps}\n")

    def rows(self, count: int, name: str = "data.jsonl") -> Path:
        return self.write(name, "".join(f'{{"key": "r{place}", "text": "text {place}"}}\n' for place in range(count)))

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """The command as a process of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "verdict_cli", *map(str, arguments)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    from verdict_cli.cli.app import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("VERDICT_CACHE_DIR", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.endswith("_API_KEY") or name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)

    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["verdict", *arguments])
        code: Any = 0
        try:
            main()
        except SystemExit as left:
            code = left.code
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Outcome(code or 0, captured.out, captured.err)

    made = Shell(tmp_path, call)
    try:
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def root() -> Path:
    """The project's own folder."""
    return ROOT


@pytest.fixture
def shared() -> Path:
    """The folder of shared cases and data."""
    path = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared"))
    if not path.exists():
        pytest.skip("the shared folder is not there: set VERDICT_SHARED")
    return path
