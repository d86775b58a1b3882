"""The page of reproductions is what its commands print today: a few cases of every recorded set are run again by
`verdict run --replay` and compared."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from verdict_cli.cli.app import app

pytestmark = pytest.mark.slow  # `make test-all`


ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared"))
PAGE = ROOT / "docs" / "reproductions.md"
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


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """The rows that the page's own commands print."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the recordings are not there: set VERDICT_SHARED to the folder that has data/")
    lines: list[str] = []
    for case in CASES:
        done = CliRunner().invoke(
            app, ["bench", case, "--replay", str(SHARED / "data"), "--markdown"]
        )
        assert done.exit_code == 0, done.output
        lines += [line for line in done.stdout.splitlines() if line.startswith(f"| {case}")]
    return lines


def test_the_commands_print_the_rows_of_the_page(printed: list[str]) -> None:
    page = set(PAGE.read_text(encoding="utf-8").splitlines())
    assert len(printed) > len(CASES)
    assert [row for row in printed if row not in page] == []


def test_every_figure_of_these_cases_is_the_given_one(printed: list[str]) -> None:
    differing = [row for row in printed if row.split(" | ")[4] != "0 |"]
    assert all(row.startswith("| factcc/") for row in differing), differing


def test_a_row_that_differs_says_why() -> None:
    rows = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith(("| case ", "| ---"))
    ]
    differing = [row.split(" | ")[4] for row in rows if row.split(" | ")[4] != "0 |"]
    assert len(rows) > 600
    assert all(len(cell.partition(": ")[2]) > 20 or len(cell) > 40 for cell in differing), differing
