"""Calls saved by early stopping, and whether its guarantee holds: `python benchmarks/early_stopping.py [ROWS]`.

First by simulation: votes and means whose units are drawn at random, by the rule that runs use. Then on recorded
judges, by `verdict run --replay` of the same pipeline with and without `until`: the eleven judges of TriviaQA answers in
three orders, and the five samples of ReaLMistake's self-consistency. Prints Markdown tables. The recordings are read
from the folder `shared` next to the project, or from $VERDICT_SHARED.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from recordings_needed import left_out_without_recordings

from verdict_cli.features.benchmarks.recorded import read_jsonl
from verdict_cli.plan.early_stopping import EarlyStop, Mean, Vote
from verdict_cli.run.stopping_rule import first_batch, is_decided
from verdict_cli.storage.tables.reader import read_table

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared")) / "data"
JUDGES = ("GPT-4", "Llama3-70B", "JudgeLM", "Contains", "EM", "Gemma-2B")
JUDGES += ("Llama3-8B", "Llama-7B", "Llama-13B", "Llama-70B", "Mistral-7B")


def early(most: int, confidence: float, rule: Vote | Mean) -> EarlyStop:
    """A layer of `most` units of one node each."""
    leaves = tuple(range(most))
    return EarlyStop(tuple((leaf,) for leaf in leaves), leaves, most, 1, confidence, 1, 1, rule)


def asked(layer: EarlyStop, values: list[Any], field: str) -> int:
    """How many of the values are used."""
    count = first_batch(layer)
    while not is_decided(layer, [{field: value} for value in values[:count]], len(values) - count):
        count += 1
    return count


def mode(values: list[Any]) -> Any:
    """The most frequent value, the earliest of several."""
    return max(values, key=lambda value: (values.count(value), -values.index(value)))


def simulated(rows: int) -> Iterator[tuple[str, ...]]:
    """One table line per kind of unit, rule and confidence."""
    rng = np.random.default_rng(7)

    def shares(kinds: int) -> list[int]:
        return list(rng.choice(kinds, 9, p=rng.dirichlet(np.ones(kinds))))

    def fixed(share: float) -> Callable[[], list[int]]:
        return lambda: list((rng.random(9) < share).astype(int))

    def ratings() -> list[float]:
        return list(np.clip(np.round(rng.uniform(1, 5) + rng.normal(0, 0.8, 9)), 1, 5))

    side = Mean("x", 1, 5, 3.0, None)
    near = Mean("x", 1, 5, None, 0.5)
    cases: list[tuple[str, Vote | Mean, Callable[[], list[Any]]]] = [
        ("vote of 2 values, shares uniform", Vote((("x", 2),)), lambda: shares(2)),
        ("vote of 5 values, shares uniform", Vote((("x", 5),)), lambda: shares(5)),
        ("vote, each unit yes with 0.9", Vote((("x", 2),)), fixed(0.9)),
        ("vote, each unit yes with 0.7", Vote((("x", 2),)), fixed(0.7)),
        ("vote, each unit yes with 0.5", Vote((("x", 2),)), fixed(0.5)),
        ("mean of 1 to 5, side of 3", side, ratings),
        ("mean of 1 to 5, within 0.5", near, ratings),
    ]
    for name, rule, draw in cases:
        for confidence in (0.9, 0.95, 0.99):
            layer, same, calls = early(9, confidence, rule), 0, 0
            for _ in range(rows):
                values = draw()
                count = asked(layer, values, "x")
                calls += count
                same += agrees(rule, values[:count], values)
            yield name, f"{confidence:g}", f"{same / rows:.3f}", f"{1 - calls / (9 * rows):.1%}"


def agrees(rule: Vote | Mean, some: list[Any], every: list[Any]) -> bool:
    """Whether the units that ran give the same result as all of them."""
    if isinstance(rule, Vote):
        return bool(mode(some) == mode(every))
    first, whole = float(np.mean(some)), float(np.mean(every))
    if rule.threshold is not None:
        return (first >= rule.threshold) == (whole >= rule.threshold)
    return abs(first - whole) <= (rule.within or 0) + 1e-9


PIPELINE = """
verdict: 1
name: recorded
model: {{name: recorded, retries: 0}}
dataset: {{id: key}}
pipeline:
  - layer:
      - {{unit: JudgeUnit, name: judge, scale: {scale}, on_failure: skip, extract: {extract}, prompt: "{{source.key}}"}}
    repeat: {most}
    {until}
  - {{unit: ModePoolUnit, name: vote, field: score}}
