"""The report in a browser: read, searched, sorted and opened as a person does, with data that is up to no good."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browser_fixtures import HOSTILE, check_chat
from playwright.sync_api import expect

from verdict_cli.report.charts import ChartPoint, Dots, Matrix, PlanePoint, Scatter, Series
from verdict_cli.report.document import ReportDocument, Section
from verdict_cli.report.renderers import html

pytestmark = pytest.mark.slow  # `make test-all`


def wait_told(view: Any, text: str) -> None:
    expect(view.page.locator(".tools .told")).to_have_text(text)


def test_a_reader_searches_filters_and_sorts(recorded_run, look):
    view = look(recorded_run / "report.html")
    wait_told(view, "1–50 of 450")
    assert set(view.text("tbody .mark")) == {"✗ wrong"}
    view.page.get_by_label("Search rows").fill("python process")
    wait_told(view, "1–1 of 1")
    view.page.get_by_label("Search rows").fill("no such words anywhere")
    wait_told(view, "No matching rows")
    view.page.get_by_label("Search rows").fill("")
    view.page.get_by_label("Which rows").select_option("right")
    wait_told(view, "1–50 of 347")
    view.page.get_by_role("button", name="Row", exact=True).click()
    ascending = view.text("table.rows tbody .opener")
    view.page.get_by_role("button", name="Row", exact=True).click()
    assert ascending[0] == "v2-1"
    assert view.text("table.rows tbody .opener")[0] != "v2-1"
    assert view.page.locator("th[aria-sort=descending]").inner_text() == "Row"
    view.page.get_by_role("button", name="Next page").click()
    wait_told(view, "51–100 of 347")


def test_a_row_has_its_whole_story_and_is_reached_by_keyboard_alone(recorded_run, look):
    view = look(recorded_run / "report.html")
    page = view.page
    page.keyboard.press("/")
    page.keyboard.type("v2-6")
    page.get_by_label("Search rows").press("Tab")
    page.locator("table.rows tbody .opener").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
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
    assert story.index("reply") < story.index("Source"), (
        "the prompt and the reply come before the source"
    )
    assert "output.choice" in story and "judge.choice" not in story, (
        "values of the last unit are not repeated"
    )
    assert "Does the response comply?" in page.locator(".call details pre").first.inner_text()
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()
    assert page.evaluate("document.activeElement.innerText") == "v2-6"
    page.get_by_label("Search rows").fill("")
    page.locator("table.rows tbody .opener").first.press("Enter")
    first = page.locator("dialog h2").inner_text()
    page.keyboard.press("ArrowRight")
    second = page.locator("dialog h2").inner_text()
    assert second != first
    page.keyboard.press("n")
    page.keyboard.press("p")
    assert page.locator("dialog h2").inner_text() == second
    assert page.locator("dialog .mark.wrong").count() == 1


def test_charts_are_drawn_and_say_the_same_as_their_tables(recorded_run, look):
    view = look(recorded_run / "report.html")
    canvas = view.page.locator("canvas").first
    canvas.scroll_into_view_if_needed()
    view.page.wait_for_function("document.querySelector('canvas').width > 300")
    drawn = view.page.evaluate(
        "document.querySelector('canvas').getContext('2d').getImageData(0, 0, 400, 200).data.some((part) => part > 0)"
    )
    assert drawn
    chart = view.page.locator("figure.chart:has(summary)").first
    chart.locator("summary").click()
    assert "homonyms" in chart.locator("table").inner_text()


def test_names_of_points_that_have_no_room_become_numbers_with_a_list(look, tmp_path):
    def page_of(*ends: float, name: str = "variant"):
        points = [PlanePoint(x, x, label=f"a long name of {name} {x}") for x in ends]
        chart = Scatter("Frontier", [Series("", points, named=True)], "cost", "accuracy")
        file = tmp_path / f"{name}.html"
        file.write_text(
            html.render_html(ReportDocument("t", [Section("Frontier", [chart])])), encoding="utf-8"
        )
        view = look(file, "figure.chart canvas")
        view.page.wait_for_function("document.querySelector('canvas').width > 300")
        return view.text(".key li")

    assert page_of(1.0, 2.0, 3.0, name="apart") == []
    close = [f"a long name of near {x}" for x in (1.0, 1.001, 1.002, 1.003, 5.0)]
    assert page_of(1.0, 1.001, 1.002, 1.003, 5.0, name="near") == close


def test_long_names_of_lines_are_broken_and_not_cut(look, tmp_path):
    names = ("short", "a_name_of_a_variant_that_is_longer_than_a_line_of_the_chart_has_room_for")
    chart = Dots("Differences", [ChartPoint(name, 0.5, 0.4, 0.6) for name in names], "accuracy")
    file = tmp_path / "page.html"
    file.write_text(
        html.render_html(ReportDocument("t", [Section("Frontier", [chart])])), encoding="utf-8"
    )
    page = look(file, "figure.chart canvas").page
    page.wait_for_function("document.querySelector('canvas').width > 300")
    assert (
        page.evaluate("parseFloat(document.querySelector('.canvas').style.height)") > chart.height
    )
    assert names[1] in page.content()


def test_colours_follow_the_system_until_the_reader_chooses(recorded_run, look):
    view = look(recorded_run / "report.html", color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = view.page.evaluate(paper)
    view.page.get_by_role("button", name="Show this page in light colours").click()
    assert view.page.evaluate(paper) == "rgb(255, 255, 255)" != dark


def test_a_phone_shows_it_without_sideways_scrolling(recorded_run, look):
    view = look(recorded_run / "report.html", viewport={"width": 375, "height": 740})
    view.page.wait_for_function("document.documentElement.scrollWidth == 375")
    view.page.locator("table.rows tbody .opener").first.click()
    view.page.wait_for_selector(".call")
    assert view.page.evaluate("document.querySelector('dialog').scrollWidth") <= 375


def test_without_scripts_the_values_are_there(recorded_run, look):
    view = look(recorded_run / "report.html", java_script_enabled=False)
    text = view.page.locator("body").inner_text()
    assert "0.771" in text
    assert "needs JavaScript" in text


def test_rows_that_are_up_to_no_good_are_text(hostile_run, look):
    view = look(hostile_run / "report.html")
    page = view.page
    assert page.locator("main img, main a[href^=javascript], main script:not([type])").count() == 0
    for place in range(page.locator("table.rows tbody .opener").count()):
        # By the keyboard: charts that are drawn meanwhile may move a button between a mouse's down and up.
        page.locator("table.rows tbody .opener").nth(place).press("Enter")
        page.wait_for_selector(".call")
        page.keyboard.press("Escape")
        page.wait_for_selector(
            "dialog", state="hidden"
        )  # until then a click closes it, and opens no other row
    page.get_by_label("Search rows").fill("<script>alert(1)")
    page.locator("table.rows tbody .opener").first.press("Enter")
    page.wait_for_selector(".call")
    story = page.locator("dialog").inner_text()
    assert HOSTILE["script"] in story
    page.keyboard.press("Escape")
    page_text = page.content()
    assert not {"\x1b", "\x00", "\u202e", "\u2066"} & set(page_text)
    assert not {"\x1b", "\x00", "\u202e", "\u2066"} & set(page.locator("body").inner_text())
    assert page.locator("dialog img, dialog a, dialog script").count() == 0


def test_a_megabyte_is_cut_and_says_so(hostile_run, look):
    view = look(hostile_run / "report.html")
    assert (hostile_run / "report.html").stat().st_size < 600_000
    view.page.get_by_label("Search rows").fill("xxxxxxxxxx")
    view.page.locator("table.rows tbody .opener").first.click()
    view.page.wait_for_selector(".call")
    assert "980,000 characters more" in view.page.locator("dialog").inner_text()
    assert "characters of long texts are left out" in view.page.locator("dialog").inner_text()


def test_a_comparison_draws_differences_by_slice_and_lists_the_rows_that_flipped(compared, look):
    view = look(compared)
    assert view.text("figure.chart h3") == ["Differences", "accuracy by source.type"]
    assert "homonyms" in view.page.locator("figure.chart").nth(1).locator("table").text_content()
    wait_told(view, "1–50 of 75")
    view.page.get_by_role("button", name="Gain").click()
    assert set(view.text("table.rows tbody tr td:first-child")[:30]) == {"lexical better"}


@pytest.mark.parametrize("name", ["report.md", "junit.xml", "report.html"])
def test_files_hold_no_sign_that_steers_a_reader(hostile_run, name):
    content = (hostile_run / name).read_text(encoding="utf-8")
    assert not {"\x1b", "\x00", "\u202e", "\u2066", "\u2028"} & set(content)
    if name != "report.html":
        assert "<script>alert" not in content


@pytest.mark.parametrize(("script", "canvases"), [(None, 1), ("window.other = 1;", 0), ("", 0)])
def test_a_chart_library_that_does_not_run_leaves_the_tables(
    look, tmp_path, monkeypatch, script, canvases
):
    if script is not None:
        (tmp_path / "chart.umd.min.js").write_text(script, encoding="utf-8")
        monkeypatch.setattr(html, "VENDOR_FOLDER", tmp_path)
    chart = Dots("Accuracy", [ChartPoint("small", 0.71, 0.66, 0.76)], "accuracy")
    file = tmp_path / "page.html"
    file.write_text(
        html.render_html(ReportDocument("t", [Section("Metrics", [chart])])), encoding="utf-8"
    )
    page = look(file, "figure.chart").page
    if not canvases:
        page.get_by_role("cell", name="[0.660, 0.760]").wait_for()
    assert page.locator("canvas:visible").count() == canvases
    assert page.get_by_role("cell", name="[0.660, 0.760]").is_visible() == (canvases == 0)


def test_the_story_of_a_row_shows_its_entries_as_a_table(verdict, look, tmp_path):
    (tmp_path / "p.yaml").write_text(
        "verdict: 1\nname: p\nmodel: baseline/lexical\npipeline:\n"
        "  - {unit: JudgeUnit, name: check, scale: boolean, each: source.claims, as: claim, prompt: '{claim} {source.text}'}\n"
        "  - {unit: MeanPoolUnit, field: score}\n"
        "evaluate: {e: {prediction: output.score, target: source.label, kind: numeric}}\n"
    )
    row = {"text": "the sky is blue", "claims": ["sky is blue", "<b>grass</b>"], "label": 1}
    (tmp_path / "d.jsonl").write_text(json.dumps(row) + "\n")
    verdict("run", tmp_path / "p.yaml", tmp_path / "d.jsonl", "--out", tmp_path / "out")
    view = look(tmp_path / "out" / "report.html")
    view.page.locator("table.rows tbody .opener").first.click()
    view.page.wait_for_selector(".entries table")
    assert view.text(".entries th") == ["entry", "claim", "check.score"]
    assert view.text(".entries td") == ["0", "sky is blue", "true", "1", "<b>grass</b>", "false"]
    assert "check, entry 1" in view.page.locator("dialog").inner_text()


def test_a_conversation_is_shown_as_a_chat(chat_run, look):
    page = look(chat_run / "report.html").page
    assert (
        "[1] system: Be kind. [2] user: What is this?"
        in page.locator("table.rows tbody tr").inner_text()
    )
    page.locator("table.rows tbody .opener").first.click()
    check_chat(page)
    assert page.locator(".call details .turn-image").all_inner_texts() == [
        "image: image/png, 70 bytes"
    ]
    assert "iVBOR" not in page.content()


def test_a_confusion_matrix_is_a_picture_above_its_shaded_table():
    matrix = Matrix("Confusion matrix", ["bad", "good"], [[3, 1], [0, 0]])
    assert matrix.script_data() == {
        "type": "matrix",
        "labels": ["bad", "good"],
        "counts": [[3, 1], [0, 0]],
    }
    assert matrix.table().heat == [[0.75, -0.25], [0, 0]]
    page = html.render_html(ReportDocument("t", [Section("Evaluation", [matrix])]))
    assert page.count("<canvas") == 1 and page.index("<canvas") < page.index(
        'class="number" data-heat="wrong"'
    )
