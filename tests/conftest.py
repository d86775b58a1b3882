"""What tests of several folders share."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from paths import SHARED

if TYPE_CHECKING:
    from verdict_cli.messages import Reply, Request

pytest_plugins = (
    "browser_fixtures",
    "engine_bench",
    "plan_fixtures",
    "pytester",
    "shell",
    "stores",
)

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("explore", deadline=None, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

SLOW = frozenset((Path(__file__).parent / "slow_tests.txt").read_text(encoding="utf-8").split())
"""Single tests that take most of a second or more, over their cases. Modules that are slow as a whole mark themselves."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that `make test` leaves to `make test-all`."""
    for item in items:
        if item.nodeid.partition("[")[0] in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the language's page, its cases, the seeds and the recorded data."""
    if not (SHARED / "spec").is_dir():
        pytest.skip("the shared folder is not there: set VERDICT_SHARED to it")
    return SHARED


@pytest.fixture(scope="session")
def value_cases(shared: Path) -> dict[str, list[dict[str, Any]]]:
    """The cases of values that must come out, by topic."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for case in json.loads((shared / "spec" / "value-cases.json").read_text(encoding="utf-8"))[
        "cases"
    ]:
        topics.setdefault(case["topic"], []).append(case)
    return topics


_CACHES = itertools.count()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads replies that another one kept, nor the user's."""
    # Not `mktemp`: it lists all folders of the session for the next number, in each of thousands of tests.
    monkeypatch.setenv(
        "VERDICT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "caches" / str(next(_CACHES)))
    )


@dataclass
class ScriptedModel:
    """A model that answers by a function, which may be a coroutine function. `requests` are all calls that reached it."""

    answer: Callable[[Request], Reply | str | Awaitable[Reply]]
    requests: list[Request] = field(default_factory=list)

    async def ask(self, request: Request) -> Reply:
        from msgspec.structs import replace

        from verdict_cli.messages import Reply

        self.requests.append(request)
        answered = self.answer(request)
        reply: Reply | str = await answered if inspect.isawaitable(answered) else answered
        if isinstance(reply, str):
            reply = Reply(reply)
        return replace(reply, model=reply.model or request.model.name)

    def texts(self) -> list[str]:
        """The last message of each request."""
        return [request.messages[-1].content for request in self.requests]


@pytest.fixture
def scripted_model(monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    """Answers every model call of the test, whatever the model's name: set `answer`.

    The only place where tests take the place of the providers. Journal, cache, limits and budget are the real ones.
    """
    from verdict_cli.llm.providers import Providers

    def unset(_: Request) -> str:
        pytest.fail("a model was called, but scripted_model.answer is not set")

    scripted = ScriptedModel(unset)
    monkeypatch.setattr(Providers, "ask", lambda _, request: scripted.ask(request))
    return scripted


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


@dataclass
class DecisionServers:
    """Servers of decision models on this machine. ``start`` opens one with flags, and rules for its answers."""

    script: Path
    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *flags: str, rules: Any = ()) -> str:
        """The root URL of a new server."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        file = self.folder / f"rules-{port}.json"
        file.write_text(json.dumps(list(rules)), encoding="utf-8")
        command = [
            sys.executable,
            str(self.script),
            "--port",
            str(port),
            "--rules",
            str(file),
            *flags,
        ]
        self.processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        url = f"http://127.0.0.1:{port}"
        for _ in range(200):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/stats"):
                return url
            time.sleep(0.05)
        raise RuntimeError("the loopback server of decision models does not answer")

    def get(self, url: str, path: str) -> Any:
        """The JSON at a path of a server."""
        with urllib.request.urlopen(f"{url}/{path}") as response:
            return json.load(response)

    def reset(self, url: str) -> None:
        """Forget what a server has counted."""
        urllib.request.urlopen(urllib.request.Request(f"{url}/stats/reset", method="POST")).close()


@pytest.fixture
def decision_servers(tmp_path: Path) -> Iterator[DecisionServers]:
    script = SHARED / "bench" / "mock_decisions.py"
    if not script.exists():
        pytest.skip(
            "the loopback server of decision models is not there: set VERDICT_SHARED to the folder that has bench/"
        )
    servers = DecisionServers(script, tmp_path)
    try:
        yield servers
    finally:
        for process in servers.processes:
            process.terminate()
        for process in servers.processes:
            process.communicate()
