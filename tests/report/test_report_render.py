"""Every layout says what the report holds, and nothing from data is read as markup."""

import html.parser
import io
import json
from html import unescape
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace
from rich.console import Console

from verdict_cli.language.evaluations import Published
from verdict_cli.report import formatting
from verdict_cli.report.document import Tiles
from verdict_cli.report.renderers.html import render_html
from verdict_cli.report.renderers.junit import render_junit
from verdict_cli.report.renderers.markdown import MOST_COMMENT_BYTES, render_markdown
from verdict_cli.report.renderers.terminal import render_terminal
from verdict_cli.report.report import build_report, full_json, summary_json
from verdict_cli.report.run_document import run_document
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.gates import GateOutcome
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.measure import Measures

FACTS = RunFacts(
    name="xstest",
    status="finished",
    config="xstest.yaml",
    dataset="xstest.csv",
    spec_fingerprint="a",
    data_fingerprint="b",
    version="0.1.0",
    started="2026-01-01T00:00:00Z",
    rows=450,
    done=450,
    failed=3,
    calls=460,
    cost_usd=None,
    wall_s=200,
    failures={"timeout": 2, "unreadable": 1},
    models={"baseline/lexical": 460},
    floors=("baseline/lexical",),
)
MEASURES = Measures(
    values={
        "accuracy": MetricValue(0.7711, 0.7301, 0.8081, 447),
        "mcc": MetricValue(None, None, None, 447, "one side gives one label only"),
        "confusion": MetricValue(
            {"labels": ["safe", "unsafe"], "counts": [[200, 40], [62, 145]]}, None, None, 447
        ),
    },
    groups={"source.type": {"homonyms": {"accuracy": MetricValue(0.9, 0.8, 0.95, 50)}}},
    coverage=447 / 450,
    rows=450,
    missing=3,
    kind="classification",
    bounds={"accuracy": (0.766, 0.773)},
    warnings=("3 rows count as without prediction: row 5: no score",),
)
GATES = (
    GateOutcome(
        "safety.accuracy",
        "inconclusive",
        0.7711,
        0.75,
        0.7301,
        0.8081,
        447,
        "the lower end",
        "≥ 0.75 at 0.95 confidence",
    ),
    GateOutcome(
        "run.coverage", "failed", 447 / 450, 1.0, None, None, 450, "0.993333 is below 1", "≥ 1"
    ),
    GateOutcome("run.calls", "passed", 460, 500.0, None, None, 450, "", "≤ 500"),
)
TABLE = Published.model_validate(
    {
        "source": "A paper on safety",
        "table": 3,
        "page": 7,
        "metric": "accuracy",
        "unit": "percent",
        "data_rows": 450,
        "rows": [{"judge": "Low", "value": 61.2}, {"judge": "High", "value": 90, "own": True}],
    }
)
REPORT = build_report(
    "runs/xstest",
    FACTS,
    {"safety": MEASURES},
    GATES,
    published={"safety": TABLE},
    files=("results.parquet",),
)


def printed(report, width=80):
    out = io.StringIO()
    Console(file=out, width=width).print(render_terminal(run_document(report)))
    return out.getvalue()


def markdown(report):
    return render_markdown(run_document(report))


def as_html(report):
    return render_html(run_document(report))


def junit(report):
    return render_junit(run_document(report))


