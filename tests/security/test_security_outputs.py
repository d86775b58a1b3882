"""What a run writes for people does nothing but be read."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonl import jsonl

from verdict_cli.cli.app import app, main
from verdict_cli.storage.tables.writer import ParquetTable

HOSTILE = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "  =1",
    "\uff1d1",
    "harmless = 1",
    "a,b\n=1",
]


@pytest.mark.parametrize("inert", [False, True])
def test_no_cell_of_inert_csv_is_a_formula(inert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(
        "verdict: 1\nname: p\nmodel: baseline/echo\npipeline: [{unit: JudgeUnit, prompt: '{source.q}', scale: boolean}]\n",
        encoding="utf-8",
    )
    Path("d.jsonl").write_text(jsonl({"q": text, "=c": -1.5} for text in HOSTILE), encoding="utf-8")
    with pytest.raises(SystemExit):
        app(
            [
                "run",
                "p.yaml",
                "d.jsonl",
                "--out",
                "out",
                "--quiet",
                "--format",
                "csv-inert" if inert else "csv",
            ]
        )
    with Path("out/results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    questions = [row["source.q"] for row in rows]
    assert questions == ([f"'{text}" for text in HOSTILE[:8]] + HOSTILE[8:] if inert else HOSTILE)
    assert {row["source.=c"] for row in rows} == {"-1.5"}  # a number is no formula


STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
SIGNS = "\x1b]0;pwned\x07\x1b[31m\x9b31m\u202e\u2066\x7f\x08\r\x00"
MARKUP = "<script>alert(1)</script>](javascript:alert(1)) | `x` \ufffe\x0b"
PIPELINE = """verdict: 1
name: p
model: baseline/lexical
dataset: {id: id}
scales: {odd: {values: ["a\\e[31m", "b\\x9b\\u202e\\n click n0 <script>alert(1)</script>"]}}
pipeline: [{unit: JudgeUnit, name: judge, prompt: '{source.q} {source.r}', scale: odd}]
evaluate: {e: {prediction: output.score, target: source.label, by: [source.g], metrics: [accuracy, confusion]}}
"""


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says on both streams."""
    with pytest.MonkeyPatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(sys, "argv", ["verdict", *arguments])
        main()
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.fixture
def hostile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """A folder with a run over data that steers terminals and breaks markup; what the run said."""
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(PIPELINE, encoding="utf-8")
    rows = [
        {"id": f"{place}{SIGNS}{MARKUP}", "q": SIGNS + MARKUP, "r": None if place == 1 else "b"}
        | {"label": "a\x1b[31m", "g": SIGNS + MARKUP}
        for place in range(4)
    ]
    Path("d.jsonl").write_text(jsonl(rows), encoding="utf-8")
    Path("broken.jsonl").write_text(
        '{"id": "\\u001b[31m", "q\\u009b": 1}\n{"q\x1b[31m\x9b"\n', encoding="utf-8"
    )
    output = ran(capsys, "run", "p.yaml", "d.jsonl", "--out", "out")
    return output + ran(
        capsys, "run", "p.yaml", "d.jsonl", "--out", "other", "--model", "baseline/random"
    )


COMMANDS = (
    *(("graph", "p.yaml", "--format", form) for form in ("tree", "mermaid", "svg", "json")),
    ("report", "out"),
    ("report", "out", "--json"),
    ("compare", "out", "other"),
    ("compare", "out", "other", "--json"),
    ("estimate", "p.yaml", "d.jsonl"),
    ("validate", "p.yaml", "broken.jsonl"),
    ("run", "p.yaml", "broken.jsonl", "--out", "third"),
    ("run", "p.yaml", "d\x1b[31m.jsonl", "--out", "third"),
    ("judge", "p.yaml", "--row", json.dumps({"id": SIGNS, "q": SIGNS, "r": "x", "label": "a"})),
    ("judge", "p.yaml", "--row", json.dumps({"id": SIGNS, "q": SIGNS, "r": "x"}), "--json"),
    ("run", "p.yaml", "d.jsonl", "--out", "third", "--set", "dataset.id=x\x1b[31m"),
    ("validate", "p.yaml", "--set", "pipeline[0].na\x1b[31mme=x"),
    ("explain", "x\x1b[31m"),
)


