"""The leaderboard of a run in the viewer and in its report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_a_run_shows_its_leaderboard_and_so_do_the_list_and_the_report(
    verdict: Callable[..., None], shown: Callable[..., str], look: Any, tmp_path: Path
) -> None:
    verdict("run", "arena", "systems_sample", "--model", "baseline/lexical", "--out", tmp_path / "arena", "--quiet")
    address = shown(tmp_path)
    page = look(f"{address}/run?run=arena", wait="section.leaderboard table")
    rows = page.text("section.leaderboard:first-of-type tbody tr")
    assert [row.split()[:2] for row in rows] == [["1–3", "careless"], ["1–3", "thorough"], ["1–3", "brief"]]
    assert page.text("section.leaderboard h2") == ["leaderboard", "equal_length"]
    assert "mean_score of careless" in look(f"{address}/", wait="table.rows").page.locator("table.rows").inner_text()
    report = (tmp_path / "arena" / "report.html").read_text(encoding="utf-8")
    assert "row beats column" in report and "mean_score by system" in report
