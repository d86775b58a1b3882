"""A new part is one new file and one line in its registry: tried in a copy of the project.

`PARTS` says what is added and where. When a registry moves, change its `registry` and `after`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from paths import ROOT

pytestmark = pytest.mark.slow  # `make test-all`


COPIED = ("verdict_cli", "schemas", "configs", "datasets")


@dataclass(frozen=True)
class Part:
    """One part: its new file, its one line in the registry, and how it is used.

    The line is inserted below the first line of `registry` that contains `after`, with the same indentation. An empty
    text means that this kind of part is not used in that way: a command is neither in a file nor in the schema.
    """

    name: str
    file: str
    """Path in the package."""
    source: str
    registry: str
    after: str
    line: str
    inline: bool = False
    """Whether the registry has its entries on one line: `line` then goes right behind `after`."""
    steps: str = ""
    """What follows `model:` in a pipeline file; the rows have `text` and `good`."""
    model: str = "baseline/lexical"
    written: str = "run.json"
    """A file of the run's directory, and a text in it that the part causes."""
    expected: str = '"finished"'
    python: str = ""
    """Code that uses the part and fails if it does not work."""
    in_schema: str = ""
    """A text of the JSON Schema of pipeline files."""
    command: tuple[str, ...] = ()
    """A command that describes the part, and a text that it prints."""
    printed: str = ""


