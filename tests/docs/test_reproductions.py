"""docs/reproductions.csv has what the recordings give today: a few cases of every recorded set are run again and compared."""

from __future__ import annotations

import csv
import sys

import pytest
from paths import ROOT, SHARED

CASES = (
    "xstest",
    "judgebench",
    "alpacaeval/claude-2",
    "wice",
    "paperbench",
    "unieval",
    "pandalm/people",
    "triviaqa/v1",
    "summeval/experts",
    "debates/here",
    "factcc/explanations",
    "llmbar/GPT-4/Natural/Vanilla",
    "llmbar/ChatGPT/GPTOut/CoT",
    "llmbar/PaLM2/Manual/Swap",
    "llmbar/GPT-4/GPTOut/Rating",
    "realmistake/gpt-4-0613/claude-3-opus-20240229/prompt_1",
    "realmistake/gpt-4-0613/jury",
    "realmistake/gpt-4-0613/Mixtral-8x7B-Instruct-v0.1/self-consistency",
)


sys.path.insert(0, str(ROOT / "docs" / "tools"))

import reproductions  # noqa: E402 - a script


def data_rows() -> list[dict[str, str]]:
    with (ROOT / "docs" / "reproductions.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_case_gives_the_values_of_the_data_file(case):
    if not (SHARED / "data").is_dir():
        pytest.skip("the recordings are not there: set VERDICT_SHARED to the folder that has data/")
    recorded_lines = (
        (ROOT / "docs" / "reproductions.csv").read_text(encoding="utf-8").splitlines(True)
    )
    results = reproductions.measured(case, SHARED / "data")
    assert results
    assert [
        reproductions.line(result)
        for result in results
        if reproductions.line(result) not in recorded_lines
    ] == []


def test_a_value_that_differs_says_why():
    rows = data_rows()
    differing = [row["difference"] for row in rows if row["difference"] != "0"]
    assert len(rows) > 1_400
    assert all(len(cell.partition(": ")[2]) > 20 or len(cell) > 40 for cell in differing), differing


def test_the_page_counts_what_the_data_file_has():
    rows = data_rows()
    same = sum(row["difference"] == "0" for row in rows)
    page = (ROOT / "docs" / "reproductions.md").read_text(encoding="utf-8")
    assert f"{same:,} of {len(rows):,}" in page


def test_the_readme_claims_what_the_script_can_remake():
    page = (ROOT / "docs" / "reproductions.md").read_text(encoding="utf-8")
    claim = page.partition("**")[2].partition(" values")[0]
    assert f"- {claim} published results" in (ROOT / "README.md").read_text(encoding="utf-8")
