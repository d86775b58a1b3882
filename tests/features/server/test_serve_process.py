"""The server as a process: killed, stopped, reloaded."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from typing import Any

import pytest
from served import ONE_JUDGE, ROWS, asking, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]


def test_a_stop_finishes_what_was_taken_on(processes, loopback):
    url = loopback.start("--latency-ms", "2000")
    server = processes.start(asking(url), "--concurrency", "4")
    responses: list[Any] = []

    def ask() -> None:
        with server.client() as client:
            responses.append(client.post("/judge", json={"row": ROWS[0]}))

    with server.client() as client:
        thread = threading.Thread(target=ask)
        thread.start()
        until(lambda: "verdict_rows_judging 1.0" in client.get("/metrics").text)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: client.get("/health/ready").status_code == 503)
        late = client.post("/judge", json={"row": ROWS[0]})
        assert (late.status_code, "retry-after" in late.headers) == (503, True)
        assert client.get("/health/live").status_code == 200
    thread.join()
    _, stderr = server.process.communicate(timeout=20)
    assert (responses[0].status_code, server.process.returncode) == (200, 0), stderr


def test_a_hang_up_reloads_the_file_unless_it_is_wrong(processes):
    server = processes.start(ONE_JUDGE)
    config = processes.folder / "pipeline.yaml"
    stderr = server.process.stderr
    with server.client() as client:
        before = client.get("/pipeline").json()["fingerprint"]
        config.write_text(ONE_JUDGE.replace("prompt:", "promt:"))
        server.process.send_signal(signal.SIGHUP)
        assert "not reloaded, the active pipeline stays" in stderr.readline()
        until(lambda: "promt" in (client.get("/pipeline").json()["reload_error"] or ""))
        assert client.get("/pipeline").json()["fingerprint"] == before
        config.write_text(ONE_JUDGE.replace("Is {", "Well, is {"))
        server.process.send_signal(signal.SIGHUP)
        until(lambda: client.get("/pipeline").json()["fingerprint"] != before)
    code, output = server.end(signal.SIGTERM)
    assert (code, "reloaded: " in output) == (0, True)


def test_a_closed_terminal_stops_the_server_in_order(processes, loopback):
    pty = pytest.importorskip("pty", reason="there are no terminals")
    terminal, stdin = pty.openpty()
    server = processes.start(asking(loopback.start("--latency-ms", "300")), stdin=stdin)
    statuses: list[int] = []

    def ask() -> None:
        with server.client() as client:
            statuses.append(client.post("/judge", json={"row": ROWS[0]}).status_code)

    thread = threading.Thread(target=ask)
    thread.start()
    with server.client() as client:
        until(lambda: "verdict_rows_judging 1.0" in client.get("/metrics").text)
    server.process.stderr.close()  # nobody reads what the server says
    os.close(terminal)
    server.process.send_signal(signal.SIGHUP)
    thread.join()
    assert (statuses, server.process.wait(timeout=20)) == ([200], 0)
    os.close(stdin)


def test_who_keeps_no_rules_is_answered_and_left(processes):
    server = processes.start(ONE_JUDGE, VERDICT_TOKEN="")
    host, port = server.url.removeprefix("http://").split(":")

    def raw(*parts: bytes) -> bytes:
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            answer = b""
            with contextlib.suppress(ConnectionError):
                for part in parts:
                    connection.sendall(part)
            with contextlib.suppress(ConnectionError):
                while more := connection.recv(65536):
                    answer += more
            return answer

    for path in (
        "/judge/..%2f..%2fetc",
        "/judge/%2e%2e",
        "/judge/../pipeline.yaml",
        "/judge/%00",
        "/../etc",
    ):
        answer = raw(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        assert answer.split(b" ")[1] in (b"404", b"400") and b"nosniff" in answer, path
    endless = raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X: " + b"x" * 300_000)
    assert not endless or endless.split(b" ")[1] in (b"400", b"431")
    assert b"nosniff" in raw(b"\x16\x03\x01\x02\x00\r\n\r\n")
    with server.client() as client:
        assert client.get("/health/live").status_code == 200
