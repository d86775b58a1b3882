"""The share of prompts that a provider's cache may serve, and hints on the order of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from verdict_cli.language.load import load
from verdict_cli.messages import Row
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.run.estimate import DryRun
from verdict_cli.run.prompt_sharing import order_hints

LONG = " ".join(f"{number:06d}" for number in range(2000))
SHORT = LONG[:1000]
FIRST = "{source.text} How good is it?"
LATER = "Rate it: {source.text}"


def planned(folder: Path, *prompts: str, model: str = "gpt-4o-mini") -> Plan:
    path = folder / "p.yaml"
    units = [f"- {{unit: JudgeUnit, name: u{n}, prompt: {prompt!r}}}" for n, prompt in enumerate(prompts)]
    path.write_text("\n".join(["verdict: 1", "name: p", f"model: {model}", "delimit: true", "pipeline:", *units]))
    return build_plan(load(path)).plan


def rows(count: int, text: str) -> list[Row]:
    return [Row(n, n, {"text": f"{n} {text}"}, str(n)) for n in range(count)]


def dry(plan: Plan, text: str, count: int = 4) -> DryRun:
    return DryRun(plan, real=False).add(rows(count, text))


def test_units_with_the_same_document_first_share_it_and_the_price_follows(tmp_path: Path) -> None:
    found = dry(planned(tmp_path, FIRST, FIRST + " Really?"), LONG)
    lines = found.lines(4)
    part = found.sharing.part(lines)
    assert 0.45 < part.share < 0.5
    full = sum(line.cost_usd or 0.0 for line in lines)
    assert part.cost_usd == pytest.approx(full - part.cached_tokens * 0.075e-6, rel=0.01)


def test_anthropics_cache_has_what_is_marked_and_writing_to_it_costs(tmp_path: Path) -> None:
    found = dry(planned(tmp_path, FIRST, FIRST + " Really?", model="claude-sonnet-4-5"), LONG)
    lines = found.lines(4)
    part = found.sharing.part(lines)
    full = sum(line.cost_usd or 0.0 for line in lines)
    read, written = part.cached_tokens * 2.7e-6, part.cached_tokens * 0.75e-6
    assert part.cost_usd == pytest.approx(full - read + written, rel=0.01)
    alone = dry(planned(tmp_path, FIRST, model="claude-sonnet-4-5"), LONG)
    assert alone.sharing.part(alone.lines(4)).cached_tokens == 0


def test_a_preamble_that_all_rows_share_counts_from_the_second_row_on(tmp_path: Path) -> None:
    found = dry(planned(tmp_path, f"{LONG} {{source.text}}"), "short", count=4)
    assert 0.65 < found.sharing.part(found.lines(4)).share < 0.76


def test_an_unknown_price_leaves_the_share_and_no_cost(tmp_path: Path) -> None:
    found = dry(planned(tmp_path, FIRST, FIRST + " Really?", model="openai/own-7b"), LONG)
    part = found.sharing.part(found.lines(4))
    assert (part.share > 0.45, part.cost_usd) == (True, None)


def test_one_call_of_unknown_price_leaves_no_cost_of_all(tmp_path: Path) -> None:
    found = dry(planned(tmp_path, FIRST, FIRST + " Really?"), LONG)
    lines = [replace(line, cost_usd=None) if number else line for number, line in enumerate(found.lines(4))]
    assert found.sharing.part(lines).cost_usd is None


@pytest.mark.parametrize(("text", "model"), [(SHORT, "gpt-4o-mini"), (LONG, "{name: gpt-4o-mini, prompt_cache: off}")])
def test_nothing_is_shared_of_short_prompts_or_with_the_cache_off(tmp_path: Path, text: str, model: str) -> None:
    found = dry(planned(tmp_path, FIRST, LATER, model=model), text)
    assert found.sharing.part(found.lines(4)).cached_tokens == 0
    assert order_hints(found.plan, found.sharing.sample) == []


def hints(folder: Path, text: str, *prompts: str) -> list[Any]:
    found = dry(planned(folder, *prompts), text)
    return [str(hint) for hint in order_hints(found.plan, found.sharing.sample)]


def test_a_hint_names_the_text_that_stands_behind_what_differs_and_its_share(tmp_path: Path) -> None:
    (hint,) = hints(tmp_path, LONG, FIRST, LATER)
    assert "u1: {source.text} is in the prompt of u0 too" in hint
    assert "98% of this prompt" in hint
    (system,) = hints(tmp_path, LONG, "@system\nJudge.\n@user\n{source.text}", "@system\nVerify.\n@user\n{source.text}")
    assert "u1" in system


def test_there_is_no_hint_where_the_order_is_right_or_nothing_is_gained(tmp_path: Path) -> None:
    assert hints(tmp_path, LONG, FIRST, FIRST + " Really?") == []
    assert hints(tmp_path, SHORT, FIRST, LATER) == []
    assert hints(tmp_path, LONG, FIRST) == []


def test_long_words_of_the_unit_belong_before_the_rows_text(tmp_path: Path) -> None:
    (hint,) = hints(tmp_path, SHORT, f"{{source.text}} {LONG}")
    assert "u0: words that all rows share follow the row's text" in hint
    assert "put them before {source.text}" in hint
    assert hints(tmp_path, SHORT, f"{LONG} {{source.text}}") == []