PARTS = (
    Part(
        name="unit",
        file="language/units/hunch.py",
        source='''"""`HunchUnit`: a score without deliberation."""

from __future__ import annotations

from typing import Literal

from verdict_cli.language.units.judges import JudgeUnit


class HunchUnit(JudgeUnit):
    """Scores from a first impression."""

    unit: Literal["HunchUnit"]
    """The unit's type."""
    haste: int = 3
    """How little time the judge takes."""
''',
        registry="language/units/__init__.py",
        after='"RankerUnit": ',
        line='"HunchUnit": "hunch.HunchUnit",',
        steps='pipeline: [{unit: HunchUnit, name: feeling, haste: 5, prompt: "Rate {source.text}"}]',
        python="""
from verdict_cli import HunchUnit, Pipeline

unit = HunchUnit(name="feeling", haste=5).prompt("Rate {source.text}")
assert 1 <= (Pipeline("p", model="baseline/lexical") >> unit).run({"text": "a"}).score <= 5
""",
        in_schema="How little time the judge takes.",
        command=("explain", "HunchUnit"),
        printed="Scores from a first impression.",
    ),
    Part(
        name="extractor",
        file="language/extractors/plain_object.py",
        source='''"""`plain_object`: a JSON object, nothing else."""

from __future__ import annotations

from typing import Literal

from verdict_cli.language.extractors.structured import StructuredOutputExtractor


class PlainObjectExtractor(StructuredOutputExtractor):
    """Reads a plain JSON object."""

    type: Literal["plain_object"] = "plain_object"
    """The kind of extractor."""
    depth: int = 1
    """How deep the object is."""
''',
        registry="language/extractors/__init__.py",
        after='"raw": ',
        line='"plain_object": "plain_object.PlainObjectExtractor",',
        steps='pipeline: [{unit: JudgeUnit, extract: plain_object, prompt: "Rate {source.text}"}]',
        python="""
from verdict_cli import JudgeUnit, Pipeline, PlainObjectExtractor

unit = JudgeUnit().prompt("Rate {source.text}").extract(PlainObjectExtractor(depth=2))
assert 1 <= (Pipeline("p", model="baseline/lexical") >> unit).run({"text": "a"}).score <= 5
""",
        in_schema="How deep the object is.",
        command=("explain", "plain_object"),
        printed="Reads a plain JSON object.",
    ),
    Part(
        name="scale",
        file="language/scales/stars.py",
        source='''"""`stars`: a number of stars."""

from __future__ import annotations

from typing import Literal

from verdict_cli.language.scales.discrete import DiscreteScale


class StarScale(DiscreteScale):
    """From one star to five."""

    type: Literal["stars"] = "stars"
    """The type of scale."""
    range: tuple[int, int] = (1, 5)
    """The fewest and the most stars."""
''',
        registry="language/scales/__init__.py",
        after='"discrete": "discrete.DiscreteScale",',
        line='"stars": "stars.StarScale",',
        inline=True,
        steps='pipeline: [{unit: JudgeUnit, scale: {type: stars, range: [1, 3]}, prompt: "Rate {source.text}"}]',
        python="""
from verdict_cli import JudgeUnit, Pipeline, StarScale

unit = JudgeUnit(StarScale(range=(1, 3))).prompt("Rate {source.text}")
assert 1 <= (Pipeline("p", model="baseline/lexical") >> unit).run({"text": "a"}).score <= 3
""",
        in_schema="The fewest and the most stars.",
        command=("explain", "stars"),
        printed="From one star to five.",
    ),
    Part(
        name="metric",
        file="stats/metrics/lenience.py",
        source='''"""How far a judge is above its targets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def lenience(prediction: Numbers, target: Numbers, weight: Numbers) -> float:
    """The mean amount by which predictions exceed their targets."""
    return float(np.average(np.maximum(prediction - target, 0), weights=weight))
''',
        registry="language/metric_registry.py",
        after="BUILT_IN_METRICS = (",
        line='Metric("lenience", "The excess.", ("numbers",), "verdict_cli.stats.metrics.lenience:lenience"),',
        steps="""pipeline: [{unit: JudgeUnit, prompt: "Rate {source.text}"}]
evaluate: {near: {prediction: output.score, target: source.good, metrics: [lenience]}}""",
        written="report.json",
        expected='"lenience"',
        in_schema='"lenience"',
        command=("explain", "lenience"),
        printed="The excess.",
    ),
    Part(
        name="provider",
        file="llm/providers/echo.py",
        source='''"""`echo/*`: always the same reply."""

from __future__ import annotations

from verdict_cli.llm.providers import TokenCallback
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model


class EchoProvider:
    """Answers each call with a score of 3."""

    def __init__(self, on_token: TokenCallback | None = None) -> None:
        return

    @staticmethod
    def serves(model: Model) -> bool:
        return model.name.startswith("echo/")

    @staticmethod
    def check(model: Model) -> str | None:
        return None if model.name == "echo/three" else "the only echo is echo/three"

    async def ask(self, request: Request) -> Reply:
        return Reply('{"score": 3}', model=request.model.name)

    async def close(self) -> None:
        return None
''',
        registry="llm/providers/__init__.py",
        after='"baseline": "baseline.BaselineProvider",',
        line='"echo": "echo.EchoProvider",',
        model="echo/three",
        steps="""pipeline: [{unit: JudgeUnit, prompt: "Rate {source.text}"}]
evaluate: {level: {value: output.score, metrics: [mean]}}""",
        written="report.md",
        expected="3.0",
        python="""
from verdict_cli import JudgeUnit, Pipeline

assert (Pipeline("p", model="echo/three") >> JudgeUnit().prompt("Rate {source.text}")).run({"text": "a"}).score == 3
""",
    ),
    Part(
        name="command",
        file="cli/greet.py",
        source='''"""`verdict greet`."""

from __future__ import annotations

from typing import Annotated

import typer

from verdict_cli.cli.console import print_report


def greet(name: Annotated[str, typer.Argument(help="Who is greeted.")] = "world") -> None:
    """Greet somebody.

    Example: verdict greet Ada
    """
    print_report(f"Hello, {name}\\n")
''',
        registry="cli/app.py",
        after='"schema": ',
        line='"greet": PartSpec("greet.greet", "Greet somebody from the list of commands."),',
        command=("greet", "--help"),
        printed="Who is greeted.",
    ),
    Part(
        name="report section",
        file="report/owner.py",
        source='''"""Who runs the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from verdict_cli.report.document import Note, Section
from verdict_cli.report.report import Report
from verdict_cli.report.report_context import ReportContext


def owner_sections(report: Report, context: ReportContext | None) -> Iterator[Section]:
    """A section that names the team."""
    yield Section("Owner", [Note("the team that runs it")])
''',
        registry="report/run_document.py",
        after='"Gates": ',
        line='"Owner": "owner.owner_sections",',
        steps='pipeline: [{unit: JudgeUnit, prompt: "Rate {source.text}"}]',
        written="report.html",
        expected="the team that runs it",
        python="""
assert "the team that runs it" in verdict("report", "out")
assert "the team that runs it" in Path("out/report.md").read_text("utf-8")
""",
    ),
)


