"""Makes the run directories beside this file with the code that is imported: that of the commit 4c2ac3a, of 2026-11-24.

PYTHONPATH=CHECKOUT python tests/run/earlier_runs/generate.py
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from verdict_cli.errors import Refused
from verdict_cli.language.load import load
from verdict_cli.llm.providers import Providers
from verdict_cli.messages import Reply, Request, Usage
from verdict_cli.plan.build import build_plan
from verdict_cli.run.job import RunOptions
from verdict_cli.run.session import open_run
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import scan

FOLDER = Path(__file__).parent
ROWS, STOPPED_AT, PART_ROWS = 12, 7, 5
PIPELINE = """verdict: 1
name: earlier
model: {name: openai/gpt-4o-mini, cache: false}
pipeline:
  - {unit: JudgeUnit, name: rule, prompt: Say how to rate, pin: true}
  - {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text} as {previous.score}'}
evaluate:
  label: {prediction: "'good' if output.score > 3 else 'bad'", target: source.label, positive: good}
gates: [label.accuracy >= 0.1]
"""


def run(name: str, stop_at: int, **options: Any) -> None:
    """Run the pipeline into a folder; the call of row ``stop_at`` is refused, which stops the run."""

    async def ask(_: Providers, request: Request) -> Reply:
        if request.row.index == stop_at:
            raise Refused("no such key")
        score = 4 if "fine" in request.messages[-1].content else 2
        return Reply(
            json.dumps({"score": score}),
            "stop",
            None,
            Usage(20, 4),
            0.01,
            "gpt-4o-mini-2024-07-18",
            0.1,
        )

    Providers.ask = ask  # type: ignore[method-assign]
    dataset = Dataset(files=(FOLDER / "data.jsonl",))
    plan = build_plan(load(FOLDER / "pipeline.yaml")).plan
    out = FOLDER / name
    shutil.rmtree(out, ignore_errors=True)
    names = {"config": "pipeline.yaml", "source": "data.jsonl", "concurrency": 1}
    with (
        suppress(Refused),
        open_run(
            RunOptions(plan=plan, dataset=dataset, data=scan(dataset), out=out, **names, **options)
        ) as session,
    ):
        session.execute()


def main() -> None:
    (FOLDER / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    rows = [
        {
            "text": f"text {number} is {'fine' if number % 3 else 'poor'}",
            "label": "good" if number % 2 else "bad",
        }
        for number in range(ROWS)
    ]
    (FOLDER / "data.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    run("finished", ROWS)
    run("finished_parts", ROWS, part_rows=PART_ROWS)
    run("unfinished", STOPPED_AT)
    run("unfinished_parts", STOPPED_AT, part_rows=PART_ROWS)


if __name__ == "__main__":
    main()