class Text(html.parser.HTMLParser):
    """The text and tags of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def test_our_row_says_what_it_cost_and_how_long_it_took():
    (ours,) = [row for row in REPORT.comparisons["safety"].standings if row.ours]
    assert (ours.cost_usd, ours.wall_s) == (None, 200)
    assert "this run, unknown, 3 min 20 s" in markdown(REPORT)


@pytest.mark.parametrize(
    ("page", "place"), [(5, "table 1, page 5"), ("section 5.3", "table 1, section 5.3")]
)
def test_a_table_has_its_source(page, place):
    table = TABLE.model_copy(update={"table": 1, "page": page})
    assert (
        build_report("r", FACTS, {"safety": MEASURES}, published={"safety": table})
        .comparisons["safety"]
        .place
        == place
    )


def test_our_row_is_ranked_among_the_published_ones():
    rows = REPORT.comparisons["safety"].standings
    assert [row.judge for row in rows] == ["High", "xstest", "Low"]
    assert rows[0].value == 0.9
    assert rows[0].own
    assert (rows[1].ours, rows[1].low, rows[1].high) == (True, 0.7301, 0.8081)


def test_published_values_keep_the_unit_and_the_digits_of_their_table():
    rows = [{"judge": "Debate", "value": 63.55, "own": True}, {"judge": "Short", "value": 50.0}]
    table = Published.model_validate({**TABLE.model_dump(), "rows": rows})
    report = build_report("runs/xstest", FACTS, {"safety": MEASURES}, published={"safety": table})
    comparison = report.comparisons["safety"]
    assert [row.value for row in comparison.standings if not row.ours] == [0.6355, 0.5]
    ours = f"{100 * MEASURES.values['accuracy'].value:.2f}%"
    for text in map(unescape, (printed(report, 160), markdown(report), as_html(report))):
        assert "63.55%" in text and "50.00%" in text and ours in text and "[73.01%, 80.81%]" in text
        assert " 0.635" not in text and " 0.636" not in text


def test_a_table_of_fractions_is_shown_in_fractions():
    table = Published.model_validate(
        {**TABLE.model_dump(), "unit": "fraction", "rows": [{"judge": "G", "value": 0.514}]}
    )
    comparison = build_report(
        "r", FACTS, {"safety": MEASURES}, published={"safety": table}
    ).comparisons["safety"]
    assert [comparison.shown(row.value) for row in comparison.standings] == ["0.771", "0.514"]


def test_a_tables_caveat_is_beside_values_that_are_side_by_side():
    table = TABLE.model_copy(update={"caveat": "the table is of another split"})
    report = build_report("runs/xstest", FACTS, {"safety": MEASURES}, published={"safety": table})
    for text in (
        printed(report, 160),
        markdown(report),
        as_html(report),
        json.dumps(full_json(report)),
    ):
        assert "the table is of another split" in text
    sample = structs.replace(FACTS, dataset="datasets/xstest_sample.jsonl")
    caveat = (
        build_report("r", sample, {"safety": MEASURES}, published={"safety": table})
        .comparisons["safety"]
        .caveat
    )
    assert "small sample" in caveat and "another split" in caveat


@pytest.mark.parametrize(
    ("rows", "data_rows", "is_told"),
    [(450, 450, False), (449, 450, True), (3, 450, True), (450, None, True)],
)
def test_row_29_a_run_on_other_data_than_a_tables_is_marked(rows, data_rows, is_told):
    table = TABLE.model_copy(update={"data_rows": data_rows})
    report = build_report(
        "r", structs.replace(FACTS, rows=rows), {"safety": MEASURES}, published={"safety": table}
    )
    for text in (
        printed(report, 160),
        markdown(report),
        as_html(report),
        json.dumps(full_json(report)),
    ):
        assert (f"not comparable: your data ({rows} rows)" in text) == is_told


def test_an_error_metric_ranks_the_smallest_first():
    table = TABLE.model_copy(update={"metric": "mae", "unit": "fraction"})
    measures = replace(MEASURES, values={"mae": MetricValue(65.0, 60.0, 70.0, 10)})
    rows = (
        build_report("r", FACTS, {"safety": measures}, published={"safety": table})
        .comparisons["safety"]
        .standings
    )
    assert [row.judge for row in rows] == ["Low", "xstest", "High"]


def test_an_undefined_value_is_last():
    measures = replace(MEASURES, values={"accuracy": MetricValue(None, None, None, 0, "no rows")})
    rows = (
        build_report("r", FACTS, {"safety": measures}, published={"safety": TABLE})
        .comparisons["safety"]
        .standings
    )
    assert rows[-1].ours


def test_the_page_says_once_why_several_values_are_uncertain():
    figures = {
        name: MetricValue(None, None, None, 9, "one side is constant")
        for name in ("mcc", "cohen_kappa")
    }
    page = as_html(build_report("r", FACTS, {"safety": replace(MEASURES, values=figures)}))
    assert page.count("one side is constant") == 1
    assert "mcc, cohen_kappa: one side is constant" in page


@pytest.mark.parametrize("render", [printed, markdown, as_html])
def test_the_readable_reports_say_everything(render):
    text = render(REPORT)
    if render is as_html:
        text = "".join(Text(text).text)
    for part in (
        "xstest",
        "baseline/lexical is a baseline, not an LLM judge",
        "unknown",
        "3 min 20 s",
        "0.771",
        "[0.730, 0.808]",
        "447",
        "one side gives one label only",
        "coverage 0.993",
        "3 of 450 rows",
        "0.766 to 0.773",
        "145",
        "homonyms",
        "High",
        "0.900",
        "inconclusive",
        "timeout",
        "results.parquet",
        "runs/xstest",
    ):
        assert part.replace("'", "") in text.replace("'", ""), part
    assert "own" in text


def test_the_terminal_report_fits_eighty_columns_and_is_plain_when_piped():
    text = printed(REPORT)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "accuracy  0.771 [0.730, 0.808] n=447" in text
    assert "✗ run.coverage" in text


def test_long_words_do_not_break_the_terminal_report():
    measures = replace(
        MEASURES, warnings=("w" * 500,), groups={"g" * 200: {"v" * 200: MEASURES.values}}
    )
    report = build_report(
        "r" * 200, FACTS, {"n" * 200: measures}, GATES, published={"n" * 200: TABLE}
    )
    assert max(map(len, printed(report).splitlines())) <= 80


def test_the_summary_has_exactly_the_documented_keys():
    document = summary_json(REPORT)
    assert list(document) == [
        "run",
        "status",
        "rows",
        "failed",
        "calls",
        "cost_usd",
        "evaluations",
        "gates",
    ]
    assert document["run"] == "runs/xstest"
    assert document["cost_usd"] is None
    assert document["evaluations"]["safety"]["accuracy"] == {
        "value": 0.7711,
        "low": 0.7301,
        "high": 0.8081,
        "n": 447,
    }
    assert document["gates"][1] == {
        "metric": "run.coverage",
        "passed": False,
        "value": 447 / 450,
        "limit": 1.0,
        "verdict": "failed",
        "reason": "0.993333 is below 1",
    }


def test_the_full_document_is_json_without_nan():
    document = json.loads(json.dumps(full_json(REPORT), allow_nan=False))
    assert (
        document["evaluations"]["safety"]["groups"]["source.type"]["homonyms"]["accuracy"]["value"]
        == 0.9
    )
    assert document["evaluations"]["safety"]["bounds"] == {"accuracy": [0.766, 0.773]}
    assert document["gates"][0]["verdict"] == "inconclusive"
    assert document["published"]["safety"]["standings"][1]["ours"] is True
    assert document["passed"] is False


def test_the_page_needs_no_other_file():
    page = as_html(REPORT)
    tags = Text(page).tags
    assert not {"link", "img", "iframe", "object"} & set(tags)
    assert " src=" not in page
    assert "default-src &#39;none&#39;; script-src &#39;sha256-" in page
    assert "prefers-color-scheme: dark" in page


def test_gates_and_kinds_of_failed_rows_are_test_cases():
    root = ElementTree.fromstring(junit(REPORT))
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert cases["run.calls ≤ 500"].find("failure") is None
    assert cases["run.coverage ≥ 1"].find("failure").get("type") == "failed"
    assert (
        cases["no row fails: timeout"].find("failure").get("message")
        == "2 of 450 rows failed: timeout"
    )
    suites = {suite.get("name"): suite for suite in root}
    assert (suites["gates"].get("tests"), suites["gates"].get("failures")) == ("3", "2")


def test_the_times_of_the_cases_add_up_to_the_runs():
    root = ElementTree.fromstring(junit(REPORT))
    suites = {suite.get("name"): suite for suite in root}
    assert (root.get("time"), suites["rows"].get("time")) == ("200.000", "200.000")
    cases = [float(case.get("time")) for case in root.iter("testcase")]
    assert (sum(cases), len(cases)) == (200, 5)
    assert {suite.get("timestamp") for suite in root} == {FACTS.started}


def test_failed_rows_that_a_coverage_gate_allows_are_skipped_test_cases():
    allowed = GateOutcome("run.coverage", "passed", 0.99, 0.9, None, None, 450, "", "≥ 0.9")
    root = ElementTree.fromstring(junit(structs.replace(REPORT, gates=(allowed,))))
    assert root.find(".//failure") is None
    assert len(root.findall(".//skipped")) == 2


HOSTILE = (
    "[red]x[/] <img src=x> | `a` **b** @user #1 https://e.example\n\x1b[31m\u202e{{ 7 }}\ud800"
)


def hostile(text):
    figures = MEASURES.values | {
        "confusion": MetricValue({"labels": [text, "b"], "counts": [[1, 2], [3, 4]]}, None, None, 1)
    }
    measures = replace(
        MEASURES, values=figures, groups={text: {text: MEASURES.values}}, warnings=(text,)
    )
    gates = tuple(replace(gate, reason=text, rule=text) for gate in GATES)
    facts = structs.replace(FACTS, name=text, failures={text: 1}, models={text: 1}, floors=(text,))
    return build_report(
        text, facts, {text: measures}, gates, files=(text,), published={text: TABLE}
    )


def test_data_is_never_markup():
    report = hostile(HOSTILE)
    for text in (printed(report, 400), markdown(report), as_html(report), junit(report)):
        assert not {"\x1b", "\u202e", "\ud800"} & set(text)
    assert "[red]x[/]" in printed(report, 400)
    page = Text(as_html(report))
    assert "img" not in page.tags
    assert "{{ 7 }}" in "".join(page.text)
    comment = markdown(report)
    assert not any(
        part in comment for part in ("<img", "`a`", "**b**", "@user", "https://e", "#1 ")
    )
    widths = {
        line.count("|") for line in comment.splitlines() if "❔" in line and line.startswith("| ")
    }
    assert widths == {7}
    ElementTree.fromstring(junit(report))


@settings(deadline=None, max_examples=25)
@given(st.text(max_size=30))
def test_any_text_renders_everywhere(text):
    report = hostile(text)
    ElementTree.fromstring(junit(report))
    as_html(report).encode()
    markdown(report).encode()
    printed(report).encode()


def test_a_large_report_fits_a_pull_request_comment():
    groups = {f"value {index}": MEASURES.values for index in range(50)}
    measures = {
        f"e{index}": replace(MEASURES, groups={"a": groups, "b": groups}) for index in range(40)
    }
    text = markdown(build_report("r", FACTS, measures, GATES))
    assert len(text.encode()) <= MOST_COMMENT_BYTES
    assert "The rest is in report.html" in text
    assert "timeout" in text


def test_a_report_whose_every_name_is_long_and_foreign_fits_too():
    long = "語[" * 500
    report = hostile(long)
    gates = GATES * 40
    facts = structs.replace(
        report.facts, failures={f"{long}{place}": 1 for place in range(200)}, floors=(long,) * 50
    )
    text = markdown(
        structs.replace(
            report, facts=facts, gates=tuple(replace(gate, reason=long) for gate in gates)
        )
    )
    assert len(text.encode()) <= MOST_COMMENT_BYTES
    assert "more in report.html" in text
    assert "190 more" in text


def test_junit_counts_what_its_suites_hold():
    root = ElementTree.fromstring(junit(REPORT))
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite"
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
        assert int(suite.get("failures")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("skipped")) == len(suite.findall("testcase/skipped"))
        assert all(case.get("classname") and case.get("name") for case in suite)
        assert all(
            {"message", "type"} <= set(failure.keys())
            for failure in suite.findall("testcase/failure")
        )
    for total in ("tests", "failures", "skipped", "errors"):
        assert int(root.get(total)) == sum(int(suite.get(total)) for suite in root)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.500"),
        (0.0, "0.000"),
        (1234, "1,234"),
        (None, "–"),
        (0.00012, "0.0001"),
        (-0.0006063, "-0.0006"),
        (0.00003, "3e-05"),
        (2.22e-16, "0.000"),
        (0.99999997, "0.9999"),
        (-0.99999997, "-0.9999"),
        (999.9, "999.900"),
        (123456.0, "123,456"),
    ],
)
def test_numbers_read_well(value, text):
    assert formatting.format_number(value) == text


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (None, "unknown"),
        (0.0, "$0.00"),
        (12.345, "$12.35"),
        (0.00123, "$0.0012"),
        (7.02e-05, "$0.0001"),
        (4e-05, "< $0.0001"),
        (0.5, "$0.50"),
        (0.1234, "$0.1234"),
    ],
)
def test_an_unknown_cost_is_never_zero(cost, text):
    assert formatting.money(cost) == text


def test_a_metric_of_clusters_shows_how_many():
    metric = MetricValue(0.8, 0.7, 0.9, 1200, "", clusters=30, effective_n=41.5)
    assert formatting.metric_text(metric) == "0.800 [0.700, 0.900] n=1200 in 30 clusters"
    assert formatting.metric_cells(metric)[2] == "1,200 in 30 clusters"


def test_nearly_all_rows_are_not_printed_as_all():
    from verdict_cli.report.formatting import format_number

    assert [format_number(value) for value in (0.9994, 4999 / 5000, 0.99999, 1.0)] == [
        "0.999", "0.9998", "0.9999", "1.000",
    ]  # fmt: skip


def test_the_page_opens_with_the_metric_agreement_coverage_and_cost():
    names = ("accuracy", "balanced_accuracy", "f1", "cohen_kappa")
    values = {name: MetricValue(0.5, 0.4, 0.6, 447) for name in names}
    opening = run_document(
        build_report("r", FACTS, {"safety": replace(MEASURES, values=values)})
    ).sections[0]
    tiles = next(part for part in opening.parts if isinstance(part, Tiles)).tiles
    assert [tile.title for tile in tiles] == ["accuracy", "cohen_kappa", "coverage", "cost"]
    assert [tile.value for tile in tiles] == ["0.500", "0.500", "0.993", "unknown"]


def test_a_card_says_why_its_interval_is_missing():
    values = {
        "accuracy": MetricValue(1.0, 1.0, 1.0, 447),
        "cohen_kappa": MetricValue(0.0, None, None, 447, "no interval"),
    }
    page = as_html(build_report("r", FACTS, {"safety": replace(MEASURES, values=values)}))
    tiles = page.partition('<div class="tiles">')[2].split('<div class="tile">')[1:5]
    assert ['<p class="small caution">no interval</p>' in tile for tile in tiles] == [
        False,
        True,
        False,
        False,
    ]


def test_a_run_of_which_every_row_failed_says_so_and_with_which_error():
    facts = structs.replace(
        FACTS,
        failed=450,
        failures={"unavailable": 450},
        reasons={"unavailable": "connection refused"},
    )
    measures = replace(MEASURES, values={}, groups={}, coverage=None, rows=0)
    report = build_report("r", facts, {"safety": measures})
    conclusion = (
        "all 450 rows failed, so there are no metrics. Most often: unavailable: connection refused"
    )
    assert conclusion in as_html(report).partition('<div class="tiles">')[0]
    assert f"! {conclusion}" in " ".join(printed(report).split())
    tiles = next(
        part for part in run_document(report).sections[0].parts if isinstance(part, Tiles)
    ).tiles
    assert [(tile.title, tile.value) for tile in tiles] == [
        ("coverage", "0.000"),
        ("cost", "unknown"),
    ]


def test_every_format_begins_with_the_main_metric_and_what_the_gates_decide():
    conclusion = "Accuracy 0.771 [0.730, 0.808] on 447 rows; 1 of 3 gates failed: run.coverage 0.993 (≥ 1); 1 inconclusive: safety.accuracy 0.771 (≥ 0.75 at 0.95 confidence); "
    assert " ".join(printed(REPORT).split()).startswith(f"xstest {conclusion}")
    assert conclusion in unescape(markdown(REPORT).partition("\n\n###")[0])
    assert conclusion in unescape(as_html(REPORT).partition("<section")[0])
    assert run_document(REPORT).as_json()["conclusion"].startswith(conclusion)


def test_a_page_repeats_no_number_of_its_tiles():
    facts = as_html(REPORT).partition('<dl class="facts">')[2].partition("</dl>")[0]
    assert "<dt>time</dt>" in facts and not any(
        f"<dt>{name}</dt>" in facts for name in ("rows", "failed", "calls", "cost")
    )


@pytest.mark.parametrize(
    ("values", "facts", "conclusion"),
    [
        ({"accuracy": MetricValue(0.9, 0.8, 1.0, 10)}, {"failed": 2}, "Accuracy 0.900 [0.800, 1.000] on 10 rows; 1 row disagrees with the labels; 2 rows failed"),
        ({"precision": MetricValue(None, None, None, 0), "cohen_kappa": MetricValue(0.5, None, None, 9)}, {"failed": 0}, "Cohen kappa 0.500 on 9 rows"),
        ({"confusion": MetricValue({"labels": ["a", "b"], "counts": [[3, 2], [0, 4]]}, None, None, 9), "f1": MetricValue(0.8, None, None, 9)}, {"failed": 0}, "F1 0.800 on 9 rows; 2 rows disagree with the labels"),
        ({}, {"failed": 3}, ""),
    ],
)  # fmt: skip
def test_a_run_without_gates_concludes_with_its_main_metric(values, facts, conclusion):
    measures = replace(MEASURES, values=values, groups={})
    assert (
        run_document(build_report("r", structs.replace(FACTS, **facts), {"e": measures})).conclusion
        == conclusion
    )
