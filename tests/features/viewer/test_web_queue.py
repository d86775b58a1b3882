"""Two people label the queue of a run in their own viewers, without the verdicts in sight."""

from __future__ import annotations

import json
import re
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.storage.tables.human_labels import FILE, read_annotations

pytestmark = pytest.mark.slow  # `make test-all`


@pytest.fixture
def queued(two_runs: Path, tmp_path: Path, verdict: Any) -> Path:
    """A run with a blind queue of four rows for two people."""
    run = tmp_path / "run"
    shutil.copytree(two_runs / "lexical", run)
    verdict("queue", run, "--n", "4", "--annotators", "2", "--blind")
    return run


def progress(page: Any) -> str:
    return str(page.locator(".tools .told").first.inner_text())


def until(page: Any, text: str) -> None:
    for _ in range(200):
        if progress(page) == text:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{text!r} has not come, there is {progress(page)!r}")


def refused(address: str) -> int:
    try:
        urllib.request.urlopen(address, timeout=10)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


@pytest.mark.parametrize("width", [1280, 390])
def test_the_row_comes_first_and_the_buttons_stay_in_sight(queued, serve_runs, look, width):
    page = look(f"{serve_runs(queued, '--as', 'ann')}/", wait="form.label").page
    page.set_viewport_size({"width": width, "height": 600})
    page.evaluate(
        "document.querySelector('.queued pre, .queued dd').textContent = 'A long text. '.repeat(900)"
    )
    row, form = (page.locator(place).bounding_box() for place in (".queued", "form.label"))
    assert row["y"] < form["y"] and form["y"] + form["height"] <= 600, (
        "the form is at the bottom of the window"
    )
    page.mouse.wheel(0, 400)
    page.wait_for_timeout(100)
    assert page.locator(".chips button").first.bounding_box()["y"] < 600
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (
        "nothing scrolls sideways"
    )


def test_two_people_label_a_blind_queue_and_the_report_says_how_far_they_agree(
    queued, serve_runs, look, verdict
):
    ann, bob = serve_runs(queued, "--as", "ann"), serve_runs(queued, "--as", "bob")
    page = look(f"{ann}/", wait="form.label").page
    assert "/queue" in page.url and "as ann" in page.locator(".lead").inner_text()
    until(page, "0 labelled, 0 skipped, 4 to go")
    text = page.locator("#content").inner_text()
    assert "prompt" in text and "baseline" not in text and "output" not in text
    page.keyboard.press("1")
    until(page, "1 labelled, 0 skipped, 3 to go")
    page.get_by_role("textbox", name="Comment").fill("not <b>clear</b>")
    page.get_by_role("button", name=re.compile("unsafe")).click()
    until(page, "2 labelled, 0 skipped, 2 to go")
    page.keyboard.press("b")
    page.wait_for_selector("button[aria-pressed=true]")
    assert page.get_by_role("textbox", name="Comment").input_value() == "not <b>clear</b>"
    page.go_back()
    page.wait_for_selector("form.label:not(:has(button[aria-pressed=true]))")
    page.keyboard.press("s")
    until(page, "2 labelled, 1 skipped, 1 to go")
    assert (
        json.loads(urllib.request.urlopen(f"{ann}/api/runs", timeout=10).read())["runs"][0]["main"]
        is None
    )
    for path in ("api/rows", "api/row", "api/wrong", "api/labels", "report"):
        assert refused(f"{ann}/{path}?run=run&row=0") == 403
    page.keyboard.press("1")
    page.wait_for_selector("text=No row is waiting for you.")
    assert refused(f"{ann}/api/rows?run=run") == 200

    other = look(f"{bob}/", wait="form.label").page
    for done in range(1, 5):
        other.keyboard.press("1")
        if done < 4:
            until(other, f"{done} labelled, 0 skipped, {4 - done} to go")
    other.wait_for_selector("text=No row is waiting for you.")

    annotations = read_annotations(queued / FILE)
    assert sorted(len(row) for row in annotations.values()) == [2, 2, 2, 2]
    assert sum(label.skipped for row in annotations.values() for label in row.values()) == 1
    notes = [label.note for row in annotations.values() for label in row.values() if label.note]
    assert notes == ["not <b>clear</b>"]
    run = look(f"{ann}/run?run=run", wait="#corrected figure.chart canvas").page
    run.wait_for_function("document.querySelector('#corrected canvas').width > 200")
    agreement = run.locator("#corrected").inner_text()
    assert (
        "Agreement of annotators" in agreement
        and "two people" in agreement
        and "bob, judge" in agreement
    )
    verdict("report", queued, "--labels")
    evaluations = json.loads((queued / "report.json").read_text())["evaluations"]
    (study,) = [
        evaluation["annotators"]
        for evaluation in evaluations.values()
        if evaluation.get("annotators")
    ]
    assert [
        (annotator["name"], annotator["rows"], annotator["skipped"])
        for annotator in study["annotators"]
    ] == [
        ("ann", 3, 1),
        ("bob", 4, 0),
    ]


def test_a_run_without_a_queue_says_how_to_draw_one(two_runs, serve_runs):
    address = serve_runs(two_runs / "lexical", "--as", "ann")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{address}/api/queue?run=lexical", timeout=10)
    assert caught.value.code == 404 and b"verdict queue" in caught.value.read()
