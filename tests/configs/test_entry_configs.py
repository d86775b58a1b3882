"""The judges that ask once for each entry of a row's list, on replies that are made from the labels of their samples."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT, SHARED

from verdict_cli import Pipeline
from verdict_cli.stats.measure import Measures, measure
from verdict_cli.storage.tables.reader import read_table

Rows = list[dict[str, Any]]


def sample(name: str) -> Rows:
    lines = (ROOT / "datasets" / f"{name}_sample.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def judged(
    config: str,
    rows: Rows,
    replies: Callable[[dict[str, Any]], Iterator[tuple[str, int | None, Any]]],
    folder: Path,
    *,
    column: str = "output.score",
) -> tuple[list[Any], Mapping[str, Measures]]:
    """The scores of the rows and the run's metrics, where each unit (at an entry) replied so."""
    pipeline = Pipeline.from_yaml(ROOT / "configs" / f"{config}.yaml")
    key = pipeline.plan().resolved["dataset"]["id"]
    recording = folder / "replies.jsonl"
    with recording.open("w", encoding="utf-8") as file:
        for row in rows:
            for unit, item, reply in replies(row):
                line = {"id": row[key], "unit": unit, "reply": json.dumps(reply)}
                file.write(json.dumps(line if item is None else {**line, "item": item}) + "\n")
    pipeline.run_dataset(rows, folder / "run", replay=recording)
    results = folder / "run" / "results.parquet"
    scores = [score for batch in read_table(results, [column]) for score in batch[column]]
    return scores, measure(pipeline.plan().evaluations, results)


def verdict(score: bool) -> dict[str, Any]:
    return {"explanation": "", "score": score}


