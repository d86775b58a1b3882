"""Calls by unit, against sums by hand."""

import numpy as np
import pytest

from verdict_cli.report.call_stats import by_unit
from verdict_cli.storage.tables.run_columns import CALL_COLUMNS, column_kinds_of
from verdict_cli.storage.tables.writer import ParquetTable


def call(unit, **more):
    return {"row": 0, "unit": unit, "finish_reason": "stop", "prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 4,
            "cost_usd": 0.5, "latency_s": 1.0, **more}  # fmt: skip


def test_calls_are_summed_by_unit(tmp_path):
    seconds = [1.0, 2.0, 3.0, 10.0]
    with ParquetTable(
        tmp_path / "calls.parquet", column_kinds_of(CALL_COLUMNS), row_group=2
    ) as table:
        for latency in seconds:
            table.write(call("judge", latency_s=latency))
        table.write(call("other", cost_usd=None))
        table.write({"row": 0, "unit": "judge", "failure": "timeout", "latency_s": None})
    stats_by_unit = by_unit(tmp_path / "calls.parquet")
    assert list(stats_by_unit) == ["judge", "other"]
    judge = stats_by_unit["judge"]
    assert (judge.calls, judge.failed, judge.prompt_tokens, judge.completion_tokens) == (
        5,
        1,
        40,
        8,
    )
    assert (judge.cached_tokens, judge.cost_usd) == (16, 2.0)
    assert (judge.median_s, judge.p95_s) == pytest.approx(np.quantile(seconds, [0.5, 0.95]))
    assert stats_by_unit["other"].cost_usd is None


def test_no_file_is_no_units(tmp_path):
    assert by_unit(tmp_path / "calls.parquet") == {}
