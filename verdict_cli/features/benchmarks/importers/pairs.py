"""Benchmarks of pairs: `pair_id, source, question, response_A, response_B, label` (`A>B`, `B>A` or `tie`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verdict_cli.features.benchmarks.importers.imported import (
    ImportedBenchmark,
    ImportedRecord,
    ImportedRows,
    file_columns,
    file_records,
    label_meaning,
    not_a_file_of,
)

_FIRST_OR_SECOND = {1: "A>B", 2: "B>A", "1": "A>B", "2": "B>A"}
_OR_TIE = {**_FIRST_OR_SECOND, 0: "tie", "0": "tie", 1.5: "tie", "1.5": "tie"}


def judgebench(path: Path) -> ImportedBenchmark:
    """JudgeBench (Tan et al., 2024), whose own columns these are."""
    needed = {"pair_id", "source", "question", "response_A", "response_B", "label"}
    if not needed <= file_columns(path):
        raise not_a_file_of("JudgeBench", path, f"its pairs have {', '.join(sorted(needed))}")
    return ImportedBenchmark(lambda: file_records(path))


def llmbar(path: Path) -> ImportedBenchmark:
    """LLMBar (Zeng et al., 2024): a subset; its name is the source."""
    if not {"input", "output_1", "output_2", "label"} <= file_columns(path):
        raise not_a_file_of("LLMBar", path, "a subset has input, output_1, output_2, label")
    name = path.name.partition(".")[0]
    subset = path.resolve().parent.name if name == "dataset" else name.removeprefix("dataset_")

    def rows() -> ImportedRows:
        for index, record in enumerate(file_records(path)):
            label = label_meaning(record["label"], _FIRST_OR_SECOND, "label", path)
            yield _pair(f"{subset}-{record.get('index', index)}", subset, record, "output_1", "output_2", label)

    return ImportedBenchmark(rows)


def pandalm(path: Path) -> ImportedBenchmark:
    """PandaLM's test set (Wang et al., 2024); the label is what most of three annotators say, a tie where none do."""
    if not {"idx", "instruction", "response1", "response2", "annotator1", "annotator2", "annotator3"} <= file_columns(
        path
    ):
        raise not_a_file_of(
            "PandaLM's test set", path, "it has idx, instruction, input, response1, response2, annotator1..3"
        )

    def rows() -> ImportedRows:
        for record in file_records(path):
            votes = Counter(
                label_meaning(record[f"annotator{message}"], _OR_TIE, f"annotator{message}", path)
                for message in (1, 2, 3)
            )
            label, count = votes.most_common(1)[0]
            source = str(record.get("motivation_app", "pandalm"))
            pair = _pair(str(record["idx"]), source, record, "response1", "response2", label if count > 1 else "tie")
            yield pair

    return ImportedBenchmark(rows)


def alpacaeval(path: Path) -> ImportedBenchmark:
    """Human labels of AlpacaFarm's pairs (Dubois et al., 2023), a row for each annotation."""
    if not {"instruction", "output_1", "output_2", "preference"} <= file_columns(path):
        raise not_a_file_of("AlpacaEval's human labels", path, "they have instruction, output_1, output_2, preference")

    def rows() -> ImportedRows:
        for index, record in enumerate(file_records(path)):
            label = label_meaning(record["preference"], _OR_TIE, "preference", path)
            source = str(record.get("dataset", "alpacaeval"))
            yield _pair(f"alpacaeval-{index}", source, record, "output_1", "output_2", label)

    return ImportedBenchmark(rows)


def rewardbench(path: Path) -> ImportedBenchmark:
    """RewardBench (Lambert et al., 2024); every second row shows the chosen completion second."""
    if not {"prompt", "chosen", "rejected", "subset", "id"} <= file_columns(path):
        raise not_a_file_of("RewardBench", path, "it has prompt, chosen, rejected, subset, id")

    def rows() -> ImportedRows:
        for index, record in enumerate(file_records(path)):
            turned = index % 2
            names = ("rejected", "chosen") if turned else ("chosen", "rejected")
            identity, source = f"{record['subset']}-{record['id']}", str(record["subset"])
            yield _pair(
                identity, source, {**record, "instruction": record["prompt"]}, *names, "B>A" if turned else "A>B"
            )

    return ImportedBenchmark(rows)


def mtbench(path: Path) -> ImportedBenchmark:
    """MT-Bench's human judgements (Zheng et al., 2023), a row for each vote: of turn 2, the whole conversations."""
    needed = {"question_id", "model_a", "model_b", "winner", "judge", "conversation_a", "conversation_b", "turn"}
    if not needed <= file_columns(path):
        raise not_a_file_of("MT-Bench's human judgements", path, f"they have {', '.join(sorted(needed))}")
    winners = {"model_a": "A>B", "model_b": "B>A", "tie": "tie", "tie (inconsistent)": "tie"}

    def rows() -> ImportedRows:
        for index, record in enumerate(file_records(path)):
            first, turn = record["conversation_a"], int(record["turn"])
            yield {
                "pair_id": f"{record['question_id']}-{turn}-{index}",
                "source": f"turn {turn}",
                "question": "\n\n".join(
                    message["content"] for message in first[: 2 * turn] if message["role"] == "user"
                ),
                "response_A": _replies(first, turn),
                "response_B": _replies(record["conversation_b"], turn),
                "label": label_meaning(record["winner"], winners, "winner", path),
            }

    return ImportedBenchmark(rows)


def _pair(identity: str, source: str, record: ImportedRecord, first: str, second: str, label: str) -> Mapping[str, Any]:
    input_text = record.get("input") if "instruction" in record else None
    question = record["instruction"] if "instruction" in record else record["input"]
    return {
        "pair_id": identity,
        "source": source,
        "question": f"{question}\n\n{input_text}" if input_text else question,
        "response_A": record[first],
        "response_B": record[second],
        "label": label,
    }


def _replies(conversation: list[Mapping[str, str]], turn: int) -> str:
    """The assistant's reply of turn 1, or, of turn 2, everything from its first reply on."""
    if turn == 1:
        return conversation[1]["content"]
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in conversation[1 : 2 * turn])
