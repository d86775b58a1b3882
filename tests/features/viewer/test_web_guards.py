"""Who the viewer answers, what it never opens, and the headers of its answers."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

Asked = tuple[int, dict[str, str], str]


def ask(
    base: str,
    path: str,
    method: str = "GET",
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> Asked:
    place = urlsplit(base)
    connection = HTTPConnection(str(place.hostname), place.port, timeout=30)
    content = (
        None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    )
    connection.request(method, path, content, headers or {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text


@pytest.mark.parametrize(
    "path", ["/", "/run?run=recorded", "/api/runs", "/assets/view.js", "/nothing"]
)
def test_every_answer_has_the_headers_that_keep_others_out(viewer, path):
    _, headers, _ = ask(viewer, path)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe-inline" not in policy.replace("style-src-attr 'unsafe-inline'", "")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "elsewhere.example"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_another_host_and_another_origin_are_turned_away(viewer, headers):
    status, _, text = ask(viewer, "/api/runs", headers=headers)
    assert status in (403, 421)
    assert "recorded" not in text


@pytest.mark.parametrize(
    "name",
    [
        "../runs",
        "..",
        "/etc",
        "recorded/..",
        "recorded/../recorded",
        "sample",
        "recorded\x00",
        "%2e%2e",
    ],
)
def test_only_a_listed_run_is_opened(viewer, name):
    for path in ("/api/run", "/api/rows", "/api/row", "/report"):
        status, _, _ = ask(viewer, f"{path}?run={quote(name)}&row=0")
        assert status == 404


def test_a_link_inside_a_run_is_not_followed_out_of_it(runs, viewer, tmp_path):
    (tmp_path / "secret").write_text("secret")
    report = runs / "sample" / "random" / "report.html"
    content = report.read_bytes()
    report.unlink()
    report.symlink_to(tmp_path / "secret")
    try:
        assert ask(viewer, "/report?run=sample%2Frandom")[0] == 404
    finally:
        report.unlink()
        report.write_bytes(content)


def test_a_report_has_an_origin_of_its_own(viewer):
    status, headers, _ = ask(viewer, "/report?run=recorded")
    assert status == 200
    assert headers["content-security-policy"].startswith("sandbox allow-scripts;")


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {"Content-Type": "application/json"}, 422),
        (b"[]", {"Content-Type": "application/json"}, 422),
        ({"run": "recorded", "row": 0, "id": 0, "label": "x"}, {"Content-Type": "text/plain"}, 415),
        (
            {"run": "recorded", "row": "0", "id": 0, "label": "x"},
            {"Content-Type": "application/json"},
            422,
        ),
        (
            {"run": "recorded", "row": 0, "id": 0, "label": ["x"]},
            {"Content-Type": "application/json"},
            422,
        ),
        (
            {"run": "recorded", "row": 0, "id": 0, "label": "x" * 2000},
            {"Content-Type": "application/json"},
            413,
        ),
        (
            {"run": "recorded", "row": 9999, "id": 0, "label": "x"},
            {"Content-Type": "application/json"},
            404,
        ),
        (
            {"run": "none", "row": 0, "id": 0, "label": "x"},
            {"Content-Type": "application/json"},
            404,
        ),
        ({"run": "recorded", "row": 0, "label": "x"}, {"Content-Type": "application/json"}, 422),
        (
            {"run": "recorded", "row": 0, "id": "another", "label": "x"},
            {"Content-Type": "application/json"},
            409,
        ),
        (
            b'{"run": "recorded", "row": 0, "id": 0, "label": NaN}',
            {"Content-Type": "application/json"},
            422,
        ),
        (
            b'{"run": "recorded", "row": 0, "id": 0, "label": 1e999}',
            {"Content-Type": "application/json"},
            422,
        ),
        (
            b'{"run": "recorded", "row": 0, "id": 0, "label": 12345678901234567890123}',
            {"Content-Type": "application/json"},
            422,
        ),
        (
            b'{"run": "recorded", "row": 0, "id": 0, "label": "\\ud800"}',
            {"Content-Type": "application/json"},
            422,
        ),
        (
            b'{"run": "recorded", "row": 0, "id": 0, "label": "x", "note": "\\ud800"}',
            {"Content-Type": "application/json"},
            422,
        ),
        (
            b'{"run": "\\ud800", "row": 0, "id": 0, "label": "x"}',
            {"Content-Type": "application/json"},
            422,
        ),
        (b" " * 70_000, {"Content-Type": "application/json"}, 413),
        (
            {"run": "recorded", "row": 0, "id": 0, "label": "x"},
            {"Content-Type": "application/json", "Origin": "https://elsewhere.example"},
            403,
        ),
    ],
)
def test_row_16_a_label_that_cannot_be_written_is_refused(runs, viewer, body, headers, status):
    assert ask(viewer, "/api/label", "POST", body, headers)[0] == status
    assert not (runs / "recorded" / "labels.jsonl").exists()


@pytest.mark.parametrize(
    "query",
    [
        "f=x",
        "f=%5B%5D",
        "sort=nothing",
        "page=-1",
        "page=1e9",
        "page=" + "9" * 30,
        "row=x",
        "sort=row&f=1",
    ],
)
def test_an_address_without_a_meaning_is_answered_with_a_message(viewer, query):
    path = "/api/row" if query.startswith("row") else "/api/rows"
    status, _, text = ask(viewer, f"{path}?run=recorded&{query}")
    assert status == 422
    assert json.loads(text)["error"]


def test_with_a_token_nothing_is_served_without_it(runs, serve_runs):
    base = serve_runs(runs, VERDICT_TOKEN="a-long-random-text")
    assert base.endswith("/?token=a-long-random-text")
    for path in ("/", "/api/runs", "/assets/view.js", "/?token=wrong"):
        assert ask(base, path)[0] == 401
    status, headers, text = ask(base, "/?token=a-long-random-text")
    assert (status, "recorded" in text) == (200, False)
    cookie, _, flags = headers["set-cookie"].partition(";")
    assert "HttpOnly" in flags and "SameSite=Strict" in flags
    assert "a-long-random-text" not in cookie
    assert ask(base, "/api/runs", headers={"Cookie": cookie})[0] == 200
    assert ask(base, "/api/runs", headers={"Cookie": cookie + "x"})[0] == 401
    assert ask(base, "/api/runs", headers={"Authorization": "Bearer a-long-random-text"})[0] == 200


def test_another_address_draws_a_token(runs, serve_runs):
    base = serve_runs(runs, "--host", "0.0.0.0")
    assert "/?token=" in base
    local_url = base.replace("0.0.0.0", "127.0.0.1")
    assert ask(local_url, "/")[0] == 401
    assert ask(local_url, urlsplit(local_url).path + "?" + urlsplit(local_url).query)[0] == 200


def raw(base: str, *parts: bytes) -> bytes:
    """What the server answers to these bytes, until it closes the connection."""
    place = urlsplit(base)
    with socket.create_connection((str(place.hostname), place.port or 0), timeout=20) as connection:
        with contextlib.suppress(ConnectionError):
            for part in parts:
                connection.sendall(part)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while more := connection.recv(65536):
                answer += more
        return answer


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/assets/../../../../etc/passwd",
        "/assets/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/assets/%252e%252e%252fetc%252fpasswd",
        "/assets/....//....//etc/passwd",
        "/assets/%2e%2e/%2e%2e/app.py",
        "/assets/..\\..\\app.py",
        "//etc/passwd",
        "/%00",
        "/assets/view.js%00.html",
        "/assets/view.css/../../app.py",
        "/report?run=..%2f..",
        "/report?run=%252e%252e",
        "/report?run=recorded%00",
        "/report?run=recorded&run=..",
    ],
)
def test_no_path_leads_to_another_file(viewer, path):
    line = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    answer = raw(viewer, line)
    assert answer.split(b" ")[1] in (b"404", b"400")
    assert b"nosniff" in answer and b"root:" not in answer and b"import" not in answer


def test_a_head_without_end_is_left_at_the_limit(viewer):
    answer = raw(viewer, b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X: " + b"x" * 300_000)
    assert not answer or answer.split(b" ")[1] in (b"400", b"431")


def test_row_16_a_label_of_a_repeated_run_is_not_put_on_another_row(shell, serve_runs):
    config = shell.config(
        "  - {unit: JudgeUnit, scale: boolean, prompt: '{source.text}'}",
        "dataset: {id: key}\nmodel: baseline/lexical",
    )
    rows = shell.rows(3)
    out = shell.folder / "runs" / "again"
    shell("run", config, rows, "--out", out)
    base = serve_runs(shell.folder / "runs")
    headers = {"Content-Type": "application/json"}
    row = json.loads(ask(base, "/api/row?run=again&row=0")[2])
    label = {"run": "again", "row": row["position"], "id": row["id"], "label": True}
    assert ask(base, "/api/label", "POST", label, headers)[0] == 200
    shutil.rmtree(out)
    rows.write_text("".join(reversed(rows.read_text().splitlines(keepends=True))))
    shell("run", config, rows, "--out", out)
    status, _, message = ask(base, "/api/label", "POST", label, headers)
    assert status == 409 and "the run was made again" in message
    assert not (out / "labels.jsonl").exists()
