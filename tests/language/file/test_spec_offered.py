"""Scales, extractors and figures of installed packages, named in a pipeline file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from jsonl import jsonl
from jsonschema import Draft202012Validator
from paths import ROOT
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.cli.model_options import PipelineOptions
from verdict_cli.errors import SpecError, UsageError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.extractors import EXTRACTORS
from verdict_cli.language.json_schema import complete_schema, pipeline_schema
from verdict_cli.language.metric_registry import METRICS, find_metric
from verdict_cli.language.scales import SCALES
from verdict_cli.stats.metrics.metric_families import array_statistic

pytestmark = pytest.mark.slow  # `make test-all`


DOCUMENTED = (ROOT / "docs" / "packages.md").read_text(encoding="utf-8")
CODE = (
    DOCUMENTED.partition('```python title="starry.py"\n')[2].partition("```\n")[0]
    + """
differing = Metric(
    "differing",
    "The share of labels that differ.",
    inputs=("labels",),
    formula=lambda said, true, weight: np.average(said != true, weights=weight),
)
failing = Metric("failing", "Fails.", ("numbers",), lambda said, true, weight: 1 / 0)
renamed = Metric("other", "Has another name.", ("numbers",), lambda said, true, weight: 0.0)
nothing = 3
"""
)

POINTS = """[verdict_cli.scales]
stars = starry:Stars
broken = starry:Gone
wrong = starry:LastLine
[verdict_cli.extractors]
last_line = starry:LastLine
[verdict_cli.metrics]
lenient = starry:lenient
differing = starry:differing
failing = starry:failing
renamed = starry:renamed
nothing = starry:nothing
"""

FILE = """verdict: 1
name: p
model: baseline/lexical
pipeline:
  - unit: JudgeUnit
    scale: {scale}
    extract: {extract}
    prompt: "How good is {{source.text}}?"
