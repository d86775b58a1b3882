"""Unit types written in Python and named in a YAML file."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import verdict_cli
from verdict_cli import Pipeline
from verdict_cli.cli.model_options import PipelineOptions
from verdict_cli.errors import SpecError, UsageError
from verdict_cli.language.authoring.unit_step import import_unit_types
from verdict_cli.language.units import TYPES

CODE = """
from verdict_cli import DiscreteScale, Schema, Unit


class Politeness(Unit):
    _prompt = "How polite is this? {source.text}"

    class ResponseSchema(Schema):
        score: DiscreteScale = DiscreteScale((1, 5))

    class OutputSchema(Schema):
        polite: bool

    def process(self, response, input):
        return self.OutputSchema(polite=response.score >= 3)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "polite.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "p.yaml").write_text(
        "verdict: 1\nname: p\nmodel: baseline/lexical\npipeline:\n  - {unit: Politeness, name: polite}\n",
        encoding="utf-8",
    )
    (tmp_path / "d.jsonl").write_text(json.dumps({"text": "please"}) + "\n", encoding="utf-8")
    return tmp_path


def test_a_file_that_is_allowed_gives_its_unit_types(folder):
    plan = PipelineOptions(allow_code=[folder / "polite.py"]).built(folder / "p.yaml").plan
    assert [node.id for node in plan.nodes] == ["polite"]
    assert list(plan.nodes[0].output.fields) == ["polite"]


def test_without_the_flag_nothing_beside_the_config_is_imported(folder):
    (folder / "polite.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    with pytest.raises(SpecError, match="unknown unit type 'Politeness'"):
        PipelineOptions().built(folder / "p.yaml")


def test_the_command_line_runs_it(folder):
    command = [
        sys.executable,
        "-m",
        "verdict_cli",
        "run",
        "p.yaml",
        "d.jsonl",
        "--allow-code",
        "polite.py",
        "--out",
        "out",
        "-q",
        "--json",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == 0


@pytest.mark.parametrize("text", ["1/0", "import nothing_of_this_name", "x = 1"])
def test_a_file_that_gives_no_unit_is_reported(folder, text):
    (folder / "polite.py").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="--allow-code"):
        import_unit_types([folder / "polite.py"])


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(UsageError, match="no such Python file"):
        import_unit_types([tmp_path / "gone.py"])


def test_an_installed_package_gives_its_unit_types(folder, monkeypatch):
    package = folder / "site"
    info = package / "politeness-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "politeness.py").write_text(CODE, encoding="utf-8")
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: politeness\nVersion: 1.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(
        "[verdict_cli.units]\nPoliteness = politeness:Politeness\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(package)
    plan = PipelineOptions().built(folder / "p.yaml").plan
    assert list(plan.nodes[0].output.fields) == ["polite"]
    unit = verdict_cli.Politeness
    assert unit.__name__ == "Politeness"
    graph = (Pipeline("p", model="baseline/lexical") >> unit()).graph("json")
    assert [node["id"] for node in graph["nodes"]] == ["politeness"]


def test_a_declared_type_builds_on_a_type_written_in_python(folder):
    (folder / "p.yaml").write_text(
        "verdict: 1\nname: p\nmodel: baseline/lexical\nunits: {Mine: {base: Politeness, explanation: true}}\n"
        "pipeline:\n  - {unit: Mine}\n",
        encoding="utf-8",
    )
    plan = PipelineOptions(allow_code=[folder / "polite.py"]).built(folder / "p.yaml").plan
    assert [(node.id, list(node.output.fields)) for node in plan.nodes] == [("mine", ["polite"])]
    assert plan.resolved["units"]["Mine"]["base"] == "Unit"


def test_a_wrong_key_of_a_python_type_is_reported_at_its_line(folder):
    path = folder / "p.yaml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("name: polite}", "promt: x}"), encoding="utf-8"
    )
    with pytest.raises(SpecError, match=r"p\.yaml:5:24: pipeline\[0\]\.promt: unknown key 'promt'"):
        PipelineOptions(allow_code=[folder / "polite.py"]).built(path)


def test_a_built_in_or_declared_name_is_never_looked_up_elsewhere(folder, monkeypatch):
    (folder / "p.yaml").write_text(
        "verdict: 1\nname: p\nmodel: baseline/lexical\nunits: {Mine: {base: JudgeUnit, prompt: J}}\n"
        "pipeline:\n  - {unit: Mine}\n  - {layer: [{unit: CoTUnit, prompt: T}]}\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(TYPES, "plugin", lambda name: pytest.fail(f"{name} was looked up"))
    PipelineOptions().built(folder / "p.yaml")


HOOKS = '''
from verdict_cli import JudgeUnit


class Strict(JudgeUnit):
    """A judge that subtracts a penalty."""

    penalty: int = 1
    """Points that are subtracted."""

    def __init__(self, scale=None, **keys):
        self.unit_of_measure = "points"
        super().__init__(scale, **keys)

    def prompt_prefix(self):
        return f"Be strict, in {self.unit_of_measure}.\\n"

    def combine_responses(self, responses, orders, given):
        return {**responses[0], "score": responses[0]["score"] - self.penalty}
'''


@pytest.fixture
def strict(folder: Path) -> Path:
    (folder / "strict.py").write_text(HOOKS, encoding="utf-8")
    return folder


def strict_plan(folder: Path, keys: str) -> Any:
    (folder / "p.yaml").write_text(
        f"verdict: 1\nname: p\nmodel: baseline/lexical\npipeline:\n  - {{unit: Strict, prompt: 'Rate', {keys}}}\n",
        encoding="utf-8",
    )
    return PipelineOptions(allow_code=[folder / "strict.py"]).built(folder / "p.yaml").plan


def test_hooks_and_keys_of_a_python_type_take_effect_in_a_file(strict):
    plan = strict_plan(strict, "penalty: 2")
    (node,) = plan.nodes
    (message,) = node.work.prompt.render({}).messages
    assert message.content.startswith("Be strict, in points.\n")
    assert node.work.unit.combine_responses([{"score": 5}], [()], {}) == {"score": 3}
    assert [code.name for code in node.code] == ["Strict"]


def test_keys_and_hooks_of_a_python_type_are_in_the_fingerprint(strict):
    fingerprints = {
        strict_plan(strict, keys).fingerprint for keys in ("penalty: 2", "penalty: 3", "penalty: 2")
    }
    changed = HOOKS.replace("Be strict", "Be fair")
    (strict / "strict.py").write_text(changed, encoding="utf-8")
    fingerprints.add(strict_plan(strict, "penalty: 2").fingerprint)
    assert len(fingerprints) == 3


@pytest.mark.parametrize(
    ("keys", "message"), [("penalty: much", "penalty: expected"), ("fine: 2", "unknown key 'fine'")]
)
def test_a_wrong_value_of_a_units_key_is_reported_at_its_line(strict, keys, message):
    with pytest.raises(SpecError, match=rf"p\.yaml:5:.*{message}"):
        strict_plan(strict, keys)


def test_hooks_and_keys_of_a_python_type_take_effect_in_python(strict):
    kind = import_unit_types([strict / "strict.py"])["Strict"]

    def score(**keys: Any) -> Any:
        return (
            (Pipeline("p", model="baseline/lexical") >> kind(**keys).prompt("Rate"))
            .run({"text": "a"})
            .score
        )

    assert score(penalty=4) == score() - 3
    with pytest.raises(SpecError, match="penalty: expected"):
        score(penalty="much")
