"""The viewer in a browser, used as a person does, over real and hostile runs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from browser_fixtures import HOSTILE, check_chat
from jsonl import jsonl
from msgspec.structs import replace

from verdict_cli.messages import Reply, Usage
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import CallContent
from verdict_cli.storage.tables.human_labels import read_annotations, row_label

ROWS = "table.rows tbody tr"


def count_line(page: Any) -> str:
    return str(page.locator(".tools .told").first.inner_text())


def until(page: Any, condition: str) -> None:
    """Waits for a condition, which the page's own policy would not let Playwright evaluate inside it."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{condition} has not come true")


def wait_told(page: Any, text: str) -> None:
    until(page, f"document.querySelector('.tools .told')?.innerText === {json.dumps(text)}")


def judged(look: Any, address: str, **options: Any) -> Any:
    """The page of a run whose rows are judged."""
    view = look(address, wait=f"{ROWS} .mark", **options)
    return view.page


def test_runs_are_listed_searched_and_two_are_compared_with_the_older_one(viewer, look):
    page = look(f"{viewer}/").page
    assert page.locator(ROWS).count() == 5
    page.get_by_label("Search runs").fill("sample/")
    wait_told(page, "2 of 5")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Compare selected").click()
    page.wait_for_selector("text=Rows with different scores")
    assert "75" in page.locator(".told").inner_text()
    page.get_by_label("Which rows").select_option("a")
    until(page, "!document.querySelector('.told').innerText.includes('75')")
    assert set(page.locator(f"{ROWS} td:first-child").all_inner_texts()) == {"lexical better"}
    page.locator(f"{ROWS} a").first.click()
    page.wait_for_selector(".stories .call")
    assert page.locator(".stories > div").count() == 2
    story = page.locator("dialog").inner_text()
    assert "baseline/lexical" in story and "baseline/random" in story
    address = page.url
    again = look(address, wait=".stories .call").page
    assert again.locator("dialog h2").inner_text() == page.locator("dialog h2").inner_text()


def test_rows_are_searched_filtered_and_sorted_and_the_address_says_how(viewer, look):
    page = judged(look, f"{viewer}/run?run=recorded")
    assert count_line(page) == "1–50 of 450"
    page.get_by_label("Search rows").fill("python process")
    wait_told(page, "1–1 of 1")
    page.get_by_label("Search rows").fill("no such words anywhere")
    wait_told(page, "No matching rows")
    page.get_by_label("Search rows").fill("")
    page.get_by_label("Which rows").select_option("right")
    wait_told(page, "1–50 of 347")
    page.locator("summary", has_text="Filters").click()
    page.get_by_label("Column", exact=True).select_option("source.type")
    page.get_by_label("Value").fill("homonyms")
    page.get_by_role("button", name="Add filter").click()
    until(page, "document.querySelectorAll('.chips button').length === 2")
    page.locator("table.rows th button", has_text="Row").click()
    page.wait_for_selector("th[aria-sort=ascending]")
    page.locator("table.rows th button", has_text="Row").click()
    page.wait_for_selector("th[aria-sort=descending]")
    count, first = count_line(page), page.locator(f"{ROWS} a").first.inner_text()
    again = judged(look, page.url)
    assert (count_line(again), again.locator(f"{ROWS} a").first.inner_text()) == (count, first)
    page.get_by_role("button", name=re.compile("Remove the filter source.type")).click()
    wait_told(page, "1–50 of 347")
    page.get_by_role("button", name="Next page").click()
    wait_told(page, "51–100 of 347")
    page.go_back()
    wait_told(page, "1–50 of 347")


def test_a_row_has_its_whole_story_and_is_labelled(runs, viewer, look, verdict):
    page = judged(look, f"{viewer}/run?run=recorded")
    page.keyboard.press("/")
    page.keyboard.type("v2-6")
    until(page, "new URLSearchParams(location.search).get('q') === 'v2-6'")
    page.locator(f"{ROWS} a", has_text=re.compile("^v2-6$")).click()
    page.wait_for_selector(".call")
    story = page.locator("dialog").inner_text()
    for part in (
        "✗ wrong",
        "Source",
        "completion",
        "judge",
        "gpt-4",
        "reply",
        "1_full_compliance",
        "prompt",
    ):
        assert part in story
    page.get_by_role("textbox", name="Note").fill("both are <b>meant</b>")
    page.get_by_role("button", name="1_full_compliance", exact=True).click()
    page.wait_for_selector(".label .told:text('saved')")
    page.keyboard.press("Escape")
    until(page, "!new URLSearchParams(location.search).has('row')")
    folder = runs / "recorded"
    (label,) = map(row_label, read_annotations(folder / "labels.jsonl").values())
    assert (label["label"], label["note"]) == ("1_full_compliance", "both are <b>meant</b>")
    again = look(f"{viewer}/run?run=recorded&row=5", wait="dialog .call").page
    assert again.get_by_role("textbox", name="Label").input_value() == "1_full_compliance"
    labelled = judged(look, f'{viewer}/run?run=recorded&f=["human.label","some"]')
    assert count_line(labelled) == "1–1 of 1"
    verdict("report", folder, "--labels")
    measured = json.loads((folder / "report.json").read_text())["evaluations"]["gpt4_human"]
    assert (measured["figures"]["accuracy"]["value"], measured["figures"]["accuracy"]["n"]) == (
        1.0,
        1,
    )
    (folder / "labels.jsonl").unlink()


