"""`until: {audit_share: …}`: some rows are called in full, and the report says how often the early verdict was kept."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from verdict_cli.messages import Request

STEPS = """- layer: [{unit: JudgeUnit, name: judge, scale: boolean, prompt: 'Is {source.text} right?'}]
  MODELS
  until: {confidence: 0.9, audit_share: SHARE}
- {unit: ModePoolUnit, name: vote}
EVALUATE"""
HEAD = "model: {name: m, retries: 0}"
ROWS = 60


@pytest.fixture
def of_one_opinion(scripted_model: Any) -> Any:
    """A judge whose copies mostly agree, and model b, which always says no."""

    def rule(request: Request) -> str:
        if request.model.name == "b":
            return '{"score": false}'
        return json.dumps({"score": Random(f"{request.row.index} {request.node}").random() < 0.8})

    scripted_model.answer = rule
    return scripted_model


def run(
    shell: Any, share: float, models: str = "repeat: 9", evaluate: str = "", out: str = "r"
) -> dict[str, Any]:
    steps = (
        STEPS.replace("SHARE", str(share)).replace("MODELS", models).replace("EVALUATE", evaluate)
    )
    config = shell.config(steps, HEAD)
    data = shell.write(
        "d.jsonl",
        "".join(f'{{"text": "t{index}", "group": {index // 20}}}\n' for index in range(ROWS)),
    )
    done = shell("run", config, data, "--out", out, "-q", "--no-cache")
    assert done.code == 0, done.err
    report: dict[str, Any] = json.loads((shell.folder / out / "report.json").read_text())
    return report | {"text": " ".join(done.out.split())}


def full_votes(shell: Any, out: str) -> list[list[bool]]:
    import pyarrow.parquet as pq

    table = pq.read_table(Path(shell.folder) / out / "results.parquet").to_pydict()
    return [[table[f"judge[{copy}].score"][row] for copy in range(9)] for row in range(ROWS)]


def test_all_rows_are_called_in_full_and_the_early_verdict_is_compared(shell, of_one_opinion):
    report = run(shell, 1)
    assert report["facts"]["calls"] == 9 * ROWS
    assert report["facts"]["saved"] == {}
    votes = full_votes(shell, "r")
    agreements = 0
    for row in votes:
        calls = next(n for n in range(1, 10) if n == 9 or decided(row[:n], 9 - n))
        agreements += (sum(row[:calls]) * 2 > calls) == (sum(row) * 2 > 9)
    assert report["kept"]["vote"]["n"] == ROWS
    assert report["kept"]["vote"]["value"] == pytest.approx(agreements / ROWS)
    assert "on rows called in full, the early verdict was the full one in" in report["text"]


def decided(votes: list[bool], votes_left: int) -> bool:
    """Whether the leader wins the full vote with 0.9, by summing over the beta-binomial."""
    from scipy.stats import betabinom

    yes, no = sum(votes), len(votes) - sum(votes)
    more = betabinom(votes_left, 1 + yes, 1 + no)
    wins = sum(
        more.pmf(k)
        for k in range(votes_left + 1)
        if (yes + k > no + votes_left - k) == (yes > no or (yes == no and votes[0]))
    )
    return len(votes) > 0 and wins >= 0.9


def test_a_share_of_rows_is_audited_and_the_others_stop(shell, of_one_opinion):
    report = run(shell, 0.3)
    audited = report["kept"]["vote"]["n"]
    assert 8 <= audited <= 30
    assert sum(None not in row for row in full_votes(shell, "r")) >= audited
    assert report["facts"]["saved"]["vote"] > 0
    again = run(shell, 0.3)
    assert again["kept"] == report["kept"]


def test_without_a_promise_the_audit_reports_the_share_that_agreed(shell, of_one_opinion):
    report = run(shell, 1, "models: [a, a, a, a, a, a, b, b, b]")
    assert report["promises"] == {"vote": 0}
    share = report["kept"]["vote"]
    assert share["value"] < 1
    assert share["low"] < share["value"] < share["high"]
    assert "without a promise" in report["text"]


def test_rows_of_a_cluster_count_once(shell, of_one_opinion):
    alone = run(shell, 1, "models: [a, a, a, a, a, a, b, b, b]", out="a")["kept"]["vote"]
    evaluate = "evaluate: {e: {value: output.score, cluster: source.group, metrics: [mean]}}"
    together = run(shell, 1, "models: [a, a, a, a, a, a, b, b, b]", evaluate, out="b")["kept"][
        "vote"
    ]
    assert together["value"] == alone["value"]
    assert together["clusters"] == 3
    assert together["high"] - together["low"] > alone["high"] - alone["low"]


def test_rows_of_entries_cannot_be_audited(shell):
    config = shell.config(
        """- each: source.items
  as: item
  block:
    - {layer: [{unit: JudgeUnit, name: judge, scale: boolean, prompt: '{item}'}], repeat: 3, until: {confidence: 0.9, audit_share: 0.5}}
    - {unit: ModePoolUnit, name: vote}""",
        HEAD,
    )
    done = shell("validate", config)
    assert (done.code, "this layer runs for every entry" in done.err) == (2, True), done.err


CASCADE = """- unit: JudgeUnit
  name: judge
  scale: boolean
  prompt: 'Is {source.text} right?'
  escalate: {when: not output.score, to: TARGET, audit_share: SHARE}"""


def cascade(shell: Any, share: float, target: str = "large", out: str = "r") -> Any:
    config = shell.config(CASCADE.replace("SHARE", str(share)).replace("TARGET", target), HEAD)
    data = shell.write("d.jsonl", "".join(f'{{"text": "t{at}"}}\n' for at in range(ROWS)))
    return shell("run", config, data, "--out", out, "-q", "--no-cache")


def cheap_and_large(request: Request) -> str:
    """The cheap model says yes to 40 of 60 rows, the large one to every other; its reply to row 2 is unreadable."""
    row, large = request.row.index, request.model.name == "large"
    if large and row == 2:
        return "hm"
    return json.dumps({"score": row % 2 == 0 if large else row < 40})


def test_the_last_model_is_called_on_audited_rows_and_its_verdict_compared(shell, scripted_model):
    scripted_model.answer = cheap_and_large
    done = cascade(shell, 1)
    assert done.code == 0, done.err
    report = json.loads((shell.folder / "r" / "report.json").read_text())
    cheap, large = report["facts"]["stages"]["judge"]
    assert (cheap["answered"], cheap["audited"], cheap["kept"]) == (
        40,
        39,
        19,
    )  # row 2 has no verdict to compare
    assert (large["answered"], large["audited"], large["kept"]) == (20, 20, 20)
    assert "judge audited: the verdict of large in 0.661" in " ".join(done.out.split())
    import pyarrow.parquet as pq

    table = pq.read_table(shell.folder / "r" / "results.parquet").to_pydict()
    assert table["output.score"][:40] == [True] * 40  # an audit changes no verdict
    assert set(table["output.answered_by"][:40]) == {"m"}


def test_a_share_of_the_rows_of_a_cascade_is_audited(shell, scripted_model):
    scripted_model.answer = cheap_and_large
    assert cascade(shell, 0.2).code == 0
    report = json.loads((shell.folder / "r" / "report.json").read_text())
    audited = sum(stage["audited"] for stage in report["facts"]["stages"]["judge"])
    assert 4 <= audited <= 24
    assert len(scripted_model.requests) < 60 + 20 + audited + 1


def test_there_is_nothing_to_compare_with_where_a_unit_only_abstains(shell):
    done = cascade(shell, 0.2, "abstain")
    assert (done.code, "there is no model to compare with" in done.err) == (2, True)


def test_the_report_says_where_audited_rows_contradict_the_promise():
    from finished_runs import finished_run

    from verdict_cli.report.report import build_report
    from verdict_cli.report.run_notes import notices
    from verdict_cli.stats.intervals.interval_methods import MetricValue

    facts = finished_run(
        name="t",
        rows=9,
        done=9,
    )
    for high, lines in ((0.9, 1), (0.97, 0)):
        shares = {"vote": MetricValue(0.8, 0.7, high, 50)}
        assert (
            len(notices(build_report("r", facts, {}, promises={"vote": 0.95}, kept=shares)))
            == lines
        )
