"""Hints on the order of a prompt's texts, for the provider's prompt cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from verdict_cli.language.load import load
from verdict_cli.messages import Row
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.run.estimate import DryRun

LONG = " ".join(f"{number:06d}" for number in range(2000))
SHORT = LONG[:1000]
FIRST = "{source.text} How good is it?"
LATER = "Rate it: {source.text}"


def planned(folder: Path, *prompts: str, model: str = "gpt-4o-mini") -> Plan:
    path = folder / "p.yaml"
    units = [
        f"- {{unit: JudgeUnit, name: u{n}, prompt: {prompt!r}}}" for n, prompt in enumerate(prompts)
    ]
    path.write_text(
        "\n".join(
            ["verdict: 1", "name: p", f"model: {model}", "delimit: true", "pipeline:", *units]
        )
    )
    return build_plan(load(path)).plan


def rows(count: int, text: str) -> list[Row]:
    return [Row(n, n, {"text": f"{n} {text}"}, str(n)) for n in range(count)]


def dry(plan: Plan, text: str, count: int = 4) -> DryRun:
    return DryRun(plan, real=False).add(rows(count, text))


@pytest.mark.parametrize(
    ("text", "model"), [(SHORT, "gpt-4o-mini"), (LONG, "{name: gpt-4o-mini, prompt_cache: off}")]
)
def test_there_is_no_hint_for_short_prompts_or_with_the_cache_off(tmp_path, text, model):
    dry_run = dry(planned(tmp_path, FIRST, LATER, model=model), text)
    assert dry_run.order.hints(dry_run.plan) == []


def hints(folder: Path, text: str, *prompts: str) -> list[Any]:
    dry_run = dry(planned(folder, *prompts), text)
    return [str(hint) for hint in dry_run.order.hints(dry_run.plan)]


def test_a_hint_names_the_text_behind_what_differs_and_its_share(
    tmp_path,
):
    (hint,) = hints(tmp_path, LONG, FIRST, LATER)
    assert "u1: {source.text} is in the prompt of u0 too" in hint
    assert "98% of this prompt" in hint
    (system,) = hints(
        tmp_path,
        LONG,
        "@system\nJudge.\n@user\n{source.text}",
        "@system\nVerify.\n@user\n{source.text}",
    )
    assert "u1" in system


def test_there_is_no_hint_where_the_order_is_right_or_nothing_is_gained(tmp_path):
    assert hints(tmp_path, LONG, FIRST, FIRST + " Really?") == []
    assert hints(tmp_path, SHORT, FIRST, LATER) == []
    assert hints(tmp_path, LONG, FIRST) == []


def test_long_words_of_the_unit_belong_before_the_rows_text(tmp_path):
    (hint,) = hints(tmp_path, SHORT, f"{{source.text}} {LONG}")
    assert "u0: words that all rows share follow the row's text" in hint
    assert "put them before {source.text}" in hint
    assert hints(tmp_path, SHORT, f"{LONG} {{source.text}}") == []
