"""Every YAML and Python block and every `verdict …` line of the documentation is run, page by page, from top to bottom, in
an empty folder, as after `pip install`; the pages about a checkout in a folder that has its samples and pipelines.

- A block with a `title="FILE"` is written to that file first, so that later lines of the page can name it; a whole pipeline
  without one to the file of its name.
- A YAML block without `verdict: 1` is a part of a file; the rest is put around it.
- Models that need a key, or a server, are replaced by the embedded one: `# needs a key` is run.
- What cannot be run here says so on the page: `# needs …` or `# until …` on the command's line, or on a block's first one.
- Commands of other programs are not run; `OTHER_PROGRAMS` has the reason of each.
- A text block behind commands holds lines that they print; seconds may differ, and `…` stands for lines that are left out.
- `# exit code N` on a command's line says how it ends where it is not 0.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from paths import ROOT
from typer.testing import CliRunner

from verdict_cli.cli.app import app

pytestmark = pytest.mark.slow  # `make test-all`


OF_A_CHECKOUT = [
    ROOT / name for name in ("CONTRIBUTING.md", "benchmarks/README.md", "datasets/README.md")
]
SKILL = ROOT / "docs" / "skill" / "SKILL.md"
PAGES = [ROOT / "README.md", *OF_A_CHECKOUT, SKILL, *sorted((ROOT / "docs").glob("*.md"))]
"""The pages of docs/reference are run when they are written (test_reference_pages.py)."""

TESTED_ELSEWHERE = {"python.md", "reports.md"}
"""Pages whose Python blocks have a test of their own, which also looks at what they print."""

FENCE = re.compile(
    r'^( *)```(\w+)(?: title="([^"]+)")?[^\n]*\n(.*?)^\1```', re.MULTILINE | re.DOTALL
)
NOT_RUN = re.compile(r"# (?:needs (?!a key *$|keys *$)|until )\S", re.MULTILINE)
OTHER_PROGRAMS = {
    "curl": "asks the server that the line before starts; tests/features/server does",
    "export": "sets the reader's key",
    "make": "the repository's own checks",
    "ollama": "a server with a real model",
    "pip": "installs; tests/packaging does",
    "python": "benchmarks and rebuilds, which have tests of their own, and vLLM",
    "vllm": "a server with a real model",
}
"""Why a command of another program is not run."""
EXIT = re.compile(r"# exit code (\d+)")
MODELS = re.compile(
    r"(?<![\w/-])(?:(?:openai|anthropic|gemini|mistral|deepseek|ollama|hosted_vllm|typesafe|decisions)/[\w.:/-]+|gpt-[\w.-]+)"
)
ASKED = [
    {"unit": "JudgeUnit", "name": "judge", "scale": "boolean", "prompt": "Is {source.text} right?"}
]
GIVEN = {
    "unit": "MapUnit",
    "map": {
        "score": "outputs | map(attribute='score') | mean",
        "choice": "'A'",
        "consistent": "true",
    },
}


@dataclass(frozen=True, slots=True)
class Block:
    kind: str
    title: str | None
    text: str
    line: int

    def skipped(self) -> bool:
        return NOT_RUN.search(self.text.partition("\n")[0]) is not None and self.kind != "sh"


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        inside = re.sub(rf"^{fence[1]}", "", fence[4], flags=re.MULTILINE)
        yield Block(fence[2], fence[3], inside, text.count("\n", 0, fence.start()) + 1)


def commands(block: Block) -> list[str]:
    """The `verdict …` lines of a shell block, or of the `run:` of a workflow, without those that say that they are not run."""
    joined = block.text.replace("\\\n", " ")
    lines = [line.strip().removeprefix("- run: ") for line in joined.splitlines()]
    return [line for line in lines if line.startswith("verdict ") and not NOT_RUN.search(line)]


def is_commands(block: Block) -> bool:
    lines = [line for line in block.text.splitlines() if line.strip()]
    return block.kind in ("sh", "console") or all(line.startswith("verdict ") for line in lines)


def embedded(text: str) -> str:
    """The text with embedded models in place of others; two that a page compares stay two."""
    return MODELS.sub(
        lambda name: "baseline/random" if name[0] == "gpt-4o" else "baseline/lexical", text
    )


def run(line: str, where: str) -> str:
    ends = EXIT.search(line)
    words = shlex.split(embedded(line), comments=True)[1:]
    done = CliRunner().invoke(app, words)
    details = f"{where}: {line}\n{done.output}\n{done.exception or ''}"
    wanted = int(ends[1]) if ends else 0
    code = getattr(done.exception, "exit_code", done.exit_code)
    assert code == wanted, details
    return done.output


def plain(line: str) -> str:
    """The line without its seconds and its alignment."""
    return " ".join(re.sub(r"\b[\d.]+ m?s\b", "s", line).split())


def check_yaml(block: Block, folder: Path, where: str) -> None:
    """A whole pipeline is valid and warns of nothing; a part is, once the rest is around it. A workflow's commands are run."""
    data = yaml.safe_load(embedded(block.text))
    if data is None:
        return  # only comments
    if isinstance(data, dict) and "jobs" in data:
        for line in commands(block):
            run(line, where)
        return
    if isinstance(data, dict) and "study" in data:
        (folder / block.title).write_text(block.text, encoding="utf-8")
        return
    whole = isinstance(data, dict) and "verdict" in data
    path = folder / (block.title or (f"{data['name']}.yaml" if whole else "block.yaml"))
    path.write_text(
        embedded(block.text) if whole else yaml.safe_dump(around(data), sort_keys=False),
        encoding="utf-8",
    )
    done = CliRunner().invoke(app, ["validate", str(path), "--json"])
    result = json.loads(done.stdout)
    warnings = [warning for warning in result["warnings"] if "baseline/" not in str(warning)]
    assert result["ok"] and not warnings, f"{where}: {result}"


