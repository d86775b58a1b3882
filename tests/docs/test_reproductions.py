"""The page of reproductions is what its script makes today: a few cases are run again and compared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared"))
PAGE = ROOT / "docs" / "reproductions.md"
CASES = (
    "xstest",
    "judgebench",
    "alpacaeval/claude-2",
    "wice",
    "unieval",
    "llmbar/GPT-4/Natural/Vanilla",
    "llmbar/ChatGPT/GPTOut/CoT",
    "llmbar/PaLM2/Manual/Swap",
    "llmbar/GPT-4/GPTOut/Rating",
    "realmistake/gpt-4-0613/claude-3-opus-20240229/prompt_1",
    "realmistake/gpt-4-0613/jury",
    "realmistake/gpt-4-0613/Mixtral-8x7B-Instruct-v0.1/self-consistency",
)


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """The rows that the page's own commands print."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the recordings are not there: set VERDICT_SHARED to the folder that has data/")
    words = [word for case in CASES for word in ("--only", case)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "reproductions.py"), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[2:]


def test_the_commands_print_the_rows_of_the_page(printed: list[str]) -> None:
    page = set(PAGE.read_text(encoding="utf-8").splitlines())
    assert len(printed) > len(CASES)
    assert [row for row in printed if row not in page] == []


def test_every_figure_of_these_cases_is_the_given_one(printed: list[str]) -> None:
    assert [row for row in printed if row.split(" | ")[4] != "0"] == []


def test_a_row_that_differs_says_why() -> None:
    rows = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and "--only" in line
    ]
    differing = [row.split(" | ")[4] for row in rows if row.split(" | ")[4] != "0"]
    assert len(rows) > 600
    assert all(len(cell.partition(": ")[2]) > 20 or len(cell) > 40 for cell in differing), differing
