"""The requests that OpenRLHF, verl and TRL's users send, and what they read from the answers."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from verdict_cli.errors import UsageError

SCORES = """
verdict: 1
name: helpful
model: {name: gpt-4o-mini, temperature: 0, retries: 0}
pipeline:
  - {unit: JudgeUnit, name: judge, scale: {range: [1, 5]}, prompt: "Rate <{source.response}> {source.label}"}
"""
PAIRS = """
verdict: 1
name: better
model: {name: gpt-4o-mini, temperature: 0, retries: 0}
pipeline:
  - {unit: PairwiseJudgeUnit, name: judge, options: [source.a, source.b], prompt: "{source.prompt}: A=<{input.A}> B=<{input.B}>"}
"""


@pytest.fixture
def posted(house: Any, scripted_model: Any) -> Any:
    """The status and the JSON, as Python's `requests` reads it, of one POST."""

    def post(
        path: str, body: dict[str, Any], text: str = SCORES, **settings: Any
    ) -> tuple[int, Any]:
        def answer(request: Any) -> str:
            texts = [part.split(">")[0] for part in request.messages[-1].content.split("<")[1:]]
            if len(texts) > 1:
                return json.dumps({"choice": "A" if len(texts[0]) > len(texts[1]) else "B"})
            return "unreadable" if texts[0] == "bad" else json.dumps({"score": len(texts[0])})

        scripted_model.answer = answer

        async def work(client: Any, _: Any) -> Any:
            answered = await client.post(path, json=body)
            return answered.status_code, json.loads(answered.text)

        found: tuple[int, Any] = house.within(work, text, **settings)
        return found

    return post


def test_openrlhf_posts_queries_prompts_and_labels_and_reads_rewards(posted: Any) -> None:
    body = {
        "query": ["q1 aa", "q2 bad", "q3 cccc"],
        "prompts": ["q1 ", "q2 ", "q3 "],
        "labels": ["x", "y", "z"],
    }
    status, found = posted(
        "/get_reward", body, protocol="openrlhf", criteria={"half": "output.score / 2"}
    )
    assert status == 200
    assert [found["rewards"][0], found["rewards"][2]] == [2.0, 4.0]
    assert math.isnan(found["rewards"][1]) and math.isnan(found["scores"][1])
    assert found["extra_logs"]["failed"] == [0.0, 1.0, 0.0]
    assert found["extra_logs"]["half"][::2] == [1.0, 2.0]


def test_openrlhf_compares_the_rollouts_of_a_prompt(posted: Any) -> None:
    body = {"query": ["p: aaa", "p: a", "p: aa"], "prompts": ["p: "] * 3, "labels": [""] * 3}
    assert posted("/get_reward", body, PAIRS, protocol="openrlhf")[1]["rewards"] == [1.0, 0.0, 0.5]
    status, found = posted("/get_reward", {"query": ["a", "b"]}, PAIRS, protocol="openrlhf")
    assert (status, found["error"]["kind"]) == (422, "bad-batch")


def test_verl_posts_the_arguments_of_compute_score_one_or_several(posted: Any) -> None:
    one = {
        "data_source": "d",
        "solution_str": "aaa",
        "ground_truth": "g",
        "extra_info": {"index": 1},
    }
    assert posted("/compute_score", one, protocol="verl")[1] == {"score": 3.0, "failed": 0.0}
    several = {
        "solution_strs": ["a", "bad"],
        "data_sources": ["d", "d"],
        "ground_truths": ["g", "h"],
        "extra_infos": [None, None],
    }
    first, second = posted("/compute_score", several, protocol="verl")[1]
    assert first == {"score": 1.0, "failed": 0.0}
    assert math.isnan(second["score"]) and second["failed"] == 1.0
    assert posted("/compute_score", {"data_source": "d"}, protocol="verl")[0] == 422


def test_trl_posts_prompts_completions_and_columns_and_reads_null_for_no_reward(
    posted: Any,
) -> None:
    body = {"prompts": ["q", "q"], "completions": ["aa", "bad"], "label": ["x", "y"]}
    status, found = posted(
        "/trl_reward", body, protocol="trl", criteria={"half": "output.score / 2"}
    )
    assert (status, found) == (200, {"rewards": [2.0, None], "criteria": {"half": [1.0, None]}})
    short = {"prompts": ["q", "q"], "completions": ["aa"], "label": ["x", "y"]}
    assert posted("/trl_reward", short, protocol="trl")[0] == 422


def test_without_a_protocol_there_is_no_such_endpoint(posted: Any) -> None:
    assert posted("/get_reward", {"query": ["a"]})[0] == 404


def test_a_column_that_is_missing_is_told_with_422(posted: Any) -> None:
    status, found = posted("/get_reward", {"query": ["a"]}, protocol="openrlhf")
    assert status == 422 and "no column 'label'" in found["error"]["message"]


def test_a_batch_beyond_the_queue_is_refused(posted: Any) -> None:
    from verdict_cli.features.server.service import Limits

    body = {"prompts": ["q"] * 4, "completions": ["aa"] * 4, "label": [""] * 4}
    assert posted("/trl_reward", body, protocol="trl", limits=Limits(in_flight=1, queue=2))[0] in (
        413,
        429,
    )


def test_criteria_of_a_judge_that_compares_are_refused_at_the_start(posted: Any) -> None:
    with pytest.raises(UsageError, match="without criteria"):
        posted(
            "/get_reward",
            {"query": ["a"]},
            PAIRS,
            protocol="openrlhf",
            criteria={"x": "output.choice"},
        )
