"""`benchmarks/recorded_judges.py`: published figures made anew from recorded replies."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))

import recorded  # noqa: E402 - a script
import recorded_judges  # noqa: E402
from recorded import Case, PublishedValue  # noqa: E402


class Run(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


Bench = Callable[..., Run]


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Bench:
    """The script's exit code and what it printed."""

    def run(*words: str | Path) -> Run:
        code = recorded_judges.main([str(word) for word in words])
        printed = capsys.readouterr()
        return Run(code, printed.out, printed.err)

    return run


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of recordings with one set: a judge that is right in two of three rows."""
    folder = tmp_path / "recordings"
    (folder / "pandalm").mkdir(parents=True)
    rows = [
        {"idx": str(n), "instruction": "i", "input": "", "response1": "a", "response2": "b"}
        | {f"annotator{each}": "1" for each in (1, 2, 3)}
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


def test_figures_that_differ_without_a_reason_fail(
    sets: Path, tmp_path: Path, bench: Bench
) -> None:
    right = bench("pandalm/right", sets)
    assert right.exit_code == 0, right.stderr
    assert "+0.2: the table is of another run" in " ".join(right.stdout.split())
    assert "1 of 2 results equal the published ones" in right.stdout
    every = bench("all", sets, "--json", "--out", tmp_path / "kept")
    assert every.exit_code == 1
    found = json.loads(every.stdout)
    assert [one["same"] for one in found["figures"]] == [True, False, False]
    assert found["figures"][0]["low"] < 2 / 3 < found["figures"][0]["high"]
    assert sorted(path.name for path in (tmp_path / "kept" / "pandalm" / "right").iterdir()) == [
        "data.jsonl", "out", "pipeline.yaml", "replay.jsonl",
    ]  # fmt: skip


def test_a_missing_set_is_skipped_and_counted(sets: Path, bench: Bench) -> None:
    result = bench("all", sets)
    assert result.exit_code == 1, result.stderr
    assert "1 of 3 results equal the published ones in every digit; 1 set or case skipped" in (
        result.stdout
    )
    assert "skipped: wice" in result.stderr
    assert "this set is missing" in result.stderr


def test_a_set_without_one_of_its_files_is_skipped_and_counted(
    sets: Path, monkeypatch: pytest.MonkeyPatch, bench: Bench
) -> None:
    def cases(data: Path) -> list[Case]:
        def inputs() -> tuple[recorded.CaseRows, recorded.CaseRows]:
            return recorded.read_jsonl(data / "wice" / "claims.jsonl"), []

        return [Case("wice/gpt-4", "wice", inputs, (PublishedValue("x", "claim.f1", 1.0, 1),))]

    monkeypatch.setitem(recorded.SETS, "wice", cases)
    (sets / "wice").mkdir()
    result = bench("all", sets, "--json")
    found = json.loads(result.stdout)
    assert (found["skipped"], len(found["figures"])) == (["wice/gpt-4"], 3)
    assert "claims.jsonl" in result.stderr and "benchmarks/rebuild_recordings.py" in result.stderr


def test_what_was_not_recorded_is_told(sets: Path, tmp_path: Path, bench: Bench) -> None:
    (tmp_path / "empty").mkdir()
    for name, folder, message in (
        ("pandaml", sets, "no judge of 'pandaml' was recorded"),
        ("wice", sets, "holds no recordings of wice"),
        ("pandalm/rihgt", sets, "did you mean 'pandalm/right'?"),
        ("all", "nowhere", "nowhere holds no recordings of all"),
        ("all", tmp_path / "empty", "holds no recordings of all"),
    ):
        result = bench(name, folder)
        assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


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
    name: str, missing: str, tmp_path: Path, bench: Bench
) -> None:
    (tmp_path / recorded.FOLDERS.get(name, name)).mkdir()
    result = bench(name, tmp_path)
    assert result.exit_code == 2
    assert missing in result.stderr and "benchmarks/rebuild_recordings.py" in result.stderr


def test_a_recording_that_is_cut_off_is_a_data_error_that_names_it(
    tmp_path: Path, bench: Bench
) -> None:
    place = tmp_path / "judgebench" / "outputs_gpt-4o__arena_hard__o1-mini-2024-09-12.jsonl"
    place.parent.mkdir()
    place.write_text('{"pair_id": "a", ', encoding="utf-8")
    result = bench("judgebench", tmp_path)
    assert (result.exit_code, place.name in result.stderr) == (2, True)
