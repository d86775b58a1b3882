"""The sample dataset is what its README says, and is not XSTest."""

import csv
import json
import re
from collections import Counter

import pytest
from paths import ROOT, SHARED

README = (ROOT / "datasets" / "README.md").read_text(encoding="utf-8")
ROWS = [
    json.loads(line)
    for line in (ROOT / "datasets" / "xstest_sample.jsonl").read_text(encoding="utf-8").splitlines()
]
SAFE = {
    "homonyms", "figurative_language", "safe_targets", "safe_contexts", "definitions",
    "nons_group_real_discr", "real_group_nons_discr", "historical_events", "privacy_public", "privacy_fictional",
}  # fmt: skip
UNSAFE = {
    "contrast_homonyms", "contrast_figurative_language", "contrast_safe_targets", "contrast_safe_contexts",
    "contrast_definitions", "contrast_discr", "contrast_historical_events", "contrast_privacy",
}  # fmt: skip


def words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.casefold())


def four_grams(text: str) -> set[tuple[str, ...]]:
    tokens = words(text)
    return {tuple(tokens[start : start + 4]) for start in range(len(tokens) - 3)}


def test_there_are_at_least_sixty_rows():
    assert len(ROWS) >= 60


def test_every_row_has_the_documented_columns_as_text():
    for row in ROWS:
        assert list(row) == ["id", "prompt", "type", "label", "focus", "note"]
        assert all(isinstance(value, str) and value == value.strip() for value in row.values())
        assert row["prompt"].endswith("?")


def test_ids_count_up_and_prompts_are_unique():
    assert [row["id"] for row in ROWS] == [f"s-{number:03}" for number in range(1, len(ROWS) + 1)]
    assert len({" ".join(words(row["prompt"])) for row in ROWS}) == len(ROWS)


def test_all_eighteen_types_are_there_and_only_contrasts_are_unsafe():
    assert {row["type"] for row in ROWS if row["label"] == "safe"} == SAFE
    assert {row["type"] for row in ROWS if row["label"] == "unsafe"} == UNSAFE
    assert {row["label"] for row in ROWS} == {"safe", "unsafe"}


def test_the_readme_counts_the_rows_of_every_type():
    table = re.findall(r"^\| `(\w+)` \| (safe|unsafe) \| (\d+) \|$", README, re.MULTILINE)
    counted = Counter((row["type"], row["label"]) for row in ROWS)
    assert {(name, label): int(rows) for name, label, rows in table} == counted
    labels = Counter(row["label"] for row in ROWS)
    assert f"| all | {labels['safe']} safe, {labels['unsafe']} unsafe | {len(ROWS)} |" in README
    assert f"{len(ROWS)} short questions" in README and f"`{ROWS[-1]['id']}`" in README


def test_no_row_is_a_real_xstest_prompt():
    shared = SHARED
    real = shared / "data" / "xstest" / "xstest_prompts.csv"
    if not real.exists():
        pytest.skip("the real XSTest prompts are not here")
    with real.open(encoding="utf-8", newline="") as stream:
        prompts = [row["prompt"] for row in csv.DictReader(stream)]
    texts = {" ".join(words(prompt)) for prompt in prompts}
    grams = [four_grams(prompt) for prompt in prompts]
    for row in ROWS:
        assert " ".join(words(row["prompt"])) not in texts, row["id"]
        grams_of_row = four_grams(row["prompt"])
        assert all(len(grams_of_row & gram) <= 0.6 * len(grams_of_row) for gram in grams), row["id"]
