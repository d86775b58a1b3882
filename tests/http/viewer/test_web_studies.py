"""Leaderboards of runs and histories of `verdict watch` in the viewer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_web_guards import ask


@pytest.fixture(scope="module")
def folder(verdict: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has a leaderboard, and a history of one look."""
    made = tmp_path_factory.mktemp("studies")
    model = ("--model", "baseline/lexical", "--quiet")
    verdict("run", "arena", "systems_sample", *model, "--out", made / "arena")
    verdict("watch", "grounded", "grounded_sample", *model, "--history", made / "anchors")
    return made


@pytest.fixture(scope="module")
def address(folder: Path, shown: Callable[..., str]) -> str:
    return shown(folder)


def test_a_run_shows_its_leaderboard_and_so_does_its_report(address: str, look: Any, folder: Path) -> None:
    page = look(f"{address}/run?run=arena", wait="section.leaderboard table")
    rows = page.text("section.leaderboard:first-of-type tbody tr")
    assert [row.split()[:2] for row in rows] == [["1–3", "careless"], ["1–3", "thorough"], ["1–3", "brief"]]
    assert page.text("section.leaderboard h2") == ["leaderboard", "equal_length"]
    report = (folder / "arena" / "report.html").read_text(encoding="utf-8")
    assert "row beats column" in report and "mean_score by system" in report


def test_the_list_names_the_first_system_and_the_history_whose_page_shows_the_trend(address: str, look: Any) -> None:
    listed = json.loads(ask(address, "/api/runs")[2])
    assert listed["watches"] == [{"history": "anchors", "looks": 1, "drifted": False}]
    assert {run["run"] for run in listed["runs"]} == {"arena", "anchors/looks/0000"}
    text = look(f"{address}/", wait="table.rows").page.locator("main").inner_text()
    assert "Watch anchors: no drift, 1 look" in text and "mean_score of careless" in text
    status, headers, page = ask(address, "/watch?history=anchors")
    assert status == 200 and "sandbox" in headers["content-security-policy"]
    assert "Verdict watch" in page and "Trend" in page
    assert ask(address, "/watch?history=../anchors")[0] == 404