def around(part: Any) -> dict[str, Any]:
    head = {"verdict": 1, "name": "part", "model": "baseline/lexical"}
    layer = {"layer": ASKED, "repeat": 5}
    if isinstance(part, list):
        return {**head, "pipeline": [layer, *part]}
    steps = {} if "pipeline" in part else {"pipeline": [layer, GIVEN]}
    measured = (
        {"evaluate": {"right": {"value": "output.score", "metrics": ["mean"]}}}
        if "gates" in part and "evaluate" not in part
        else {}
    )
    return {**head, **steps, **measured, **part}


@pytest.fixture
def folder(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, as after `pip install`; for pages about a checkout, one with its pipelines, samples and schemas."""
    for name in ("configs", "datasets", "schemas") if page in OF_A_CHECKOUT else ():
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_and_command_of_a_page_runs(page, folder):
    space: dict[str, object] = {"__name__": "page"}
    printed = ""
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.skipped():
            continue
        if block.kind == "yaml":
            check_yaml(block, folder, where)
        elif block.kind == "python":
            if page.name not in TESTED_ELSEWHERE:
                exec(compile(block.text, where, "exec"), space)
        elif is_commands(block):
            printed = "".join(run(line, where) for line in commands(block))
        elif block.kind == "text" and printed:
            output_lines = {plain(line) for line in printed.splitlines()} | {"…"}
            wrong = [line for line in block.text.splitlines() if plain(line) not in output_lines]
            assert not wrong, f"{where}: not what the commands before it print: {wrong}\n{printed}"
        elif block.title is not None:
            (folder / block.title).write_text(block.text, encoding="utf-8")


def test_a_command_that_is_not_run_is_of_a_program_with_a_reason():
    programs = {
        line.split()[0]
        for page in PAGES
        for block in blocks(page)
        if block.kind in ("sh", "bash")
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    }
    assert programs - {"verdict"} == set(OTHER_PROGRAMS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_option_that_a_page_gives_a_command_exists(page):
    text = page.read_text(encoding="utf-8")
    if page.name == "removed.md":  # its first column names what is gone
        text = re.sub(r"^\| [^|]*\|", "|", text, flags=re.MULTILINE)
    for code in {*re.findall(r"`(verdict [a-z][^`]*)`", text)}:
        words = code.split()[1:]
        command: Any = typer.main.get_command(app)
        names = []
        while (
            words and hasattr(command, "get_command") and words[0].isalpha() and words[0].islower()
        ):
            names.append(words.pop(0))
            command = command.get_command(typer.Context(command), names[-1])
            assert command is not None, f"{page.name}: `{code}`"
        options = {
            flag for part in command.params for flag in (*part.opts, *part.secondary_opts)
        } | {"--help"}
        for flag in re.findall(r"(?<!\S)--[a-z-]+", " ".join(words)):
            assert flag in options, f"{page.name}: `{code}` has no {flag}"


def test_a_block_that_needs_something_is_recognized_by_its_words():
    skipped = Block("yaml", None, "# needs a server\nverdict: 1\n", 1)
    assert skipped.skipped()
    assert commands(Block("sh", None, "verdict run a b # needs a server\nverdict units\n", 1)) == [
        "verdict units"
    ]