def test_a_weighted_rubric_earns_the_points_of_its_criteria(tmp_path):
    rows = sample("rubrics")

    def replies(row: dict[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
        for place, criterion in enumerate(row["rubrics"]):
            yield "grade", place, verdict(criterion["met"] != (row["id"] == "r-01" and place == 3))

    scores, measures = judged("rubric_weighted", rows, replies, tmp_path)
    expected = []
    for row in rows:
        met = [rubric["met"] for rubric in row["rubrics"]]
        if row["id"] == "r-01":
            met[3] = not met[3]
        points = [rubric["points"] for rubric in row["rubrics"]]
        share = sum(worth for worth, is_met in zip(points, met, strict=True) if is_met) / sum(
            worth for worth in points if worth > 0
        )
        expected.append(min(max(share, 0), 1))
    assert scores == pytest.approx(expected, abs=1e-12)
    assert 0 in expected  # where only a criterion with negative points is met
    assert measures["criteria"].values["accuracy"].value == pytest.approx(23 / 24)
    assert measures["criteria"].groups["criterion.axis"]["completeness"][
        "accuracy"
    ].value == pytest.approx(9 / 10)
    assert measures["criteria"].values["accuracy"].clusters == 6


def test_each_claim_of_an_answer_is_checked(tmp_path):
    rows = sample("statements")

    def replies(row: dict[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
        texts = row["answer"].split(". ")
        yield (
            "split",
            None,
            {"claims": [{"text": text, "quote": text} for text in texts if row["id"] != "t-06"]},
        )
        for place in range(len(texts)):
            yield "check", place, verdict(place < round(row["supported"] * len(texts)))

    scores, measures = judged("claims", rows, replies, tmp_path)
    assert scores == pytest.approx([1, 1 / 2, 1, 0, 2 / 3, 1])  # the last answer has no claim
    assert (measures["claims"].rows, measures["claims"].values["mean"].value) == (
        11,
        pytest.approx(7 / 11),
    )
    assert measures["people"].values["mae"].value < 0.01


def test_the_questions_of_a_checklist_are_answered_one_by_one(tmp_path):
    rows = sample("checklists")

    def replies(row: dict[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
        for place, fulfilled in enumerate(row["fulfilled"]):
            yield "check", place, verdict(fulfilled)

    scores, measures = judged("checklist", rows, replies, tmp_path)
    assert scores == pytest.approx([sum(row["fulfilled"]) / 3 for row in rows])
    assert measures["questions"].values["accuracy"].value == 1.0
    assert {place: values["accuracy"].n for place, values in measures["questions"].groups["index"].items()} == {
        "0": 6, "1": 6, "2": 6,
    }  # fmt: skip


def test_each_turn_of_the_assistant_is_judged(tmp_path):
    rows = sample("dialogues")

    def replies(row: dict[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
        for place, helpful in enumerate(row["helpful"]):
            yield "judge", place, verdict(helpful)

    scores, measures = judged("per_turn", rows, replies, tmp_path)
    assert scores == pytest.approx([sum(row["helpful"]) / len(row["helpful"]) for row in rows])
    assert (measures["turns"].values["accuracy"].value, measures["turns"].rows) == (1.0, 12)


def test_the_three_questions_of_a_trace_are_measured_apart(tmp_path):
    rows = sample("agents")

    def replies(row: dict[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
        findings = {key: row[key] for key in ("success", "side_effects", "repetition")}
        findings["success"] |= row["id"] == "a-02"
        yield "judge", None, {"explanation": "As [2] shows.", **findings}

    _, measures = judged("task_success", rows, replies, tmp_path, column="output.success")
    values = {
        name: measures[name].values["accuracy"].value
        for name in ("success", "side_effects", "repetition")
    }
    assert values == {"success": 7 / 8, "side_effects": 1, "repetition": 1}
    table = read_table(tmp_path / "run" / "results.parquet", ["output.citations"])
    assert [cited for batch in table for cited in batch["output.citations"]] == [[2]] * 8


def test_a_model_is_called_only_for_tool_calls_with_other_arguments(tmp_path):
    rows = sample("agents")
    differ = {"a-01": 0, "a-03": 0, "a-05": 1}

    def replies(row: dict[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
        if row["id"] in differ:
            yield "arguments", differ[row["id"]], verdict(row["right"])

    scores, measures = judged("tool_calls", rows, replies, tmp_path)
    assert scores == [row["right"] for row in rows]
    assert measures["right"].values["accuracy"].value == 1
    recall = [
        1,
        1,
        0,
        1,
        1 / 2,
        1,
        1,
        1,
    ]  # of the last one nothing was expected, and it has no call
    precision = [1, 2 / 3, 0, 1, 1 / 2, 1, 1, 1]
    assert measures["recall"].values["mean"].value == pytest.approx(sum(recall) / 8)
    assert measures["precision"].values["mean"].value == pytest.approx(sum(precision) / 8)


def test_recall_and_precision_are_1_where_no_call_is_expected_and_none_is_made(
    tmp_path,
):
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "No tool is needed."},
    ]
    rows = [
        {"id": "none", "messages": messages, "expected": [], "right": True},
        *sample("agents")[:1],
    ]
    _, measures = judged(
        "tool_calls",
        rows,
        lambda row: iter([("arguments", 0, verdict(True))] if row["id"] != "none" else []),
        tmp_path,
    )
    assert (
        measures["recall"].values["mean"].value == measures["precision"].values["mean"].value == 1
    )


def test_claims_are_checked_against_numbered_contexts(tmp_path):
    rows = sample("contexts")

    def replies(row: dict[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
        texts = [] if row["id"] == "x-06" else row["answer"].split(". ")
        yield "split", None, {"claims": texts}
        for place in range(len(texts)):
            yield (
                "check",
                place,
                {"explanation": "By [1].", "score": place < round(row["supported"] * len(texts))},
            )

    scores, measures = judged("faithfulness", rows, replies, tmp_path)
    assert scores == pytest.approx([row["supported"] for row in rows])
    assert (measures["claims"].rows, measures["people"].values["mae"].value) == (11, 0)


@pytest.mark.parametrize(
    ("config", "labels"), [("relevance", "relevant"), ("dialogue_refusal", "refusals")]
)
def test_the_turns_of_a_chat_are_labelled(tmp_path, config, labels):
    rows = sample("chats")

    def replies(row: dict[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
        for place, label in enumerate(row[labels]):
            yield (
                "judge",
                place,
                {"explanation": "", "choice" if labels == "refusals" else "score": label},
            )

    column = "output.refused" if labels == "refusals" else "output.score"
    scores, measures = judged(config, rows, replies, tmp_path, column=column)
    right = "full_refusal" if labels == "refusals" else True
    assert scores == pytest.approx([row[labels].count(right) / len(row[labels]) for row in rows])
    assert measures["labels" if labels == "refusals" else "turns"].values["accuracy"].value == 1
    if labels == "refusals":
        by = measures["refusals"].groups["'harmful' if source.harmful[index] else 'harmless'"]
        assert (by["harmful"]["mean"].value, by["harmless"]["mean"].value) == (1 / 2, 2 / 12)


def test_a_submission_earns_the_weights_of_its_leaves(tmp_path):
    def replies(row: dict[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
        for place, leaf in enumerate(row["rubric"]):
            yield "grade", place, {"score": leaf["grade"]}

    rows = sample("submissions")
    scores, _ = judged("paperbench", rows, replies, tmp_path)
    assert scores == pytest.approx([row["score"] for row in rows])


def test_paperbenchs_rubrics_give_the_published_scores_and_metrics_of_leaves(
    tmp_path,
):
    path = SHARED / "data" / "paperbench" / "rubrics.jsonl.gz"
    if not path.exists():
        pytest.skip("the recordings are not there: set VERDICT_SHARED to the folder that has data/")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]

    def wrong(paper: int, place: int) -> bool:
        return (paper + place) % 7 == 0

    def right(row: dict[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
        for place, leaf in enumerate(row["rubric"]):
            yield "grade", place, {"score": leaf["grade"]}

    def mistaken(row: dict[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
        for unit, place, reply in right(row):
            assert place is not None
            off = wrong(rows.index(row), place)
            yield unit, place, {"score": 1 - reply["score"] if off else reply["score"]}

    scores, measures = judged("paperbench", rows, right, tmp_path)
    assert sum(len(row["rubric"]) for row in rows) == 614
    for score, published in zip(scores, (0.185681216931217, 0.91, 0.713935185185185), strict=True):
        assert math.isclose(score, published, abs_tol=1e-9)
    assert measures["leaves"].values["accuracy"].value == 1.0

    (tmp_path / "mistaken").mkdir()
    _, measures = judged("paperbench", rows, mistaken, tmp_path / "mistaken")
    leaves = [
        (leaf["category"], not wrong(paper, place))
        for paper, row in enumerate(rows)
        for place, leaf in enumerate(row["rubric"])
    ]
    accuracy = measures["leaves"].values["accuracy"]
    assert (accuracy.n, accuracy.clusters) == (614, 3)
    assert accuracy.value == pytest.approx(sum(is_right for _, is_right in leaves) / 614, abs=1e-12)
    by_category = measures["leaves"].groups["leaf.category"]
    assert set(by_category) == {"Code Development", "Code Execution", "Result Analysis"}
    for category, values in by_category.items():
        of_category = [is_right for name, is_right in leaves if name == category]
        assert values["accuracy"].value == pytest.approx(
            sum(of_category) / len(of_category), abs=1e-12
        )
