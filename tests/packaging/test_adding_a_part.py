"""A new part is one new file and one line in its registry: tried in a copy of the project.

`PARTS` says what is added and where. When a registry moves, change its `registry` and `after`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("verdict_cli", "schemas", "configs", "datasets")


@dataclass(frozen=True)
class Part:
    """One part: its new file, its one line in the registry, and how it is used.

    The line is inserted below the first line of `registry` that contains `after`, with the same indentation. An empty
    text means that this kind of part is not used in that way: a command is neither in YAML nor in the schema.
    """

    name: str
    file: str
    source: str
    registry: str
    after: str
    line: str
    steps: str = ""
    """The list below `pipeline:`; the rows have `text`."""
    expected: str = ""
    """A text of the JSON that `verdict run --json` prints."""
    python: str = ""
    """Prints `ok` in Python."""
    in_schema: str = ""
    """A text of the JSON Schema."""
    explained: tuple[str, ...] = ()
    """A command that describes the part."""
    explanation: str = ""


PARTS = (
    Part(
        name="unit",
        file="language/units/hunch.py",
        source='''"""`HunchUnit`: a score without deliberation."""

from __future__ import annotations

from typing import Literal

from verdict_cli.language.units.judge import JudgeUnit


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
        steps='- {unit: HunchUnit, name: feeling, haste: 5, prompt: "Rate {source.text}"}',
        expected='"status": "finished"',
        python="""
from verdict_cli import Pipeline

steps = "- {unit: HunchUnit, name: feeling, haste: 5, prompt: 'Rate {source.text}'}"
pipeline = Pipeline.from_yaml(f"verdict: 1\\nname: p\\nmodel: baseline/lexical\\npipeline:\\n{steps}\\n")
assert 1 <= pipeline.run({"text": "a"}).score <= 5
print("ok")
""",
        in_schema="How little time the judge takes.",
        explained=("explain", "HunchUnit"),
        explanation="Scores from a first impression.",
    ),
    Part(
        name="extractor",
        file="language/extractors/plain_object.py",
        source='''"""`plain_object`: a JSON object, nothing else."""

from __future__ import annotations

from typing import Literal

from verdict_cli.language.extractors.structured import Structured


class PlainObject(Structured):
    """Reads a plain JSON object."""

    type: Literal["plain_object"] = "plain_object"
    """The kind of extractor."""
    depth: int = 1
    """How deep the object is."""
''',
        registry="language/extractors/__init__.py",
        after='"raw": ',
        line='"plain_object": "plain_object.PlainObject",',
        steps='- {unit: JudgeUnit, extract: {type: plain_object, depth: 2}, prompt: "Rate {source.text}"}',
        expected='"status": "finished"',
        python="""
from verdict_cli import Pipeline

steps = "- {unit: JudgeUnit, extract: {type: plain_object, depth: 2}, prompt: 'Rate {source.text}'}"
pipeline = Pipeline.from_yaml(f"verdict: 1\\nname: p\\nmodel: baseline/lexical\\npipeline:\\n{steps}\\n")
assert 1 <= pipeline.run({"text": "a"}).score <= 5
print("ok")
""",
        in_schema="How deep the object is.",
        explained=("explain", "plain_object"),
        explanation="Reads a plain JSON object.",
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
        line='"greet": "Greet somebody from the list of commands.",',
        explained=("greet", "--help"),
        explanation="Who is greeted.",
    ),
)

USED_IN_FILES = [part for part in PARTS if part.steps]


@dataclass(frozen=True)
class Copy:
    """A copy of the project that has every part of `PARTS`."""

    folder: Path

    def python(self, *arguments: str, within: Path | None = None) -> str:
        """What Python prints with the copy on its path."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=within or self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), "COLUMNS": "200"},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def verdict(self, *arguments: str, within: Path | None = None) -> str:
        return self.python("-m", "verdict_cli", *arguments, within=within)


def insert(path: Path, after: str, line: str) -> None:
    """Insert the line below the first one that contains `after`, indented as that one."""
    lines = path.read_text(encoding="utf-8").split("\n")
    at = next((number for number, each in enumerate(lines) if after in each), None)
    assert at is not None, f"{path.name} has no line with {after!r}: change `after` in PARTS"
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    path.write_text("\n".join([*lines[: at + 1], indent + line, *lines[at + 1 :]]), encoding="utf-8")


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    folder = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for part in PARTS:
        new = folder / "verdict_cli" / part.file
        assert not new.exists()
        assert "\n" not in part.line
        new.write_text(part.source, encoding="utf-8")
        insert(folder / "verdict_cli" / part.registry, part.after, part.line)
    copy = Copy(folder)
    copy.verdict("schema", "pipeline", "--out", "schemas/pipeline.schema.json")
    return copy


@pytest.mark.parametrize("part", USED_IN_FILES, ids=lambda part: part.name)
def test_a_new_part_is_used_from_a_pipeline_file(copied: Copy, part: Part, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        f"verdict: 1\nname: p\nmodel: baseline/lexical\npipeline:\n{part.steps}\n", encoding="utf-8"
    )
    (tmp_path / "d.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n', encoding="utf-8")
    printed = copied.verdict("run", "p.yaml", "d.jsonl", "--out", "out", "--json", within=tmp_path)
    assert part.expected in json.dumps(json.loads(printed))


@pytest.mark.parametrize("part", [part for part in PARTS if part.python], ids=lambda part: part.name)
def test_a_new_part_is_used_from_python(copied: Copy, part: Part) -> None:
    assert copied.python("-c", part.python) == "ok\n"


def test_new_parts_are_in_the_schema(copied: Copy) -> None:
    schema: Any = (copied.folder / "schemas" / "pipeline.schema.json").read_text(encoding="utf-8")
    assert [part.name for part in PARTS if part.in_schema not in schema] == []


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_new_part_is_described(copied: Copy, part: Part) -> None:
    assert part.explanation in copied.verdict(*part.explained)
    (registered,) = [word for word in part.line.split('"') if word][:1]
    assert registered in copied.verdict("--help") + copied.verdict("explain")


def test_a_new_command_is_run(copied: Copy) -> None:
    assert copied.verdict("greet", "Ada") == "Hello, Ada\n"


def test_each_part_is_one_file_and_one_line(copied: Copy) -> None:
    """Nothing else of the copy differs from the project, but for the generated schema."""
    new, changed = [], {}
    for path in sorted((copied.folder / "verdict_cli").rglob("*")):
        name = path.relative_to(copied.folder / "verdict_cli").as_posix()
        original = ROOT / "verdict_cli" / name
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        if not original.exists():
            new.append(name)
        elif path.read_bytes() != original.read_bytes():
            before, after = original.read_text(encoding="utf-8"), path.read_text(encoding="utf-8")
            changed[name] = after.count("\n") - before.count("\n")
    assert new == sorted(part.file for part in PARTS)
    assert changed == {part.registry: sum(each.registry == part.registry for each in PARTS) for part in PARTS}
