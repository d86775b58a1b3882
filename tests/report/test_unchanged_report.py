"""A report that nothing has changed is not computed again; whatever it is made from, a change of it is seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.report import new_report, unchanged
from verdict_cli.report.report import build_report
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.measure import Measures

CONFIG = """verdict: 1
name: t
model: baseline/lexical
dataset: {id: key}
pipeline:
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}
evaluate:
  level: {prediction: output.score > 1, target: "source.key != '3'", metrics: [accuracy, confusion]}
"""


@pytest.fixture
def reports(shell: Any, monkeypatch: Any) -> list[Path]:
    """The directories whose reports have been computed since the first."""
    assert shell("run", shell.write("c.yaml", CONFIG), shell.rows(12), "--out", "out").code == 0
    computed = []
    write_anew = new_report.new_report

    def counted(run: Any, *arguments: Any) -> Any:
        computed.append(run.directory.path)
        return write_anew(run, *arguments)

    monkeypatch.setattr(new_report, "new_report", counted)
    return computed


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_nothing_is_computed_where_nothing_has_changed(shell, reports):
    first = shell("run", "c.yaml", "data.jsonl", "--out", "fresh")
    assert len(reports) == 1
    before = contents(shell.folder / "fresh")
    again = shell("run", "c.yaml", "data.jsonl", "--out", "fresh")
    report = shell("report", "fresh")
    as_json = shell("report", "fresh", "--json")
    assert len(reports) == 1
    assert contents(shell.folder / "fresh") == before
    assert first.out.endswith(report.out)
    assert again.out.endswith(report.out)
    assert shell("verify", "fresh").code == 0
    (shell.folder / "fresh" / "report.json").unlink()
    assert shell("report", "fresh", "--json").out == as_json.out
    assert len(reports) == 2


def changed_options(shell: Any) -> Any:
    return shell("report", "out", "--level", "0.9")


def changed_format(shell: Any) -> Any:
    return shell("run", "c.yaml", "data.jsonl", "--out", "out", "--format", "csv")


def changed_evaluation(shell: Any) -> Any:
    shell.write("c.yaml", CONFIG.replace("accuracy", "f1"))
    return shell("run", "c.yaml", "data.jsonl", "--out", "out")


def missing_page(shell: Any) -> Any:
    (shell.folder / "out" / "report.html").unlink()
    return shell("report", "out")


def changed_page(shell: Any) -> Any:
    path = shell.folder / "out" / "report.md"
    path.write_text(path.read_text() + "more")
    return shell("report", "out")


def new_labels(shell: Any) -> Any:
    row = {"id": "row-0", "node": "output", "label": 2, "by": "a", "at": "2026-01-01T00:00:00Z"}
    shell.write("out/labels.jsonl", json.dumps(row) + "\n")
    return shell("report", "out")


def other_program(shell: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unchanged, "program_files", lambda: (("changed.py", 0, 0),))
        return shell("report", "out")


def extended_program(shell: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unchanged, "is_extended", lambda: True)
        return shell("report", "out")


@pytest.mark.parametrize(
    "change",
    [
        changed_options,
        changed_format,
        changed_evaluation,
        missing_page,
        changed_page,
        new_labels,
        other_program,
        extended_program,
    ],
)
def test_a_change_is_seen(shell, reports, change):
    assert shell("report", "out").code == 0
    assert reports == []
    assert change(shell).code == 0
    assert len(reports) == 1


def test_a_gate_with_a_baseline_is_decided_again(shell, reports):
    gate = "gates: [{metric: level.accuracy, baseline: base, max_drop: 0.5}]\n"
    shell("run", "c.yaml", "data.jsonl", "--out", "base")
    shell.write("c.yaml", CONFIG + gate)
    shell("run", "c.yaml", "data.jsonl", "--out", "out")
    count = len(reports)
    shell("report", "out")
    assert len(reports) == count + 1


@pytest.mark.parametrize("broken", ["new_report.render_html", "evaluation_section._charts"])
def test_a_part_that_failed_is_written_again(shell, reports, monkeypatch, broken):
    def fails(*_: Any) -> str:
        raise RuntimeError("planted")

    page = shell.folder / "out" / "report.html"
    with monkeypatch.context() as patch:
        patch.setattr(f"verdict_cli.report.{broken}", fails)
        shell("report", "out", "--level", "0.9")
    assert "planted" in page.read_text()
    shell("report", "out", "--level", "0.9")
    assert "planted" not in page.read_text()
    assert len(reports) == 2


def test_what_json_cannot_express_is_computed_again():
    def report_of(value: Any) -> Any:
        texts = ("config", "dataset", "spec_fingerprint", "data_fingerprint", "version", "started")
        facts = RunFacts(name="t", status="finished", **dict.fromkeys(texts, ""))
        return build_report(
            "out", facts, {"e": Measures({"mean": MetricValue(value, None, 1.0, 3)})}
        )

    assert unchanged.is_readable(report_of(0.1))
    assert not unchanged.is_readable(report_of(float("nan")))
    assert not unchanged.is_readable(report_of({1: 2}))
