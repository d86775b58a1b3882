"""`verdict bench`: our row beside the published ones, and published figures made anew."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from paths import SHARED
from typer.testing import CliRunner, Result

from verdict_cli.cli.app import app
from verdict_cli.errors import DataError
from verdict_cli.features.benchmarks import recorded
from verdict_cli.features.benchmarks.card import cards
from verdict_cli.features.benchmarks.recorded import Case, PublishedValue

SHARED = SHARED / "data"
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


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of recordings with one set: a judge that is right in two of three rows."""
    folder = tmp_path / "recordings"
    (folder / "pandalm").mkdir(parents=True)
    rows = [
        {"idx": str(n), "instruction": "i", "input": "", "response1": "a", "response2": "b"}
        | {f"annotator{annotator}": "1" for annotator in (1, 2, 3)}
        for n in range(3)
    ]
    replies = [{"id": str(n), "unit": "judge", "reply": "2" if n == 2 else "1"} for n in range(3)]
    figures = (
        PublishedValue("accuracy", "judge.accuracy", 0.6667, 4),
        PublishedValue("another run", "judge.accuracy", 0.5, 1, "the table is of another run"),
    )
    more = (PublishedValue("a wrong one", "judge.accuracy", 0.9, 4),)
    cases = [
        Case("pandalm/right", "pandalm", lambda: (rows, replies), figures),
        Case("pandalm/wrong", "pandalm", lambda: (rows, replies), more, origin="recomputed"),
    ]
    monkeypatch.setattr(recorded, "SETS", {"pandalm": lambda _: cases, "wice": lambda _: []})
    return folder


@pytest.mark.parametrize("name", JUDGED)
def test_every_benchmark_runs_on_its_sample_and_says_so(name, tmp_path):
    result = bench(name, *LEXICAL, "--limit", "4", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    document = json.loads(result.stdout)
    assert document["sample"] is True and document["benchmark"] == name
    assert document["rows"] == 4 and document["failed"] == 0


def test_our_row_is_among_the_published_ones_with_cost_and_time(tmp_path):
    result = bench("xstest", *LEXICAL, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert result.stdout.startswith("! this is not the data of XSTest")
    (ours,) = [line for line in result.stdout.splitlines() if "►" in line]
    assert "[31.68%, 52.18%]" in ours and "this run, $0.00," in ours
    assert "the paper's own" in result.stdout and "table 1, page 5" in result.stdout
    assert "# " in bench("xstest", *LEXICAL, "--out", tmp_path / "out", "--markdown").stdout


def test_the_benchmarks_own_file_is_converted_and_judged(tmp_path):
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


def test_a_fetched_file_is_judged_without_being_named(tmp_path):
    place = tmp_path / "home" / "judgebench" / "pairs_gpt-4o.jsonl"
    place.parent.mkdir(parents=True)
    place.write_bytes(real("judgebench/pairs_gpt-4o.jsonl").read_bytes())
    document = json.loads(
        bench("judgebench", *LEXICAL, "--limit", "2", "--out", tmp_path / "out", "--json").stdout
    )
    assert document["sample"] is False


def test_a_run_is_replayed_from_its_own_calls(tmp_path):
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


def test_values_that_differ_without_a_reason_fail(sets, tmp_path):
    right = bench("pandalm/right", "--replay", sets)
    assert right.exit_code == 0, right.output
    assert "+0.2: the table is of another run" in " ".join(right.stdout.split())
    assert "1 of 2 results equal the published ones" in right.stdout
    every = bench("all", "--replay", sets, "--json", "--out", tmp_path / "kept")
    assert every.exit_code == 1
    document = json.loads(every.stdout)
    assert [figure["same"] for figure in document["figures"]] == [True, False, False]
    assert document["figures"][0]["low"] < 2 / 3 < document["figures"][0]["high"]
    assert sorted(path.name for path in (tmp_path / "kept" / "pandalm" / "right").iterdir()) == [
        "data.jsonl", "out", "pipeline.yaml", "replay.jsonl",
    ]  # fmt: skip


def test_a_missing_set_is_skipped_and_counted(sets):
    result = bench("all", "--replay", sets)
    assert result.exit_code == 1, result.output
    assert "1 of 3 results equal the published ones in every digit; 1 set or case skipped" in (
        result.stdout
    )
    assert "skipped: wice" in result.stderr
    assert "this set is missing" in result.stderr


def test_a_set_without_one_of_its_files_is_skipped_and_counted(sets, monkeypatch):
    def cases(data: Path) -> list[Case]:
        def inputs() -> tuple[recorded.CaseRows, recorded.CaseRows]:
            return recorded.read_jsonl(data / "wice" / "claims.jsonl"), []

        return [Case("wice/gpt-4", "wice", inputs, (PublishedValue("x", "claim.f1", 1.0, 1),))]

    monkeypatch.setitem(recorded.SETS, "wice", cases)
    (sets / "wice").mkdir()
    result = bench("all", "--replay", sets, "--json")
    document = json.loads(result.stdout)
    assert (document["skipped"], len(document["figures"])) == (["wice/gpt-4"], 3)
    assert "claims.jsonl" in result.stderr and "benchmarks/rebuild_recordings.py" in result.stderr


def test_recorded_judges_are_also_printed_as_markdown(sets):
    page = bench("pandalm", "--replay", sets, "--markdown").stdout
    assert "accuracy | 0.6667 |" in page and page.startswith("## Recorded judges")


def test_what_was_not_recorded_is_reported(sets, tmp_path):
    assert "no judge of 'pandaml' was recorded" in failed("pandaml", "--replay", sets)
    assert "holds no recordings of wice" in failed("wice", "--replay", sets)
    assert "did you mean 'pandalm/right'?" in failed("pandalm/rihgt", "--replay", sets)
    assert "remove --model" in failed("pandalm", "--replay", sets, "--model", "gpt-4o")
    assert "there is no recording nowhere" in failed("all", "--replay", "nowhere")
    (tmp_path / "empty").mkdir()
    assert "holds no recordings of all" in failed("all", "--replay", tmp_path / "empty")


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("judgebench", "outputs_gpt-4o__arena_hard__o1-mini-2024-09-12.jsonl"),
        ("llmbar", "published_statistics.jsonl"),
        ("alpacaeval", "published_leaderboard.csv"),
        ("realmistake", "published_simple_performance.json"),
        ("pandalm", "testset-v1.json"),
        ("xstest", "completions_llama2orig.csv"),
    ],
)
def test_a_recording_without_one_of_its_files_is_a_data_error_that_names_it(
    name, missing, tmp_path
):
    (tmp_path / recorded.FOLDERS.get(name, name)).mkdir()
    result = bench(name, "--replay", tmp_path)
    assert isinstance(result.exception, DataError), (result.output, result.exception)
    assert result.exception.exit_code == 2
    assert missing in str(result.exception) and "benchmarks/rebuild_recordings.py" in str(
        result.exception
    )


