from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from verdict_cli.llm.providers.token_counts import by_script, prompt_tokens, text_counter
from verdict_cli.messages import Message, Request, Row
from verdict_cli.model import Model
from verdict_cli.run.estimate import TEXT_TOKENS, estimate_run, total

ROWS = [Row(n, n, {"text": "some " * 110}) for n in range(3)]


def test_calls_are_counted_from_the_plan(plan_of):
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
    calls = {(line.unit, line.model): line.calls for line in estimate_run(plan, ROWS, 3)}
    assert calls == {
        ("pin", "m"): 1,
        ("pair", "m"): 6,
        ("judge[0]", "m"): 3,
        ("judge[0]", "n"): 3,
        ("judge[1]", "m"): 3,
        ("judge[1]", "n"): 3,
    }


def test_prompts_are_rendered_with_texts_of_models_of_the_stated_length(plan_of):
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


def test_max_tokens_bounds_the_reply(plan_of):
    (line,) = estimate_run(
        plan_of("- {unit: CoTUnit, prompt: a}", "model: {name: gpt-4o-mini, max_tokens: 7}"),
        ROWS,
        3,
    )
    assert line.completion_tokens == 21


def test_an_unknown_price_is_unknown_and_makes_the_sum_unknown(plan_of):
    plan = plan_of(
        "- {unit: CoTUnit, name: a, prompt: a}\n- {unit: CoTUnit, name: b, model: nobody-knows, prompt: b}\n",
        "model: gpt-4o-mini",
    )
    priced, unknown = estimate_run(plan, ROWS, 3)
    assert priced.cost_usd is not None
    assert unknown.cost_usd is None
    assert total((priced, unknown), "", "").cost_usd is None
    assert total((priced, unknown), "", "").calls == 6


def test_the_built_in_models_are_free(plan_of):
    (line,) = estimate_run(
        plan_of("- {unit: JudgeUnit, prompt: '{source.text}'}", "model: baseline/lexical"), ROWS, 3
    )
    assert line.cost_usd == 0


def test_a_unit_that_sample_replies_do_not_reach_is_still_counted(plan_of):
    plan = plan_of(
        """
- {unit: JudgeUnit, name: judge, validate: ['response.score == 5'], prompt: '{source.text}'}
- {unit: JudgeUnit, name: after, prompt: '{previous.score}'}
""",
        "model: gpt-4o-mini",
    )
    _, after = estimate_run(plan, ROWS, 3)
    assert (after.calls, after.prompt_tokens, after.cost_usd) == (3, None, None)


CHINESE = "人工智能正在改变我们的生活方式，请评价以下回答是否拒绝了请求，并仔细解释你的理由。" * 10


def prompt_tokens_of(
    plan_of: Any, steps: str, head: str = "model: gpt-4o-mini", text: str = "a"
) -> int:
    """The prompt tokens of the last unit for one row."""
    tokens = estimate_run(plan_of(steps, head), [Row(0, 0, {"text": text})], 1)[-1].prompt_tokens
    assert tokens is not None
    return tokens


@pytest.mark.parametrize(
    "model", ["gpt-4o-mini", "gpt-4", "gemini/gemini-2.5-flash", "nobody-knows"]
)
def test_other_scripts_than_latin_have_more_tokens_a_character(plan_of, model):
    tokens = prompt_tokens_of(
        plan_of, "- {unit: CoTUnit, prompt: '{source.text}'}", f"model: {model}", CHINESE
    )
    assert 0.5 * len(CHINESE) < tokens < 1.2 * len(CHINESE)


def test_the_tokens_of_a_text_are_those_of_the_models_tokenizer(plan_of):
    step = "- {unit: CoTUnit, prompt: '{source.text}'}"
    empty = prompt_tokens_of(plan_of, step, text="a")
    counted = prompt_tokens_of(plan_of, step, text=CHINESE)
    count, encoding = text_counter("openai/gpt-4o-mini")
    assert encoding == "o200k_base"
    assert counted - empty == count(CHINESE) - count("a")


def test_the_schema_and_the_tools_of_a_request_are_counted(plan_of):
    step = "- {unit: JudgeUnit, prompt: 'Rate {source.text}'%s}"
    plain = prompt_tokens_of(plan_of, step % ", extract: verdict")
    structured = prompt_tokens_of(plan_of, step % ", extract: structured, explanation: true")
    assert structured > plain + 30
    tool = "{type: function, function: {name: search, description: 'Searches the whole library for a word', parameters: {}}}"
    tools = f"model: {{name: gpt-4o-mini, params: {{tools: [{tool}]}}}}"
    assert prompt_tokens_of(plan_of, step % ", extract: verdict", tools) > plain + 20


def test_an_image_is_counted():
    texts = (Message("user", "what is in this image?"),)
    images = (Message("user", "what is in this image?", ((4, "a.png"), (5, "b.png"))),)
    request = Request(Row(0, 0, {}), "see", Model(name="gpt-4o-mini"), texts)
    assert (
        prompt_tokens(replace(request, messages=images), by_script)
        == prompt_tokens(request, by_script) + 2 * 765
    )


def test_a_reasoning_models_hidden_tokens_are_counted(plan_of):
    def reply(head: str) -> int:
        (line,) = estimate_run(
            plan_of("- {unit: JudgeUnit, prompt: 'Rate {source.text}'}", head), ROWS, 3
        )
        assert line.completion_tokens is not None
        return line.completion_tokens // 3

    plain = reply("model: gpt-4o-mini")
    assert plain < 50
    assert reply("model: gpt-5-mini") == plain + 500
    assert reply("model: {name: gpt-5-mini, reasoning_effort: minimal}") == plain
    assert reply("model: gpt-5.4") == plain, "its default effort is none"
    assert reply("model: anthropic/claude-haiku-4-5") == plain, "it thinks only where it is told to"
    assert (
        reply("model: {name: anthropic/claude-haiku-4-5, reasoning_effort: high}") == plain + 1500
    )


def test_a_service_tier_has_its_own_price(plan_of):
    def cost(params: str) -> float:
        head = f"model: {{name: gpt-5-mini, params: {{{params}}}}}"
        (line,) = estimate_run(
            plan_of("- {unit: JudgeUnit, prompt: 'Rate {source.text}'}", head), ROWS, 3
        )
        assert line.cost_usd is not None
        return line.cost_usd

    assert cost("service_tier: flex") == pytest.approx(cost("") / 2)
    assert cost("service_tier: priority") == pytest.approx(cost("") * 1.8)
