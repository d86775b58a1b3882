"""`params: {n_for_repeat: true}`: copies of a repeated unit are made by one request, and each is recorded on its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_servers import Wire, serve

from verdict_cli import Pipeline
from verdict_cli.llm.middleware.repeated_calls import _divided
from verdict_cli.llm.providers.model_checks import check_model
from verdict_cli.messages import Reply, Usage
from verdict_cli.model import Model

CONFIG = """verdict: 1
name: p
model: {{name: openai/own, api_base: '{url}/v1', retries: 1, params: {params},
  cost: {{input_per_million: 10, output_per_million: 20}}}}
pipeline:
- {{layer: [{{unit: JudgeUnit, name: judge, prompt: 'Rate {{source.text}}'}}], repeat: 3}}
- {{unit: MeanPoolUnit, fields: [score]}}
"""


def completion(*texts: str) -> dict[str, Any]:
    choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in texts]
    return {"model": "m", "choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": 7}}


def judged(folder: Path, wire: Wire, params: str = "{n_for_repeat: true}") -> tuple[list[Any], list[Any]]:
    """The calls and the results of two rows."""
    (folder / "p.yaml").write_text(CONFIG.format(url=wire.url, params=params))
    rows = [{"text": f"row {place}"} for place in range(2)]
    Pipeline.from_yaml(folder / "p.yaml").run_dataset(rows, folder / "out")
    calls, results = (pyarrow.parquet.read_table(folder / "out" / f"{name}.parquet") for name in ("calls", "results"))
    return calls.to_pylist(), results.to_pylist()


def score(number: int) -> str:
    return json.dumps({"score": number})


def test_three_copies_are_one_request_and_three_calls_in_the_tables(tmp_path: Path) -> None:
    with serve(lambda *_: (200, completion(score(1), score(2), score(3)))) as wire:
        calls, rows = judged(tmp_path, wire)
        assert [body["n"] for body in wire.bodies] == [3, 3]
        assert all("n_for_repeat" not in body for body in wire.bodies)
        state = json.loads((tmp_path / "out" / "run.json").read_text()) | {"status": "interrupted"}
        (tmp_path / "out" / "run.json").write_text(json.dumps(state))
        again, _ = judged(tmp_path, wire)
        assert len(wire.bodies) == 2
    assert [call["reply"] for call in calls] == [score(1), score(2), score(3)] * 2
    assert [row["output.score"] for row in rows] == [2, 2]
    assert sum(call["prompt_tokens"] for call in calls) == 200
    assert sum(call["completion_tokens"] for call in calls) == 14
    assert sum(call["cost_usd"] for call in calls) == pytest.approx(2 * (100 * 10e-6 + 7 * 20e-6))
    assert [call["recalled"] for call in again] == [True] * 6
    assert [call["cost_usd"] for call in again] == [call["cost_usd"] for call in calls]


def test_what_the_server_did_not_give_is_called_on_its_own_and_what_cannot_be_read_is_retried(tmp_path: Path) -> None:
    def answer(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return 200, completion(score(5), "no score") if body.get("n", 1) > 1 else completion(score(4))

    with serve(answer) as wire:
        calls, rows = judged(tmp_path, wire)
    assert [body.get("n", 1) for body in wire.bodies].count(1) == 4
    assert all(row["status"] == "ok" for row in rows)
    assert sum(call["prompt_tokens"] for call in calls) == 100 * len(wire.bodies)


def test_a_failed_request_fails_each_copy_and_is_paid_once(tmp_path: Path) -> None:
    with serve(lambda *_: (200, {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 0}})) as wire:
        calls, rows = judged(tmp_path, wire)
    assert [row["status"] for row in rows] == ["failed"] * 2
    assert sum(call["prompt_tokens"] or 0 for call in calls) == 100 * len(wire.bodies)


def test_without_the_setting_each_copy_is_a_request(tmp_path: Path) -> None:
    with serve(lambda *_: (200, completion(score(1)))) as wire:
        judged(tmp_path, wire, "{}")
    assert len(wire.bodies) == 6
    assert all("n" not in body for body in wire.bodies)


@given(
    st.lists(st.text(max_size=50), min_size=2, max_size=9),
    st.tuples(*[st.integers(0, 10**6)] * 5),
    st.floats(0, 10) | st.none(),
)
def test_the_shares_add_up_to_the_whole(texts: Sequence[str], tokens: tuple[int, ...], cost: float | None) -> None:
    whole = Usage(*tokens)
    carrier = Reply("", usage=whole, cost_usd=cost, choices=tuple(Reply(text) for text in texts))
    parts = _divided(carrier, len(texts))
    assert [part.text for part in parts] == [*texts]
    summed = Usage()
    for part in parts:
        summed = summed.plus(part.usage)
    assert summed == whole
    if cost is None:
        assert {part.cost_usd for part in parts} == {None}
    else:
        assert sum(part.cost_usd for part in parts) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"name": "claude-haiku-4-5", "params": {"n_for_repeat": True}}, "speaks chat completions"),
        ({"name": "openai/own", "params": {"n_for_repeat": 3}}, "must be true or false"),
    ],
)
def test_a_model_that_cannot_is_refused_before_any_call(
    model: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    assert said in (check_model(Model(**model)) or "")
