"""A new scale or extractor is one file and one line in its registry; everything else follows from them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

pytestmark = pytest.mark.slow  # `make test-all`


PACKAGE = ROOT / "verdict_cli"

SCALE = '''
from typing import Any, Literal

from verdict_cli.errors import ReplyError
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.written_number import parse_number


class PercentScale(Scale):
    """A percentage."""

    type: Literal["percent"] = "percent"
    """The type of scale."""
    least: float = 0.0
    """The smallest percentage."""

    def read(self, value: Any) -> float:
        number = parse_number(str(value).removesuffix("%"))
        if number is None or not self.least <= number <= 100:
            raise ReplyError(f"{value!r} is not a percentage", kind="off-scale")
        return float(number)

    def bounds(self) -> tuple[float, float]:
        return self.least, 100.0

    def display(self) -> str:
        return f"{self.least:g}% to 100%"

    def sentence(self, field: str) -> str:
        return f"The {field} must be a percentage."

    def json_schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": self.least, "maximum": 100}
'''

EXTRACTOR = '''
from typing import Literal

from verdict_cli.language.extractors.bound_extractor import BoundExtractor, Extractor


class XmlTagExtractor(Extractor):
    """The text in an XML element that is named after the field."""

    type: Literal["xml_tag"] = "xml_tag"
    """The type of extractor."""

    def bind(self, response):
        def read(reply, request):
            return {
                name: kind.read(reply.text.partition(f"<{name}>")[2].partition(f"</{name}>")[0])
                for name, kind in response.fields.items()
            }

        return BoundExtractor(response, read)
'''

PIPELINE = """\
verdict: 1
name: p
model: m
scales: {sure: {type: percent, least: 50}}
pipeline:
  - {unit: JudgeUnit, name: a, scale: percent, extract: xml_tag, prompt: "{source.x}"}
  - {unit: JudgeUnit, name: b, scale: sure, extract: {type: xml_tag}, prompt: "{previous.score}"}
  - {unit: Unit, name: c, response: {share: {type: percent}}, extract: xml_tag, prompt: "{previous.score}"}
"""

PYTHON = """
from verdict_cli import JudgeUnit, Pipeline, Unit
from verdict_cli.language.extractors.xml_tag import XmlTagExtractor
from verdict_cli.language.scales.percent import PercentScale

units = JudgeUnit(PercentScale(), name="a").prompt("{source.x}").extract(XmlTagExtractor())
units = units >> Unit(name="c", response={"share": PercentScale()}).prompt("{previous.score}").extract(XmlTagExtractor())
print(dict((Pipeline("p", model="m") >> units).run({"x": 1}, replay="replies.jsonl")))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with a scale and an extractor that it does not have."""
    folder = tmp_path_factory.mktemp("copy")
    for name in (PACKAGE.name, "schemas"):
        shutil.copytree(
            PACKAGE.parent / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for registry, file, text, line in (
        ("scales", "percent", SCALE, '"percent": "percent.PercentScale",'),
        ("extractors", "xml_tag", EXTRACTOR, '"xml_tag": "xml_tag.XmlTagExtractor",'),
    ):
        package = folder / "verdict_cli" / "language" / registry
        (package / f"{file}.py").write_text(text, encoding="utf-8")
        code = (package / "__init__.py").read_text(encoding="utf-8")
        head, mark, tail = code.partition(": Registry[")
        tail = tail.replace("{\n", "{\n        " + line + "\n", 1)
        (package / "__init__.py").write_text(head + mark + tail, encoding="utf-8")
    assert (
        run(
            folder, "-m", "verdict_cli", "schema", "--out", "schemas/pipeline.schema.json"
        ).returncode
        == 0
    )
    (folder / "p.yaml").write_text(PIPELINE, encoding="utf-8")
    (folder / "d.jsonl").write_text('{"x": "one"}\n', encoding="utf-8")
    replies = {"a": "<score>70%</score>", "b": "<score>80%</score>", "c": "So <share>12%</share>."}
    lines = [
        json.dumps({"row": 0, "unit": unit, "reply": reply}) for unit, reply in replies.items()
    ]
    (folder / "replies.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_files_use_it_by_name_written_out_and_as_the_type_of_a_field(copy):
    done = run(
        copy, "-m", "verdict_cli", "run", "p.yaml", "d.jsonl", "--replay", "replies.jsonl", "--json"
    )
    assert done.returncode == 0, done.stderr


def test_python_uses_it(copy):
    done = run(copy, "-c", PYTHON)
    assert done.stdout.strip() == "{'share': 12.0}", done.stderr


def test_a_misspelled_key_or_name_gets_the_nearest_one(copy):
    (copy / "bad.yaml").write_text(
        PIPELINE.replace("least", "leats").replace("type: xml_tag", "type: xml_tga")
    )
    done = run(copy, "-m", "verdict_cli", "validate", "bad.yaml")
    assert "did you mean 'least'?" in done.stderr
    assert "did you mean 'xml_tag'?" in done.stderr


def test_the_schema_has_it(copy):
    from jsonschema import Draft202012Validator

    from verdict_cli.language.document.document import parse_document

    printed = run(copy, "-m", "verdict_cli", "schema", "pipeline")
    schema = json.loads(printed.stdout)
    data = parse_document(PIPELINE.encode(), "p.yaml").data
    assert Draft202012Validator(schema).is_valid(data)
    data["scales"]["sure"]["leats"] = 1
    assert not Draft202012Validator(schema).is_valid(data)
