"""Every pipeline that is shipped is valid, says truly what it needs, and runs on its sample."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paths import ROOT
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.run.preflight import dataset_for, preflight

CONFIGS = ROOT / "configs"
SAMPLES = {
    "demo": "xstest_sample",
    "xstest": "xstest_sample",
    "xstest_refusal": "refusals_sample",
    "judgebench_debate": "pairs_sample",
    "judgebench_arguments": "pairs_sample",
    "pairwise_positions": "pairs_sample",
    "expertqa": "claims_sample",
    "grounded": "grounded_sample",
    "response_errors": "responses_sample",
    "geval": "summaries_sample",
    "debate": "answers_sample",
    "hierarchical": "answers_sample",
    "jury": "answers_sample",
    "early_stopping": "answers_sample",
    "cascade": "answers_sample",
    "decide": "decide_sample",
    "grounded_decide": "grounded_sample",
    "xstest_decide": "xstest_sample",
    "few_labels": "answers_sample",
    "lmunit": "answers_sample",
    "rubric": "answers_sample",
    "best_of_k": "options_sample",
    "ranker": "options_sample",
    "rubric_weighted": "rubrics_sample",
    "paperbench": "submissions_sample",
    "claims": "statements_sample",
    "checklist": "checklists_sample",
    "per_turn": "dialogues_sample",
    "task_success": "agents_sample",
    "tool_calls": "agents_sample",
    "faithfulness": "contexts_sample",
    "relevance": "chats_sample",
    "dialogue_refusal": "chats_sample",
    "arena": "systems_sample",
    "arena_battles": "battles_sample",
}
JURY = [
    "baseline/lexical",
    "baseline/random",
    "baseline/lexical",
    "baseline/random",
    "baseline/lexical",
]
REPLIES = {
    "xstest_refusal": ("judge", lambda row: row["final_label"]),
    "ranker": ("ranker", lambda row: json.dumps({"ranking": row["ranking"]})),
}
"""Pipelines that are run on replies made from their sample: the unit, and its reply to a row."""
PIPELINES = sorted(
    path for kind in ("", "paper/", "reproductions/") for path in CONFIGS.glob(f"{kind}*.yaml")
)


def sample(name: str) -> Path:
    return ROOT / "datasets" / f"{SAMPLES[name]}.jsonl"


def plan(name: str) -> Plan:
    return build_plan(load(CONFIGS / f"{name}.yaml", ["model=baseline/lexical"])).plan


def stated_use(name: str) -> tuple[set[str], str]:
    """The columns and the model calls a row (`4`, or `1, 1 for each claim`) that the file's comment names."""
    text = re.sub(r"\([^)]*\)", "", (CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))
    comment = re.search(
        r"^#.*Columns: ([^.]*)\. Model calls a row: (\d+[^.]*)\.", text, re.MULTILINE
    )
    assert comment is not None, f"{name}.yaml has no line `# Columns: …. Model calls a row: N.`"
    return {column.strip() for column in comment[1].split(",")}, comment[2]


def test_every_pipeline_file_has_a_sample():
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == set(SAMPLES)


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_it_is_valid_and_warns_of_nothing(path):
    """But of the keys that are not set here, and of the models of recordings, which are replayed only."""
    result = CliRunner().invoke(app, ["validate", str(path), "--json"])
    document = json.loads(result.stdout)
    document.pop("hosts")
    accepted = {"no-key"} | ({"retired-model"} if path.parent.name == "reproductions" else set())
    assert all(
        " is not set" in warning["message"]
        for warning in document["warnings"]
        if warning["code"] == "no-key"
    )
    document["warnings"] = [
        warning for warning in document["warnings"] if warning["code"] not in accepted
    ]
    assert (result.exit_code, document) == (0, {"ok": True, "errors": [], "warnings": []})


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_its_first_line_names_the_schema_for_editors(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    schema = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / schema).resolve() == ROOT / "schemas" / "pipeline.schema.json"


