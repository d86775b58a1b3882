"""A part of a report that cannot be made is named in its place and costs nothing else."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import verdict_cli.stats.gates
from verdict_cli.registry import Registry
from verdict_cli.report import evaluation_section, run_document, unchanged
from verdict_cli.report.charts import Bars
from verdict_cli.report.renderers import html
from verdict_cli.report.row_details import row_details

CONFIG = """
verdict: 1
name: t
model: baseline/lexical
dataset: {id: key}
pipeline:
  - {unit: JudgeUnit, name: judge, prompt: "Rate {source.text}", extract: weighted_summed_score}
evaluate: {level: {value: output.score, metrics: [mean]}}
gates: [{metric: level.mean, min: 0}]
"""
INVALID = [None, 800.0, 0.5]
LOGPROBS = pa.list_(pa.list_(pa.struct([("token", pa.string()), ("logprob", pa.float64())])))
FILES = ("report.json", "report.md", "report.html", "junit.xml")


@pytest.fixture
def run(shell: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(unchanged, "is_extended", lambda: True)  # each report is computed anew
    assert shell("run", shell.write("c.yaml", CONFIG), shell.rows(6), "--out", "out").code == 0
    return shell


def with_calls(run: Any, **changed: Any) -> None:
    """Gives the run's first call other cells."""
    path = run.folder / "out" / "calls.parquet"
    table = pq.read_table(path)
    for name, value in changed.items():
        place = table.column_names.index(name)
        field = table.schema.field(name)
        kind = LOGPROBS if name == "logprobs" else field.type  # a column without any is null
        cells = pa.array([value, *table.column(name).to_pylist()[1:]], kind)
        table = table.set_column(place, field.with_type(kind), cells)
    pq.write_table(table, path)
    facts = json.loads((path.parent / "run.json").read_text("utf-8"))
    (path.parent / "run.json").write_text(json.dumps({**facts, "digests": {}}), "utf-8")
    (path.parent / "run.db").unlink(missing_ok=True)  # as of an earlier version


def failures(run: Any) -> list[dict[str, Any]]:
    out = run.folder / "out"
    return [
        story
        for _, story in row_details(out / "results.parquet", out / "calls.parquet", np.arange(6))
    ]


def files(run: Any) -> dict[str, str]:
    return {name: (run.folder / "out" / name).read_text("utf-8") for name in FILES}


@pytest.mark.parametrize("invalid", INVALID)
def test_an_invalid_log_probability_is_noted_in_the_call_and_ignored(run, invalid):
    tokens = [{"token": "4", "logprob": -0.1}, {"token": "x", "logprob": invalid}]
    with_calls(run, logprobs=[tokens])
    for name in FILES:
        (run.folder / "out" / name).unlink()
    done = run("report", "out")
    assert done.code == 0, done.err
    assert ElementTree.fromstring(files(run)["junit.xml"]).get("errors") == "0"
    call = failures(run)[0]["calls"][0]
    assert call["probabilities"] == [("token 1", [("4", pytest.approx(0.904837))])]
    assert "invalid log-probabilities ignored: 1" in call["flags"]
    assert json.loads(files(run)["report.json"])["gates"][0]["passed"] is True


@pytest.mark.parametrize(
    "changed",
    [{"messages": "5"}, {"messages": "[5]"}],
)
def test_a_call_that_cannot_be_shown_is_missing_from_the_details_of_its_row_only(run, changed):
    with_calls(run, **changed)
    assert run("report", "out").code == 0
    first, *others = failures(run)
    assert first["calls"] == [] and "1 of its calls cannot be shown" in first["cut"]
    assert first["source"] and first["outputs"]
    assert all(len(story["calls"]) == 1 and not story["cut"] for story in others)


def failing(*_: Any, **__: Any) -> Any:
    raise KeyError("planted")