def test_arrow_keys_go_from_row_to_row_and_the_address_with_them(viewer, look):
    page = judged(look, f"{viewer}/run?run=sample%2Flexical")
    page.locator(f"{ROWS} a").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .call")
    assert page.url.endswith("row=1")
    page.keyboard.press("ArrowRight")
    until(page, "location.search.endsWith('row=2')")
    page.go_back()
    until(page, "location.search.endsWith('row=1')")
    until(page, "document.querySelector('dialog h2').innerText === 'Row s-002'")


def test_colours_follow_the_system_and_a_phone_needs_no_sideways_scrolling(viewer, look):
    page = judged(
        look,
        f"{viewer}/run?run=recorded&row=2",
        viewport={"width": 375, "height": 740},
        color_scheme="dark",
    )
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    page.wait_for_selector("dialog .call")
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    assert page.evaluate("document.querySelector('dialog').scrollWidth") <= 375


def test_rows_that_are_up_to_no_good_are_text(viewer, look):
    page = judged(look, f"{viewer}/run?run=hostile")
    for place in range(len(HOSTILE)):
        page.locator(f"{ROWS} a").nth(place).click()
        page.wait_for_selector("dialog .call")
        assert page.locator("dialog img, dialog .story-body a, dialog script").count() == 0
        body_text = page.locator("body").inner_text()
        assert not {"\x1b", "\x00", "\u202e", "\u2066"} & set(body_text)
        page.keyboard.press("Escape")
        until(page, "!document.querySelector('dialog').open")
    page.get_by_label("Search rows").fill("<script>alert(1)")
    wait_told(page, "1–1 of 1")
    page.locator(f"{ROWS} a").first.click()
    page.wait_for_selector("dialog .call")
    assert HOSTILE["script"] in page.locator("dialog").inner_text()
    assert page.locator("main img, main a[href^=javascript], main script").count() == 0


def test_a_conversation_is_shown_as_a_chat(viewer, look):
    page = look(f"{viewer}/run?run=chat&row=0", wait="dialog .call").page
    check_chat(page)
    page.keyboard.press("Escape")
    assert "[1] system: Be kind. [2] user: What is this?" in page.locator(ROWS).inner_text()


def test_a_megabyte_is_shown_whole(viewer, look):
    page = look(f"{viewer}/run?run=hostile&row={len(HOSTILE) - 1}", wait="dialog .call").page
    longest = page.evaluate(
        "Math.max(...[...document.querySelectorAll('dialog pre')].map((each) => each.textContent.length))"
    )
    assert longest >= 1_000_000


def test_a_report_opens_with_its_charts(viewer, look):
    page = look(f"{viewer}/report?run=recorded", wait="figure.chart").page
    assert page.locator("figure.chart.undrawn").count() == 0


def test_a_run_that_continues_is_followed_until_it_has_results(runs, serve_runs, look, tmp_path):
    folder = tmp_path / "live"
    shutil.copytree(runs / "sample" / "lexical", folder)
    directory = RunDirectory(folder)
    facts = directory.facts()
    assert facts is not None
    (folder / "results.parquet").rename(folder / "kept")
    (folder / "run.db").unlink()
    directory.write_facts(replace(facts, status="running", rows=4, done=0))
    reply = Reply("<b>yes</b>", usage=Usage(10, 2), cost_usd=0.5, model="m")
    with Database.open(folder / "run.db") as database:
        database.add_call(b"1", (1, "judge", "", 0, 0), "m", CallContent(reply))
        database.add_call(
            b"2",
            (2, "judge", "", 0, 0),
            "m",
            CallContent(None, error="too slow"),
            failure="timeout",
        )
    page = look(f"{serve_runs(folder)}/run?run=live", wait="progress").page
    assert "2 of 4 rows started, $0.50" in page.locator("main").inner_text()
    assert "<b>yes</b>" in page.locator("main").inner_text()
    with Database.open(folder / "run.db") as database:
        database.add_call(b"3", (3, "judge", "", 0, 0), "m", CallContent(reply))
    page.wait_for_selector("text=3 of 4 rows started, $1.00")
    (folder / "kept").rename(folder / "results.parquet")
    directory.write("run.json", json.dumps(facts.as_json()))
    page.wait_for_selector(f"{ROWS} .mark")


