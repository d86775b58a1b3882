"""The viewer as a process, over folders of runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Shown = Callable[..., str]


@pytest.fixture(scope="session")
def runs(
    recorded_run: Path,
    hostile_run: Path,
    chat_run: Path,
    two_runs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with a real run, two runs over the sample, and one that is up to no good."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(recorded_run, folder / "recorded")
    shutil.copytree(hostile_run, folder / "hostile")
    shutil.copytree(chat_run, folder / "chat")
    for name in ("lexical", "random"):
        shutil.copytree(two_runs / name, folder / "sample" / name)
    return folder


@pytest.fixture(scope="session")
def serve_runs() -> Iterator[Shown]:
    """Starts `verdict view` and gives the address that it prints."""
    pytest.importorskip("starlette", reason="the extra `view` is not installed")
    processes: list[subprocess.Popen[str]] = []

    def start(folder: Path, *more: str, **environment: str) -> str:
        process = subprocess.Popen(
            [sys.executable, "-m", "verdict_cli", "view", str(folder), "--port", "0", *more],
            env={**os.environ, "VERDICT_TOKEN": "", **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stderr is not None
        line = process.stderr.readline()
        assert ": serving at " in line, line
        return line.split(": serving at ")[1].split()[0]

    yield start
    for process in processes:
        process.terminate()
        process.communicate()


@pytest.fixture(scope="session")
def viewer(runs: Path, serve_runs: Shown) -> str:
    """The address of a viewer over the runs."""
    return serve_runs(runs)