@pytest.mark.parametrize("name", SAMPLES)
def test_its_comment_names_the_columns_that_the_plan_uses(name):
    compiled = plan(name)
    used = {column.column for column in compiled.columns} | {
        str(compiled.resolved["dataset"]["id"])
    }
    assert stated_use(name)[0] == used


@pytest.mark.parametrize("name", SAMPLES)
def test_its_comment_counts_the_calls_as_the_graph_does(name):
    result = CliRunner().invoke(app, ["graph", str(CONFIGS / f"{name}.yaml")])
    number = re.match(r"\d+", stated_use(name)[1]).group()  # type: ignore[union-attr]
    calls = stated_use(name)[1].replace(number, f"{plural(int(number), 'model call')} a row", 1)
    assert result.stdout.splitlines()[0].endswith(f", {calls}")


@pytest.mark.parametrize("name", SAMPLES)
def test_its_sample_has_the_columns(name):
    rows = [json.loads(line) for line in sample(name).read_text(encoding="utf-8").splitlines()]
    assert len(rows) >= 6
    assert all(stated_use(name)[0] <= row.keys() for row in rows)


def run_words(name: str, data: Path, rows: list[dict[str, Any]], folder: Path) -> list[str]:
    """The command that runs the pipeline on these rows without a network."""
    words = [
        "run",
        str(CONFIGS / f"{name}.yaml"),
        str(data),
        "--out",
        str(folder / "out"),
        "--json",
        "--quiet",
    ]
    if name in REPLIES:
        unit, reply = REPLIES[name]
        recorded = [
            {"row": place, "unit": unit, "reply": reply(row)} for place, row in enumerate(rows)
        ]
        (folder / "replay.jsonl").write_text("\n".join(map(json.dumps, recorded)), encoding="utf-8")
        return [*words, "--replay", str(folder / "replay.jsonl")]
    if name == "jury":
        return [*words, "--set", f"pipeline[0].models={json.dumps(JURY)}"]
    return [
        *words, "--model", "baseline/lexical", *(["--set", "models.strong=baseline/random"] if name in ("cascade", "decide") else [])
    ]  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_it_runs_on_its_sample(name, tmp_path):
    rows = [json.loads(line) for line in sample(name).read_text(encoding="utf-8").splitlines()]
    result = CliRunner().invoke(app, run_words(name, sample(name), rows, tmp_path))
    gates_fail = name == "demo"  # its gates are for its own replies; the baseline misses them
    assert result.exit_code == int(gates_fail), result.output
    document = json.loads(result.stdout)
    assert document["failed"] == 0
    boards = [evaluation.pop("systems", []) for evaluation in document["evaluations"].values()]
    figures = [
        metric for evaluation in document["evaluations"].values() for metric in evaluation.values()
    ]
    figures += [
        system[next(key for key in system if key not in ("system", "n"))]
        for board in boards
        for system in board
    ]
    assert figures and all(metric["value"] is not None for metric in figures)


@pytest.mark.parametrize("name", SAMPLES)
def test_it_runs_on_the_columns_that_its_prompts_and_metrics_need(name, tmp_path):
    compiled = plan(name)
    needed = {used.column for used in compiled.columns if used.is_needed}
    lines = sample(name).read_text(encoding="utf-8").splitlines()[:6]
    rows = [
        {key: value for key, value in json.loads(line).items() if key in needed} for line in lines
    ]
    types = [*map(type, rows[0].values())]
    rows = [
        row for row in rows if [*map(type, row.values())] == types
    ]  # as the columns of Parquet need it
    files = [tmp_path / "data.jsonl", tmp_path / "data.parquet"]
    files[0].write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(rows), files[1])
    assert [preflight(compiled, dataset_for(compiled, [file])).rows for file in files] == [
        len(rows)
    ] * 2
    data = files[list(SAMPLES).index(name) % 2]
    result = CliRunner().invoke(app, run_words(name, data, rows, tmp_path))
    assert result.exit_code in (0, 1), result.output  # the baseline misses some gates
    assert json.loads(result.stdout)["failed"] == 0
    facts = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    identity = compiled.resolved["dataset"]["id"]
    assert (facts["status"], facts["id_column"]) == (
        "finished",
        identity if identity in needed else None,
    )
