"""`verdict extract`: other extractors on stored replies."""

import json
from pathlib import Path

import pytest

from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import validated
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.run.re_extract import OWN_EXTRACTOR, re_extract
from verdict_cli.storage.tables.writer import ParquetTable


def plan_of(unit: dict[str, object]) -> Plan:
    file = {
        "verdict": 1,
        "name": "t",
        "model": "baseline/lexical",
        "pipeline": [{"prompt": "Judge.", "name": "judge"} | unit],
    }
    return build_plan(validated(parse_document(json.dumps(file).encode(), "t.yaml"), Path())).plan


def calls_of(tmp_path: Path, replies: list[str], logprobs: list[object] | None = None) -> Path:
    path = tmp_path / "calls.parquet"
    with ParquetTable(path) as table:
        for row, text in enumerate(replies):
            table.write(
                {
                    "row": row,
                    "id": f"r{row}",
                    "unit": "judge",
                    "call": 0,
                    "attempt": 0,
                    "reply": text,
                    "finish_reason": "stop",
                    "logprobs": json.dumps(logprobs[row]) if logprobs else None,
                }
            )
    return path


def test_two_extractors_on_one_reply_are_compared_field_by_field(tmp_path: Path) -> None:
    calls = calls_of(tmp_path, ['{"score": 4}', '2 is too low:\n{"score": 5}', "no score"])
    found, differing = re_extract(plan_of({"unit": "JudgeUnit"}), calls, ["regex"])
    own, regex = found
    assert (own.extractor, own.replies, own.readable) == (OWN_EXTRACTOR, 3, 2)
    assert (regex.readable, regex.both, regex.agreed) == (2, 2, 1)
    assert [(one.id, one.own, one.read) for one in differing] == [("r1", {"score": 5}, {"score": 2})]


def test_log_probabilities_are_read_from_the_table(tmp_path: Path) -> None:
    position = [[{"token": "4", "logprob": -0.1}, {"token": "5", "logprob": -2.5}]]
    calls = calls_of(tmp_path, ["4"], [position])
    found, _ = re_extract(plan_of({"unit": "JudgeUnit"}), calls, ["argmax_score"])
    assert found[1].readable == 1


def test_an_extractor_that_does_not_fit_is_said_and_reads_nothing(tmp_path: Path) -> None:
    calls = calls_of(tmp_path, ['{"score": 5}'])
    found, differing = re_extract(plan_of({"unit": "JudgeUnit"}), calls, ["raw"])
    assert "raw" in found[1].refused
    assert found[1].replies == 0
    assert differing == ()


@pytest.mark.parametrize("most", [0, 1, 5])
def test_no_more_disagreements_are_given_than_asked_for(tmp_path: Path, most: int) -> None:
    calls = calls_of(tmp_path, ['2 {"score": 5}'] * 3)
    _, differing = re_extract(plan_of({"unit": "JudgeUnit"}), calls, ["regex"], most=most)
    assert len(differing) == min(most, 3)


def test_an_explanation_is_no_part_of_the_verdict(tmp_path: Path) -> None:
    unit = {"unit": "JudgeUnit", "explanation": True}
    calls = calls_of(tmp_path, ['{"explanation": "fine", "score": 4}'] * 2)
    found, differing = re_extract(plan_of(unit), calls, ["regex"])
    assert (found[1].both, found[1].agreed) == (2, 2)
    assert differing == ()


def test_a_unit_of_text_alone_is_compared_by_its_text(tmp_path: Path) -> None:
    unit = {"unit": "Unit", "response": {"answer": "str"}}
    calls = calls_of(tmp_path, ['{"answer": "yes"}'])
    found, _ = re_extract(plan_of(unit), calls, ["structured"])
    assert (found[1].both, found[1].agreed) == (1, 1)


def test_a_word_is_no_score_of_a_verdict(tmp_path: Path) -> None:
    calls = calls_of(tmp_path, ['{"score": "ok"}'])
    words = {"unit": "JudgeUnit", "scale": {"values": ["bad", "ok", "good"]}}
    found, differing = re_extract(plan_of(words), calls, ["verdict"])
    assert (found[0].readable, found[1].replies, found[1].readable, found[1].both) == (1, 1, 0, 0)
    assert "no score can be read" in differing[0].reason


def test_a_mean_between_the_values_of_a_scale_is_read(tmp_path: Path) -> None:
    position = [[{"token": "4", "logprob": -0.69}, {"token": "5", "logprob": -0.69}]]
    calls = calls_of(tmp_path, ["4"], [position])
    found, _ = re_extract(plan_of({"unit": "JudgeUnit"}), calls, ["weighted_summed_score"])
    assert found[1].readable == 1
