"""The columns of the table of rows."""

import numpy as np
import pytest
from jsonl import jsonl

from verdict_cli.report.row_columns import scored_columns
from verdict_cli.run.load_run import load_run
from verdict_cli.stats.row_scores import scored_rows

PIPELINE = """\
verdict: 1
name: p
model: gpt-4o-mini
dataset: {id: id}
pipeline:
  - {unit: JudgeUnit, name: judge, scale: boolean, prompt: 'Is {source.answer} right?'}
evaluate: {right: {prediction: output.score, target: source.label}}
"""


@pytest.mark.parametrize(
    ("replies", "names"),
    [
        (["no verdict", "no verdict"], ["outcome", "target"]),
        (["no verdict", '{"score": true}'], ["outcome", "prediction", "target"]),
    ],
)
def test_a_column_without_a_value_is_not_shown(replies, names, shell):
    rows = [{"id": row, "answer": "a", "label": row == 0} for row in range(2)]
    recorded = [{"id": row, "unit": "judge", "reply": reply} for row, reply in enumerate(replies)]
    data = shell.write("d.jsonl", jsonl(rows))
    recording = shell.write("r.jsonl", jsonl(recorded))
    shell("run", shell.write("p.yaml", PIPELINE), data, "--replay", recording, "--out", "out")
    folder = shell.folder / "out"
    _, _, plan = load_run(folder)
    scored = scored_rows(plan.evaluations, folder / "results.parquet")
    failed = ["no" in reply for reply in replies]
    assert list(scored_columns(scored, np.arange(2), failed)) == names
