"""The paper's judges: each figure and table has a pipeline as printed, and one as the authors ran it where that differs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from paths import ROOT
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import LLMNode, Plan

PAPER = ROOT / "configs" / "paper"
SAMPLES = {
    "figure1_debate_summary": "answers_sample",
    "figure3_debate": "answers_sample",
    "figure4_jury": "answers_sample",
    "figure5_geval": "summaries_sample",
    "figure5_geval_as_run": "summaries_sample",
    "single_expertqa": "grounded_sample",
    "single_judgebench": "pairs_sample",
    "single_xstest": "xstest_sample",
    "table1_xstest": "xstest_sample",
    "table2_judgebench": "pairs_sample",
    "table2_judgebench_arguments": "pairs_sample",
    "table2_judgebench_as_run": "pairs_sample",
    "table3_expertqa": "grounded_sample",
    "table3_expertqa_as_run": "grounded_sample",
}
SHARED_PROMPTS = {
    "table1_xstest": "xstest",
    "table2_judgebench": "judgebench_debate",
    "table2_judgebench_arguments": "judgebench_arguments",
}


def data(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((PAPER / f"{name}.yaml").read_text(encoding="utf-8"))
    return document


def plan(name: str) -> Plan:
    return build_plan(load(PAPER / f"{name}.yaml")).plan


def run(name: str, out: Path, *words: str) -> dict[str, Any]:
    sample = ROOT / "datasets" / f"{SAMPLES[name]}.jsonl"
    result = CliRunner().invoke(
        app,
        [
            "run",
            str(PAPER / f"{name}.yaml"),
            str(sample),
            "--out",
            str(out),
            "--json",
            "--quiet",
            *words,
        ],
    )
    assert result.exit_code == 0, (result.output, result.exception)
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_every_pipeline_of_the_paper_has_a_sample():
    assert {path.stem for path in PAPER.glob("*.yaml")} == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_it_runs_on_its_sample(name, tmp_path):
    overrides = {
        f"models.{model_name}": "baseline/lexical" for model_name in data(name).get("models", {})
    }
    overrides |= (
        {"pipeline[0].models": json.dumps(["baseline/lexical"] * 5)}
        if name == "figure4_jury"
        else {}
    )
    settings = [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
    document = run(
        name, tmp_path / "out", *settings, *([] if overrides else ["--model", "baseline/lexical"])
    )
    assert document["failed"] == 0


def test_the_jury_is_that_of_figure_4():
    layer, pool = data("figure4_jury")["pipeline"]
    assert [name.rpartition("/")[2] for name in layer["models"]] == [
        "gpt-4o-mini", "gpt-4o", "command-r", "command-r-plus", "claude-3-5-sonnet-20241022",
    ]  # fmt: skip
    assert layer["layer"][0]["scale"] == {"type": "discrete", "range": [1, 5]}
    assert pool["unit"] == "MeanPoolUnit"


def test_g_eval_is_that_of_figure_5():
    layer, pool = data("figure5_geval")["pipeline"]
    steps, judge = layer["layer"][0]["block"]
    assert (steps["unit"], steps["model"], steps["pin"], judge["model"]) == (
        "CoTUnit",
        "steps",
        True,
        "judge",
    )
    assert data("figure5_geval")["models"] == {
        "steps": {"name": "gpt-4o", "temperature": 0.6, "retries": 3},
        "judge": {"name": "gpt-4o-mini", "temperature": 0.0, "retries": 3},
    }
    assert (judge["extract"], judge["scale"]["range"], layer["repeat"]) == (
        "weighted_summed_score",
        [1, 5],
        5,
    )
    assert pool == {"unit": "MeanVariancePoolUnit", "field": "score"}


def test_g_eval_as_run_reasons_on_every_row_at_the_librarys_temperatures():
    steps, judge = data("figure5_geval_as_run")["pipeline"]
    models = data("figure5_geval_as_run")["models"]
    assert (steps["model"], judge["model"]) == ("steps", "judge")
    assert (models["steps"]["temperature"], models["judge"]["temperature"]) == (0.5, 0.0)
    assert "pin" not in steps and "repeat" not in steps


def test_the_debate_has_three_rounds_in_a_chain_and_its_printed_prompt():
    layer = data("figure3_debate")["pipeline"][0]
    assert (layer["repeat"], layer["inner"], layer["outer"]) == (3, "chain", "last")
    for unit, role in zip(layer["layer"], ("Proponent", "Opponent"), strict=True):
        assert (unit["unit"], unit["role_name"]) == ("ConversationalUnit", role)
        assert unit["prompt"].startswith(
            "You are participating in a debate as the {unit.role_name}.\nHere is the debate transcript thus far:\n"
            "{input.conversation}\n"
        )


def test_a_summary_follows_each_round_of_figure_1():
    roles = [unit["role_name"] for unit in data("figure1_debate_summary")["pipeline"][0]["layer"]]
    assert roles == ["Proponent", "Opponent", "Summariser"]


@pytest.mark.parametrize("name", SHARED_PROMPTS)
def test_a_table_has_the_pipeline_of_the_general_config_with_gpt_4o(name):
    ours, general = (
        data(name),
        yaml.safe_load((ROOT / "configs" / f"{SHARED_PROMPTS[name]}.yaml").read_text("utf-8")),
    )
    assert ours["pipeline"] == general["pipeline"]
    assert ours["model"] == "gpt-4o"


def test_table_3_as_printed_has_the_prompts_of_grounded_and_the_maximum():
    ours = data("table3_expertqa")["pipeline"]
    assert (
        ours == yaml.safe_load((ROOT / "configs" / "grounded.yaml").read_text("utf-8"))["pipeline"]
    )
    assert ours[1]["unit"] == "MaxPoolUnit"


def test_table_3_as_run_takes_the_mode_at_the_librarys_temperatures():
    layer, pool = data("table3_expertqa_as_run")["pipeline"]
    judge, verifier = layer["layer"][0]["block"]
    models = data("table3_expertqa_as_run")["models"]
    assert (judge["model"], verifier["model"], layer["repeat"]) == ("judge", "verifier", 3)
    assert (models["judge"]["temperature"], models["verifier"]["temperature"]) == (0.7, 0.0)
    assert pool == {"unit": "ModePoolUnit", "field": "choice"}


def test_one_yes_of_three_is_support_as_printed_and_none_as_run(tmp_path):
    rows = [
        json.loads(line)
        for line in (ROOT / "datasets" / "grounded_sample.jsonl").read_text("utf-8").splitlines()
    ]
    ids = [row["id"] for row in rows]

    def recorded(field: str, yes: object, no: object) -> str:
        path = tmp_path / f"{field}.jsonl"
        votes = [yes, no, no]
        records = [
            {"id": row_id, "unit": f"{unit}[{place}]", "reply": json.dumps(why | {field: vote})}
            for row_id in ids
            for unit, why in (("judge", {"explanation": "e"}), ("verifier", {}))
            for place, vote in enumerate(votes)
        ]
        path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        return str(path)

    positives = len([row for row in rows if row["label"] == "supported"]) / len(rows)
    printed = run(
        "table3_expertqa", tmp_path / "printed", "--replay", recorded("score", True, False)
    )
    as_run = run(
        "table3_expertqa_as_run", tmp_path / "run", "--replay", recorded("choice", "yes", "no")
    )
    assert printed["evaluations"]["support"]["accuracy"]["value"] == pytest.approx(positives)
    assert as_run["evaluations"]["support"]["accuracy"]["value"] == pytest.approx(1 - positives)


def test_a_judge_that_always_names_the_first_answer_is_never_right_in_both_orders(
    tmp_path,
):
    rows = [
        json.loads(line)
        for line in (ROOT / "datasets" / "pairs_sample.jsonl").read_text("utf-8").splitlines()
    ]
    replies = [
        {"id": row["pair_id"], "unit": f"debate[{place}]", "reply": "a turn"}
        for row in rows
        for place in range(16)
    ] + [
        {"id": row["pair_id"], "unit": f"judge[{place}]", "reply": json.dumps({"score": "A>B"})}
        for row in rows
        for place in range(2)
    ]
    recording = tmp_path / "replies.jsonl"
    recording.write_text("\n".join(map(json.dumps, replies)), encoding="utf-8")
    results = run("table2_judgebench_as_run", tmp_path / "out", "--replay", str(recording))[
        "evaluations"
    ]
    assert (results["pairs"]["accuracy"]["value"], results["consistent"]["mean"]["value"]) == (
        0.0,
        0.0,
    )


@pytest.mark.parametrize("name", [name for name in SAMPLES if name.startswith("table")])
def test_a_table_is_shown_with_its_caveat(name):
    for published in plan(name).published.values():
        assert published.caveat


@pytest.mark.parametrize(
    "path",
    [*PAPER.glob("*.yaml"), *sorted((ROOT / "configs").glob("*.yaml"))],
    ids=lambda path: path.stem,
)
def test_no_judge_has_a_worst_label(path):
    text = path.read_text(encoding="utf-8")
    for node in build_plan(load(path, ["model=baseline/lexical"])).plan.nodes:
        sentence = node.work.suffix(0) if isinstance(node.work, LLMNode) else ""
        worst = re.search(r"where (.+) is the worst", sentence)
        assert worst is None or worst[1].replace(".", "").isdigit() or "scores:" in text, (
            node.id,
            worst[0],
        )
