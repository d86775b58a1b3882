"""Effect of calibration on held-out rows: `python benchmarks/calibration.py [SPLITS]`.

By `verdict run --replay` and `verdict calibrate`: GPT-4's token probabilities (AlpacaEval 2), compared with the tokens
that it drew and, for the answers of the attack NullModel, with the truth about a constant text; the weights of the eleven
judges of TriviaQA answers. Then, by the same functions, maps from shares of votes and from scores to human labels. Then the
guarantee of a chosen threshold, on random halves of TriviaQA's rows. Prints Markdown tables. The recordings are read from
the folder `shared` next to the project, or from $VERDICT_SHARED.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from recordings_needed import left_out_without_recordings

from verdict_cli.features.benchmarks.recorded import open_recorded_file, read_jsonl
from verdict_cli.features.calibrate.fit_job import (
    FITS,
    cross_validate,
    folds,
    held_out,
    threshold_bound,
)
from verdict_cli.stats.metrics import probability
from verdict_cli.storage.tables.reader import read_table

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared")) / "data"
JUDGES = ("GPT-4", "Llama3-70B", "JudgeLM", "Contains", "EM", "Gemma-2B")
JUDGES += ("Llama3-8B", "Llama-7B", "Llama-13B", "Llama-70B", "Mistral-7B")
HEAD = "verdict: 1\nname: recorded\nmodel: {name: recorded, retries: 0}\ndataset: {id: key}\npipeline:\n"
JUDGE = """
  - {unit: CategoricalJudgeUnit, name: judge, categories: [m, M], extract: token_probability, on_failure: skip, prompt: "{source.key}"}
"""
JURY = """
  - layer:
      - {unit: JudgeUnit, name: judge, scale: boolean, on_failure: skip, prompt: "{source.key}",
         extract: {type: regex, fields: {score: '^(true|false)$'}}}
    repeat: 11
  - {unit: ModePoolUnit, name: vote, field: score}
"""
Table = list[dict[str, Any]]


def alpacaeval() -> tuple[Table, Table]:
    """Rows (the token drawn, and the answer that is not a constant text) and replies."""
    rows: Table = []
    replies: Table = []
    folder = DATA / "alpacaeval_logprobs"
    with open_recorded_file(folder / "published_leaderboard.csv") as file:
        models = sorted(row["model"] for row in csv.DictReader(file))
    for model in models:
        path = folder / f"{model}.jsonl.gz"
        for row in read_jsonl(path):
            if row["identical_outputs"]:
                continue
            key = f"{model}-{row['index']}"
            drawn = row["text"] if row["text"] in ("m", "M") else None
            rows.append(
                {
                    "key": key,
                    "model": model,
                    "drawn": drawn,
                    "truth": "M" if row["switched"] else "m",
                }
            )
            top = [[{"token": token, "logprob": value} for token, value in row["top_logprobs"]]]
            replies.append({"id": key, "unit": "judge", "reply": row["text"], "logprobs": top})
    return rows, replies


def triviaqa() -> tuple[Table, Table]:
    """Rows with human verdicts, and the judges' replies."""
    rows: Table = []
    replies: Table = []
    for row in read_jsonl(DATA / "triviaqa_judges" / "judgements_v1.jsonl.gz"):
        key = f"{row['exam_taker']}-{row['index']}"
        rows.append({"key": key, "human": row["human"]})
        for place, judge in enumerate(JUDGES):
            said = row["judges"][judge]
            if said is not None:
                replies.append(
                    {"id": key, "unit": f"judge[{place}]", "reply": "true" if said else "false"}
                )
    return rows, replies


def verdict(*words: str) -> Any:
    """The JSON document that the command prints."""
    from verdict_cli.cli.app import app

    with (
        contextlib.redirect_stdout(io.StringIO()) as printed,
        contextlib.redirect_stderr(io.StringIO()),
    ):
        app([*words, "--json"], standalone_mode=False)
    return json.loads(printed.getvalue())


