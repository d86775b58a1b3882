"""The viewer's page of a comparison: the same numbers as `verdict compare`, and the rows of both runs side by side."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from test_web_pages import ROWS, count_line, until, wait_told

from verdict_cli.report.comparison import compare_finished
from verdict_cli.run.load_run import load_run

pytestmark = pytest.mark.slow  # `make test-all`


PAIR = "compare?a=sample%2Flexical&b=sample%2Frandom"


@pytest.fixture(scope="module")
def document(runs: Path) -> dict[str, Any]:
    """The document of `verdict compare` of the two runs over the sample."""
    loaded = [load_run(runs / "sample" / name) for name in ("lexical", "random")]
    return compare_finished(loaded, names=["sample/lexical", "sample/random"])[0].as_json()


def test_two_runs_have_the_conclusion_and_the_numbers_of_the_command(viewer, look, document):
    page = look(f"{viewer}/{PAIR}", wait=f"{ROWS} a").page
    assert page.locator("p.conclusion").inner_text() == document["conclusion"]
    name = next(iter(document["evaluations"]))
    figures = document["evaluations"][name]["figures"]
    lines = {
        line.split("\t")[0]: line
        for line in page.locator("table.compared tbody tr").all_inner_texts()
    }
    assert list(lines) == list(figures)
    for metric, of_metric in figures.items():
        difference = of_metric["differences"]["b"]
        interval = f"[{difference['low']:.3f}, {difference['high']:.3f}]"
        assert (
            f"{difference['difference']:+.3f}".replace("+0.000", "0")
            in lines[metric].replace("−", "-")
            and interval in lines[metric]
        )
    assert page.locator("table.compared .span.zero b").count() == len(figures)


def test_the_cells_of_the_two_by_two_table_choose_the_rows(viewer, look, document):
    page = look(f"{viewer}/{PAIR}", wait=f"{ROWS} a").page
    buttons = {
        re.match("[^:]*", button.get_attribute("aria-label")).group(): button
        for button in page.locator(".cells button").all()
    }
    counts = {label: int(button.inner_text()) for label, button in buttons.items()}
    assert list(counts) == ["Both right", "Only lexical right", "Only random right", "Both wrong"]
    test = next(iter(document["evaluations"].values()))["test"]
    assert (counts["Only random right"], counts["Only lexical right"]) == (
        test["better"],
        test["worse"],
    )
    assert sum(counts.values()) == test["n"]
    buttons["Only lexical right"].click()
    wait_told(page, f"1–{counts['Only lexical right']} of {counts['Only lexical right']}")
    assert {text.strip() for text in page.locator(f"{ROWS} td:first-child").all_inner_texts()} == {
        "lexical better"
    }
    assert page.locator(".cells button[aria-pressed=true]").inner_text() == str(
        counts["Only lexical right"]
    )
    page.locator(".cells button").first.click()
    until(
        page,
        "document.querySelector('h2 ~ div .cells button').getAttribute('aria-pressed') === 'true'",
    )
    assert count_line(page).endswith(f"of {counts['Both right']}")
    row = page.locator(ROWS).first.locator("td").all_inner_texts()
    target = row[2].strip()
    assert [cell.split("\n")[0].strip() for cell in row[3:5]] == [target, target]


def test_a_row_shows_what_was_judged_once_and_both_outputs_and_prompts(viewer, look):
    page = look(f"{viewer}/{PAIR}", wait=f"{ROWS} a").page
    page.locator(f"{ROWS} a").first.click()
    page.wait_for_selector(".stories .call")
    first = page.locator("dialog h2").inner_text()
    assert page.locator("dialog .story-body > details summary").first.inner_text() == "Source"
    assert page.locator(".stories > div").count() == 2
    assert (
        page.locator(".stories > div .reply").count() >= 2
        and page.locator(".stories pre").count() >= 4
    )
    page.keyboard.press("ArrowRight")
    until(page, f"document.querySelector('dialog h2').innerText !== {json.dumps(first)}")
    page.wait_for_selector(".stories .call")
    page.keyboard.press("Escape")
    until(page, "!new URLSearchParams(location.search).has('row')")


def test_several_runs_are_compared_with_the_first_and_one_is_added(
    runs, serve_runs, look, tmp_path
):
    for name, source in (("a", "lexical"), ("b", "random"), ("c", "random")):
        shutil.copytree(runs / "sample" / source, tmp_path / "three" / name)
    spec = tmp_path / "three" / "c" / "spec.yaml"
    spec.write_text(spec.read_text().replace("baseline/random", "baseline/lexical"))
    address = serve_runs(tmp_path / "three")
    page = look(f"{address}/compare?a=a&b=b", wait=f"{ROWS} a").page
    page.get_by_label("Add a run").focus()
    until(page, "document.querySelector('select[aria-label=\"Add a run\"]').options.length === 2")
    page.get_by_label("Add a run").select_option("c")
    page.wait_for_selector("text=a (reference)")
    assert "run=a&run=b&run=c" in page.url
    text = page.locator("main").inner_text()
    assert "95% interval" in text and "p (adj.)" in text
    assert page.locator("p.conclusion").inner_text()
    page.get_by_role("link", name="Rows side by side").first.click()
    page.wait_for_selector(f"{ROWS} a")
    assert page.url.endswith("a=a&b=c"), "c has the pipeline of a, so it comes before b"


def test_explanations_are_folded_to_three_lines_and_a_page_of_rows_is_short(viewer, look):
    page = look(f"{viewer}/{PAIR}", wait=f"{ROWS} a").page
    assert page.locator(ROWS).count() == 50
    assert page.locator("table.pairs").bounding_box()["height"] < 7_000
    fold = page.locator("table.pairs .unfold:visible").first
    text = fold.locator("xpath=preceding-sibling::div")
    line = text.evaluate("e => parseFloat(getComputedStyle(e).lineHeight)")
    assert text.bounding_box()["height"] <= 3 * line + 2
    fold.click()
    assert text.bounding_box()["height"] > 3 * line + 2


def test_a_phone_shows_a_comparison_without_sideways_scrolling(viewer, look):
    page = look(f"{viewer}/{PAIR}", wait=f"{ROWS} a", viewport={"width": 390, "height": 800}).page
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("run=recorded", "two to 12 different runs"),
        ("a=recorded&b=recorded", "two to 12 different runs"),
        ("a=recorded&b=nowhere", "no such run"),
        ("a=recorded&b=sample/random", "share no evaluation"),
        ("a=sample/lexical&b=sample/random&page=x", "not a whole number"),
        ("a=sample/lexical&b=sample/random&evaluation=x", "do not share this evaluation"),
    ],
)
def test_what_cannot_be_compared_is_reported(viewer, query, message):
    with pytest.raises(HTTPError) as caught:
        for _ in range(100):
            if json.load(urlopen(f"{viewer}/api/compare?{query}"))["ready"]:
                break
    assert message in json.load(caught.value)["error"]
