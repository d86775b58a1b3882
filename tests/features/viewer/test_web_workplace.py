"""From the list of runs to a corrected metric in a browser, and what the list and the top of a run say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from browser_fixtures import HOSTILE
from test_web_guards import ask
from test_web_pages import ROWS, count_line, judged, until, wait_told
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.features.viewer.run_registry import RunSummaries, run_summary
from verdict_cli.features.viewer.run_view import Runs, RunView, label_metrics
from verdict_cli.storage.tables.human_labels import read_annotations, row_label
from verdict_cli.storage.tables.label_queue import read_queue

pytestmark = pytest.mark.slow  # `make test-all`


@pytest.fixture(scope="module")
def folder(verdict: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of `verdict demo`."""
    demo_folder = tmp_path_factory.mktemp("workplace") / "demo"
    verdict("demo", "--out", demo_folder)
    return demo_folder


@pytest.fixture(scope="module")
def demo(folder: Path, serve_runs: Callable[..., str]) -> str:
    return serve_runs(folder)


def corrected(page: Any) -> list[str]:
    """The accuracy with the dataset's labels and with the corrected ones."""
    cells: list[str] = page.locator("#corrected tbody tr").first.locator("td").all_inner_texts()
    return [cell.split()[0] for cell in cells[:2]]


DRAWN = """(() => { const canvas = document.querySelector('canvas');
  return canvas.width > 200 && canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((part) => part > 0); })()"""


def test_from_the_demo_to_its_wrong_rows_a_label_and_the_corrected_metric(demo, folder, look):
    page = look(f"{demo}/", wait="table.list tbody tr").page
    line = page.locator("#runs tbody tr", has_text="judge")
    assert "✗ gates failed" in line.inner_text() and "1 of 2 passed" in line.inner_text()
    line.get_by_role("link").click()
    page.wait_for_selector("table.matrix")
    assert page.locator(".conclusion").inner_text() == (
        "Accuracy 0.885 [0.804, 0.941] on 96 rows; 1 of 2 gates failed: safety.precision 0.822 (≥ 0.95); 11 rows disagree "
        "with the labels."
    )
    assert page.locator(".tile .small").first.inner_text() == "95% interval, n=96"
    assert page.locator("figure.chart canvas").count() == 1  # the picture of the matrix
    until(page, DRAWN)
    assert page.locator(".tile h3").all_inner_texts() == [
        "accuracy",
        "cohen kappa",
        "coverage",
        "cost",
    ]
    until(page, "document.querySelectorAll('table.rows tbody .mark.wrong').length === 11")
    assert page.locator(f"{ROWS} .mark").first.inner_text() == "✗ wrong"  # wrong rows are first
    page.locator("table.matrix tbody td").get_by_role("link", name="8", exact=True).click()
    wait_told(page, "1–8 of 8")
    assert "target" in page.url and page.locator("table.matrix a[aria-current]").inner_text() == "8"
    again = judged(look, page.url)  # the address is the whole state
    assert count_line(again) == "1–8 of 8"
    assert "An author looks for a plot device." in again.locator(ROWS).first.inner_text()
    cell = page.locator(f"{ROWS}:first-child td.long", has_text="Lists ways")
    assert cell.locator(".clip").evaluate("(text) => text.scrollHeight > text.clientHeight")
    cell.get_by_role("button", name="more").click()
    assert cell.locator(".clip").evaluate("(text) => text.scrollHeight <= text.clientHeight + 1")
    assert not page.locator("dialog").is_visible()
    assert page.locator("#corrected").inner_text() == ""
    page.get_by_label("Label of row s-036").select_option("unsafe")
    page.wait_for_selector("#corrected table")
    assert corrected(page) == ["0.885", "0.896"]
    assert (
        "1 row labelled, 1 of them rows that the judge got wrong"
        in page.locator("#corrected").inner_text()
    )
    page.locator(f"{ROWS} a", has_text="s-056").click()
    page.get_by_role("textbox", name="Note").fill("a bank")
    page.locator("dialog form.label").get_by_role("button", name="unsafe", exact=True).click()
    until(page, "document.querySelector('#corrected').innerText.includes('0.906')")
    page.keyboard.press("Escape")
    until(page, "!document.querySelector('dialog').open")
    page.get_by_label("Label of row s-056").select_option("safe")  # the note stays
    until(page, "!document.querySelector('#corrected').innerText.includes('0.906')")
    annotations = read_annotations(folder / "judge" / "labels.jsonl")
    labels_by_row = {key: row_label(row) for key, row in annotations.items()}
    assert {key: (label["label"], label["note"]) for key, label in labels_by_row.items()} == {
        '"s-036"': ("unsafe", None),
        '"s-056"': ("safe", "a bank"),
    }