def check_one_failure(run: Any, part_name: str, *, spec: bool = True) -> None:
    """The report of the run has one failure, named so, and the rest."""
    assert run("report", "out").code == 0
    page = files(run)["report.html"]
    assert (
        f"{part_name} could not be created" in page
        and "please report it" in page
        and "planted" in page
    )
    assert page.count("could not be created") == 1
    assert ("The resolved spec" in page) == spec


@pytest.mark.parametrize("title", run_document.SECTIONS.names())
def test_a_section_that_fails_is_named_in_its_place(run, monkeypatch, title):
    sections = {
        name: failing if name == title else run_document.SECTIONS[name]
        for name in run_document.SECTIONS.names()
    }
    monkeypatch.setattr(run_document, "SECTIONS", Registry("", sections))
    check_one_failure(run, title or "This section", spec=title != "Pipeline")
    done = run("report", "out")
    assert f"{title or 'This section'} could not be created" in " ".join(done.out.split())
    assert "could not be created" in files(run)["report.md"]


@pytest.mark.parametrize(
    ("part", "part_name"), [("_charts", "The charts"), ("_evaluation", "The evaluation level")]
)
def test_a_part_of_an_evaluation_that_fails_is_named_in_its_place(
    run, monkeypatch, part, part_name
):
    monkeypatch.setattr(evaluation_section, part, failing)
    check_one_failure(run, part_name)


def test_a_missing_chart_library_costs_the_charts_only(run, monkeypatch, tmp_path):
    assert "<canvas" in files(run)["report.html"] and "Chart.js v" not in files(run)["report.html"]
    monkeypatch.setattr(html, "VENDOR_FOLDER", tmp_path)
    assert run("report", "out").code == 0
    page = files(run)["report.html"]
    assert "<canvas" not in page and "charts are shown as tables" in page
    assert "The resolved spec" in page and "could not be created" not in page


def test_a_part_that_cannot_be_drawn_is_named_in_its_place(run, monkeypatch):
    monkeypatch.setattr(Bars, "script_data", failing)
    assert run("report", "out").code == 0
    assert (
        "could not be created" in (page := files(run)["report.html"])
        and "The resolved spec" in page
    )


@pytest.mark.parametrize(
    ("maker", "name"),
    [
        ("new_report.render_json", "report.json"),
        ("new_report.render_markdown", "report.md"),
        ("new_report.render_html", "report.html"),
        ("new_report.render_junit", "junit.xml"),
    ],
)
def test_a_file_that_cannot_be_written_says_so_and_the_others_are_complete(
    run, monkeypatch, maker, name
):
    before = files(run)
    monkeypatch.setattr(f"verdict_cli.report.{maker}", failing)
    done = run("report", "out", "--json")
    assert done.code == 0 and done.json()["gates"][0]["passed"] is True
    assert f"{name} could not be created" in done.err
    after = files(run)
    assert f"{name} could not be created" in after[name]
    assert {file: text for file, text in after.items() if file not in (name, "report.html")} == {
        file: text for file, text in before.items() if file not in (name, "report.html")
    }
    if name == "junit.xml":
        assert ElementTree.fromstring(after[name]).get("errors") == "1"


def test_a_gate_that_cannot_be_decided_fails_and_the_others_are_decided(run, monkeypatch):
    monkeypatch.setattr(verdict_cli.stats.gates, "_run_value", failing)
    done = run("report", "out", "--json")
    assert done.code == 1
    gates = {gate["metric"]: gate for gate in done.json()["gates"]}
    assert gates["level.mean"]["passed"] and not gates["run.coverage"]["passed"]
    assert "KeyError" in gates["run.coverage"]["reason"]


def test_a_chart_that_cannot_be_counted_costs_no_metric(run, monkeypatch):
    before = json.loads(files(run)["report.json"])
    monkeypatch.setattr(
        import_module("verdict_cli.report.report_context"), "distributions_of", failing
    )
    done = run("report", "out")
    assert done.code == 0
    after = json.loads(files(run)["report.json"])
    assert "are missing from the report" in json.dumps(after) and after["gates"] == before["gates"]