evaluate:
  near: {{prediction: output.score, target: source.stars, metrics: [{metrics}]}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a distribution on the path that offers parts; nothing of it was looked up yet."""
    info = tmp_path / "site" / "starry-1.0.dist-info"
    info.mkdir(parents=True)
    (info.parent / "starry.py").write_text(CODE, encoding="utf-8")
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: starry\nVersion: 1.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    monkeypatch.syspath_prepend(info.parent)
    for registry in (SCALES, EXTRACTORS, METRICS):
        monkeypatch.setattr(registry, "plugins", {})
    yield tmp_path
    sys.modules.pop("starry", None)


def _file(
    folder: Path, scale: str = "stars", extract: str = "structured", metrics: str = "mae"
) -> Path:
    path = folder / "p.yaml"
    path.write_text(FILE.format(scale=scale, extract=extract, metrics=metrics), encoding="utf-8")
    lines = [
        {"text": "one", "stars": 1},
        {"text": "two", "stars": 5},
        {"text": "three", "stars": 2},
    ]
    (folder / "d.jsonl").write_text(jsonl(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("spelled", ["stars", "{type: stars}", "{type: stars, range: [1, 3]}"])
def test_a_scale_of_a_package_is_named_or_written_out(folder, spelled):
    node = PipelineOptions().built(_file(folder, scale=spelled)).plan.nodes[0]
    (score,) = node.output.fields.values()
    assert score.read("***") == 3
    assert score.type_name().startswith("stars scale 1, 2, 3")


@pytest.mark.parametrize(
    "spelled", ["last_line", "{type: last_line}", '{type: last_line, prefix: "Stars:"}']
)
def test_an_extractor_of_a_package_reads_replies(folder, spelled):
    assert PipelineOptions().built(_file(folder, extract=spelled, scale="likert")).plan.nodes


def test_two_extractors_of_a_package_are_two_pipelines(folder):
    plain = PipelineOptions().built(_file(folder, extract="last_line")).plan.fingerprint
    keyed = (
        PipelineOptions()
        .built(_file(folder, extract='{type: last_line, prefix: "Stars:"}'))
        .plan.fingerprint
    )
    assert plain != keyed


def test_a_run_measures_with_what_a_package_offers(folder):
    path = _file(folder, extract="last_line", metrics="mae, lenient, differing, accuracy")
    gate = "gates:\n  - {metric: near.lenient, max: 0.5}\n"
    path.write_text(path.read_text(encoding="utf-8") + gate, encoding="utf-8")
    replies = [
        {"row": index, "unit": "judge", "reply": f"So:\n{stars}"}
        for index, stars in enumerate(["***", "****", "**"])
    ]
    (folder / "r.jsonl").write_text(jsonl(replies), encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "verdict_cli",
            "run",
            "p.yaml",
            "d.jsonl",
            "--replay",
            "r.jsonl",
            "--json",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "site"), *sys.path])},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1, done.stderr  # the gate
    figures = json.loads(done.stdout)["evaluations"]["near"]
    assert figures["lenient"]["value"] == pytest.approx((2 + 0 + 0) / 3)  # 3, 4, 2 of 1, 5, 2
    assert figures["lenient"]["low"] >= 0
    assert figures["differing"]["value"] == pytest.approx(1 - figures["accuracy"]["value"])
    assert figures["mae"]["value"] == pytest.approx((2 + 1 + 0) / 3)


def test_a_metric_whose_function_fails_is_reported_with_its_name(folder):
    plan = PipelineOptions().built(_file(folder, metrics="failing")).plan
    assert plan.evaluations["near"].metrics == ("failing",)
    metric = find_metric("failing")
    assert metric is not None
    with pytest.raises(UsageError, match="the metric 'failing' failed: ZeroDivisionError"):
        array_statistic(metric, np.ones(2), np.ones(2)).at(np.ones((1, 2)))


def test_the_schema_that_checks_a_file_has_the_foreign_types_own_keys(folder):
    with pytest.raises(SpecError) as caught:
        PipelineOptions().built(_file(folder, extract="{type: last_line, prefx: x}"))
    (problem,) = caught.value.problems
    assert (problem.message, problem.hint) == ("unknown key 'prefx'", "did you mean 'prefix'?")
    assert (problem.line, problem.path) == (7, "pipeline[0].extract.prefx")


def _offer_what_works(folder: Path) -> None:
    (folder / "site" / "starry-1.0.dist-info" / "entry_points.txt").write_text(
        "".join(
            line
            for line in POINTS.splitlines(True)
            if not line.startswith(("broken", "wrong", "nothing", "renamed"))
        ),
        encoding="utf-8",
    )


def test_the_printed_schema_has_every_part_that_packages_offer(folder):
    _offer_what_works(folder)
    before = json.dumps(pipeline_schema())
    printed = complete_schema()
    assert "Stars" not in before
    assert printed["$defs"]["Stars"]["properties"]["type"]["const"] == "stars"
    assert (
        printed["$defs"]["Stars"]["properties"]["range"]["description"]
        == "The fewest and the most stars."
    )
    assert printed["$defs"]["LastLine"]["properties"]["prefix"]["description"].startswith(
        "The text before"
    )
    assert "lenient" in printed["$defs"]["MetricKey"]["enum"]


def test_the_schema_with_plugins_agrees_with_the_classes(folder):
    _file(
        folder, scale="{type: stars, range: [1, 3]}", extract="{type: last_line}", metrics="lenient"
    )
    _offer_what_works(folder)
    validator = Draft202012Validator(complete_schema())
    text = (folder / "p.yaml").read_text(encoding="utf-8")
    for bad, good in (
        ("rnge", "range"),
        ("starz", "stars"),
        ("last_lin}", "last_line}"),
        ("[lenien]", "[lenient]"),
    ):
        assert validator.is_valid(parse_document(text.encode(), "p.yaml").data)
        assert not validator.is_valid(
            parse_document(text.replace(good, bad).encode(), "p.yaml").data
        ), bad


def test_a_python_subclass_is_never_taken_for_the_scale_that_it_derives_from(folder):
    import starry

    with pytest.raises(UsageError, match="Stars is not the scale of the type 'discrete'"):
        starry.Stars().key()


def test_files_without_foreign_parts_look_at_no_entry_points(folder, monkeypatch):
    def looked(**_: object) -> None:
        raise AssertionError("entry points were looked at")

    monkeypatch.setattr("importlib.metadata.entry_points", looked)
    assert PipelineOptions().built(_file(folder, scale="{range: [1, 5]}")).plan.nodes


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"scale": "{type: broken}"}, "cannot be imported"),
        ({"scale": "{type: wrong}"}, "is not a subclass of verdict_cli.language.scales"),
        ({"metrics": "nothing"}, "is not a verdict_cli.Metric"),
    ],
)
def test_a_package_that_offers_what_it_lacks_is_reported(folder, keys, message):
    with pytest.raises(UsageError, match=message):
        PipelineOptions().built(_file(folder, **keys))


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        ({"scale": "{type: strs}"}, "did you mean 'stars'?"),
        ({"scale": "starz"}, "did you mean 'stars'?"),
        ({"extract": "last_lin"}, "did you mean 'last_line'?"),
        ({"extract": "{type: last_lin}"}, "did you mean 'last_line'?"),
        ({"metrics": "lenien"}, "did you mean 'lenient'?"),
    ],
)
def test_a_misspelled_foreign_name_is_reported_with_the_nearest(folder, keys, hint):
    with pytest.raises(SpecError) as caught:
        PipelineOptions().built(_file(folder, **keys))
    assert hint in {problem.hint for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("stars", "A number of stars."),
        ("last_line", "The text before the answer on that line."),
        ("lenient", "How far the judge is above the target"),
    ],
)
def test_explain_says_what_a_package_offers(folder, name, text):
    result = CliRunner().invoke(app, ["explain", name])
    assert result.exit_code == 0, result.output
    assert text in result.output


def test_a_scale_of_a_package_takes_no_mapping_without_its_type(folder):
    assert SCALES.get("stars") is not None
    node = PipelineOptions().built(_file(folder, scale="{range: [1, 3]}")).plan.nodes[0]
    (score,) = node.output.fields.values()
    assert score.type_name().startswith("discrete scale")