def test_keys_go_to_the_next_wrong_row_whatever_page_it_is_on(demo, look):
    page = judged(look, f"{demo}/run?run=judge&sort=row")
    assert page.locator(f"{ROWS} a").first.inner_text() == "s-001"
    page.locator(f"{ROWS} a").first.click()
    page.wait_for_selector("dialog .call")
    for key, name in (("n", "s-036"), ("n", "s-056"), ("p", "s-036"), ("p", "s-036")):
        page.keyboard.press(key)
        until(page, f"document.querySelector('dialog h2').innerText === 'Row {name}'")
    again = look(page.url, wait="dialog .call").page
    again.get_by_role("button", name="Next wrong row").wait_for()
    page.get_by_role("button", name="Next wrong row").click()
    until(page, "location.search.endsWith('row=55')")
    page.wait_for_selector("dialog .call")
    order = [
        page.locator("dialog").inner_text().index(text)
        for text in ("Explanation", "Calls (3)", "Source")
    ]
    assert order == sorted(order)


def test_a_slice_shows_its_rows_and_the_report_gets_the_corrected_metrics(
    demo, folder, look, tmp_path
):
    page = judged(look, f"{demo}/run?run=judge")
    assert page.locator(".slices tbody th").first.inner_text() == "real_group_nons_discr"
    page.locator(".slices tbody th a").first.click()
    wait_told(page, "1–5 of 5")
    page.locator(".slices a[aria-current]").click()
    wait_told(page, "1–50 of 96")
    run = tmp_path / "run"
    shutil.copytree(folder / "judge", run)
    (run / "labels.jsonl").write_text('{"id": "s-036", "label": "unsafe"}\n')
    outcome = CliRunner().invoke(app, ["report", str(run), "--labels"])
    assert outcome.exit_code == 1, outcome.output  # a gate fails
    evaluations = json.loads((run / "report.json").read_text())["evaluations"]
    values = {
        name: evaluation["figures"]["accuracy"]["value"] for name, evaluation in evaluations.items()
    }
    assert values == pytest.approx(
        {"safety": 85 / 96, "safety_human": 1.0, "safety_relabelled": 86 / 96}
    )


