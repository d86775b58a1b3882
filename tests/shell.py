"""The command line, called in this process, or as a process of its own where signals or imports matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from paths import ROOT


def needs(*features: str) -> pytest.MarkDecorator:
    """Skip a test of the core that also uses these features, where one of them was deleted."""
    missing = [name for name in features if find_spec(f"verdict_cli.features.{name}") is None]
    return pytest.mark.skipif(bool(missing), reason=f"without {', '.join(missing)}")


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

    def config(
        self, steps: str, head: str = "model: baseline/lexical", name: str = "pipeline.yaml"
    ) -> Path:
        return self.write(name, f"verdict: 1\nname: t\n{head}\npipeline:\n{steps}\n")

    def rows(self, count: int, name: str = "data.jsonl") -> Path:
        return self.write(
            name,
            "".join(f'{{"key": "r{place}", "text": "text {place}"}}\n' for place in range(count)),
        )

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
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    from verdict_cli.cli.app import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("VERDICT_CACHE_DIR", str(tmp_path / "cache"))
    for name in [
        name for name in os.environ if name.endswith("_API_KEY") or name.startswith("OPENAI_")
    ]:
        monkeypatch.delenv(name)

    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["verdict", *arguments])
        code: Any = 0
        try:
            main()
        except SystemExit as caught:
            code = caught.code
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Outcome(code or 0, captured.out, captured.err)

    new_shell = Shell(tmp_path, call)
    try:
        yield new_shell
    finally:
        for process in new_shell.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def root() -> Path:
    """The project's own folder."""
    return ROOT


@dataclass
class Collector:
    """An OTLP/HTTP collector in this process: the requests to each path, as (content type, headers, body)."""

    url: str
    received: dict[str, list[tuple[str, Any, bytes]]] = field(default_factory=dict)
    status: int = 200

    def evaluations(self) -> list[tuple[str, str, dict[str, Any]]]:
        """(trace id, span id, attributes) of each evaluation event, from protobuf or JSON."""
        from base64 import b64decode

        from google.protobuf.json_format import MessageToDict
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

        evaluations = []
        for kind, _, body in self.received.get("/v1/logs", []):
            is_json = kind == "application/json"
            request = (
                json.loads(body)
                if is_json
                else MessageToDict(ExportLogsServiceRequest.FromString(body))
            )
            for resource in request["resourceLogs"]:
                for record in [
                    record for scope in resource["scopeLogs"] for record in scope["logRecords"]
                ]:
                    assert record["eventName"] == "gen_ai.evaluation.result"
                    ids = [record.get(key, "") for key in ("traceId", "spanId")]
                    trace_id, span_id = ids if is_json else [b64decode(text).hex() for text in ids]
                    attributes = {
                        pair["key"]: next(iter(pair["value"].values()))
                        for pair in record["attributes"]
                    }
                    evaluations.append((trace_id, span_id, attributes))
        return evaluations


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector on a free port, until the test ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            new_collector.received.setdefault(self.path, []).append(
                (self.headers["content-type"], self.headers, body)
            )
            self.send_response(new_collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        new_collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield new_collector
        finally:
            server.shutdown()
            thread.join()
