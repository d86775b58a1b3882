"""What a run costs and takes by itself, from its calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from verdict_cli.features.sweep.compare_variants import standalone_costs
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import validate_document
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.storage.tables.run_columns import CALL_COLUMNS, column_kinds_of
from verdict_cli.storage.tables.writer import ParquetTable

TEXT = b"""verdict: 1
name: t
model: {name: m, cost: {input_per_million: 1000000, output_per_million: 0}}
pipeline:
  - layer: [{unit: CoTUnit, name: a, prompt: x}, {unit: CoTUnit, name: b, prompt: y}]
  - {unit: JudgeUnit, name: judge, prompt: "{previous.a.thinking} {previous.b.thinking}"}
"""


@pytest.fixture
def plan() -> Plan:
    return build_plan(validate_document(parse_document(TEXT, "t.yaml"), Path())).plan


def write_calls(path: Path, *calls: dict[str, Any]) -> Path:
    usual = {
        "row": 0,
        "call": 0,
        "attempt": 0,
        "model": "m",
        "reply": "r",
        "prompt_tokens": 2,
        "completion_tokens": 9,
    }
    with ParquetTable(path, column_kinds_of(CALL_COLUMNS)) as table:
        for call in calls:
            table.write(
                {**usual, "messages": call["unit"], "cost_usd": 2.0, "cached": False, **call}
            )
    return path


def test_a_row_takes_as_long_as_its_longest_chain(plan, tmp_path):
    calls = write_calls(
        tmp_path / "c.parquet",
        {"unit": "a", "latency_s": 1.0},
        {"unit": "b", "latency_s": 2.0},
        {"unit": "b", "latency_s": 0.5, "attempt": 1},
        {"unit": "judge", "latency_s": 4.0},
    )
    costs = standalone_costs(plan, calls, recorded=False)
    assert (costs.calls, costs.cost_usd, costs.row_s) == (4, 8.0, 6.5)


def test_a_cached_reply_counts_at_its_price_and_as_long_as_it_took(plan, tmp_path):
    calls = write_calls(
        tmp_path / "2.parquet",
        {"unit": "a", "latency_s": 3.0, "cached": True, "cost_usd": 0.0},
        {"unit": "judge", "latency_s": 1.0},
    )
    costs = standalone_costs(plan, calls, recorded=False)
    assert (costs.cost_usd, costs.row_s) == (4.0, 4.0)


def test_a_recording_has_no_time_and_a_cost_only_with_tokens(plan, tmp_path):
    call = {"unit": "a", "latency_s": 0.0, "cost_usd": 0.0}
    with_tokens = write_calls(tmp_path / "1.parquet", call)
    without = write_calls(
        tmp_path / "2.parquet", {**call, "prompt_tokens": 0, "completion_tokens": 0}
    )
    assert standalone_costs(plan, with_tokens, recorded=True).cost_usd == 2.0
    assert standalone_costs(plan, with_tokens, recorded=True).row_s is None
    assert standalone_costs(plan, without, recorded=True).cost_usd is None


def test_a_failed_call_of_unknown_cost_costs_nothing(plan, tmp_path):
    failed = {"unit": "a", "latency_s": 1.0, "reply": None, "cost_usd": None}
    assert (
        standalone_costs(plan, write_calls(tmp_path / "c.parquet", failed), recorded=False).cost_usd
        == 0.0
    )
