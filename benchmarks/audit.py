"""Audit recorded judges: `python benchmarks/audit.py`.

Position, on LLMBar's judges in both orders (Zeng et al., 2024; the strategy `Vanilla`), compared with the agreement that
the repository publishes. Repeat noise, on ReaLMistake's judges that were sampled five times (Kamoi et al., 2024). Each line
is a `verdict audit --replay`. Prints Markdown tables. The recordings are read from the folder `shared` next to the
project, or from $VERDICT_SHARED.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from recordings_needed import left_out_without_recordings

from verdict_cli.features.benchmarks.recorded import read_jsonl

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared")) / "data"
PAIRS = r"""
verdict: 1
name: llmbar
model: {name: recorded, retries: 0}
dataset: {id: index}
pipeline:
  - unit: PairwiseJudgeUnit
    name: judge
    options: [source.output_1, source.output_2]
    on_failure: skip
    extract: {type: regex, fields: {choice: '(?ms)\A.*?^Output \((a)\)|^Output \((b)\)'}}
    prompt: "{source.input}\n(a) {input.A}\n(b) {input.B}"
"""
SAMPLES = """
verdict: 1
name: realmistake
model: {name: recorded, retries: 0}
dataset: {id: key}
pipeline:
  - unit: JudgeUnit
    name: judge
    scale: {type: discrete, values: [error, no_error]}
    on_failure: skip
    extract: {type: regex, fields: {score: '^(error|no_error)$'}}
    prompt: "{source.key}"
"""


def audited(
    pipeline: str, rows: Iterable[Any], replies: Iterable[Any], *words: str
) -> dict[str, Any]:
    """The effects of an audit, by probe."""
    from verdict_cli.cli.app import app

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "pipeline.yaml").write_text(pipeline, encoding="utf-8")
        for name, content in (("data.jsonl", rows), ("replay.jsonl", replies)):
            (folder / name).write_text(
                "".join(f"{json.dumps(one)}\n" for one in content), encoding="utf-8"
            )
        command = [
            "audit",
            "pipeline.yaml",
            "data.jsonl",
            "--replay",
            "replay.jsonl",
            "--out",
            "a",
            "--quiet",
        ]
        with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
            app([*command, "--json", *words], standalone_mode=False)
    return {one["cause"]: one for one in json.loads(printed.getvalue())["effects"]}


def with_interval(metric: dict[str, Any], digits: int = 3) -> str:
    """`0.050 [0.022, 0.112]`."""
    return f"{metric['value']:.{digits}f} [{metric['low']:.{digits}f}, {metric['high']:.{digits}f}]"


def positions() -> Iterator[tuple[str, ...]]:
    """One table line per recorded judge and subset."""
    folder = DATA / "llmbar"
    for run in read_jsonl(folder / "published_statistics.jsonl"):
        if run["strategy"] != "Vanilla":
            continue
        replies = [
            {
                "id": one["index"],
                "unit": "judge",
                "call": call,
                "reply": one["stages"][-1][order]["completion"],
            }
            for one in read_jsonl(folder / f"outputs_{run['evaluator']}.jsonl.gz")
            if (one["subset"], one["strategy"]) == (run["subset"], "Vanilla")
            for call, order in enumerate(("orig", "swap"))
        ]
        found = audited(PAIRS, read_jsonl(folder / f"dataset_{run['subset']}.jsonl.gz"), replies)[
            "position"
        ]
        published = 100 - float(run["equal"].rpartition("= ")[2].rstrip("%"))
        yield (
            f"{run['evaluator']}, {run['subset']}",
            str(found["n"]),
            with_interval(found["changed"]),
            f"{published / 100:.3f}",
            with_interval(found["shift"]),
        )


def samples() -> Iterator[tuple[str, ...]]:
    """One table line per judge that was sampled five times."""
    raw = read_jsonl(DATA / "realmistake" / "selfcons__answerability_classification.jsonl.gz")
    for judge in dict.fromkeys(row["judge"] for row in raw):
        own = [(f"{row['id']}", row["predictions_list"]) for row in raw if row["judge"] == judge]
        replies = [
            {"id": key, "unit": f"judge[{place}]", "reply": reply}
            for key, replies in own
            for place, reply in enumerate(replies)
            if reply is not None
        ]
        found = audited(SAMPLES, [{"key": key} for key, _ in own], replies, "--repeats", "4")[
            "repeated"
        ]
        yield judge, str(found["n"]), with_interval(found["changed"])


def table(headers: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (headers, ("---",) * len(headers), *rows))


if __name__ == "__main__":
    headers = (
        "Judge",
        "Pairs",
        "Changed verdict rate",
        "Published",
        "Share of first position minus one half",
    )
    with left_out_without_recordings():
        sys.stdout.write(table(headers, positions()) + "\n")
    with left_out_without_recordings():
        sys.stdout.write(table(("Judge", "Rows", "Pairs of repeats that differ"), samples()))
