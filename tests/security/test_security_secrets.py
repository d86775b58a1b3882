"""A key is sent where it belongs and written nowhere: every file and stream of a run is searched for it."""

from __future__ import annotations

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

KEY = "planted-Zq7Lw0Xv93kTbN51"
GOOD = {"choices": [{"message": {"content": '{"score": 4}'}, "finish_reason": "stop"}], "model": "m"}


class Echo(BaseHTTPRequestHandler):
    """Repeats what it was sent, key and address too, in every way that a server can."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        said = f"{self.headers.get('Authorization')} {self.path} {self.headers.get('x-api-key')}"
        self.server.seen.append(said)  # type: ignore[attr-defined]
        status = self.server.status  # type: ignore[attr-defined]
        body: Any = {"error": {"message": f"bad {said}", "code": said}}
        if status == 200:
            if self.server.quiet:  # type: ignore[attr-defined]
                said = "m"
            body = json.loads(json.dumps(GOOD).replace('"m"', json.dumps(said)))
            body["choices"][0]["message"]["content"] += f" {said}"
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("x-request-id", said)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Any]:
    served = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    served.seen, served.status, served.quiet = [], 200, False  # type: ignore[attr-defined]
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


WAYS = {
    "the family's variable": ("{name: openai/m, api_base: 'http://127.0.0.1:PORT/v1'}", "OPENAI_API_KEY"),
    "api_key_env": ("{name: openai/m, api_base: 'http://127.0.0.1:PORT/v1', api_key_env: OWN}", "OWN"),
    "the address's path": ("{name: openai/m, api_base: 'http://127.0.0.1:PORT/${OWN}/v1'}", "OWN"),
    "the address's password": ("{name: openai/m, api_base: 'http://user:${OWN}@127.0.0.1:PORT/v1'}", "OWN"),
    "the address's query": ("{name: openai/m, api_base: 'http://127.0.0.1:PORT/v1?key=${OWN}'}", "OWN"),
    "litellm": ("{name: custom_openai/m, api_base: 'http://127.0.0.1:PORT/v1', api_key_env: OWN}", "OWN"),
}


@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize("way", WAYS)
def test_no_file_and_no_stream_holds_the_key(way: str, status: int, server: Any, tmp_path: Path) -> None:
    server.status, server.quiet = status, "address" in way
    model, variable = WAYS[way]
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
    ]
    environ = {
        name: value
        for name, value in os.environ.items()
        if "API_" not in name and "_proxy" not in name.lower()
    }
    environ |= {variable: KEY, "VERDICT_CACHE_DIR": str(cache), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, timeout=100, check=False)
    assert server.seen, done.stderr
    holding = [
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*")
        if path.is_file() and KEY[8:].encode() in path.read_bytes()
    ]
    assert holding == []
    for stream in (done.stdout, done.stderr):
        assert KEY[8:].encode() not in stream, stream
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
        kept = [path for path in cache.rglob("*") if path.is_file()]
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)
