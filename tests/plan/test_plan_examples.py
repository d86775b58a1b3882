"""`examples:` of a unit: read and checked with the plan, part of its fingerprint and of its resolved file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonl import jsonl

from verdict_cli.errors import SpecError
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan

HEAD = """verdict: 1
name: x
model: m
pipeline:
  - {{unit: JudgeUnit, scale: {{values: [bad, good]}}, prompt: "Rate {{source.text}}", examples: {examples}}}
evaluate:
  right: {{prediction: output.score, target: source.label}}
"""
ROWS = [{"text": f"text {n}", "label": "good" if n % 2 else "bad", "more": n} for n in range(6)]


def write(folder: Path, examples: str = "{file: rows.jsonl}", rows=None) -> Path:
    (folder / "rows.jsonl").write_text(
        "".join(f"{yaml.safe_dump(row, default_flow_style=True).strip()}\n" for row in ())
    )

    (folder / "rows.jsonl").write_text(jsonl(ROWS if rows is None else rows))
    path = folder / "x.yaml"
    path.write_text(HEAD.format(examples=examples))
    return path


def plan_of(path: Path):
    return build_plan(load(path)).plan


def test_the_columns_and_the_target_come_from_the_prompt_and_the_evaluation(tmp_path):
    pool = plan_of(write(tmp_path)).nodes[0].work.examples
    assert (pool.columns, pool.field, pool.k, len(pool.examples)) == (("text",), "score", 4, 6)
    assert {example.answer for example in pool.examples} == {"bad", "good"}


def test_the_resolved_file_holds_the_used_columns_and_gives_the_same_plan(tmp_path):
    plan = plan_of(write(tmp_path))
    examples = plan.resolved["pipeline"][0]["examples"]
    assert examples["rows"][0] == {"text": "text 0", "label": "bad"} and "file" not in examples
    (tmp_path / "rows.jsonl").unlink()
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(plan.resolved))
    again = plan_of(tmp_path / "spec.yaml")
    assert again.fingerprint == plan.fingerprint
    assert again.nodes[0].work.examples.content() == plan.nodes[0].work.examples.content()


def test_another_label_another_k_or_another_column_is_another_pipeline(tmp_path):
    base = plan_of(write(tmp_path)).fingerprint
    changed = [{**row, "label": "bad"} for row in ROWS]
    assert plan_of(write(tmp_path, rows=changed)).fingerprint != base
    assert plan_of(write(tmp_path, "{file: rows.jsonl, k: 2}")).fingerprint != base
    assert plan_of(write(tmp_path, "{file: rows.jsonl, columns: [text, more]}")).fingerprint != base
    unused = [{**row, "more": 0} for row in ROWS]
    assert plan_of(write(tmp_path, rows=unused)).fingerprint == base


@pytest.mark.parametrize(
    ("examples", "rows", "message", "hint"),
    [
        ("{file: none.jsonl}", None, "the examples cannot be read", "labelled rows"),
        ("{k: 2}", None, "either `file` or `rows`", ""),
        ("{file: rows.jsonl, rows: [{text: a}]}", None, "either `file` or `rows`", ""),
        ("{file: ../rows.jsonl}", None, "outside", ""),
        ("{file: rows.jsonl, target: source.none}", None, "example 0: `source.none`", ""),
        ("{file: rows.jsonl, choose: errors}", None, "needs the answers of a judge", "prediction"),
        ("{file: rows.jsonl, columns: [txt]}", None, "no column 'txt'", "text, label"),
        ("{file: rows.jsonl}", [{"text": "a", "label": "fine"}], "example 0: the label", "scale"),
        (
            "{file: rows.jsonl}",
            [{"text": "a", "label": None}],
            "no row of the examples has a label",
            "",
        ),
    ],
)
def test_examples_that_cannot_be_used_are_one_error_before_any_call(
    tmp_path, examples, rows, message, hint
):
    with pytest.raises(SpecError) as caught:
        plan_of(write(tmp_path, examples, rows))
    (problem,) = caught.value.problems
    assert message in problem.message and hint in problem.hint


def test_a_unit_without_a_scale_has_no_examples(tmp_path):
    path = write(tmp_path)
    path.write_text(
        path.read_text()
        .replace("unit: JudgeUnit, scale: {values: [bad, good]}", "unit: CoTUnit")
        .replace("output.score", "output.thinking")
    )
    with pytest.raises(SpecError, match="no answer that examples could show"):
        plan_of(path)
