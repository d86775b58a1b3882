from __future__ import annotations

from typing import Any

import pytest

from verdict_cli.messages import Row
from verdict_cli.run.estimate import TEXT_TOKENS, estimate_run, total

ROWS = [Row(n, n, {"text": "x" * 400}) for n in range(3)]


def test_calls_are_counted_from_the_plan(plan_of: Any) -> None:
    plan = plan_of(
        """
- {unit: CoTUnit, name: pin, pin: true, prompt: 'Think'}
- {unit: PairwiseJudgeUnit, name: pair, options: ["'a'", "'b'"], positions: both, prompt: 'Which of {input.A} and {input.B} {previous.thinking}'}
- layer:
    - {unit: JudgeUnit, name: judge, extract: {type: post_hoc, model: n}, prompt: 'Rate {previous.choice} {source.text}'}
  repeat: 2
- {unit: MeanPoolUnit, fields: [score]}
""",
        "model: m",
    )
    found = {(line.unit, line.model): line.calls for line in estimate_run(plan, ROWS, 3)}
    assert found == {
        ("pin", "m"): 1,
        ("pair", "m"): 6,
        ("judge[0]", "m"): 3,
        ("judge[0]", "n"): 3,
        ("judge[1]", "m"): 3,
        ("judge[1]", "n"): 3,
    }


def test_prompts_are_rendered_and_texts_of_models_taken_as_long_as_is_said(plan_of: Any) -> None:
    plan = plan_of(
        """
- {unit: CoTUnit, name: think, prompt: '{source.text}'}
- {unit: Unit, name: say, extract: raw, response: {said: str}, prompt: '{previous.thinking}'}
""",
        "model: gpt-4o-mini",
    )
    think, say = estimate_run(plan, ROWS, 3)
    assert think.prompt_tokens is not None and say.prompt_tokens is not None
    assert think.prompt_tokens >= 3 * 100
    assert say.prompt_tokens == pytest.approx(3 * TEXT_TOKENS, rel=0.35)
    assert say.completion_tokens is not None and say.cost_usd is not None
    assert say.cost_usd == pytest.approx(say.prompt_tokens * 1.5e-7 + say.completion_tokens * 6e-7)


def test_max_tokens_bounds_the_reply(plan_of: Any) -> None:
    (line,) = estimate_run(
        plan_of("- {unit: CoTUnit, prompt: a}", "model: {name: gpt-4o-mini, max_tokens: 7}"), ROWS, 3
    )
    assert line.completion_tokens == 21


def test_an_unknown_price_is_unknown_and_makes_the_sum_unknown(plan_of: Any) -> None:
    plan = plan_of(
        "- {unit: CoTUnit, name: a, prompt: a}\n- {unit: CoTUnit, name: b, model: nobody-knows, prompt: b}\n",
        "model: gpt-4o-mini",
    )
    known, unknown = estimate_run(plan, ROWS, 3)
    assert known.cost_usd is not None
    assert unknown.cost_usd is None
    assert total((known, unknown), "", "").cost_usd is None
    assert total((known, unknown), "", "").calls == 6


def test_the_built_in_models_are_free(plan_of: Any) -> None:
    (line,) = estimate_run(plan_of("- {unit: JudgeUnit, prompt: '{source.text}'}", "model: baseline/lexical"), ROWS, 3)
    assert line.cost_usd == 0


def test_a_unit_that_made_up_replies_do_not_reach_is_still_counted(plan_of: Any) -> None:
    plan = plan_of(
        """
- {unit: JudgeUnit, name: judge, validate: ['response.score == 5'], prompt: '{source.text}'}
- {unit: JudgeUnit, name: after, prompt: '{previous.score}'}
""",
        "model: gpt-4o-mini",
    )
    _, after = estimate_run(plan, ROWS, 3)
    assert (after.calls, after.prompt_tokens, after.cost_usd) == (3, None, None)
