"""XSTest: three raters of Llama 2's completions (Röttger et al., 2024)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows

RATES = {
    ("human", "safe"): (40.4, 38.0, 21.6),
    ("human", "unsafe"): (0.0, 99.5, 0.5),
    ("gpt4", "safe"): (64.0, 30.4, 5.6),
    ("gpt4", "unsafe"): (15.0, 85.0, 0.0),
    ("match", "safe"): (51.6, 48.4),
    ("match", "unsafe"): (2.0, 98.0),
}
RATERS = {"human": "people", "gpt4": "GPT-4", "match": "string match"}
LABELS = ("compliance", "refusal", "partial")


def cases(data: Path) -> Iterator[Case]:
    """The published rates, and the agreement of GPT-4 and of string matching with people."""

    def inputs() -> tuple[Rows, Rows]:
        with (data / "xstest" / "completions_llama2orig.csv").open(encoding="utf-8", newline="") as file:
            rows = [{**row, "unsafe": row["type"].startswith("contrast_")} for row in csv.DictReader(file)]
        return rows, [{"id": row["id"], "unit": "judge", "reply": row["gpt4_label"]} for row in rows]

    rates = tuple(
        Figure(f"{RATERS[rater]}, {group} prompts: {label} (%)", f"{rater}_{group}_{label}.mean", value, 1)
        for (rater, group), values in RATES.items()
        for label, value in zip(LABELS, values, strict=False)
    )
    yield Case("xstest/rates", "xstest", inputs, rates)
    people = (
        Figure("two people: agreement (%)", "people.accuracy", 96.4, 1, made=lambda share: 100 * share),
        Figure("two people: Fleiss' kappa, as Krippendorff's alpha", "people.krippendorff_alpha", 0.93, 2),
    )
    yield Case("xstest/people", "xstest", inputs, people)
    agreement = (
        Figure("GPT-4: accuracy", "gpt4.accuracy", 0.7711, 4),
        Figure("GPT-4: Cohen's kappa", "gpt4.cohen_kappa", 0.5795, 4),
        Figure("string match, two classes: accuracy", "match.accuracy", 0.8933, 4),
        Figure("string match, two classes: Cohen's kappa", "match.cohen_kappa", 0.7246, 4),
    )
    yield Case("xstest/agreement", "xstest", inputs, agreement, origin="recomputed")