def test_a_folder_without_runs_says_how_to_make_one(serve_runs, look, tmp_path):
    page = look(f"{serve_runs(tmp_path)}/", wait="main pre").page
    text = page.locator("main").inner_text()
    assert "There is no run in" in text and "verdict demo --out" in text and "verdict run" in text


def test_an_address_that_is_not_there_is_a_page(viewer, chromium):
    for path, address in (("/nothing", "/nothing"), ("/report?run=zzz", "/report?run=zzz")):
        page = chromium.new_page()
        answer = page.goto(f"{viewer}{path}")
        page.wait_for_selector("main h1")
        assert answer.status == 404 and answer.headers["content-type"].startswith("text/html")
        assert f"There is nothing at {address}." in page.locator("main").inner_text()
        page.close()


def test_a_question_mark_lists_the_keys(viewer, look):
    page = judged(look, f"{viewer}/run?run=recorded")
    page.keyboard.press("?")
    assert "next and previous wrong row" in page.locator("dialog.help").inner_text()
    page.keyboard.press("Escape")
    until(page, "!document.querySelector('dialog.help')")
    page.get_by_label("Search rows").press("?")
    assert page.locator("dialog.help").count() == 0


@pytest.fixture(scope="module")
def writing_run(verdict, tmp_path_factory) -> Path:
    """A run over texts with Markdown, one of them in Hebrew, whose labels are numbers."""
    folder = tmp_path_factory.mktemp("writing")
    texts = [
        "# Title\n\n- **bold** [site](https://example.org/a) [bad](javascript:alert(1))\n- `x < y` <b>no</b>\n\n```\na  b\n```",
        "שלום עולם, זהו מבחן קצר",
    ]
    (folder / "data.jsonl").write_text(
        jsonl({"id": f"r{n}", "text": text, "label": 5 * n} for n, text in enumerate(texts))
    )
    (folder / "pipeline.yaml").write_text(
        "verdict: 1\nname: writing\nmodel: baseline/lexical\ndataset: {id: id}\n"
        "pipeline:\n  - {unit: JudgeUnit, name: judge, prompt: '{source.text}'}\n"
        "evaluate: {e: {prediction: output.score, target: source.label, metrics: [mae]}}\n"
    )
    verdict(
        "run",
        folder / "pipeline.yaml",
        folder / "data.jsonl",
        "--out",
        folder / "runs/one",
        "--quiet",
    )
    return folder / "runs"


def test_markdown_is_drawn_as_elements_and_shown_as_it_is_on_demand(writing_run, serve_runs, look):
    page = look(f"{serve_runs(writing_run)}/run?run=one&row=0", wait="dialog .markdown").page
    drawn = page.locator("dialog .source .markdown").first
    assert drawn.locator("h5").inner_text() == "Title"
    assert drawn.locator("li strong").inner_text() == "bold"
    assert [a.get_attribute("href") for a in drawn.locator("a").all()] == ["https://example.org/a"]
    assert "[bad](javascript:alert(1))" in drawn.inner_text() and "<b>no</b>" in drawn.inner_text()
    assert drawn.locator("pre").inner_text() == "a  b"
    page.get_by_role("button", name="Plain text").click()
    page.wait_for_selector("dialog .source pre")
    assert page.locator("dialog .source pre").first.inner_text().startswith("# Title")
    assert page.locator("dialog .markdown").count() == 0


def test_text_from_right_to_left_is_aligned_to_the_right(writing_run, serve_runs, look):
    page = look(f"{serve_runs(writing_run)}/run?run=one&row=1", wait="dialog .call pre").page
    reply = page.locator("dialog .call details pre").first
    assert reply.get_attribute("dir") == "auto"
    clip = page.locator("table.rows .clip", has_text="שלום").first
    assert clip.evaluate("e => getComputedStyle(e).direction") == "rtl"


def test_an_error_is_positive_and_the_largest_comes_first(writing_run, serve_runs, look):
    page = look(f"{serve_runs(writing_run)}/run?run=one").page
    until(
        page,
        "[...document.querySelectorAll('table.rows thead button')].some(e => e.innerText.startsWith('Error'))",
    )
    heads = page.locator("table.rows thead th").all_inner_texts()
    at = next(index for index, text in enumerate(heads) if text.startswith("Error"))
    errors = [
        float(text) for text in page.locator(f"{ROWS} td:nth-child({at + 1})").all_inner_texts()
    ]
    assert errors == sorted(errors, reverse=True) and min(errors) >= 0 and max(errors) > 0
