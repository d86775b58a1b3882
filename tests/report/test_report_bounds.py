"""A page of a large run: what it holds, what it leaves out and says so, and that nothing in it can break out."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re

import numpy as np
import pytest
from finished_runs import finished_run
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.report.compress import island, packed
from verdict_cli.report.renderers.html import render_html
from verdict_cli.report.report import build_report
from verdict_cli.report.report_context import ReportContext, evaluate_run
from verdict_cli.report.row_details import row_details
from verdict_cli.report.row_table import MOST_DETAILS, row_table, select_rows
from verdict_cli.report.run_document import run_document
from verdict_cli.run.result_columns import result_columns
from verdict_cli.storage.tables.run_columns import CALL_COLUMNS, column_kinds_of
from verdict_cli.storage.tables.writer import ParquetTable

PIPELINE = """
verdict: 1
name: large
model: baseline/lexical
pipeline:
  - {unit: JudgeUnit, name: judge, scale: boolean, prompt: "{source.text}"}
evaluate:
  e: {prediction: output.score, target: source.label}
"""


def unpacked(text):
    return json.loads(gzip.decompress(base64.b64decode(text)))


def context(folder, rows, characters=40):
    """A run's tables, made without running it; each tenth row is wrong, each hundredth failed."""
    draw = random.Random(0)
    (folder / "pipeline.yaml").write_text(PIPELINE)
    plan = build_plan(load(folder / "pipeline.yaml")).plan
    with (
        ParquetTable(
            folder / "results.parquet", result_columns(plan, ["text", "label"])
        ) as results,
        ParquetTable(folder / "calls.parquet", column_kinds_of(CALL_COLUMNS)) as calls,
    ):
        for row in range(rows):
            failed, right = row % 100 == 99, row % 10 != 0
            text = base64.b64encode(draw.randbytes(characters)).decode()[:characters]
            given_ = (
                {"judge.score": right, "output.score": right}
                if not failed
                else {"failure.kind": "timeout"}
            )
            results.write(
                {"row": row, "id": row, "status": "failed" if failed else "ok", "calls": 1, "cost_usd": 0.0,
                 "source.text": text, "source.label": True, **given_}
            )  # fmt: skip
            calls.write(
                {"row": row, "id": row, "unit": "judge", "call": 0, "attempt": 0, "model": "m",
                 "messages": json.dumps([{"role": "user", "content": text}]), "reply": "yes",
                 "finish_reason": "stop", "prompt_tokens": 1, "completion_tokens": 1, "cost_usd": 0.0, "latency_s": 0.1}
            )  # fmt: skip
    measures = evaluate_run(plan.evaluations, folder / "results.parquet")
    return ReportContext(plan, folder / "results.parquet", folder / "calls.parquet", measures)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return context(tmp_path_factory.mktemp("large"), 10_000, 1_500)


def test_details_have_the_order_of_the_requested_rows(large):
    places = [*range(9_990, 5_000, -7), *range(0, 5_000, 9)]
    stories = list(row_details(large.results, large.calls, np.array(places)))
    assert [place for place, _ in stories] == places
    assert all(
        story["source"]["text"] == story["calls"][0]["messages"][0]["content"]
        for _, story in stories
    )


def test_ten_thousand_rows_of_noise_stay_under_three_megabytes(large):
    facts = finished_run(
        name="large",
        rows=10_000,
        done=10_000,
    )
    page = render_html(run_document(build_report("r", facts, large.study.measures), large))
    assert len(page.encode()) < 3_000_000
    assert "`verdict view RUN` shows and searches everything." in page


def test_failed_and_wrong_rows_come_first_and_the_rest_is_a_seeded_sample(large):
    some = select_rows(large)
    assert (len(some.rows), len(some.failed), len(some.wrong)) == (10_000, 100, 1_000)
    assert set(some.rows[:100].tolist()) == set(range(99, 10_000, 100))
    assert set(some.rows[100:1100].tolist()) == set(range(0, 10_000, 10))
    assert len(some.details) == MOST_DETAILS
    again = select_rows(large)
    assert some.details.tolist() == again.details.tolist()
    others = [row for row in some.details.tolist() if row % 10 and row % 100 != 99]
    assert len(others) == MOST_DETAILS // 5


def test_a_small_run_is_there_whole(tmp_path):
    small = context(tmp_path, 120)
    table = row_table(small)
    rows = [row for piece in table.rows for row in unpacked(piece)]
    stories = [story for piece in table.details for story in unpacked(piece)]
    assert (table.note, table.count, len(stories)) == ("", 120, 120)
    assert [row[0] for row in rows[:14]] == ["failed"] + ["wrong"] * 12 + ["right"]
    keys = [column.key for column in table.columns]
    for row in rows:
        story = stories[row[-1]]
        assert (
            story["source"]["text"]
            == row[keys.index("source.text")]
            == story["calls"][0]["messages"][0]["content"]
        )


@given(
    st.recursive(
        st.none() | st.text() | st.integers() | st.booleans(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_an_island_is_json_that_no_text_can_break_out_of(value):
    text = island(value)
    assert not re.search("[<>&\u2028\u2029]", text)
    assert unpacked(packed(value)) == json.loads(text)
