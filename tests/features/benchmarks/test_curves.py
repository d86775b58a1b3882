"""`benchmarks/curves.py`: the measured curves of docs/judge-time.md."""

from __future__ import annotations

import csv
import itertools
import sys

import pytest
from paths import ROOT, SHARED

sys.path.insert(0, str(ROOT / "benchmarks"))

import curves

RECORDINGS = SHARED / "data"
has_recordings = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings")


def points_of(curve: str) -> list[dict[str, str]]:
    with (ROOT / "docs" / "curves.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["curve"] == curve]


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["curves.py", *words])
    try:
        curves.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.slow
@has_recordings
def test_one_command_remakes_the_pictures_byte_for_byte(tmp_path, monkeypatch, capsys):
    assert run(monkeypatch, str(RECORDINGS), "--out", str(tmp_path)) == 0

    paths = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(paths) == 4
    for path in paths:
        assert (tmp_path / path).read_bytes() == (ROOT / "docs" / path).read_bytes(), path
    page = (ROOT / "docs" / "judge-time.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out in page


def test_a_curve_has_all_numbers_of_votes_and_the_calls_of_each():
    for curve, most in (("samples-gpt-4", 5), ("triviaqa", 11), ("realmistake-llama-2", 12)):
        points = points_of(curve)
        assert [int(point["k"]) for point in points] == list(range(1, most + 1))
        assert all(int(p["calls"]) == int(p["k"]) * int(p["rows"]) for p in points)


def test_all_votes_of_a_recorded_judge_give_the_published_accuracy():
    assert float(points_of("samples-gpt-3.5")[-1]["accuracy"]) == 0.58  # ReaLMistake's own value


@pytest.mark.parametrize("votes", list(itertools.product("ab", repeat=4)))
def test_a_vote_is_right_as_often_as_over_all_its_orders(votes):
    orders = list(itertools.permutations(votes))
    right = sum(curves.VOTE.pool(order, None) == "a" for order in orders) / len(orders)
    assert curves.rightness(curves.VOTE, "a", votes) == pytest.approx(right)


def test_a_row_without_a_readable_vote_is_wrong():
    assert curves.rightness(curves.VOTE, "a", []) == 0


def test_subsets_are_all_up_to_a_thousand_and_drawn_ones_beyond():
    assert len(curves.subsets(12, 6)) == 924
    drawn = curves.subsets(14, 7)
    assert len(drawn) == 1000
    assert drawn == curves.subsets(14, 7)
    assert len(set(drawn)) > 800


def test_without_recordings_each_curve_says_what_is_missing(tmp_path, monkeypatch, capsys):
    assert run(monkeypatch, str(tmp_path), "--out", str(tmp_path)) == 2

    stderr = capsys.readouterr().err
    assert stderr.count("is left out") == len(curves.CURVES)
    assert not (tmp_path / "curves.csv").exists()
