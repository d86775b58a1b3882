"""Other extractors on stored replies."""

import json
from pathlib import Path

from verdict_cli.features.audit.extraction import ReExtraction, re_extract
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import validate_document
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.storage.tables.writer import ParquetTable


def plan_of(unit: dict[str, object]) -> Plan:
    file = {
        "verdict": 1,
        "name": "t",
        "model": "baseline/lexical",
        "pipeline": [{"prompt": "Judge.", "name": "judge"} | unit],
    }
    return build_plan(
        validate_document(parse_document(json.dumps(file).encode(), "t.yaml"), Path())
    ).plan


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
                    "logprobs": logprobs[row] if logprobs else None,
                }
            )
    return path


def reading_of(unit: dict[str, object], calls: Path, extractor: str) -> ReExtraction:
    (reading,) = re_extract(plan_of(unit), calls, [extractor], seed=0)
    return reading


def test_two_extractors_on_one_reply_are_compared_field_by_field(tmp_path):
    calls = calls_of(tmp_path, ['{"score": 4}', '2 is too low:\n{"score": 5}', "no score"])
    regex = reading_of({"unit": "JudgeUnit"}, calls, "regex")
    assert (regex.replies, regex.readable, regex.both, regex.agreed) == (3, 2, 2, 1)


def test_log_probabilities_are_read_from_the_table(tmp_path):
    position = [[{"token": "4", "logprob": -0.1}, {"token": "5", "logprob": -2.5}]]
    assert (
        reading_of(
            {"unit": "JudgeUnit"}, calls_of(tmp_path, ["4"], [position]), "argmax_score"
        ).readable
        == 1
    )


def test_an_extractor_that_does_not_fit_is_named_and_reads_nothing(tmp_path):
    reading = reading_of({"unit": "JudgeUnit"}, calls_of(tmp_path, ['{"score": 5}']), "raw")
    assert "raw" in reading.refused
    assert reading.replies == 0


def test_an_explanation_is_no_part_of_the_verdict(tmp_path):
    calls = calls_of(tmp_path, ['{"explanation": "fine", "score": 4}'] * 2)
    reading = reading_of({"unit": "JudgeUnit", "explanation": True}, calls, "regex")
    assert (reading.both, reading.agreed) == (2, 2)


def test_a_unit_of_text_alone_is_compared_by_its_text(tmp_path):
    unit = {"unit": "Unit", "response": {"answer": "str"}}
    reading = reading_of(unit, calls_of(tmp_path, ['{"answer": "yes"}']), "structured")
    assert (reading.both, reading.agreed) == (1, 1)


def test_a_word_is_no_score_of_a_verdict(tmp_path):
    words = {"unit": "JudgeUnit", "scale": {"values": ["bad", "ok", "good"]}}
    reading = reading_of(words, calls_of(tmp_path, ['{"score": "ok"}']), "verdict")
    assert (reading.replies, reading.readable, reading.both) == (1, 0, 0)


def test_a_mean_between_the_values_of_a_scale_is_read(tmp_path):
    position = [[{"token": "4", "logprob": -0.69}, {"token": "5", "logprob": -0.69}]]
    calls = calls_of(tmp_path, ["4"], [position])
    assert reading_of({"unit": "JudgeUnit"}, calls, "weighted_summed_score").readable == 1
