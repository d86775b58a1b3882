"""The paper's tables are whole, and every published table says where it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from paths import ROOT, SHARED

from verdict_cli.language.document.document import read_document
from verdict_cli.language.evaluations import Published
from verdict_cli.report.report import build_report
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.measure import Measures

SEEDS = SHARED / "seeds"
TABLES = sorted((ROOT / "configs").glob("**/published/*.yaml"))
PAPER = {"xstest": 12, "judgebench": 12, "judgebench_arguments": 12, "expertqa": 15}


def table(path: Path) -> Published:
    return Published.model_validate(read_document(path).data)


def figures(text: str) -> list[list[str]]:
    """The percentages of each block of lines that end with one, a list for each column."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        cells = re.findall(r"(\d\d\.\d+)%(?:</b>)?(?:\t|$)", line) if "\t" in line else []
        if cells and blocks and blocks[-1]:
            blocks[-1] += [" ".join(cells)]
        elif cells:
            blocks.append([" ".join(cells)])
        elif not blocks or blocks[-1]:
            blocks.append([])
    return [
        [row.split(" ")[column] for row in block]
        for block in blocks
        if block
        for column in range(len(block[0].split(" ")))
    ]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_published_table_says_what_it_is_and_names_its_schema(path):
    published = table(path)
    assert published.source and published.unit == (
        "fraction" if path.stem == "geval" else "percent"
    )
    first = (
        path.read_text(encoding="utf-8")
        .splitlines()[0]
        .removeprefix("# yaml-language-server: $schema=")
    )
    assert (path.parent / first).resolve() == ROOT / "schemas" / "published.schema.json"
    if path.stem in PAPER:
        assert published.caveat
        assert published.page is not None
        assert len(published.rows) == PAPER[path.stem]
        assert any(row.own for row in published.rows)


@pytest.mark.parametrize("name", PAPER)
def test_every_value_of_the_papers_tables_is_there_in_its_order(name):
    papers = [
        path for path in SEEDS.glob("*.txt") if "JudgeBench" in path.read_text(encoding="utf-8")
    ]
    if not papers:
        pytest.skip(
            "the paper's text is not there: set VERDICT_SHARED to the folder that has seeds/"
        )
    printed = [
        [float(cell) for cell in column]
        for path in papers
        for column in figures(path.read_text(encoding="utf-8"))
    ]
    assert [
        row.value for row in table(ROOT / "configs" / "paper" / "published" / f"{name}.yaml").rows
    ] in printed


def test_the_value_of_g_eval_is_that_of_the_papers_text():
    (row,) = table(ROOT / "configs" / "paper" / "published" / "geval.yaml").rows
    papers = [path.read_text(encoding="utf-8") for path in SEEDS.glob("*.txt")]
    quoting = [text for text in papers if "Spearman correlation of" in text]
    if not quoting:
        pytest.skip(
            "the paper's text is not there: set VERDICT_SHARED to the folder that has seeds/"
        )
    assert row.value == 0.514
    assert all("Spearman correlation of 0.514" in text for text in quoting)


def test_every_row_of_judgebench_but_the_papers_own_is_a_share_of_350_pairs():
    for row in table(ROOT / "configs" / "paper" / "published" / "judgebench.yaml").rows:
        assert any(round(100 * right / 350, 2) == row.value for right in range(351)) is not row.own


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_every_published_value_is_shown_with_the_digits_of_its_file(path):
    literals = re.findall(r"value: ([\d.]+)", path.read_text(encoding="utf-8"))
    published = table(path)
    facts = RunFacts(
        name="run", status="finished", config="c", dataset="d", spec_fingerprint="", data_fingerprint="", version="",
        started="", rows=0,
    )  # fmt: skip
    comparison = build_report(
        "run", facts, {"e": Measures({})}, published={"e": published}
    ).comparisons["e"]
    displayed = [
        comparison.shown(row.value).removesuffix("%")
        for row in comparison.standings
        if not row.ours
    ]
    most = max(len(value.partition(".")[2]) for value in literals)
    assert sorted(displayed) == sorted(f"{float(value):.{most}f}" for value in literals)
