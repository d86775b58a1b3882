"""The histories of `verdict watch` in the viewer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from test_web_guards import ask


def test_the_list_names_a_history_and_its_page_shows_the_trend(
    verdict: Callable[..., None], shown: Callable[..., str], look: Any, tmp_path: Path
) -> None:
    for _ in range(2):
        words = ("--model", "baseline/lexical", "--history", tmp_path / "anchors", "--quiet")
        verdict("watch", "grounded", "grounded_sample", *words)
    address = shown(tmp_path)
    listed = json.loads(ask(address, "/api/runs")[2])
    assert listed["watches"] == [{"history": "anchors", "looks": 2, "drifted": False}]
    assert {run["run"] for run in listed["runs"]} == {"anchors/looks/0000", "anchors/looks/0001"}
    page = look(f"{address}/", wait="table.rows").page
    assert "Watch anchors: no drift, 2 looks" in page.locator("main").inner_text()
    status, headers, text = ask(address, "/watch?history=anchors")
    assert status == 200 and "sandbox" in headers["content-security-policy"]
    assert "Change since the reference" in text
    assert ask(address, "/watch?history=../anchors")[0] == 404