SESSION = '''
import contextlib
import io
import sys
from pathlib import Path

from verdict_cli.cli.app import main


def verdict(*words):
    """What the command prints; it must end with 0."""
    sys.argv = ["verdict", *words]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            main()
        except SystemExit as ended:
            assert not ended.code, words
    return printed.getvalue()
'''
"""Begins a script that runs several commands in one process: starting one takes longer than most of them."""


def add(folder: Path, part: Part) -> None:
    """Add the part to the copy in that folder."""
    package = folder / "verdict_cli"
    assert not (package / part.file).exists()
    assert "\n" not in part.line
    (package / part.file).write_text(part.source, encoding="utf-8")
    insert(package / part.registry, part.after, part.line, inline=part.inline)


def run_script(folder: Path, lines: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([SESSION, *lines])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout


def insert(path: Path, after: str, line: str, *, inline: bool = False) -> None:
    """Insert the line below the first one that contains `after`, indented as that one, or `inline` within it."""
    lines = path.read_text(encoding="utf-8").split("\n")
    index = next((number for number, line in enumerate(lines) if after in line), None)
    assert index is not None, f"{path.name} has no line with {after!r}: change `after` in PARTS"
    if inline:
        lines[index] = lines[index].replace(after, f"{after} {line}", 1)
        path.write_text("\n".join(lines), encoding="utf-8")
        return
    indent = lines[index][: len(lines[index]) - len(lines[index].lstrip())]
    path.write_text(
        "\n".join([*lines[: index + 1], indent + line, *lines[index + 1 :]]), encoding="utf-8"
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the project."""
    for name in COPIED:
        shutil.copytree(
            ROOT / name, tmp_path / name
        )  # with __pycache__: modification times are kept, so it stays valid
    return tmp_path


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_new_part_is_one_file_and_one_line(copy, part):
    add(copy, part)
    lines = []
    if part.in_schema:
        lines += [
            'verdict("schema", "pipeline", "--out", "schemas/pipeline.schema.json")',
            f'assert {part.in_schema!r} in Path("schemas/pipeline.schema.json").read_text("utf-8")',
        ]
    if part.command:
        lines += [f"assert {part.printed!r} in verdict(*{part.command})"]
    if part.steps:
        head = f"verdict: 1\nname: p\nmodel: {part.model}\n"
        (copy / "p.yaml").write_text(f"{head}{part.steps}\n", encoding="utf-8")
        (copy / "d.jsonl").write_text(
            '{"text": "a", "good": 2}\n{"text": "b", "good": 5}\n', encoding="utf-8"
        )
        lines += [
            'verdict("run", "p.yaml", "d.jsonl", "--out", "out")',
            f'assert {part.expected!r} in Path("out/{part.written}").read_text("utf-8")',
        ]
    run_script(copy, [*lines, part.python])


def test_a_new_command_is_listed_and_run(copy):
    (command,) = (part for part in PARTS if part.name == "command")
    add(copy, command)
    listed = 'assert "Greet somebody from the list of commands." in verdict("--help")'
    run_script(copy, [listed, 'assert verdict("greet", "Ada") == "Hello, Ada\\n"'])


ACME = '''"""Acme's API: `{engine, prompt, settings}` gives `{output, tokens}`."""

from __future__ import annotations

from typing import Any

from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_protocol import Envelope, WireProtocol
from verdict_cli.messages import Request


def _settings(request: Request, name: str, mode: JsonMode) -> dict[str, Any]:
    return {"engine": name, "settings": request.model.sampling()}


def _content(request: Request) -> dict[str, Any]:
    return {"prompt": "\\n".join(message.content for message in request.messages)}


def _to_chat(envelope: Envelope) -> dict[str, Any]:
    tokens = envelope.get("tokens")
    return {
        "choices": [{"message": {"content": envelope.get("output")}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 1},
    }


ACME = WireProtocol(
    name="Acme",
    version="",
    path=lambda model, stream: "/run",
    headers=lambda key: {"x-acme-key": key},
    settings=_settings,
    content=_content,
    to_chat=_to_chat,
    assemble=lambda events: dict(next(iter(events))),
    text_of=lambda event: str(event.get("output") or ""),
)
'''


class _Acme(BaseHTTPRequestHandler):
    """Answers 4, the first time that it is busy."""

    seen: ClassVar[list[tuple[str | None, dict[str, object]]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.seen.append((self.headers["x-acme-key"], body))
        is_busy = len(self.seen) == 1
        answer = {"error": "busy"} if is_busy else {"output": '{"score": 4}', "tokens": 9}
        content = json.dumps(answer).encode()
        self.send_response(503 if is_busy else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_an_http_api_is_one_file_and_two_lines(copy, monkeypatch):
    """With the key, the retry, the cost of its tokens and the record that every API has."""
    package = copy / "verdict_cli" / "llm"
    (package / "providers" / "acme.py").write_text(ACME, encoding="utf-8")
    line = '"acme": "verdict_cli.llm.providers.acme:ACME",'
    insert(package / "providers" / "protocols.py", "_PROTOCOLS = {", line)
    insert(package / "model_families.py", "_FAMILIES = {", '"acme": _provider("acme", "", "acme"),')
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Acme)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("ACME_API_BASE", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("ACME_API_KEY", "acme-secret-key-123")
    model = "{name: acme/fast, cost: {input_per_million: 1, output_per_million: 1}}"
    step = "{unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"
    (copy / "p.yaml").write_text(f"verdict: 1\nname: p\nmodel: {model}\npipeline: [{step}]\n")
    (copy / "d.jsonl").write_text('{"text": "a"}\n')
    try:
        run_script(
            copy,
            [
                'verdict("run", "p.yaml", "d.jsonl", "--out", "out")',
                'facts = __import__("json").loads(Path("out/run.json").read_text("utf-8"))',
                'assert (facts["done"], facts["failed"]) == (1, 0), facts',
                'assert facts["cost_usd"] == 10 / 1_000_000, facts',
                'files = b"".join(p.read_bytes() for p in Path("out").iterdir() if p.is_file())',
                'assert b"acme-secret-key-123" not in files',
            ],
        )
    finally:
        server.shutdown()
        server.server_close()
    keys, bodies = zip(*_Acme.seen, strict=True)
    assert keys == ("acme-secret-key-123",) * 2
    assert bodies[1]["engine"] == "fast" and "Rate a" in str(bodies[1]["prompt"])


SCANS = (
    "tests/packaging/test_structure.py",
    "tests/packaging/test_outside.py",
    "tests/docs/test_errors_page.py",
    "tests/docs/test_model_names.py",
)
"""Tests that read the source of every module."""


def test_a_new_file_in_any_package_fails_no_test_and_no_check(tmp_path):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    functions = "".join(
        f"\n\ndef count_{number}() -> int:\n    numbers = [1, 2, 3]\n    return len(numbers)\n"
        for number in range(10)
    )
    for package in {path.parent for path in (tmp_path / "verdict_cli").rglob("__init__.py")}:
        (package / "counting.py").write_text(f'"""Counts."""\n{functions}', encoding="utf-8")
    commands = (
        ["pytest", "-q", "-p", "no:cacheprovider", *SCANS],
        ["ruff", "check", "--no-cache", "verdict_cli"],
        ["ruff", "format", "--no-cache", "--check", "verdict_cli"],
    )
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
