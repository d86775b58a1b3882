"""Leaderboards of runs and studies in the viewer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_web_guards import ask

from verdict_cli.features.viewer.run_view import find_studies

pytestmark = pytest.mark.slow  # `make test-all`


@pytest.fixture(scope="module")
def folder(verdict: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has a leaderboard, and a sweep with one run."""
    studies_folder = tmp_path_factory.mktemp("studies")
    model = ("--model", "baseline/lexical", "--quiet")
    verdict("run", "arena", "systems_sample", *model, "--out", studies_folder / "arena")
    verdict(
        "run",
        "grounded",
        "grounded_sample",
        *model,
        "--out",
        studies_folder / "search" / "runs" / "0",
    )
    content = {"conclusion": "Best of 1 variant: n=3"}
    (studies_folder / "search" / "sweep.json").write_text(json.dumps(content), encoding="utf-8")
    (studies_folder / "search" / "sweep.html").write_text(
        "<h1>Sweep of grounded</h1>", encoding="utf-8"
    )
    return studies_folder


@pytest.fixture(scope="module")
def address(folder: Path, serve_runs: Callable[..., str]) -> str:
    return serve_runs(folder)


def test_a_run_shows_its_leaderboard_and_so_does_its_report(address, look, folder):
    page = look(f"{address}/run?run=arena", wait="section.leaderboard table")
    rows = page.text("section.leaderboard:first-of-type tbody tr")
    assert [row.split()[:2] for row in rows] == [
        ["1–3", "careless"],
        ["1–3", "thorough"],
        ["1–3", "brief"],
    ]
    assert page.text("section.leaderboard h2") == ["leaderboard", "equal_length"]
    report = (folder / "arena" / "report.html").read_text(encoding="utf-8")
    assert "row beats column" in report and "mean_score by system" in report


def test_the_list_names_the_first_system_and_the_study_and_links_to_its_page(address, look):
    listed = json.loads(ask(address, "/api/runs")[2])
    (study,) = listed["studies"]
    assert (study["kind"], study["folder"], study["conclusion"]) == (
        "sweep",
        "search",
        "Best of 1 variant: n=3",
    )
    assert {run["run"]: run["study"] for run in listed["runs"]} == {
        "arena": None,
        "search/runs/0": "search",
    }
    page = look(f"{address}/", wait="table.studies").page
    text = page.locator("main").inner_text()
    assert (
        "Sweep search" in text and study["conclusion"] in text and "mean score of careless" in text
    )
    assert page.locator("#runs tbody tr").count() == 1
    page.get_by_label("Which runs").select_option("all")
    page.wait_for_selector("#runs tbody tr:nth-child(2)")
    page.get_by_role("link", name="Sweep search").click()
    page.wait_for_selector("text=Sweep of grounded")
    status, headers, body = ask(address, "/study?kind=sweep&folder=search")
    assert status == 200 and "sandbox" in headers["content-security-policy"]
    assert "Sweep of grounded" in body
    for query in (
        "kind=sweep&folder=../search",
        "kind=history&folder=search",
        "kind=../sweep&folder=search",
    ):
        assert ask(address, f"/study?{query}")[0] == 404


def test_a_study_says_what_its_file_says_and_never_fails(tmp_path):
    files: dict[str, Any] = {
        "sweep": {"pipeline": "p"},
        "audit": {"conclusion": None},
        "align": {"conclusion": "shown to be better"},
        "paper": ["no mapping"],
    }
    for kind, content in files.items():
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"{kind}.html").write_text("<p>no conclusion</p>")
        (tmp_path / kind / f"{kind}.json").write_text(json.dumps(content))
    (tmp_path / "comparison.html").write_text('<p class="conclusion">b is better &amp; cheaper</p>')
    (tmp_path / "audit" / "sweep.html").symlink_to(tmp_path / "sweep" / "sweep.html")
    studies = {study.kind: study.as_json() for study in find_studies(tmp_path)}
    assert {kind: study["conclusion"] for kind, study in studies.items()} == {
        "sweep": "",
        "audit": "",
        "align": "shown to be better",
        "paper": "",
        "comparison": "b is better & cheaper",
    }
    assert (studies["sweep"]["folder"], studies["sweep"]["pipeline"]) == ("sweep", "p")
