"""Who answered: the served model, its version, its thinking, its tier and its cached tokens, in the tables and `run.json`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from finished_runs import finished_run

from verdict_cli.messages import Reply, Request, Usage
from verdict_cli.report.run_notes import changed_versions, prompt_cache_facts, version_notices
from verdict_cli.run_facts import RunFacts

COLUMNS = {
    "served_model": ["m-1", "m-2", "m-1"],
    "system_fingerprint": ["fp", "fp", "fp"],
    "service_tier": ["flex"] * 3,
    "reasoning": ["because"] * 3,
    "cached_tokens": [1024] * 3,
    "cache_write_tokens": [0] * 3,
    "reasoning_tokens": [7] * 3,
}
HEAD = "model: {name: m, params: {top_k: 3}, cost: {input_per_million: 2, output_per_million: 4, cached_per_million: 0.5}}"


async def served(request: Request) -> Reply:
    return Reply(
        '{"score": 3}',
        usage=Usage(2000, 10, 1024, 0, 7),
        model="m-2" if request.row.index == 1 else "m-1",
        sent='{"top_k":3}',
        system_fingerprint="fp",
        reasoning="because",
        service_tier="flex",
    )


def test_the_tables_and_the_facts_say_who_answered_also_after_a_resume(bench, read):
    bench.rule = served
    first = bench.run(bench.job(3, head=HEAD))
    again = bench.run(bench.job(3, head=HEAD))
    assert len(bench.requests) == 3
    for name, expected in COLUMNS.items():
        assert read(bench.folder / "out" / "calls.parquet", name) == expected
    assert read(bench.folder / "out" / "calls.parquet", "params") == ['{"top_k":3}'] * 3
    (message,) = json.loads(read(bench.folder / "out" / "calls.parquet", "messages")[0])
    assert message["role"] == "user"
    for facts in (first, again):
        assert facts.served == {"m": {"m-1": 2, "m-2": 1}}
        assert facts.cached_tokens == 3 * 1024
        assert facts.cache_saved_usd == pytest.approx(3 * 1024 * 1.5e-6)
    assert json.loads((bench.folder / "out" / "run.json").read_text())["served"] == {
        "m": {"m-1": 2, "m-2": 1}
    }


def facts(**more: Any) -> RunFacts:
    return finished_run(
        name="t",
        **more,
    )


def test_a_run_or_two_runs_of_several_versions_of_a_model_have_a_warning():
    first, both, later = (
        facts(served={"m": served}) for served in ({"m-1": 2}, {"m-1": 2, "m-2": 1}, {"m-2": 3})
    )
    assert version_notices(first) == []
    assert version_notices(both) == ["m was answered by 2 versions of the model: m-1 (2), m-2 (1)"]
    assert changed_versions({"a": first, "b": first}) == []
    assert changed_versions({"a": first, "b": later}) == [
        "m was answered by m-1 in a, and by m-2 in b"
    ]
    assert changed_versions({"a": first, "b": facts(served={"n": {"n-1": 1}})}) == []


def test_the_share_from_the_prompt_cache_is_reported_with_its_saving():
    lines = prompt_cache_facts(facts(prompt_tokens=1000, cached_tokens=620, cache_saved_usd=0.125))
    assert lines == [
        ("prompt cache", "62% of the prompt tokens came from the provider's cache, saved $0.125")
    ]
    assert prompt_cache_facts(facts(prompt_tokens=1000)) == []
    loss = prompt_cache_facts(facts(prompt_tokens=1000, cached_tokens=10, cache_saved_usd=-2.0))
    assert loss[0][1].endswith("cost $2.00")
