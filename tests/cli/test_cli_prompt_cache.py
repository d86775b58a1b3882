"""What the command line says of the provider's prompt cache."""

from __future__ import annotations

import json
from typing import Any

import pytest

UNITS = """verdict: 1
name: cached
model: {name: openai/own, api_base: "http://127.0.0.1:1/v1", cost: {input_per_million: 1, output_per_million: 1, cached_per_million: 0.1}}
pipeline:
- {unit: JudgeUnit, name: judge, prompt: "{source.text} How good is it?"}
- {unit: JudgeUnit, name: verify, prompt: "%s"}
"""


@pytest.fixture
def data(shell: Any) -> Any:
    rows = (
        json.dumps({"text": f"{row} " + " ".join(f"{n:06d}" for n in range(1500))})
        for row in range(3)
    )
    return shell.write("rows.jsonl", "\n".join(rows) + "\n")


def test_validate_gives_a_hint_for_the_order_of_texts_and_stays_valid(shell, data):
    late = shell.write(
        "late.yaml", UNITS % "A judge gave {previous.judge.score}. Right? {source.text}"
    )
    done = shell("validate", late, data)
    assert done.code == 0
    assert "hint: verify: {source.text} is in the prompt of judge too" in done.err
    (hint,) = shell("validate", late, data, "--json").json()["hints"]
    assert hint["code"] == "prompt-cache-order"
    first = shell.write(
        "first.yaml", UNITS % "{source.text} A judge gave {previous.judge.score}. Right?"
    )
    assert "hints" not in shell("validate", first, data, "--json").json()
