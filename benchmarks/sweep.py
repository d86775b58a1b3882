"""Accuracy by number of recorded judges: `python benchmarks/sweep.py [FOLDER]`.

Writes the verdicts of the eleven judges of TriviaQA answers (Thakur et al., 2024) as a recording of eleven copies of one
unit, in the order in which the data names them. Then `verdict sweep` varies how many vote.
Prints its Markdown table. The recordings are read from the folder `shared` beside the project, or from $VERDICT_SHARED.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

from verdict_cli.features.benchmarks.recorded import read_jsonl

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared")) / "data"
COUNTS = "1,3,5,7,9,11"
PIPELINE = """
verdict: 1
name: triviaqa_jury
model: {name: recorded, retries: 0}
dataset: {id: key}
pipeline:
  - layer:
      - {unit: JudgeUnit, name: judge, scale: boolean, on_failure: skip, extract: {type: regex, fields: {score: '^(true|false)$'}}, prompt: "Is {source.key} right?"}
    repeat: 11
  - {unit: ModePoolUnit, name: vote, field: score}
evaluate:
  jury: {prediction: output.score, target: source.human, positive: true, metrics: [accuracy, cohen_kappa]}
"""


def written(folder: Path) -> None:
    """The pipeline, its dataset and its recording in the folder."""
    found = read_jsonl(DATA / "triviaqa_judges" / "judgements_v1.jsonl.gz")
    judges = list(found[0]["judges"])
    rows, replies = [], []
    for row in found:
        key = f"{row['exam_taker']}-{row['index']}"
        rows.append({"key": key, "human": row["human"]})
        replies += [
            {
                "id": key,
                "unit": f"judge[{place}]",
                "reply": "true" if row["judges"][judge] else "false",
            }
            for place, judge in enumerate(judges)
            if row["judges"].get(judge) is not None
        ]
    (folder / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    for name, content in (("data.jsonl", rows), ("replay.jsonl", replies)):
        (folder / name).write_text(
            "".join(f"{json.dumps(one)}\n" for one in content), encoding="utf-8"
        )


def main(folder: Path) -> None:
    """Sweeps, and prints the table."""
    from verdict_cli.cli.app import app

    written(folder)
    words = [
        "sweep",
        "pipeline.yaml",
        "data.jsonl",
        "--replay",
        "replay.jsonl",
        "--out",
        "sweep",
        "--fresh",
    ]
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        app([*words, "--vary", f"pipeline[0].repeat={COUNTS}", "--quiet"], standalone_mode=False)
    sys.stdout.write((folder / "sweep" / "sweep.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
