"""A comparison for a terminal: data is shown as it is, never read as markup."""

import io

import pytest
from finished_runs import finished_run
from rich.console import Console

from verdict_cli.report.charts import ChartPoint, Dots
from verdict_cli.report.comparison import (
    ComparedRun,
    comparison_document,
    comparison_json,
    pipeline_names,
)
from verdict_cli.report.conclusions import short_names
from verdict_cli.report.document import PAGE_FORMATS, Group, Only, ReportDocument, Section
from verdict_cli.report.renderers.html import render_html
from verdict_cli.report.renderers.markdown import render_markdown
from verdict_cli.report.renderers.terminal import render_terminal
from verdict_cli.stats.columns.row_identities import RowIdentities
from verdict_cli.stats.compare import ComparedEvaluation, RunComparison, Significance, Slice
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.paired import AgainstReference, Difference
from verdict_cli.stats.row_scores import Flip

FACTS = finished_run(
    name="t",
    rows=9,
    done=9,
    floors=("baseline/random",),
)


def sides(*runs):
    return [[ComparedRun(run, FACTS, None)] for run in runs]


SIDES = sides("runs/[red]a", "runs/b")
TEST = Significance("mcnemar", 9, 3, 1, 0.625, 1.0, "cohen_g", 0.25)


def of_two(difference):
    return Slice(9, {"accuracy": AgainstReference((), (), None, None, (difference,), 0.95)}, TEST)


WHOLE = of_two(Difference(0.5, 0.75, MetricValue(0.25, -0.1, 0.5, 9)))
FLIPS = tuple(Flip(f"[b]{n}\x1b", "[red]x", True, None, 1.0) for n in range(12))
COMPARISON = RunComparison(
    RowIdentities((), "content", (), ("question",)),
    {
        "e": ComparedEvaluation(
            "classification", (1, 0), WHOLE, {"source.type": {"[i]": WHOLE}}, FLIPS
        ),
        "f": ComparedEvaluation("", reason="the runs have no row in common"),
    },
)


def printed():
    out = io.StringIO()
    Console(file=out, width=120).print(render_terminal(comparison_document(SIDES, COMPARISON)))
    return out.getvalue()


def test_the_terminal_says_what_changed_and_whether_it_is_chance():
    text = printed()
    assert "9 rows paired by content: question; not in all runs: 1 of [red]a" in text
    assert (
        "mcnemar, of right and wrong rows: b better on 3 rows, worse on 1; p = 0.62 (Holm-adjusted: 1); cohen_g 0.250"
        in text
    )
    assert "not compared: the runs have no row in common" in text
    assert "2 more with --json" in text
    assert "[b]9" in text
    assert "[b]10" not in text
    assert "baseline/random is a baseline, not an LLM judge" in text


def test_data_is_never_markup_nor_a_control_character():
    text = printed()
    assert all(piece in text for piece in ("[red]x", "[b]0\\x1b", "[i]", "runs/[red]a"))
    assert "\x1b" not in text


def test_the_document_has_every_flip():
    document = comparison_json(SIDES, COMPARISON)
    assert len(document["evaluations"]["e"]["flipped"]) == 12
    assert document["evaluations"]["e"]["test"]["effect"] == {"name": "cohen_g", "value": 0.25}
    assert document["evaluations"]["f"]["figures"] == {}
    assert document["pipelines"]["a"]["runs"][0]["latency_s"] is None


def test_the_page_has_the_same_and_takes_nothing_for_markup():
    page = render_html(comparison_document(SIDES, COMPARISON))
    assert "9 rows paired by content: question; not in all runs: 1 of [red]a" in page
    assert "not compared: the runs have no row in common" in page
    assert "12 rows are scored differently." in page
    assert page.count("<canvas") == 2
    assert "<i>" not in page.partition("<main")[2].partition("</main>")[0]
    assert "\x1b" not in page


def test_the_better_run_is_named_in_every_format():
    gain = MetricValue(0.25, 0.1, 0.5, 9)
    whole = of_two(Difference(0.5, 0.75, gain, p=0.01, p_adjusted=0.01))
    comparison = RunComparison(
        COMPARISON.paired, {"e": ComparedEvaluation("classification", (0, 0), whole, {}, FLIPS)}
    )
    document = comparison_document(sides("runs/v1", "runs/v2"), comparison)
    out = io.StringIO()
    Console(file=out, width=120).print(render_terminal(document))
    for text in (out.getvalue(), render_markdown(document), render_html(document)):
        assert "v2 is better on accuracy: +0.250" in text
        assert "v2 better on 3 rows" in text
        assert "b is better" not in text


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        (["runs/v1", "runs/v2"], ["v1", "v2"]),
        (["old/judge", "new/judge"], ["old/judge", "new/judge"]),
        (["x/old/judge", "y/new/judge", "judge"], ["old/judge", "new/judge", "judge"]),
        ([".", "runs/v1"], [".", "v1"]),
    ],
)
def test_a_run_is_named_by_the_end_of_its_path_that_no_other_has(runs, names):
    assert short_names(runs) == names


def test_a_chart_in_a_group_of_a_group_is_drawn():
    """Of four evaluations, the charts of each are in a folded group: the page ended with an internal error."""
    chart = Dots("Differences", [ChartPoint("accuracy", 0.1, 0.0, 0.2)], "b − a", reference=0)
    page = render_html(
        ReportDocument(
            "t", [Section("s", [Group([Only(PAGE_FORMATS, [Group([chart])])], "folded")])]
        )
    )
    assert page.count("<canvas") == 1 and "internal error" not in page


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        (("runs/v1/judge", "runs/v2/judge", "runs/v3/judge"), ["v1/judge", "v2/judge", "v3/judge"]),
        (("runs/baseline", "runs/a-judge-with-a-very-long-name-v1", "runs/a-judge-with-a-very-long-name-v2"),
         ["baseline", "a-judge-with-…y-long-name-v1", "a-judge-with-…y-long-name-v2"]),
        (("a-judge-whose-1-name-is-long-with-an-end", "a-judge-whose-2-name-is-long-with-an-end", "b"),
         ["a-judge-whose-1-name-is-long-with-an-end", "a-judge-whose-2-name-is-long-with-an-end", "b"]),
    ],
)  # fmt: skip
def test_the_tables_of_several_runs_have_their_names(runs, names):
    pipelines = sides(*runs)
    assert pipeline_names(pipelines) == names
    change = Difference(0.5, 0.75, MetricValue(0.25, -0.1, 0.5, 9))
    whole = Slice(
        9,
        {"accuracy": AgainstReference((0.5, 0.75, 0.7), (), None, None, (change, change), 0.95)},
        None,
    )
    comparison = RunComparison(
        RowIdentities((), "content", (), ("question",)),
        {
            "e": ComparedEvaluation(
                "classification", (0, 0, 0), whole, {"source.type": {"x": whole}}
            )
        },
    )
    document = comparison_document(pipelines, comparison)
    text = render_markdown(document)
    assert document.lead == f"{names[1]}, {names[2]} against {names[0]}, the reference"
    assert f"| metric | {names[0]} | {names[1]} | {names[2]} | pipeline | − {names[0]} |" in text
    assert "| <code>accuracy</code> | 0.500 | 0.750 | 0.700 |" in text
    pipelines_json = comparison_json(pipelines, comparison)["pipelines"]
    assert [pipeline["name"] for pipeline in pipelines_json.values()] == names
