"""`verdict init FILE --yes`: the defaults alone give the judge that a person would expect, and it runs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verdict_cli.language.document.document import read_document

TEXTS = ("the first text of the row", "another text that is longer", "a third one")


@pytest.fixture(autouse=True)
def nothing_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verdict_cli.llm.providers.detect_models.SERVERS", {})


def cycled(columns: dict[str, Sequence[Any]], count: int = 12) -> list[dict[str, Any]]:
    return [{name: values[row % len(values)] for name, values in columns.items()} for row in range(count)]


def written(shell: Any, records: list[dict[str, Any]], suffix: str) -> Path:
    if suffix == "csv":
        text = io.StringIO()
        table = csv.DictWriter(text, list(records[0]))
        table.writeheader()
        table.writerows(records)
        return shell.write("data.csv", text.getvalue())
    if suffix == "json":
        return shell.write("data.json", json.dumps(records))
    return shell.write("data.jsonl", "".join(json.dumps(record) + "\n" for record in records))


FORMS: dict[str, tuple[str, dict[str, Sequence[Any]], str, str | None]] = {
    "two labels": ("csv", {"query": TEXTS, "reply": TEXTS, "reviewer_label": ["ok", "poor"]}, "JudgeUnit", "reviewer_label"),
    "a category": ("csv", {"Kind": ["x", "y"], "Topic": ["Art", "Law"], "Question": TEXTS, "Best Reply": TEXTS}, "JudgeUnit", None),
    "links": ("jsonl", {"claim": TEXTS, "link": ["https://example.org/a", "https://example.org/b"]}, "JudgeUnit", None),
    "pairs with a tie": ("jsonl", {"task": TEXTS, "answer a": TEXTS, "answer b": TEXTS[::-1], "label": [2, 0, 1]}, "PairwiseJudgeUnit", "label"),
    "pairs by number": ("json", {"task": TEXTS, "reply_1": TEXTS, "reply_2": TEXTS[::-1], "winner": [2, 1]}, "PairwiseJudgeUnit", "winner"),
    "duplicates": ("jsonl", {"question1": TEXTS, "question2": TEXTS, "is_duplicate": [0, 1]}, "JudgeUnit", "is_duplicate"),
    "turns": ("jsonl", {"category": ["maths", "prose"], "turns": [["a", "b"], ["c", "d"]]}, "JudgeUnit", None),
    "solutions": ("jsonl", {"problem": TEXTS, "result": ["4", "5"], "solution": TEXTS, "was_right": [True, False]}, "JudgeUnit", "was_right"),
    "a constant": ("jsonl", {"team": ["A"], "verdict": ["open"], "question": TEXTS, "reply": TEXTS}, "JudgeUnit", None),
    "multiple choice": ("csv", {"question": TEXTS, "opt1": ["a", "b"], "opt2": ["c", "d"], "opt3": ["e", "f"], "label": [1, 2, 3]}, "BestOfKJudgeUnit", "label"),
    "only numbers": ("csv", {"height": [1, 2, 3], "width": [4, 5, 6]}, "JudgeUnit", None),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_the_defaults_are_the_judge_that_a_person_expects(shell: Any, form: str) -> None:
    suffix, columns, unit, target = FORMS[form]
    data = written(shell, cycled(columns), suffix)
    done = shell("init", data, "--yes")
    assert done.code == 0, done.err
    document = read_document(shell.folder / "judge.yaml").data
    assert document["pipeline"][-1]["unit"] == unit
    targets = [str(item.get("target")) for item in document["evaluate"].values() if "target" in item]
    assert bool(targets) == (target is not None) and all(str(target) in text for text in targets)
    prompt = document["pipeline"][-1]["prompt"]
    assert target is None or f"source.{target}" not in prompt
    assert "https" not in str(document) and not (shell.folder / "pipeline.schema.json").exists()
    assert shell("run", "judge.yaml", data, "--model", "baseline/lexical", "--out", "whole").code == 0


def test_codes_identify_the_rows_and_are_not_judged(shell: Any) -> None:
    records = [{"ticket": f"T-{row}", "text": TEXTS[row % 3]} for row in range(9)]
    assert shell("init", written(shell, records, "jsonl"), "--yes").code == 0
    document = read_document(shell.folder / "judge.yaml").data
    assert document["dataset"]["id"] == "ticket" and "ticket" not in document["pipeline"][0]["prompt"]


def test_of_two_labels_the_bad_one_is_the_class_that_matters(shell: Any) -> None:
    suffix, columns, *_ = FORMS["two labels"]
    data = written(shell, cycled(columns), suffix)
    shell("init", data, "--yes")
    done = shell("run", "judge.yaml", data, "--model", "baseline/lexical", "--json")
    metrics = done.json()["evaluations"]["agreement"]
    assert {"accuracy", "precision", "recall", "f1", "cohen_kappa"} <= metrics.keys() and "spearman" not in metrics
    assert "positive: poor" in (shell.folder / "judge.yaml").read_text()


def test_the_reading_of_numbers_as_choices_is_told(shell: Any) -> None:
    suffix, columns, *_ = FORMS["pairs with a tie"]
    done = shell("init", written(shell, cycled(columns), suffix), "--yes", "--no-try")
    assert "0 is A, 1 is B, 2 is tie" in " ".join(done.err.split()).replace(
        "2 is tie, 0 is A, 1 is B", "0 is A, 1 is B, 2 is tie"
    )


VALUES = st.sampled_from([
    TEXTS, ("yes", "no"), (1, 2, 5), (0.5, 0.25), ("a", "b", "c", "d"), ("",), (None, "x"), (True, False), ("T-1", "T-2"),
    (["a", "b"], ["c"]), ({"k": "v"}, {"k": "w"}), ("good", "bad", "so so"), ("2", "3"), tuple(f"word{n}" for n in range(30)),
])  # fmt: skip
NAMES = st.sampled_from([
    "id", "question", "answer", "label", "Category", "score", "response_a", "response_b", "option 1", "option 2", "option 3",
    "it's", "a.b", "conversations", "contexts", "rating", "winner", "größe", "source", "is_ok", "human_label",
])  # fmt: skip


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=6))
def test_the_defaults_alone_always_give_a_pipeline_that_validates(
    shell: Any, columns: dict[str, Sequence[Any]]
) -> None:
    data = written(shell, cycled(columns, 6), "jsonl")
    done = shell("init", data, "--yes", "--no-try", "--force", "--quiet")
    assert done.code == 0, (columns, done.err)
