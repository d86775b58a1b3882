"""Reward functions in the words of TRL and verl, called as their documentation says."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from paths import ROOT

from verdict_cli.errors import DataError, UsageError
from verdict_cli.rl import trl_reward, trl_rewards, verl_reward

SCORES = """
verdict: 1
name: helpful
model: {name: gpt-4o-mini, temperature: 0, retries: 0}
pipeline:
  - {unit: JudgeUnit, name: judge, scale: {range: [1, 5]}, prompt: "Rate <{source.response}> for <{source.prompt}> {source.label}"}
"""
PAIRS = """
verdict: 1
name: better
model: {name: gpt-4o-mini, temperature: 0, retries: 0}
dataset: {columns: {question: prompt}}
pipeline:
  - {unit: PairwiseJudgeUnit, name: judge, options: [source.a, source.b], prompt: "{source.question}: A=<{input.A}> B=<{input.B}>"}
"""
RANKS = """
verdict: 1
name: ranked
model: {name: gpt-4o-mini, temperature: 0, retries: 0}
pipeline:
  - unit: RankerUnit
    name: judge
    k: 3
    options: [source.a, source.b, source.c]
    prompt: "{source.prompt}: <{input.A}> <{input.B}> <{input.C}>"
"""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")


@pytest.fixture
def answers(scripted_model: Any) -> Callable[..., Any]:
    """Sets how the model answers the texts between < and >."""

    def set_answer(answer: Callable[..., Any]) -> Any:
        def reply(request: Any) -> str:
            answered = answer(*re.findall("<([^>]*)>", request.messages[-1].content))
            return answered if isinstance(answered, str) else json.dumps(answered)

        scripted_model.answer = reply
        return scripted_model

    return set_answer


def longer(a: str, b: str) -> dict[str, str]:
    return {"choice": "A" if len(a) >= len(b) else "B"}


def test_a_scoring_judge_gives_each_completion_a_number_or_none_where_it_failed(
    answers,
):
    model = answers(
        lambda response, _: "I cannot say" if response == "bad" else {"score": len(response)}
    )
    reward = trl_reward(SCORES)
    rewards = reward(
        prompts=["q", "q", "r"],
        completions=["aa", "bad", "cccc"],
        completion_ids=[[1], [2], [3]],
        trainer_state=object(),
        log_extra=None,
        log_metric=None,
        label=["x", "y", "z"],
    )
    assert rewards == [2.0, None, 4.0]
    assert (reward.__name__, trl_reward(SCORES, name="mine").__name__) == ("helpful", "mine")
    assert sorted(text.split("> ")[1] for text in model.texts() if "cccc" in text) == ["for <r"]
    reward.close()


def test_conversations_are_rewarded_by_the_text_of_the_completion(answers):
    answers(lambda response, prompt: {"score": 5 if response == "hello" else 1})
    prompt = [{"role": "user", "content": "Say hello"}]
    completions = [[{"role": "assistant", "content": text}] for text in ("hello", "bye")]
    config = SCORES.replace(
        "<{source.prompt}> {source.label}", "<{source.messages | first(1)}>"
    ).replace("pipeline:", "dataset: {schema: {messages: conversation}}\npipeline:")
    assert trl_reward(config)(prompts=[prompt, prompt], completions=completions) == [5.0, 1.0]


def test_a_judge_of_pairs_compares_the_rollouts_of_one_prompt_in_both_orders(answers):
    model = answers(longer)
    rewards = trl_reward(PAIRS)(
        prompts=["p", "q", "p", "p", "q"], completions=["aaa", "x", "a", "aa", "xx"]
    )
    assert rewards == [1.0, 0.0, 0.0, 0.5, 1.0]
    assert len(model.requests) == 2 * 3 + 2


def test_equal_rollouts_share_and_a_judge_that_always_says_a_prefers_none(answers):
    answers(lambda *_: {"choice": "A"})
    assert trl_reward(PAIRS)(prompts=["p"] * 3, completions=["one", "two", "three"]) == [0.5] * 3
    answers(longer)
    assert trl_reward(PAIRS)(prompts=["p"] * 3, completions=["aa", "aa", "a"]) == [0.75, 0.75, 0.0]


def test_a_ranking_of_the_whole_group_is_shuffled_and_becomes_rewards(answers):
    groups_of_texts = []

    def by_length(*texts: str) -> dict[str, list[str]]:
        groups_of_texts.append(texts)
        return {"ranking": sorted("ABC", key=lambda letter: -len(texts["ABC".index(letter)]))}

    answers(by_length)
    reward = trl_reward(RANKS)
    prompts = [f"p{index}" for index in range(8) for _ in range(3)]
    assert reward(prompts=prompts, completions=["a", "bbb", "cc"] * 8) == [0.0, 1.0, 0.5] * 8
    assert len(set(groups_of_texts)) > 2
    with pytest.raises(UsageError, match="compares 3, and a prompt has 2 rollouts"):
        reward(prompts=["p", "p"], completions=["a", "b"])


def test_comparisons_that_fail_are_left_out_and_without_any_there_is_no_reward(
    answers,
):
    answers(lambda a, b: "?" if "x" in a + b else longer(a, b))
    rewards = trl_reward(PAIRS)(prompts=["p"] * 4, completions=["aaa", "a", "x", "aa"])
    assert rewards == [1.0, 0.0, None, 0.5]
    assert trl_reward(PAIRS)(prompts=["p"], completions=["alone"]) == [None]


def test_criteria_are_functions_that_share_one_judgement_of_a_batch(answers):
    model = answers(lambda response, _: {"score": len(response)})
    functions = trl_rewards(
        SCORES, {"length": "output.score", "long": "1.0 if output.score > 2 else 0.0"}
    )
    batch: dict[str, Any] = {"prompts": ["q", "q"], "completions": ["a", "aaaa"], "label": ["", ""]}
    assert [function.__name__ for function in functions] == ["length", "long"]
    assert [function(**batch) for function in functions] == [[1.0, 4.0], [0.0, 1.0]]
    assert len(model.requests) == 2
    assert functions[0](**batch) == [1.0, 4.0]
    assert len(model.requests) == 4
    with pytest.raises(UsageError, match="needs criteria"):
        trl_rewards(SCORES, {})
    with pytest.raises(UsageError, match="without criteria"):
        verl_reward(PAIRS, criteria={"a": "output.choice"})


def test_verl_calls_with_its_keywords_and_gets_a_dictionary(answers):
    answers(
        lambda response, prompt: {"score": 3} if prompt == "why" and response != "bad" else "no"
    )
    compute_score = verl_reward(SCORES, criteria={"third": "output.score / 3"})
    keywords: dict[str, Any] = {
        "data_source": "d",
        "ground_truth": "g",
        "extra_info": {"prompt": "why", "index": 3},
    }
    assert compute_score(solution_str="because", **keywords) == {
        "score": 3.0,
        "failed": 0.0,
        "third": 1.0,
    }
    failed = compute_score(
        solution_str="bad", reward_router_address=None, reward_model_tokenizer=None, **keywords
    )
    assert failed["failed"] == 1.0
    assert math.isnan(failed["score"]) and math.isnan(failed["third"])
    with pytest.raises(UsageError, match="this judge compares"):
        verl_reward(PAIRS)


def test_a_column_that_the_trainer_does_not_send_and_a_bad_batch_are_errors(answers):
    answers(lambda *_: {"score": 3})
    with pytest.raises(DataError, match="no column 'label'"):
        trl_reward(SCORES)(prompts=["q"], completions=["a"])
    with pytest.raises(UsageError, match="the batch has 2 prompts, 1 completions"):
        trl_reward(SCORES)(prompts=["q", "r"], completions=["a"])


def test_the_import_path_needs_no_trainer(tmp_path):
    import subprocess
    import sys

    code = "import sys, verdict_cli.rl; sys.exit(any(name in sys.modules for name in ('torch', 'trl', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0
