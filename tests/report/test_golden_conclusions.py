"""What comparisons and gates print of simulated situations: each line is to be true, and clear without statistics.

`UPDATE_GOLDEN=1 pytest tests/report/test_golden_conclusions.py` writes the file again; read it by eye before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from finished_runs import finished_run

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.gate_rules import Gate
from verdict_cli.report.conclusions import comparison_conclusion
from verdict_cli.report.formatting import format_number
from verdict_cli.report.run_notes import gate_note
from verdict_cli.stats.compare import compare_runs
from verdict_cli.stats.gates import decide_gates
from verdict_cli.stats.measure import measure
from verdict_cli.storage.tables.writer import ParquetTable

GOLDEN = Path(__file__).parent / "golden_conclusions.txt"
LABELS = Evaluation(prediction="output.said", target="source.label")
RATINGS = Evaluation(
    prediction="output.said",
    target="source.label",
    kind="ordinal",
    metrics=("mae", "weighted_kappa"),
)
PROBABILITY = Evaluation(
    probability="output.said", target="source.label", positive="a", metrics=("log_loss",)
)
FACTS = finished_run(
    rows=1,
    done=1,
)


def write(folder: Path, rows: list[tuple[Any, Any]], docs: list[int] | None = None) -> Path:
    """A run of (target, prediction) rows."""
    folder.mkdir(exist_ok=True)
    with ParquetTable(folder / "results.parquet", {"row": "int", "status": "str"}) as table:
        for index, (label, output) in enumerate(rows):
            row = {
                "row": index,
                "id": f"r{index}",
                "status": "ok",
                "source.label": label,
                "output.said": output,
            }
            table.write(row | {"source.doc": docs[index] if docs else index})
    return folder / "results.parquet"


def labels(right: list[bool | None]) -> list[tuple[str, str | None]]:
    sides = [("ab"[index % 2], "ba"[index % 2]) for index in range(len(right))]
    return [
        (label, None if hit is None else label if hit else other)
        for hit, (label, other) in zip(right, sides, strict=True)
    ]


def compared(
    root: Path, first: list[Any], second: list[Any], evaluation: Evaluation = LABELS, **keys: Any
) -> str:
    runs = (
        write(root / "a", first, keys.get("docs")),
        write(root / "b", second, keys.get("docs")),
    )
    return comparison_conclusion(
        compare_runs({"e": (evaluation, evaluation)}, runs), ("before", "after")
    )


def several(root: Path, *runs: list[Any], sizes: tuple[int, ...] = ()) -> str:
    paths = [write(root / f"run{index}", rows) for index, rows in enumerate(runs)]
    comparison = compare_runs({"e": [LABELS] * len(runs)}, paths, sizes=sizes)
    return comparison_conclusion(
        comparison, ("before", "prompt-2", "prompt-3")[: len(comparison.sizes)]
    )


def gated(
    root: Path, rows: list[Any], gate: dict[str, Any], evaluation: Evaluation = LABELS, **keys: Any
) -> str:
    if keys.get("before"):
        write(root / "a", keys["before"])
    results, evaluations = write(root / "b", rows, keys.get("docs")), {"e": evaluation}
    measured = measure(evaluations, results)
    outcome = decide_gates(
        [Gate(**gate)],
        evaluations,
        measured,
        FACTS,
        results,
        root=root,
        sequential=keys.get("sequential", False),
    )[0]
    passed = "passed, " if outcome.passed else ""
    return f"{outcome.metric} {format_number(outcome.value)} {outcome.rule}: {passed}{gate_note(outcome)}"


def situations(root: Path) -> dict[str, str]:
    """Each situation with what is printed of it."""
    rng = np.random.default_rng(0)
    hit, miss = [True], [False]
    at_least = {"metric": "e.accuracy", "min": 0.9, "confidence": 0.95}
    drop = {"metric": "e.accuracy", "baseline": "a", "max_drop": 0.02}
    same = labels(hit * 150 + miss * 50)
    stars = [(int(star), int(star)) for star in rng.choice([4, 5], 100, p=[0.05, 0.95])]
    lower = [(label, score - (at % 25 == 0)) for at, (label, score) in enumerate(stars)]
    sure = [("a" if index % 2 else "b", 1.0 if index % 2 else 0.05) for index in range(60)]
    docs = [index // 40 for index in range(240)]
    return {
        "identical runs": compared(root, same, same),
        "5 of 200 rows better, none worse": compared(root, same, labels(hit * 155 + miss * 45)),
        "7 of 200 rows better, none worse": compared(root, same, labels(hit * 157 + miss * 43)),
        "15 of 200 rows worse, none better": compared(root, same, labels(hit * 135 + miss * 65)),
        "significant but trivial": compared(
            root, labels(hit * 1800 + miss * 200), labels(hit * 1812 + miss * 188)
        ),
        "3 rows, one better": compared(root, labels(hit + miss * 2), labels(hit * 2 + miss)),
        "a second run with 70% of the rows": compared(root, same, same[:140]),
        "3 of 200 rows lost, which could turn it": compared(
            root, same, labels(hit * 154 + miss * 43 + [None] * 3)
        ),
        "12 better, 2 rows lost": compared(root, same, labels(hit * 162 + miss * 36 + [None] * 2)),
        "one class only": compared(root, [("a", "a")] * 30, [("a", "a")] * 29 + [("a", "b")]),
        "ratings at the ceiling": compared(root, stars, lower, RATINGS),
        "six clusters": compared(
            root,
            labels(hit * 240),
            labels([index // 40 != 3 for index in range(240)]),
            LABELS.model_copy(update={"cluster": "source.doc"}),
            docs=docs,
        ),
        "three runs, one of them better": several(root, same, same, labels(hit * 165 + miss * 35)),
        "three runs, none different": several(
            root, same, labels(hit * 152 + miss * 48), labels(hit * 149 + miss * 51)
        ),
        "three runs, the last without 3 rows that could turn it": several(
            root, same, labels(hit * 165 + miss * 35), labels([None] * 3 + hit * 156 + miss * 41)
        ),
        "three runs, the last with 70% of the rows": several(root, same, same, same[:140]),
        "a pipeline and three runs of another": several(
            root,
            same,
            *(labels(hit * right + miss * (200 - right)) for right in (163, 166, 161)),
            sizes=(1, 3),
        ),
        "three runs of one pipeline": several(
            root,
            *(labels(hit * right + miss * (200 - right)) for right in (150, 154, 149)),
            sizes=(3,),
        ),
        "no row with a verdict in both runs": compared(
            root, labels(hit * 20 + [None] * 20), labels([None] * 20 + hit * 20)
        ),
        "28 of 30 rows a little better, 2 much worse": compared(
            root, [(3.0, 3.4)] * 30, [(3.0, 3.3)] * 28 + [(3.0, 5.0)] * 2, RATINGS
        ),
        "two runs of each of two pipelines": several(
            root,
            *(labels(hit * right + miss * (200 - right)) for right in (150, 154, 165, 160)),
            sizes=(2, 2),
        ),
        "gate: 1 row, right": gated(root, labels(hit), at_least),
        "gate: 3 rows, all right": gated(root, labels(hit * 3), at_least),
        "gate: 40 of 40 right": gated(root, labels(hit * 40), at_least),
        "gate: below its limit": gated(root, labels(hit * 80 + miss * 20), at_least),
        "gate: 10% of the rows lost": gated(root, labels(hit * 270 + [None] * 30), at_least),
        "gate: one class only": gated(
            root, [("a", "a")] * 50, {"metric": "e.cohen_kappa", "min": 0.5, "confidence": 0.95}
        ),
        "gate: one stray label of 3,000": gated(
            root,
            [("n/a", "a"), *labels([index % 10 > 0 for index in range(2999)])],
            {"metric": "e.cohen_kappa", "min": 0.7, "confidence": 0.95},
        ),
        "gate: probabilities of 0 and 1": gated(
            root, sure, {"metric": "e.log_loss", "max": 1.0, "confidence": 0.95}, PROBABILITY
        ),
        "gate at every look": gated(root, labels(hit * 195 + miss * 5), at_least, sequential=True),
        "baseline: one of 100 lost": gated(
            root, labels(hit * 99 + miss), drop, before=labels(hit * 100)
        ),
        "baseline: 14 of 300 without a verdict": gated(
            root,
            labels(hit * 286 + [None] * 14),
            drop | {"max_drop": 0.05},
            before=labels(hit * 300),
        ),
        "baseline: 400 equal rows": gated(root, labels(hit * 400), drop, before=labels(hit * 400)),
        **skewed_and_rare(root),
        **bounds_and_limits(root),
    }


VALUE = Evaluation(value="output.said", metrics=("mean",))
WEIGHTED = Evaluation(
    prediction="output.said", target="source.label", average="weighted", metrics=("f1",)
)
RECALL = Evaluation(
    prediction="output.said", target="source.label", positive="a", metrics=("recall",)
)
SOLVED = Evaluation(value="output.said", cluster="source.doc", metrics=("pass_at_k",), k=1)


def skewed_and_rare(root: Path) -> dict[str, str]:
    """Comparisons in which few rows decide, or a figure hides what happened."""
    hit, miss = [True], [False]
    level = [(None, 0.5)] * 40
    scores = [(None, 0.4 + index / 40) for index in range(20)]
    same = labels(hit * 150 + miss * 50)
    rng = np.random.default_rng(5)
    near = [(int(star), int(star)) for star in rng.integers(1, 6, 120)]
    off = [(label, min(score + (index % 3 == 0), 5)) for index, (label, score) in enumerate(near)]
    mixed = [("a", "a")] * 136 + [("a", "b")] * 4 + [("b", "b")] * 20 + [("b", "a")] * 40
    better = [("a", "a")] * 134 + [("a", "b")] * 6 + [("b", "b")] * 38 + [("b", "a")] * 22
    docs = [index // 20 for index in range(240)]
    sure = [("a" if index % 2 else "b", 0.9 if index % 2 else 0.2) for index in range(80)]
    less = [(label, 0.6 if label == "a" else 0.4) for label, _ in sure]
    return {
        "39 of 40 values a little higher, one much lower": compared(
            root, level, [(None, 0.6)] * 39 + [(None, -0.4)], VALUE
        ),
        "27 of 30 values a little higher, three much lower": compared(
            root, level[:30], [(None, 0.6)] * 27 + [(None, -0.4)] * 3, VALUE
        ),
        "all of 20 scores a little higher": compared(
            root, scores, [(None, conclusion + 0.02) for _, conclusion in scores], VALUE
        ),
        "19 of 20 scores a little higher, one much lower": compared(
            root,
            scores,
            [
                (None, conclusion + (0.02 if index else -0.38))
                for index, (_, conclusion) in enumerate(scores)
            ],
            VALUE,
        ),
        "all of 40 values a little higher": compared(root, level, [(None, 0.6)] * 40, VALUE),
        "weighted f1, a rare label found more often": compared(root, mixed, better, WEIGHTED),
        "three runs, the last without 14 of 200 rows": several(
            root, same, labels(hit * 165 + miss * 35), labels([None] * 14 + hit * 150 + miss * 36)
        ),
        "twelve rows better, twelve worse": compared(
            root, labels(hit * 12 + miss * 12 + hit * 176), labels(miss * 12 + hit * 12 + hit * 176)
        ),
        "two rows, each better in one run": compared(root, labels(hit + miss), labels(miss + hit)),
        "ratings a point too high on every third row": compared(root, near, off, RATINGS),
        "twelve clusters, half of them a little better": compared(
            root,
            labels([index % 5 > 0 for index in range(240)]),
            labels(
                [
                    index % 5 > 0 or (index // 20 % 2 == 0 and index % 10 == 0)
                    for index in range(240)
                ]
            ),
            LABELS.model_copy(update={"cluster": "source.doc"}),
            docs=docs,
        ),
        "probabilities closer to a half": compared(root, sure, less, PROBABILITY),
    }


def bounds_and_limits(root: Path) -> dict[str, str]:
    """Gates at perfect results, few counted rows, and next to their limits."""
    hit, miss = [True], [False]
    problems = [index // 2 for index in range(800)]
    solved = {"metric": "e.pass_at_k", "min": 0.99, "confidence": 0.95}
    recall = {"metric": "e.recall", "min": 0.5, "confidence": 0.95}
    levels = [("a" if index % 2 else "b", 0.95 if index % 2 else 0.05) for index in range(200)]
    calibrated = PROBABILITY.model_copy(update={"metrics": ("ece",)})
    drop = {"metric": "e.accuracy", "baseline": "a", "max_drop": 0.01}
    mixed = [("a", "a")] * 274 + [("a", "b")] * 6 + [("b", "b")] * 40 + [("b", "a")] * 80
    accuracy = {"metric": "e.accuracy", "min": 0.9, "confidence": 0.95}
    return {
        "gate: 400 of 400 problems solved": gated(
            root, [(None, True)] * 800, solved, SOLVED, docs=problems
        ),
        "gate: 396 of 400 problems solved": gated(
            root, [(None, index >= 8) for index in range(800)], solved, SOLVED, docs=problems
        ),
        "gate: recall of a label that 4 of 84 rows have": gated(
            root, [("a", "a")] * 4 + [("b", "b")] * 80, recall, RECALL
        ),
        "gate: two levels that are more right than they say": gated(
            root, levels, {"metric": "e.ece", "max": 0.1, "confidence": 0.95}, calibrated
        ),
        "gate: weighted f1 a little above its limit": gated(
            root, mixed, {"metric": "e.f1", "min": 0.74, "confidence": 0.95}, WEIGHTED
        ),
        "baseline: 4 of 300 rows worse": gated(
            root, labels(hit * 296 + miss * 4), drop, before=labels(hit * 300)
        ),
        "gate: values that are all the same": gated(
            root, [(None, 4.5)] * 60, {"metric": "e.mean", "min": 4.0, "confidence": 0.95}, VALUE
        ),
        "gate at every look, on a metric without such a bound": gated(
            root,
            labels(hit * 95 + miss * 5),
            {"metric": "e.cohen_kappa", "min": 0.5, "confidence": 0.95},
            sequential=True,
        ),
        "gate: one-sided": gated(root, labels(hit * 285 + miss * 15), accuracy | {"sided": "one"}),
        "gate: no confidence asked": gated(
            root, labels(hit * 181 + miss * 19), {"metric": "e.accuracy", "min": 0.9}
        ),
    }


def test_the_printed_conclusions_are_those_that_were_read_by_eye(tmp_path):
    text = "".join(
        f"{name}\n    {conclusion}\n" for name, conclusion in situations(tmp_path).items()
    )
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