"""


def triviaqa(order: tuple[str, ...]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and replies, the judges in this order."""
    found = read_jsonl(DATA / "triviaqa_judges" / "judgements_v1.jsonl.gz")
    rows = [{"key": f"{row['exam_taker']}-{row['index']}"} for row in found]
    replies = [
        {
            "id": key["key"],
            "unit": f"judge[{place}]",
            "reply": "true" if row["judges"][judge] else "false",
        }
        for key, row in zip(rows, found, strict=True)
        for place, judge in enumerate(order)
        if row["judges"].get(judge) is not None
    ]
    return rows, replies


def realmistake() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and replies of the three judges that were sampled five times; the authors' reading of each sample."""
    found = read_jsonl(DATA / "realmistake" / "selfcons__answerability_classification.jsonl.gz")
    rows = [{"key": f"{row['judge']}-{row['id']}"} for row in found]
    replies = [
        {"id": key["key"], "unit": f"judge[{place}]", "reply": said}
        for key, row in zip(rows, found, strict=True)
        for place, said in enumerate(row["predictions_list"])
        if said is not None
    ]
    return rows, replies


def run(folder: Path, until: str, keys: Mapping[str, str], most: int) -> tuple[list[Any], int]:
    """The vote of every row, and the calls that were made."""
    from verdict_cli.cli.app import app

    text = PIPELINE.format(most=most, until=f"until: {until}" if until else "", **keys)
    (folder / "pipeline.yaml").write_text(text, encoding="utf-8")
    words = [
        "run",
        "pipeline.yaml",
        "data.jsonl",
        "--replay",
        "replay.jsonl",
        "--out",
        "out",
        "--fresh",
    ]
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
        app([*words, "--json", "--quiet"], standalone_mode=False)
    votes = [
        vote
        for batch in read_table(folder / "out" / "results.parquet", ["output.score"])
        for vote in batch["output.score"]
    ]
    return votes, json.loads(printed.getvalue())["calls"]


def replayed() -> Iterator[tuple[str, ...]]:
    """One table line per recorded set and confidence."""
    trivia = {"scale": "boolean", "extract": "{type: regex, fields: {score: '^(true|false)$'}}"}
    mistakes = {
        "scale": "{values: [error, no_error]}",
        "extract": "{type: regex, fields: {score: '^(error|no_error)$'}}",
    }
    backwards = tuple(reversed(JUDGES))
    drawn = tuple(np.random.default_rng(0).permutation(JUDGES).tolist())
    sets = [
        ("TriviaQA, eleven judges, the strongest first", trivia, 11, lambda: triviaqa(JUDGES)),
        ("TriviaQA, the order reversed", trivia, 11, lambda: triviaqa(backwards)),
        ("TriviaQA, a drawn order", trivia, 11, lambda: triviaqa(drawn)),
        ("ReaLMistake, five samples", mistakes, 5, realmistake),
    ]
    for name, keys, most, inputs in sets:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for file, rows in zip(("data.jsonl", "replay.jsonl"), inputs(), strict=True):
                (folder / file).write_text(
                    "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
                )
            full, calls = run(folder, "", keys, most)
            for confidence in ("0.9", "0.95", "0.99", "1"):
                votes, made = run(folder, f"{{confidence: {confidence}}}", keys, most)
                rows = [
                    (one, other)
                    for one, other in zip(votes, full, strict=True)
                    if other is not None
                ]
                same = sum(one == other for one, other in rows)
                share = f"{same / len(rows):.4f} ({same:,} of {len(rows):,})"
                yield name, confidence, share, f"{calls:,} → {made:,}", f"{1 - made / calls:.1%}"


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
    """Print a Markdown table."""
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


if __name__ == "__main__":
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    table(("Units", "Confidence", "Verdict kept", "Calls saved"), simulated(rows))
    with left_out_without_recordings():
        table(("Recorded judges", "Confidence", "Same verdict", "Calls", "Saved"), replayed())
