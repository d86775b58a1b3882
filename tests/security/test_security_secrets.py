"""A key is sent where it belongs and written nowhere: every file and stream of a run is searched for it."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # `make test-all`


KEY = "planted-Zq7Lw0Xv93kTbN51"
GOOD = {
    "choices": [{"message": {"content": '{"score": 4}'}, "finish_reason": "stop"}],
    "model": "m",
}


def processes() -> set[bytes]:
    """The command line of every process of this machine."""
    command_lines = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command_lines.add(path.read_bytes())
    return command_lines


class Echo(BaseHTTPRequestHandler):
    """Repeats what it was sent, key and address too, in every way that a server can."""

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/traces":
            self.server.traces.append(sent)  # type: ignore[attr-defined]
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.server.listed.update(processes())  # type: ignore[attr-defined]
        details = f"{self.headers.get('Authorization')} {self.path} {self.headers.get('x-api-key')}"
        self.server.seen.append(details)  # type: ignore[attr-defined]
        status = self.server.status  # type: ignore[attr-defined]
        body: Any = {"error": {"message": f"bad {details}", "code": details}}
        if status == 200:
            if self.server.quiet:  # type: ignore[attr-defined]
                details = "m"
            body = json.loads(json.dumps(GOOD).replace('"m"', json.dumps(details)))
            body["choices"][0]["message"]["content"] += f" {details}"
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("x-request-id", details)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Any]:
    served = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    served.seen, served.status, served.quiet = [], 200, False  # type: ignore[attr-defined]
    served.traces, served.listed = [], set()  # type: ignore[attr-defined]
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


WAYS = {
    "the family's variable": (
        "{name: openai/m, api_base: 'http://127.0.0.1:PORT/v1'}",
        "OPENAI_API_KEY",
    ),
    "api_key_env": (
        "{name: openai/m, api_base: 'http://127.0.0.1:PORT/v1', api_key_env: OWN}",
        "OWN",
    ),
    "the address's path": ("{name: openai/m, api_base: 'http://127.0.0.1:PORT/${OWN}/v1'}", "OWN"),
    "the address's query": (
        "{name: openai/m, api_base: 'http://127.0.0.1:PORT/v1?key=${OWN}'}",
        "OWN",
    ),
    "litellm": (
        "{name: custom_openai/m, api_base: 'http://127.0.0.1:PORT/v1', api_key_env: OWN}",
        "OWN",
    ),
}


@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize("way", WAYS)
def test_no_file_and_no_stream_holds_the_key(way, status, server, tmp_path):
    server.status, server.quiet = status, way in ("the address's path", "the address's query")
    model, variable = WAYS[way]
    traced = way in ("api_key_env", "litellm")
    config = tmp_path / "p.yaml"
    config.write_text(
        f"verdict: 1\nname: p\nmodel: {model.replace('PORT', str(server.server_port))}\n"
        "pipeline: [{unit: JudgeUnit, prompt: '{source.q}'}]\n".replace(
            "name: openai/m,", "name: openai/m, retries: 0,"
        )
    )
    (tmp_path / "d.jsonl").write_text('{"q": "x"}\n{"q": "y"}\n')
    cache = tmp_path / "cache"
    command = [
        sys.executable,
        "-m",
        "verdict_cli",
        "run",
        "p.yaml",
        "d.jsonl",
        "--out",
        "out",
        "--format",
        "csv,jsonl",
        *([] if not traced else ["--trace", "--trace-content"] if status == 200 else ["--trace"]),
    ]
    environ = {
        name: value
        for name, value in os.environ.items()
        if "API_" not in name and "_proxy" not in name.lower()
    }
    environ |= {"VERDICT_CACHE_DIR": str(cache), "TMPDIR": str(tmp_path)}
    environ |= {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
    environ[variable] = KEY
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, timeout=100, check=False
    )
    parts = [KEY[8:].encode()]
    assert any(part.decode() in said for said in server.seen for part in parts), done.stderr
    assert bool(server.traces) is traced and not any(
        part in sent for sent in server.traces for part in parts
    )
    if sys.platform == "linux":
        assert any(b"verdict_cli" in words for words in server.listed)
        assert not any(part in words for words in server.listed for part in parts)
    holding = [
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*")
        if path.is_file() and any(part in path.read_bytes() for part in parts)
    ]
    assert holding == []
    for stream in (done.stdout, done.stderr):
        assert not any(part in stream for part in parts), stream
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
        cached_files = [path for path in cache.rglob("*") if path.is_file()]
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in cached_files)


def test_what_is_written_of_a_mistake_holds_no_key(tmp_path, monkeypatch, capsys):
    import tempfile

    from verdict_cli.cli import app as command

    other = "another-Pq81-planted"

    def broken(**_: Any) -> None:
        raise ZeroDivisionError(f"Bearer {KEY} at https://me:{other}@host")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(command, "app", broken)
    monkeypatch.setenv("OWN", KEY)
    monkeypatch.setenv("BASE", f"https://me:{other}@host")
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert caught.value.code == 70
    (log,) = tmp_path.glob("verdict-error-*.log")
    crash_report = log.read_text(encoding="utf-8") + capsys.readouterr().err
    assert (
        "ZeroDivisionError" in crash_report
        and KEY not in crash_report
        and other not in crash_report
    )
    if os.name == "posix":
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
