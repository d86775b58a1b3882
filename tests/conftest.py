"""What tests of several folders share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared"))


@dataclass
class Loopback:
    """OpenAI-compatible servers on this machine: ``url`` is one without faults, ``start`` opens one with flags."""

    script: Path
    url: str = ""
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *flags: str) -> str:
        """The base URL of a new server, started with these flags on a free port."""
        process = subprocess.Popen(
            [sys.executable, str(self.script), "--port", "0", "--latency-ms", "0", *flags],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        assert process.stdout is not None
        return process.stdout.readline().rpartition(" ")[2].strip()

    def stop(self) -> None:
        """Ends every server that was started."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.communicate()


@pytest.fixture(scope="session")
def loopback() -> Iterator[Loopback]:
    script = SHARED / "bench" / "mock_openai.py"
    if not script.exists():
        pytest.skip(
            "the loopback model server is not there: set VERDICT_SHARED to the folder that has bench/"
        )
    servers = Loopback(script)
    try:
        servers.url = servers.start()
        yield servers
    finally:
        servers.stop()