def test_a_recording_that_is_cut_off_is_a_data_error_that_names_it(tmp_path):
    place = tmp_path / "judgebench" / "outputs_gpt-4o__arena_hard__o1-mini-2024-09-12.jsonl"
    place.parent.mkdir()
    place.write_text('{"pair_id": "a", ', encoding="utf-8")
    result = bench("judgebench", "--replay", tmp_path)
    assert isinstance(result.exception, DataError) and place.name in str(result.exception)


def test_aggrefact_judges_the_rows_of_expertqa_only(tmp_path):
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


def test_what_cannot_be_judged_is_reported_with_what_can():
    assert "verdict bench all --replay RECORDINGS" in failed("all")
    assert "verdict bench unieval --replay RECORDINGS" in failed("unieval")
    assert "did you mean 'xstest'?" in failed("xtest")
    assert "the file nowhere.csv does not exist" in failed("xstest", "--data", "nowhere.csv")
    assert "cannot be combined" in failed("xstest", "--json", "--markdown")


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("xstest", "xstest/completions_llama2orig.csv", b"a,b\n1,2\n"),
        ("triviaqa", "triviaqa_judges/judgements_v1.jsonl.gz", gzip.compress(b"[1]\n", mtime=0)),
        (
            "factcc",
            "factcc_explanations/explanations.jsonl.gz",
            gzip.compress(b'{"doc_id": 1}\n', mtime=0),
        ),
        ("alpacaeval", "alpacaeval_logprobs/published_leaderboard.csv", b"a,b\n1,2\n"),
    ],
)
def test_a_recording_of_another_form_is_a_data_error(name, file, content, tmp_path):
    path = tmp_path / file
    path.parent.mkdir()
    path.write_bytes(content)
    for which in (name, "all"):
        message = failed(which, "--replay", tmp_path)
        assert f"a file of the recordings of {name}" in message
        assert "has another form than expected" in message
        assert "benchmarks/rebuild_recordings.py" in message