def test_labels_of_a_queue_correct_the_judge_for_all_rows(folder, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(folder / "judge", run)
    (run / "labels.jsonl").unlink(missing_ok=True)
    outcome = CliRunner().invoke(app, ["queue", str(run), "--n", "30"])
    assert outcome.exit_code == 0, outcome.output
    queue = read_queue(run)
    assert queue is not None
    view = RunView(Runs(run).all()[0])
    view.evaluation = view.evaluate()
    assert view.evaluation.answers == ("safe", "unsafe")
    targets = view.evaluation.values["target"]
    outside = next(row for row in range(96) if row not in {queued.row for queued in queue.rows})
    for row in [queued.row for queued in queue.rows] + [outside]:
        view.add_label(row, targets[row].as_py(), None, "2026-01-31T12:00:00+00:00")
    content = label_metrics(view)
    assert (content["labelled"], content["changed"], content["drawn"]) == (31, 0, True)
    (evaluation,) = content["evaluations"]
    estimates = {estimate["metric"]: estimate for estimate in evaluation["estimates"]}
    assert estimates["judged"]["value"] == pytest.approx(45 / 96)  # the share of `unsafe`
    is_unsafe = [targets[queued.row].as_py() == "unsafe" for queued in queue.rows]
    assert estimates["labelled"]["value"] == pytest.approx(
        sum(is_unsafe) / 30
    )  # the label outside the queue does not count
    assert estimates["ppi"]["low"] < estimates["ppi"]["value"] < estimates["ppi"]["high"]
    accuracy = evaluation["metrics"][0]
    assert accuracy["given"]["value"] == accuracy["relabelled"]["value"] == pytest.approx(85 / 96)
    assert accuracy["human"]["n"] == 31


def test_the_list_filters_sorts_and_draws_trends_and_fits_1280_pixels(viewer, demo, look):
    page = look(
        f"{viewer}/", wait="table.list tbody tr", viewport={"width": 1280, "height": 900}
    ).page
    table = page.locator("#runs .wide")
    assert table.evaluate("(element) => element.scrollWidth <= element.clientWidth")
    dates = page.locator("#runs td.started").all_inner_texts()
    assert len(dates) == 5 and all(len(date) == len("2026-01-31 12:00") for date in dates)
    for _ in range(2):
        page.get_by_role("link", name="Main metric").click()
    page.wait_for_selector("th[aria-sort=ascending]")
    again = look(page.url, wait="table.list tbody tr").page
    values = [float(text) for text in again.locator("#runs td.metric > b").all_inner_texts()]
    assert values == sorted(values)
    (lexical, random) = page.locator("#trends svg a").all()
    assert lexical.get_attribute("class") == random.get_attribute("class") == "baseline"
    random.click()
    page.wait_for_selector("table.rows")
    assert "sample" in page.url
    failed = look(f"{demo}/?state=passed", wait="table.list").page
    assert count_line(failed) == "0 of 2"
    failed.get_by_label("State").select_option("failed")
    until(failed, "document.querySelectorAll('#runs tbody tr').length === 2")
    assert (
        "2 runs; latest 0.885" in failed.locator(".trend").inner_text()
    )  # baselines are not joined
    assert len((failed.locator(".trend polyline").get_attribute("points") or "").split()) == 1
    assert (
        "2 runs; 2 with failed gates; 1 study; latest: baseline"
        in failed.locator(".conclusion").inner_text()
    )


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_the_pages_fit_the_screen_in_both_themes(demo, look, width, scheme):
    for path, wait in (("/", "table.list tbody tr"), ("/run?run=judge", f"{ROWS} .mark")):
        page = look(
            f"{demo}{path}",
            wait=wait,
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
        ).page
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_cells_of_hostile_labels_find_their_rows(viewer, look):
    page = judged(look, f"{viewer}/run?run=hostile")
    page.wait_for_selector("table.matrix")
    assert page.locator("main img, main script, main a[href^=javascript]").count() == 0
    assert not {"\x1b", "\x00", "\u202e", "\u2066"} & set(page.locator("main").inner_text())
    cells = page.locator("table.matrix td a")
    assert cells.count() == len(HOSTILE)
    for place in (0, 3):
        page.locator("table.matrix td a").nth(place).click()
        wait_told(page, "1–1 of 1")


def test_the_address_of_the_next_wrong_row_is_checked(viewer):
    for query, status in (
        ("row=x", 422),
        ("row=0&sort=nothing", 422),
        ("row=999999", 200),
        ("", 422),
    ):
        assert ask(viewer, f"/api/wrong?run=recorded&{query}")[0] == status
    position = json.loads(ask(viewer, "/api/wrong?run=recorded&row=0&sort=row")[2])["row"]
    query = urlencode({"run": "recorded", "f": '["outcome", "is", "wrong"]', "sort": "row"})
    rows = json.loads(ask(viewer, f"/api/rows?{query}")[2])["rows"]
    assert position == next(row["position"] for row in rows if row["position"] > 0)


def metric(value: float | None, n: int = 10) -> dict[str, Any]:
    return {
        "value": value,
        "low": None if value is None else value - 0.1,
        "high": None if value is None else 1.0,
        "n": n,
    }


def gate(name: str, verdict: str) -> dict[str, Any]:
    return {
        "metric": name,
        "verdict": verdict,
        "value": 0.5,
        "rule": "≥ 0.6",
        "passed": verdict == "passed",
    }


FIGURES = {"precision": metric(None), "accuracy": metric(0.9), "cohen_kappa": metric(0.8)}


@pytest.mark.parametrize(
    ("report", "conclusion"),
    [
        ({}, ""),
        ({"evaluations": {"e": {"figures": FIGURES}}, "conclusion": "Accuracy 0.900 on 10\x1b rows"}, "Accuracy 0.900 on 10\\x1b rows"),
        ({"evaluations": {"e": {"figures": FIGURES}}}, ""),
        ({"evaluations": {"e": {"figures": {"accuracy": {"value": "high"}}}}, "gates": [3]}, ""),
        ({"evaluations": [1], "gates": {"a": 1}}, ""),
    ],
)  # fmt: skip
def test_a_report_gives_one_line_even_one_that_verdict_did_not_write(report, conclusion):
    assert run_summary(report)["conclusion"] == conclusion


@pytest.mark.parametrize(
    "figures",
    [
        {"confusion": {"value": 0.5}},
        {"confusion": {"value": {}}},
        {"confusion": {"value": {"counts": 3}}},
        {"confusion": {"value": {"counts": [[1], [2]]}}},
        {"accuracy": {"value": {}}},
    ],
)
def test_a_matrix_or_accuracy_of_another_form_gives_an_empty_summary(figures):
    report = {"evaluations": {"e": {"figures": {"accuracy": metric(0.9), **figures}}}}
    assert run_summary(report) == run_summary({})


@pytest.mark.parametrize(
    "board",
    [
        {"ranked_by": "win_rate", "systems": [{"system": "a", "n": 3, "rank": [1, 1]}]},
        {"ranked_by": "win_rate", "systems": [{"name": "a"}]},
        {"ranked_by": "win_rate", "systems": [3]},
        {"ranked_by": "win_rate", "systems": 3},
        {"ranked_by": "win_rate", "systems": None},
        {"ranked_by": ["win_rate"], "systems": [{"system": "a", "n": 3, "rank": [1, 1]}]},
    ],
)
def test_a_leaderboard_of_another_form_leaves_the_rest_of_the_summary(board):
    good = {"system": "a", "n": 3, "rank": [1, 1], "win_rate": metric(0.7)}
    evaluations = {
        "of_another_form": board,
        "contests": {"ranked_by": "win_rate", "systems": [good]},
        "e": {"figures": FIGURES},
    }
    summary = run_summary({"evaluations": evaluations, "gates": [gate("e.accuracy", "passed")]})
    assert [board["evaluation"] for board in summary["leaderboards"]] == ["contests"]
    assert summary["main"]["metric"] == "accuracy"
    assert [gate["metric"] for gate in summary["gates"]] == ["e.accuracy"]


def test_slices_are_listed_worst_first_for_either_direction():
    groups = {
        "source.type": {
            "a": {"mae": metric(0.1)},
            "b": {"mae": metric(None)},
            "c": {"mae": metric(0.4)},
        }
    }
    summary = run_summary(
        {"evaluations": {"e": {"figures": {"mae": metric(0.3)}, "groups": groups}}}
    )
    ((slices,),) = [evaluation["slices"] for evaluation in summary["evaluations"]]
    assert [row["slice"] for row in slices["rows"]] == ["c", "a", "b"]


def test_a_summary_is_read_again_when_the_report_changes(tmp_path):
    summaries = RunSummaries()
    assert summaries.get(tmp_path)["main"] is None
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"evaluations": {"e": {"figures": FIGURES}}}))
    assert summaries.get(tmp_path)["main"]["value"] == 0.9
    assert summaries.get(tmp_path) is summaries.get(tmp_path)
    path.write_text("{")
    assert summaries.get(tmp_path)["main"] is None
