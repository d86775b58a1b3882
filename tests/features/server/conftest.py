"""A server of a small pipeline: its application called in this process, or as a process of its own where signals matter."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from paths import ROOT
from served import ONE_JUDGE

httpx = pytest.importorskip("httpx", reason="httpx is not installed")

T = TypeVar("T")


@dataclass
class House:
    """A folder with a pipeline, served in this process."""

    folder: Path

    def within(
        self,
        work: Callable[[Any, Any], Awaitable[T]],
        text: str = ONE_JUDGE,
        *,
        limits: Any = None,
        door: Any = None,
        budget: float | None = None,
        recording: Path | None = None,
        **settings: Any,
    ) -> T:
        """What `work(client, service)` gives, with the server open meanwhile."""
        from verdict_cli.features.guard.middleware import AccessPolicy
        from verdict_cli.features.server.app import api_application
        from verdict_cli.features.server.service import Limits, ServeSettings, Service
        from verdict_cli.language.load import load
        from verdict_cli.plan.build import build_plan
        from verdict_cli.plan.node import Plan
        from verdict_cli.run.model_client import ModelClient
        from verdict_cli.run.observer import RunObserver
        from verdict_cli.run.preflight import load_recording as loaded

        config = self.folder / "pipeline.yaml"
        config.write_text(text)

        def read() -> Plan:
            return build_plan(load(config)).plan

        async def go() -> T:
            plan = read()
            access = ModelClient.open(
                concurrency=8,
                budget_usd=budget,
                recording=None if recording is None else loaded(recording, plan),
            )
            serve_settings = ServeSettings(
                limits or Limits(), door or AccessPolicy(hosts=("test",)), **settings
            )
            service = Service(serve_settings, access, read, RunObserver())
            await service.open(plan)
            transport = httpx.ASGITransport(app=api_application(service))
            try:
                async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                    return await work(client, service)
            finally:
                await access.close()

        return asyncio.run(go())


@dataclass
class Process:
    """`verdict serve` as a process."""

    process: subprocess.Popen[str]
    url: str

    def client(self, **keys: Any) -> Any:
        return httpx.Client(base_url=self.url, timeout=30, **keys)

    def end(self, number: int) -> tuple[int, str]:
        """Sends the signal and waits: the exit code and what was said."""
        self.process.send_signal(number)
        _, output = self.process.communicate(timeout=30)
        return self.process.returncode, output


@dataclass
class Processes:
    """Starts servers in a folder."""

    folder: Path
    started: list[Process] = field(default_factory=list)

    def start(
        self, text: str, *options: str, stdin: int = subprocess.DEVNULL, **environ: str
    ) -> Process:
        config = self.folder / "pipeline.yaml"
        config.write_text(text)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "verdict_cli",
                "serve",
                str(config),
                "--port",
                "0",
                "--no-cache",
                *options,
            ],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "sk-loopback", **environ},
            stdin=stdin,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if ": serving at " in line:
                process_of_server = Process(process, line.rpartition(" ")[2].strip())
                self.started.append(process_of_server)
                return process_of_server
        process.wait()
        raise AssertionError("".join(lines))


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    return House(tmp_path)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    try:
        yield started
    finally:
        for process in started.started:
            if process.process.poll() is None:
                process.process.kill()
                process.process.communicate()
