"""A judge as a decision model: OpenAI's and System One's questions, answered with the judge's own distribution."""

from __future__ import annotations

import json
from typing import Any

import pytest

HEAD = "verdict: 1\nname: helpful\nmodel: {name: gpt-4o-mini, retries: 0}\npipeline:\n"
CHOICE = (
    HEAD
    + "  - {unit: CategoricalJudgeUnit, name: j, categories: [calm, angry], prompt: 'How is {source.a}?'}\n"
)
SCORE = (
    HEAD
    + "  - {unit: JudgeUnit, name: j, scale: {range: [1, 3]}, prompt: 'Rate {source.a}: {source.question}'}\n"
)
JURY = (
    HEAD
    + "  - layer: [{unit: JudgeUnit, name: j, scale: boolean, prompt: 'Is {source.a} right?'}]\n    repeat: 4\n"
    + "  - {unit: MeanPoolUnit, field: score}\n"
)
CHOICES = [{"value": "angry"}, {"value": "calm"}]
LEVELS = [{"label": "bad"}, {"label": "fair"}, {"label": "good"}]


@pytest.fixture
def post(house: Any) -> Any:
    """The JSON that an endpoint of a judge answers, and its status."""

    def ask(pipeline: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        async def within(client: Any, _: Any) -> tuple[int, Any]:
            answered = await client.post(path, json={"model": "helpful", **body})
            return answered.status_code, answered.json()

        answer_of_server: tuple[int, Any] = house.within(within, pipeline)
        return answer_of_server

    return ask


def test_a_choice_is_answered_in_both_forms(post, scripted_model):
    scripted_model.answer = lambda _: json.dumps({"choice": "calm"})
    question = {"type": "choice", "name": "mood", "instructions": "Which?", "choices": CHOICES}
    status, body = post(
        CHOICE,
        "/v1/decisions",
        {"input": "text", "questions": [question]} | {"input": _fields(a="hi")},
    )
    assert status == 200
    (answer,) = body["answers"]
    assert (answer["name"], answer["type"], answer["choice"]) == ("mood", "choice", "calm")
    assert answer["probabilities"] == [
        {"value": "angry", "probability": 0.0},
        {"value": "calm", "probability": 1.0},
    ]
    questions = {
        "mood": {
            "type": "choice",
            "instructions": "Which?",
            "criteria": {"angry": None, "calm": None},
        }
    }
    status, body = post(CHOICE, "/v1/systemone", {"state": {"a": "hi"}, "questions": questions})
    assert (status, body["answers"]["mood"]["probabilities"]) == (200, {"calm": 1.0, "angry": 0.0})


def _fields(**fields: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "input_json", "data": fields}]}]


def test_a_score_is_the_expected_level_and_a_question_reaches_the_prompt(post, scripted_model):
    scripted_model.answer = lambda _: json.dumps({"score": 3})
    question = {"type": "score", "instructions": "How well?", "levels": LEVELS}
    _, body = post(SCORE, "/v1/decisions", {"input": _fields(a="hi"), "questions": [question]})
    assert body["answers"][0]["score"] == 2
    assert [item["label"] for item in body["answers"][0]["probabilities"]] == [
        "bad",
        "fair",
        "good",
    ]
    assert "Rate hi: How well?" in scripted_model.texts()[0]


def test_the_share_of_a_jurys_votes_is_a_probability(post, scripted_model):
    votes = iter([True, True, True, False])
    scripted_model.answer = lambda _: json.dumps({"score": next(votes)})
    questions = {"ok": {"type": "noul", "instructions": "Is it right?"}}
    _, body = post(JURY, "/v1/systemone", {"state": {"a": "hi"}, "questions": questions})
    assert body["answers"]["ok"] == {"type": "noul", "noul": 0.75}


@pytest.mark.parametrize(
    "question",
    [
        {"type": "predicate"},
        {"type": "choice", "choices": [{"value": "x"}, {"value": "y"}]},
        {"type": "score", "levels": LEVELS},
    ],
)
def test_a_question_that_the_judge_does_not_answer_is_refused(post, scripted_model, question):
    scripted_model.answer = lambda _: json.dumps({"choice": "calm"})
    question = {"instructions": "Which?", **question}
    status, body = post(
        CHOICE, "/v1/decisions", {"input": _fields(a="hi"), "questions": [question]}
    )
    assert 400 <= status < 500
    assert "calm, angry" in json.dumps(body)
    assert not scripted_model.requests


def test_a_row_that_fails_has_no_answer(post, scripted_model):
    scripted_model.answer = lambda _: "unreadable"
    question = {"type": "choice", "instructions": "Which?", "choices": CHOICES}
    status, body = post(
        CHOICE, "/v1/decisions", {"input": _fields(a="hi"), "questions": [question]}
    )
    assert status >= 400
    assert "answers" not in body


def test_the_openai_sdk_reads_the_decision(house, scripted_model):
    openai = pytest.importorskip("openai")
    if not hasattr(openai.AsyncOpenAI, "decisions"):
        pytest.skip("this version of the openai package has no decisions")
    scripted_model.answer = lambda _: json.dumps({"choice": "calm"})

    async def within(client: Any, _: Any) -> Any:
        judge = openai.AsyncOpenAI(base_url="http://test/v1", api_key="none", http_client=client)
        question = {"type": "choice", "name": "mood", "instructions": "Which?", "choices": CHOICES}
        return await judge.decisions.create(
            model="helpful", input=_fields(a="hi"), questions=[question]
        )

    decision = house.within(within, CHOICE)
    assert (decision.answers[0].choice, decision.answers[0].name) == ("calm", "mood")
    assert decision.usage.total_tokens == 0


def test_the_typesafe_sdk_reads_the_decision(processes, tmp_path, loopback):
    typesafe = pytest.importorskip("typesafe_sdk", reason="typesafe-sdk is not installed")
    head = HEAD.replace("retries: 0", f"retries: 0, api_base: '{loopback.url}'").replace(
        "gpt-4o-mini", "openai/gpt-4o-mini"
    )
    served = processes.start(CHOICE.replace(HEAD, head))
    with typesafe.TypeSafeClient(base_url=served.url, api_key="none", model="helpful") as client:
        mood = typesafe.Choice(instructions="Which?", criteria={"calm": None, "angry": None})
        decision = client.system_one(state={"a": "hi"}, questions={"mood": mood})
    assert decision.choices["mood"].choice in ("calm", "angry")
    assert sum(decision.choices["mood"].probabilities.values()) == 1
