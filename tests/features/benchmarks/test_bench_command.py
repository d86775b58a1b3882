"""`verdict bench`: our row beside the published ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from verdict_cli.cli.app import app
from verdict_cli.features.benchmarks.card import cards

SHARED = (
    Path(os.environ.get("VERDICT_SHARED", Path(__file__).resolve().parents[4] / "shared")) / "data"
)
JUDGED = [name for name, card in cards().items() if card.config is not None]
LEXICAL = ("--model", "baseline/lexical", "--quiet")


def bench(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["bench", *map(str, words)])


def failed(*words: str | Path) -> str:
    """The error of a command that must fail."""
    result = bench(*words)
    assert result.exception is not None and not isinstance(result.exception, SystemExit), (
        result.output
    )
    return str(result.exception)


def real(place: str) -> Path:
    if not (SHARED / place).exists():
        pytest.skip("the real files are not there: set VERDICT_SHARED to the folder that has data/")
    return SHARED / place


@pytest.mark.parametrize("name", JUDGED)
def test_every_benchmark_runs_on_its_sample_and_says_so(name: str, tmp_path: Path) -> None:
    result = bench(name, *LEXICAL, "--limit", "4", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    document = json.loads(result.stdout)
    assert document["sample"] is True and document["benchmark"] == name
    assert document["rows"] == 4 and document["failed"] == 0


def test_our_row_stands_among_the_published_ones_with_cost_and_time(tmp_path: Path) -> None:
    shown = bench("xstest", *LEXICAL, "--out", tmp_path / "out")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("! this is not the data of XSTest")
    (ours,) = [line for line in shown.stdout.splitlines() if "►" in line]
    assert "[32.31%, 51.66%]" in ours and "this run, $0.00," in ours
    assert "the paper's own" in shown.stdout and "table 1, page 5" in shown.stdout
    assert "# " in bench("xstest", *LEXICAL, "--out", tmp_path / "out", "--markdown").stdout


def test_the_benchmarks_own_file_is_converted_and_judged(tmp_path: Path) -> None:
    path = real("xstest/xstest_prompts.csv")
    words = (
        "xstest",
        "--data",
        path,
        *LEXICAL,
        "--limit",
        "30",
        "--out",
        tmp_path / "out",
        "--json",
    )
    document = json.loads(bench(*words).stdout)
    assert document["sample"] is False and document["rows"] == 30
    standings = document["published"]["safety"]["standings"]
    assert [row["judge"] for row in standings if row["own"]] == ["Verdict"]
    assert [row["cost_usd"] for row in standings if row["ours"]] == [0.0]


def test_a_fetched_file_is_judged_without_being_named(tmp_path: Path) -> None:
    place = tmp_path / "home" / "judgebench" / "pairs_gpt-4o.jsonl"
    place.parent.mkdir(parents=True)
    place.write_bytes(real("judgebench/pairs_gpt-4o.jsonl").read_bytes())
    document = json.loads(
        bench("judgebench", *LEXICAL, "--limit", "2", "--out", tmp_path / "out", "--json").stdout
    )
    assert document["sample"] is False


def test_a_run_is_replayed_from_its_own_calls(tmp_path: Path) -> None:
    first = json.loads(bench("halueval", *LEXICAL, "--out", tmp_path / "one", "--json").stdout)
    words = (
        "halueval",
        "--replay",
        tmp_path / "one",
        "--quiet",
        "--out",
        tmp_path / "two",
        "--json",
    )
    again = json.loads(bench(*words).stdout)
    assert again["evaluations"] == first["evaluations"]


def test_aggrefact_judges_the_rows_of_expertqa_only(tmp_path: Path) -> None:
    rows = [
        {
            "dataset": name,
            "doc": "The ferry leaves at seven.",
            "claim": "The ferry leaves at seven.",
            "label": n % 2,
        }
        for name in ("ExpertQA", "Wice", "RAGTruth")
        for n in range(2)
    ]
    data = tmp_path / "test.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    document = json.loads(
        bench("aggrefact", "--data", data, *LEXICAL, "--out", tmp_path / "out", "--json").stdout
    )
    assert (document["rows"], document["calls"]) == (2, 12)


def test_what_cannot_be_judged_is_told_with_what_can() -> None:
    assert "benchmarks/recorded_judges.py" in failed("unieval")
    assert "did you mean 'xstest'?" in failed("xtest")
    assert "the file nowhere.csv does not exist" in failed("xstest", "--data", "nowhere.csv")
    assert "cannot be combined" in failed("xstest", "--json", "--markdown")
