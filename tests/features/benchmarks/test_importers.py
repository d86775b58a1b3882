"""Each benchmark's own file becomes rows that its pipeline reads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl
from paths import SHARED

from verdict_cli.errors import DataError, UsageError
from verdict_cli.features.benchmarks.card import cards
from verdict_cli.features.benchmarks.importers import IMPORTERS, import_benchmark
from verdict_cli.language.document.document import read_document
from verdict_cli.language.package_files import named_config
from verdict_cli.plan.build import load_plan
from verdict_cli.run.preflight import dataset_for
from verdict_cli.storage.datasets.read import scan

SHARED = SHARED / "data"

REAL = {
    "xstest": ("xstest/xstest_prompts.csv", 450, {"safe": 250, "unsafe": 200}),
    "judgebench": ("judgebench/pairs_gpt-4o.jsonl", 350, {"A>B": 193, "B>A": 157}),
    "llmbar": ("llmbar/dataset_Natural.jsonl.gz", 100, {"A>B": 42, "B>A": 58}),
    "pandalm": ("pandalm/testset-v1.json", 999, {"tie": 105, "A>B": 422, "B>A": 472}),
    "expertqa": (
        "expertqa/claims_dev.jsonl.gz",
        470,
        {"attributable": 235, "not attributable": 235},
    ),
    "wice": ("wice/claims.jsonl", 300, {"supported": 66, "not supported": 234}),
    "halueval": ("halueval_general/general_even.jsonl.gz", 2254, {"error": 416, "no_error": 1838}),
    "summeval": ("summeval/summaries.jsonl.gz", 1600, {}),
}
"""The file, its rows, and the labels that its own page states."""

TURNS = [{"role": "user", "content": "u1"}, {"role": "assistant", "content": "a1"}]
MORE = [*TURNS, {"role": "user", "content": "u2"}, {"role": "assistant", "content": "a2"}]
VOTE = {
    "question_id": 81,
    "model_a": "m",
    "model_b": "n",
    "judge": "p",
    "conversation_a": MORE,
    "conversation_b": MORE,
}
MADE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mtbench": (
        {**VOTE, "winner": "model_b", "turn": 1},
        {"question": "u1", "response_A": "a1", "label": "B>A", "source": "turn 1"},
    ),
    "rewardbench": (
        {"prompt": "p", "chosen": "good", "rejected": "bad", "subset": "hard", "id": 7},
        {"pair_id": "hard-7", "question": "p", "response_A": "good", "response_B": "bad", "label": "A>B"},
    ),
    "alpacaeval": (
        {"instruction": "i", "output_1": "x", "output_2": "y", "preference": 2},
        {"question": "i", "response_A": "x", "label": "B>A"},
    ),
    "aggrefact": (
        {"dataset": "ExpertQA", "doc": "d", "claim": "c", "label": 1},
        {"dataset": "ExpertQA", "document": "d", "label": "supported"},
    ),
    "realmistake": (
        {"input": "i", "llm_response": "r", "label": "error", "metadata": {"id": "e7"}},
        {"id": "e7", "input": "i", "response": "r", "label": "error"},
    ),
    "wice": (
        {"label": "partially_supported", "claim": "c", "evidence": ["e"], "meta": {"id": "t1"}},
        {"id": "t1-0", "group": "t1", "label": "not supported"},
    ),
    "halueval": (
        {"ID": "3", "user_query": "q", "chatgpt_response": "r", "hallucination_label": "yes"},
        {"id": "3", "input": "q", "response": "r", "label": "error"},
    ),
    "summeval": (
        {
            "id": "d", "model_id": "M1", "decoded": "s", "text": "article",
            "expert_annotations": [
                {"coherence": 1, "consistency": 5, "fluency": 5, "relevance": 2},
                {"coherence": 2, "consistency": 5, "fluency": 4, "relevance": 2},
            ],
        },
        {"id": "d-M1", "source": "article", "summary": "s", "coherence": 1.5, "fluency": 4.5},
    ),
}  # fmt: skip
"""A row as its authors write it, and what it becomes."""


def write_rows(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text(jsonl(rows), encoding="utf-8")
    return path


def test_every_importer_is_tried():
    assert IMPORTERS.keys() == REAL.keys() | MADE.keys()


@pytest.mark.parametrize("name", REAL)
def test_the_real_file_becomes_rows_that_its_pipeline_reads(name, tmp_path):
    index, count, labels = REAL[name]
    if not (SHARED / index).exists():
        pytest.skip("the real files are not there: set VERDICT_SHARED to the folder that has data/")
    rows = [dict(row) for row in import_benchmark(name, SHARED / index).rows()]
    assert len(rows) == count
    if labels:
        assert Counter(row["label"] for row in rows) == labels
    config = named_config(cards()[name].config or "")
    plan = load_plan(read_document(config), config.parent).plan
    source = scan(dataset_for(plan, [write_rows(tmp_path / "rows.jsonl", *rows)]))
    assert source.rows == count
    identity = str(plan.resolved["dataset"]["id"])
    assert len({row[identity] for row in rows}) == count


@pytest.mark.parametrize("name", MADE)
def test_a_row_as_its_authors_write_it_becomes_a_row_of_the_pipeline(name, tmp_path):
    row, expected = MADE[name]
    (imported,) = import_benchmark(name, write_rows(tmp_path / "own.jsonl", row)).rows()
    assert {key: imported[key] for key in expected} == expected


def test_the_second_turn_is_judged_by_the_whole_conversation(tmp_path):
    row = {**VOTE, "winner": "tie", "turn": 2}
    (imported,) = import_benchmark("mtbench", write_rows(tmp_path / "own.jsonl", row)).rows()
    assert imported["question"] == "u1\n\nu2"
    assert imported["response_A"] == "assistant: a1\n\nuser: u2\n\nassistant: a2"
    assert imported["label"] == "tie"


def test_the_chosen_completion_is_not_always_first(tmp_path):
    rows = [{**MADE["rewardbench"][0], "id": index} for index in range(4)]
    imported = list(
        import_benchmark("rewardbench", write_rows(tmp_path / "own.jsonl", *rows)).rows()
    )
    assert [row["label"] for row in imported] == ["A>B", "B>A", "A>B", "B>A"]
    assert all(
        row["response_A" if row["label"] == "A>B" else "response_B"] == "good" for row in imported
    )


@pytest.mark.parametrize("name", IMPORTERS)
def test_a_foreign_file_is_reported_with_what_was_expected(name, tmp_path):
    with pytest.raises(DataError) as caught:
        list(import_benchmark(name, write_rows(tmp_path / "own.jsonl", {"colour": "red"})).rows())
    assert "colour" in str(caught.value)
    assert caught.value.problem.hint


def test_a_label_that_means_nothing_is_an_error_and_not_a_class(tmp_path):
    row = {**MADE["aggrefact"][0], "label": 3}
    with pytest.raises(DataError, match="label is 3"):
        list(import_benchmark("aggrefact", write_rows(tmp_path / "own.jsonl", row)).rows())


@pytest.mark.parametrize("value", ["x", None, 7, [1], {"a": 1}])
@pytest.mark.parametrize("name", [*IMPORTERS])
def test_values_of_another_form_are_rows_or_one_data_error(name, value, tmp_path):
    file = cards()[name].files[0]
    path = tmp_path / "rows.jsonl"
    path.write_text(jsonl([dict.fromkeys(file.columns, value), {file.columns[0]: value}]))
    try:
        list(import_benchmark(name, path).rows())
    except DataError as error:
        assert error.problem.hint


def test_a_recorded_judge_gives_its_rows_and_its_replies():
    if not SHARED.is_dir():
        pytest.skip("the recordings are not there: set VERDICT_SHARED to the folder that has data/")
    imported = import_benchmark("llmbar/GPT-4/Natural/Vanilla", SHARED)
    assert imported.replies is not None
    assert (len(list(imported.rows())), len(list(imported.replies()))) == (100, 200)
    with pytest.raises(UsageError, match="recorded cases"):
        import_benchmark("llmbar/GPT-4", SHARED)
