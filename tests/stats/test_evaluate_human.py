"""What people said of rows can be an evaluation's target and its gold labels."""

from __future__ import annotations

import pytest

from verdict_cli.errors import SpecError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.load import validate_document
from verdict_cli.plan.build import build_plan
from verdict_cli.stats.measure import measure
from verdict_cli.storage.tables.human_labels import FILE, add_label
from verdict_cli.storage.tables.writer import ParquetTable

TEXT = """
verdict: 1
name: t
model: baseline/lexical
pipeline:
  - {unit: JudgeUnit, prompt: '{source.text}'}
evaluate:
  e: {prediction: output.score, target: TARGET}
"""


def test_rows_are_compared_with_their_labels_and_others_are_left_out(tmp_path):
    results = tmp_path / "results.parquet"
    with ParquetTable(results, {"row": "int", "id": "str", "status": "str"}) as table:
        for row, choice in enumerate(("yes", "no", "yes", "yes")):
            table.write({"row": row, "id": f"r{row}", "status": "ok", "output.choice": choice})
    people = Evaluation(prediction="output.choice", target="human.label", metrics=("accuracy",))
    assert measure({"e": people}, results)["e"].unlabelled == 4
    for row, choice in (("r0", "yes"), ("r1", "yes"), ("r3", "yes")):
        add_label(tmp_path / FILE, row, choice, None, "")
    measured = measure({"e": people}, results)["e"]
    assert (measured.values["accuracy"].value, measured.values["accuracy"].n) == (2 / 3, 3)
    assert measured.unlabelled == 1


def test_only_label_and_note_can_be_named(tmp_path):
    def plan(target):
        return build_plan(
            validate_document(
                parse_document(TEXT.replace("TARGET", target).encode(), "t"), tmp_path
            )
        )

    assert not plan("human.label").warnings
    for wrong in ("human", "human.lable", "human.label.x"):
        with pytest.raises(SpecError, match=r"human\.label"):
            plan(wrong)
