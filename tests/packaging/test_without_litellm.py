"""Nothing but a call to a provider that verdict does not speak itself needs litellm, or what only litellm brings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from jsonl import jsonl
from paths import ROOT


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def _with_requirements(names: Iterable[str]) -> set[str]:
    """The distributions with all that they require, without extras."""
    names_seen: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in names_seen:
            names_seen.add(name)
            try:
                required = requires(name) or []
            except PackageNotFoundError:  # for another system or Python
                continue
            pending += [
                _name(requirement) for requirement in required if "extra ==" not in requirement
            ]
    return names_seen


def only_litellms() -> list[str]:
    """The modules of litellm and of the distributions that nothing else of pyproject.toml requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    direct = {_name(requirement) for requirement in project["dependencies"]}
    only = _with_requirements(direct) - _with_requirements(direct - {"litellm"})
    modules = packages_distributions().items()
    return sorted(
        module for module, owners in modules if {_name(owner) for owner in owners} <= only
    )


BLOCKER = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {only_litellms()!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
PIPELINE = """verdict: 1
name: case
model: openai/gpt-4o-mini
pipeline:
  - {unit: JudgeUnit, name: judge, scale: boolean, prompt: "Is this right? {source.q}"}
evaluate: {accuracy: {prediction: output.score, target: source.label}}
"""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"message": {"content": '{"score": true}'}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
        content = json.dumps({"choices": [choice], "usage": usage, "model": "gpt-4o-mini"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a pipeline and rows, where the packages cannot be imported and a loopback server answers."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(BLOCKER)
    (folder / "case.yaml").write_text(PIPELINE)
    (folder / "rows.jsonl").write_text(
        jsonl({"id": row, "q": f"q {row}", "label": True} for row in range(4))
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (folder / "base").write_text(f"http://127.0.0.1:{server.server_port}/v1")
    yield folder
    server.shutdown()
    server.server_close()


def verdict(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        "PYTHONPATH": str(folder / "site"),
        "OPENAI_BASE_URL": (folder / "base").read_text(),
        "OPENAI_API_KEY": "k",
        "COLUMNS": "200",
    }
    command = [sys.executable, "-m", "verdict_cli", *words]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("demo",), "A real model"),
        (("run", "case.yaml", "rows.jsonl", "--out", "run", "--no-cache", "-q"), "cost $0.0006"),
        (("judge", "case.yaml", "--row", '{"q": "x"}'), "true"),
        (("estimate", "case.yaml", "rows.jsonl"), "which ship with verdict"),
        (
            (
                "sweep",
                "case.yaml",
                "rows.jsonl",
                "--vary",
                "model=baseline/lexical,baseline/random",
            ),
            "accuracy",
        ),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)
def test_every_command_works_without_litellm(small, words, text):
    done = verdict(small, *words)
    assert done.returncode == 0, done.stderr
    assert text in done.stdout + done.stderr


def test_a_model_that_only_litellm_can_call_ends_before_a_call_with_one_sentence(
    small,
):
    done = verdict(small, "run", "case.yaml", "rows.jsonl", "--model", "bedrock/x", "--out", "no")
    assert done.returncode == 4
    assert (
        "bedrock/x is called through the package litellm, which is not installed; pip install litellm"
        in done.stderr
    )


def test_only_litellm_and_its_packages_are_missing_there(small):
    assert {"litellm", "openai", "tiktoken", "aiohttp", "httpx", "botocore"} <= set(only_litellms())
