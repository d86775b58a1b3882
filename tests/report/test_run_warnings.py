"""A warning that a reader of the run needs is printed once, and is in run.json and in every report."""

from __future__ import annotations

import json

from jsonl import jsonl

from verdict_cli.run_facts import RunFacts, tell

REPEATED = "is in several rows"


def facts() -> RunFacts:
    return RunFacts(
        name="t",
        status="finished",
        config="c",
        dataset="d",
        spec_fingerprint="",
        data_fingerprint="",
        version="",
        started="",
    )


def test_a_warning_is_reported_once():
    lines: list[str] = []
    run_facts = tell(tell(facts(), "a", lines.append), "a", lines.append)
    assert (run_facts.warnings, lines) == (("a",), ["warning: a"])


def test_warnings_are_in_run_json_and_in_every_report_also_later(shell):
    config = shell.config(
        "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}",
        head="model: baseline/lexical\ndataset: {id: id}",
    )
    rows = shell.write("data.jsonl", jsonl({"id": "x", "text": text} for text in "ab"))
    run = shell.folder / "run"
    done = shell("run", config, rows, "--out", run)
    assert done.err.count(REPEATED) == 1
    assert REPEATED in done.out
    again = shell("run", config, rows, "--out", run)
    assert REPEATED in again.out
    (warning,) = json.loads((run / "run.json").read_text())["warnings"]
    assert REPEATED in warning
    assert REPEATED in shell("report", run).out
    for name in ("report.md", "report.html", "report.json"):
        assert REPEATED in (run / name).read_text(), name
    assert shell("run", config, rows, "--out", run, "--json").json()["warnings"] == [warning]