def run(folder: Path, name: str, pipeline: str, inputs: tuple[Table, Table]) -> str:
    """The run's directory."""
    (folder / f"{name}.yaml").write_text(HEAD + pipeline.lstrip("\n"), encoding="utf-8")
    for kind, rows in zip(("data", "replay"), inputs, strict=True):
        (folder / f"{name}.{kind}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
    files = [str(folder / f"{name}.{ending}") for ending in ("yaml", "data.jsonl", "replay.jsonl")]
    verdict("run", *files[:2], "--replay", files[2], "--out", str(folder / name), "--quiet")
    return str(folder / name)


def figures(what: str, document: Any, wanted: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """One table line per method and metric."""
    rows = f"{document['calibration']['rows']:,}"
    for method, each in document["figures"].items():
        for name in wanted:
            one = each[name]
            ends = f"[{one['change']['low']:.4f}, {one['change']['high']:.4f}]"
            cells = (f"{one['before']['value']:.4f}", f"{one['after']['value']:.4f}")
            yield what, rows, method, f"`{name}`", *cells, f"{one['change']['value']:+.4f} {ends}"


def fitted(folder: Path) -> Iterator[tuple[str, ...]]:
    """The metrics of every fit."""
    judge = run(folder, "alpacaeval", JUDGE, alpacaeval())
    scores = ("ece", "brier")
    drawn = verdict("calibrate", judge, "--target", "source.drawn")
    yield from figures("AlpacaEval, the token drawn", drawn, scores)
    attack = ("--target", "source.truth", "--where", "source.model == 'NullModel'")
    yield from figures(
        "AlpacaEval, NullModel's truth", verdict("calibrate", judge, *attack), scores
    )
    jury = run(folder, "triviaqa", JURY, triviaqa())
    for method in ("logistic", "log_odds", "dawid_skene"):
        words = ("--target", "source.human", "--fit", "pool_weights", "--method", method)
        yield from figures(
            "TriviaQA, eleven judges", verdict("calibrate", jury, *words), ("accuracy",)
        )


Verdicts = tuple[Sequence[float], Any, Any]
"""The votes (1, 0, or between), the human label (None if missing), and the cluster of the row."""


def voted() -> Iterator[tuple[str, Iterable[Verdicts]]]:
    """Each recorded jury with its verdicts on each row."""
    rows = read_jsonl(DATA / "triviaqa_judges" / "judgements_v1.jsonl.gz")
    for what, judges in (
        ("eleven judges", JUDGES),
        ("three small judges", ("Gemma-2B", "Llama-7B", "Mistral-7B")),
    ):
        given = [
            ([row["judges"][name] for name in judges if row["judges"][name] is not None], row["human"], row["index"])
            for row in rows
        ]  # fmt: skip
        yield f"TriviaQA, {what}: the answer is right", given
    items: dict[str, Verdicts] = {}
    for row in read_jsonl(DATA / "realmistake" / "simple__answerability_classification.jsonl.gz"):
        votes = items.setdefault(row["id"], ([], row["label"] == "error", row["id"]))[0]
        assert isinstance(votes, list)
        votes += [row["prediction"] == "error"] * (row["prediction"] is not None)
    yield "ReaLMistake, twelve judges with four prompts: an error", items.values()
    for judge in ("GPT-4", "ChatGPT", "PaLM2"):
        yield f"LLMBar, {judge}, all prompts, both orders: the first is better", _pairs(judge)
    games = read_jsonl(DATA / "judgebench" / "outputs_gpt-4o__arena_hard__o1-mini-2024-09-12.jsonl")
    labels = {
        row["pair_id"]: row["label"]
        for row in read_jsonl(DATA / "judgebench" / "pairs_gpt-4o.jsonl")
    }
    says = {"A>B": 1.0, "B>A": 0.0}
    both = [
        (
            [
                says.get(one["games"][0]["decision"], 0.5),
                1 - says.get(one["games"][1]["decision"], 0.5),
            ],
            labels[one["pair_id"]] == "A>B",
            one["pair_id"],
        )
        for one in games
    ]
    yield "JudgeBench, o1-mini, both orders: A is better", both
    talks = read_jsonl(DATA / "unieval" / "topical_chat.jsonl.gz")
    for name in ("naturalness", "coherence", "groundedness"):
        middle = np.median([row["scores"][name] for row in talks])
        scores = [
            ([row["predict_scores"][name]], row["scores"][name] > middle, row["context"])
            for row in talks
        ]
        yield f"UniEval, {name}: people's score is above their median", scores


def _pairs(judge: str) -> Iterator[Verdicts]:
    """The verdicts of one evaluator on each pair, and whether the first output is the better one."""
    said: dict[tuple[str, int], list[float]] = {}
    for row in read_jsonl(DATA / "llmbar" / f"outputs_{judge}.jsonl.gz"):
        stage = row["stages"][-1]
        winners = [stage[order]["winner"] for order in ("orig", "swap")]
        said.setdefault((row["subset"], row["index"]), []).extend(
            float(one == "1") for one in winners if one is not None
        )
    for subset in ("Natural", "GPTOut", "Manual"):
        for row in read_jsonl(DATA / "llmbar" / f"dataset_{subset}.jsonl.gz"):
            yield said[subset, row["index"]], row["label"] == 1, (subset, row["index"])


def mapped_votes() -> Iterator[tuple[str, ...]]:
    """One table line per judge and method."""
    for what, given in voted():
        known = [one for one in given if one[0] and one[1] is not None]
        share = np.array([np.mean(said) for said, _, _ in known], float)
        truth = np.array([human for _, human, _ in known], float)
        places = np.unique([str(together) for _, _, together in known], return_inverse=True)[1]
        for method in FITS:
            rng = np.random.default_rng(0)
            p = np.stack([1 - share, share], axis=1)
            after = cross_validate(
                method, p, truth.astype(int), [False, True], 1, folds(places, 5, rng)
            )[:, 1]
            found = held_out(
                ("ece", "brier"),
                probability.probability_statistics,
                (share, truth),
                (after, truth),
                places,
                rng,
            )
            cells = []
            for one in found.values():
                change = f"{one.change.value:+.4f} [{one.change.low:.4f}, {one.change.high:.4f}]"
                cells += [
                    f"{one.before.value:.4f} → {one.after.value:.4f}",
                    f"**{change}**" if one.change.high < 0 else change,
                ]
            yield what, f"{len(share):,}", method, *cells


def promised(folder: Path, splits: int) -> Iterator[tuple[str, ...]]:
    """How often held-out rows reach the agreement for which a threshold was chosen."""
    names = [f"judge[{place}].score" for place in range(len(JUDGES))]
    table = [
        *read_table(folder / "triviaqa" / "results.parquet", [*names, "vote.score", "source.human"])
    ]
    columns = {
        name: [value for batch in table for value in batch[name]]
        for name in (*names, "vote.score", "source.human")
    }
    sure, agrees = [], []
    for *said, vote, human in zip(*columns.values(), strict=True):
        if vote is not None and human is not None:
            given = [value for value in said if value is not None]
            sure.append(given.count(vote) / len(given))
            agrees.append(float(vote == human))
    confidence, right = np.array(sure), np.array(agrees)
    rng = np.random.default_rng(0)
    for wanted in (0.95, 0.97):
        for count in (300, 1000, 1800):
            found, kept, answered, agreed = 0, 0, [], []
            for _ in range(splits):
                order = rng.permutation(len(right))
                fit, rest = order[:count], order[count:]
                chosen = threshold_bound(confidence[fit], right[fit], wanted, 0.95)
                if chosen.threshold is None:
                    kept += 1
                    continue
                above = confidence[rest] >= chosen.threshold
                found += 1
                kept += right[rest][above].mean() >= wanted
                answered.append(above.mean())
                agreed.append(right[rest][above].mean())
            shown = (f"{np.mean(answered):.3f}", f"{np.mean(agreed):.4f}") if found else ("–", "–")
            yield (
                f"{wanted:g}",
                f"{count:,}",
                f"{found / splits:.3f}",
                f"{kept / splits:.3f}",
                *shown,
            )


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
    """Print a Markdown table."""
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        with left_out_without_recordings():
            table(
                ("Judge", "Rows", "Method", "Metric", "Before", "Held out", "Difference"),
                fitted(Path(temporary)),
            )
        splits = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
        head = (
            "Target agreement",
            "Labelled rows",
            "Threshold found",
            "Guarantee kept",
            "Answered",
            "Agreement",
        )
        with left_out_without_recordings():
            table(head, promised(Path(temporary), splits))
        changes = ("`ece`", "Difference of `ece`", "`brier`", "Difference of `brier`")
        with left_out_without_recordings():
            table(("Judge", "Rows", "Method", *changes), mapped_votes())
