"""The server as a process: killed, stopped, reloaded."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

import httpx
import pytest
from served import ONE_JUDGE, ROWS, asking, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]


def state(server: Any, name: str) -> Any:
    with server.client() as client:
        return client.get(f"/batches/{name}").json()


def test_what_was_acknowledged_survives_any_kill(processes: Any, loopback: Any) -> None:
    url = loopback.start("--latency-ms", "30")
    text = asking(url)
    rows = [{"a": f"row {place}", "b": "x"} for place in range(60)]
    kills = 2
    options = ("--concurrency", "8", "--state", "kept")
    server = processes.start(text, *options)
    with server.client() as client:
        taken = client.post("/judge/batch", params={"wait": "false"}, json={"rows": rows})
    assert taken.status_code == 202
    name = taken.json()["id"]
    for _ in range(kills):
        time.sleep(0.1)

        def lost(at: Any = server) -> None:  # a request that is not acknowledged may be lost
            with contextlib.suppress(httpx.HTTPError), at.client() as client:
                client.post("/judge", json={"row": rows[0]})

        asked = threading.Thread(target=lost)
        asked.start()
        server.process.kill()
        server.process.communicate()
        asked.join()
        server = processes.start(text, *options)
    until(lambda: state(server, name)["status"] == "finished")
    done = state(server, name)
    assert (done["status"], done["done"], done["failed"]) == ("finished", 60, 0)
    assert len(done["results"]) == 60 and all(one["status"] == "ok" for one in done["results"])
    stats = httpx.get(f"{url.removesuffix('/v1')}/stats").json()
    assert stats["requests"] <= 60 + kills * (4 + 1)


def test_a_stop_finishes_what_was_taken_on(processes: Any, loopback: Any) -> None:
    url = loopback.start("--latency-ms", "2000")
    server = processes.start(asking(url), "--state", "kept", "--concurrency", "4")
    found: list[Any] = []

    def ask() -> None:
        with server.client() as client:
            found.append(client.post("/judge", json={"row": ROWS[0]}))

    with server.client() as client:
        taken = client.post("/judge/batch", params={"wait": "false"}, json={"rows": ROWS}).json()
        asked = threading.Thread(target=ask)
        asked.start()
        until(lambda: "verdict_rows_judging 1.0" in client.get("/metrics").text)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: client.get("/health/ready").status_code == 503)
        late = client.post("/judge", json={"row": ROWS[0]})
        assert (late.status_code, "retry-after" in late.headers) == (503, True)
        assert client.get("/health/live").status_code == 200
    asked.join()
    _, said = server.process.communicate(timeout=20)
    assert (found[0].status_code, server.process.returncode) == (200, 0), said
    again = processes.start(asking(url), "--state", "kept")
    assert state(again, taken["id"])["status"] == "finished"


def test_a_stop_leaves_a_long_batch_to_the_next_start(processes: Any, loopback: Any) -> None:
    url = loopback.start("--latency-ms", "200")
    server = processes.start(asking(url), "--state", "kept", "--concurrency", "2", "--drain", "0.1")
    with server.client() as client:
        taken = client.post(
            "/judge/batch", params={"wait": "false"}, json={"rows": ROWS * 5}
        ).json()
    code, said = server.end(signal.SIGTERM)
    assert code == 0
    assert "1 batches are not finished; they resume at the next start" in said
    again = processes.start(asking(url), "--state", "kept")
    until(lambda: state(again, taken["id"])["status"] == "finished")
    assert state(again, taken["id"])["done"] == 10


def test_a_hang_up_reloads_the_file_unless_it_is_wrong(processes: Any) -> None:
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
    code, said = server.end(signal.SIGTERM)
    assert (code, "reloaded: " in said) == (0, True)


def test_a_closed_terminal_stops_the_server_in_order(processes: Any, loopback: Any) -> None:
    pty = pytest.importorskip("pty", reason="there are no terminals")
    terminal, stdin = pty.openpty()
    server = processes.start(
        asking(loopback.start("--latency-ms", "300")), "--state", "kept", stdin=stdin
    )
    found: list[int] = []

    def ask() -> None:
        with server.client() as client:
            found.append(client.post("/judge", json={"row": ROWS[0]}).status_code)

    asked = threading.Thread(target=ask)
    asked.start()
    with server.client() as client:
        until(lambda: "verdict_rows_judging 1.0" in client.get("/metrics").text)
    server.process.stderr.close()  # nobody reads what the server says
    os.close(terminal)
    server.process.send_signal(signal.SIGHUP)
    asked.join()
    assert (found, server.process.wait(timeout=20)) == ([200], 0)
    os.close(stdin)


def test_who_keeps_no_rules_is_answered_and_left(processes: Any) -> None:
    server = processes.start(ONE_JUDGE, "--state", "kept", VERDICT_TOKEN="")
    host, port = server.url.removeprefix("http://").split(":")
    with server.client() as client:
        client.post("/judge/batch", params={"wait": "false"}, json={"rows": ROWS})

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
        "/batches/..%2f..%2fetc",
        "/batches/%2e%2e",
        "/batches/../pipeline.yaml",
        "/batches/%00",
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
