"""Rows or repeats, planned from recorded samples: `python benchmarks/plan.py`.

The pilot is ReaLMistake's self-consistency (Kamoi et al., 2024): three judges, each sampled five times, replayed by
`verdict run`. Prints the plan of `verdict plan --pilot` for it. The recordings are read from the folder `shared` beside the
project, or from $VERDICT_SHARED.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

from early_stopping import DATA, realmistake
from recordings_needed import left_out_without_recordings

from verdict_cli.features.benchmarks.recorded import read_jsonl

PIPELINE = """
verdict: 1
name: samples
model: {name: recorded, retries: 0}
dataset: {id: key}
pipeline:
  - layer:
      - unit: JudgeUnit
        name: judge
        scale: {type: discrete, values: [error, no_error]}
        on_failure: skip
        extract: {type: regex, fields: {score: '^(error|no_error)$'}}
        prompt: "{source.key}"
    repeat: 5
  - {unit: ModePoolUnit, name: vote, field: score}
evaluate:
  right: {prediction: output.score, target: source.label, metrics: [accuracy]}
"""


def main(folder: Path) -> None:
    """Makes the pilot, and prints the plan."""
    from verdict_cli.cli.app import app

    rows, replies = realmistake()
    labels = read_jsonl(DATA / "realmistake" / "selfcons__answerability_classification.jsonl.gz")
    labelled = [{**row, "label": one["label"]} for row, one in zip(rows, labels, strict=True)]
    (folder / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    for name, content in (("data.jsonl", labelled), ("replay.jsonl", replies)):
        (folder / name).write_text(
            "".join(f"{json.dumps(one)}\n" for one in content), encoding="utf-8"
        )
    run = [
        "run",
        "pipeline.yaml",
        "data.jsonl",
        "--replay",
        "replay.jsonl",
        "--out",
        "pilot",
        "--quiet",
    ]
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        app(run, standalone_mode=False)
    with contextlib.chdir(folder):
        app(
            ["plan", "pipeline.yaml", "data.jsonl", "--half-width", "0.02", "--pilot", "pilot"],
            standalone_mode=False,
        )
    sys.stdout.flush()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary, left_out_without_recordings():
        main(Path(temporary))
