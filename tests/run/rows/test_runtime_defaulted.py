"""The lesson's default verdict: only where the last reply states nothing, and never in silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from verdict_cli import Pipeline
from verdict_cli.errors import VerdictError

REFUSAL = "I'm sorry, but I can't help with that."
STEP = 'verdict: 1\nname: p\nmodel: {{name: m, retries: 2, cache: false}}\npipeline:\n  - {{unit: RubricUnit, name: rubric, criteria: [Short], {keys}prompt: "{{source.text}}"}}\n'


def rubric(tmp_path: Path, keys: str = "") -> Pipeline:
    path = tmp_path / "p.yaml"
    path.write_text(STEP.format(keys=keys), encoding="utf-8")
    return Pipeline.from_yaml(path)


def test_a_reply_without_a_value_is_retried_before_the_default(tmp_path, scripted_model):
    replies = iter([REFUSAL, "VERDICT: PASS\nSCORE: 8"])
    scripted_model.answer = lambda _: next(replies)
    judged = rubric(tmp_path).run({"text": "x"})
    assert (judged.verdict, judged.score, judged.defaulted) == ("PASS", 8, False)
    scripted_model.answer = lambda _: REFUSAL
    judged = rubric(tmp_path).run({"text": "x"})
    assert (judged.verdict, judged.score, judged.defaulted) == ("FAIL", 0, True)
    assert len(scripted_model.requests) == 2 + 3


def test_a_last_attempt_that_states_one_of_the_two_fails_the_row(tmp_path, scripted_model):
    replies = iter([REFUSAL, REFUSAL, "VERDICT: PASS"])
    scripted_model.answer = lambda _: next(replies)
    with pytest.raises(VerdictError, match="states no score"):
        rubric(tmp_path).run({"text": "x"})


def test_without_a_default_and_where_a_rule_forbids_it_the_row_fails(tmp_path, scripted_model):
    scripted_model.answer = lambda _: REFUSAL
    with pytest.raises(VerdictError, match="states no verdict and no score"):
        rubric(tmp_path, "extract: {type: verdict, default: none}, ").run({"text": "x"})
    with pytest.raises(VerdictError, match="is not true"):
        rubric(tmp_path, "validate: [not response.defaulted], ").run({"text": "x"})


def test_the_report_counts_the_defaults_also_where_the_unit_passes_on_other_fields(
    tmp_path, scripted_model, recwarn
):
    scripted_model.answer = lambda request: (
        REFUSAL if request.row.index else "VERDICT: PASS\nSCORE: 8"
    )
    rows = [{"text": str(number)} for number in range(3)]
    rubric(tmp_path, "propagate: {s: output.score}, ").run_dataset(rows, tmp_path / "run")
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert report["defaulted"] == {"rubric": 2}
    assert "rubric defaulted" in (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