def test_a_run_says_nothing_that_steers_a_terminal(hostile):
    assert "failed 1" in hostile
    assert STEERING.findall(hostile) == []


@pytest.mark.parametrize(
    "command", COMMANDS, ids=lambda command: " ".join(command[:4])[:60].replace("\x1b", "^")
)
def test_no_command_says_what_steers_a_terminal(hostile, command, capsys):
    output = ran(capsys, *command)
    assert output and STEERING.findall(output) == []


def test_reports_of_it_are_sound_files(hostile):
    ElementTree.parse("out/junit.xml")
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    for name in ("report.md", "report.html", "junit.xml"):
        assert (
            re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", Path("out", name).read_text("utf-8"))
            is None
        )
    markdown = Path("out/report.md").read_text(encoding="utf-8")
    assert "<script" not in markdown and "](javascript" not in markdown
    json.loads(Path("out/report.json").read_bytes())


def test_a_provider_s_words_steer_no_terminal(
    loopback_saying,
    tmp_path,
    monkeypatch,
    capsys,
):
    monkeypatch.chdir(tmp_path)
    url = loopback_saying(400, {"error": {"message": f"bad {SIGNS}", "code": SIGNS}})
    Path("p.yaml").write_text(
        PIPELINE.replace("baseline/lexical", f"{{name: openai/m, api_base: '{url}', retries: 0}}"),
        encoding="utf-8",
    )
    row = {"id": 1, "q": "x", "r": "y", "label": "a\x1b[31m", "g": 1}
    Path("d.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    output = ran(capsys, "run", "p.yaml", "d.jsonl", "--out", "out")
    output += ran(capsys, "judge", "p.yaml", "--row", '{"id": 1, "q": "x", "r": "y"}')
    assert "bad " in output and STEERING.findall(output) == []
    for name in ("report.md", "report.html", "junit.xml"):
        assert "\x1b" not in Path("out", name).read_text("utf-8")


@pytest.fixture
def loopback_saying() -> Iterator[Any]:
    """Starts a server that says always the same; gives its address."""
    started: list[ThreadingHTTPServer] = []

    def start(status: int, document: Any) -> str:
        class Saying(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Saying)
        started.append(server)
        threading.Thread(target=server.serve_forever).start()
        return f"http://127.0.0.1:{server.server_port}/v1"

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def test_a_diagram_of_hostile_values_has_no_statement_and_no_markup_of_theirs(hostile, capsys):
    drawn = ran(capsys, "graph", "p.yaml", "--format", "mermaid")
    assert len(drawn.splitlines()) == 2 and "<script" not in drawn
    ElementTree.fromstring(ran(capsys, "graph", "p.yaml", "--format", "svg"))


KILLED = """
import os, sys
from pathlib import Path
from verdict_cli.storage.tables.writer import ParquetTable
from verdict_cli.storage.tables.reader import export_table as export
from verdict_cli.run.run_directory import RunDirectory
folder = Path(sys.argv[1])
end = lambda *_: os._exit(9)
Path.replace = os.replace = os.rename = end
if sys.argv[2] == "report.json":
    RunDirectory(folder).write("report.json", "new")
elif sys.argv[2] == "results.parquet":
    with ParquetTable(folder / "results.parquet", {"row": "int"}) as table:
        table.write({"row": 1})
else:
    export(folder / "source.parquet", folder / "results.csv")
os._exit(0)
"""


@pytest.mark.parametrize("name", ["report.json", "results.parquet", "results.csv"])
def test_a_process_killed_before_the_rename_leaves_the_old_file_whole(name, tmp_path):
    with ParquetTable(tmp_path / "source.parquet", {"row": "int"}) as table:
        table.write({"row": 1})
    (tmp_path / name).write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path, name], check=False, timeout=60, capture_output=True
    )
    assert done.returncode == 9, done.stderr
    assert (tmp_path / name).read_bytes() == b"old"
