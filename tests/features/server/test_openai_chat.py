"""The judge as a model of an OpenAI-compatible API, called by the real clients."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from verdict_cli.features.server.chat_api import chat_row, verdict_as_text
from verdict_cli.messages import Reply, Usage

JUDGE = """
verdict: 1
name: helpful
model: {name: gpt-4o-mini, temperature: 0, retries: 0}
pipeline:
  - {unit: JudgeUnit, name: judge, scale: {range: [1, 5]}, prompt: "Rate <{source.response}> to {source.prompt}"}
"""
CHAT = [{"role": "user", "content": "Say hi"}, {"role": "assistant", "content": "hi!"}]


@pytest.fixture
def use_client(house: Any, scripted_model: Any) -> Any:
    """What the client of the `openai` package gets from the judge: `asked(lambda client: …)`."""
    openai = pytest.importorskip("openai")

    def answer(request: Any) -> str:
        text = request.messages[-1].content.split("<")[1].split(">")[0]
        return "unreadable" if text == "bad" else json.dumps({"score": len(text)})

    scripted_model.answer = answer

    def ask(work: Any) -> Any:
        async def within(client: Any, _: Any) -> Any:
            judge = openai.AsyncOpenAI(
                base_url="http://test/v1", api_key="none", http_client=client, max_retries=2
            )
            return await work(judge)

        return house.within(within, JUDGE)

    return ask


def test_the_openai_sdk_reads_the_verdict_of_a_conversation(use_client):
    completion = use_client(
        lambda client: client.chat.completions.create(model="helpful", messages=CHAT)
    )
    assert completion.choices[0].message.content == "3"
    assert completion.verdict["output"] == {"score": 3} and completion.verdict["status"] == "ok"


def test_columns_come_from_extra_body_or_from_a_json_message(use_client):
    row = {"prompt": "p", "response": "four"}

    async def both(client: Any) -> list[str]:
        create = client.chat.completions.create
        user = [{"role": "user", "content": "-"}]
        first = await create(model="helpful", messages=user, extra_body={"row": row})
        second = await create(
            model="helpful", messages=[{"role": "user", "content": json.dumps(row)}]
        )
        return [completion.choices[0].message.content for completion in (first, second)]

    assert use_client(both) == ["4", "4"]


def test_a_stream_ends_with_the_whole_verdict(use_client):
    async def stream(client: Any) -> list[Any]:
        chunks = await client.chat.completions.create(model="helpful", messages=CHAT, stream=True)
        return [chunk async for chunk in chunks]

    first, last = use_client(stream)
    assert (first.choices[0].delta.content, last.choices[0].finish_reason) == ("3", "stop")
    assert last.verdict["output"] == {"score": 3}


def test_a_judgement_that_fails_is_an_error_that_clients_do_not_repeat(use_client, scripted_model):
    openai = pytest.importorskip("openai")
    bad = [CHAT[0], {"role": "assistant", "content": "bad"}]
    with pytest.raises(openai.UnprocessableEntityError) as raised:
        use_client(lambda client: client.chat.completions.create(model="helpful", messages=bad))
    assert raised.value.code == "unreadable"
    assert len(scripted_model.requests) == 1


def test_the_models_are_the_judge_and_no_other_is_answered(use_client):
    openai = pytest.importorskip("openai")

    async def listed(client: Any) -> list[str]:
        return [model.id for model in (await client.models.list()).data]

    assert use_client(listed) == ["helpful"]
    with pytest.raises(openai.NotFoundError, match="helpful"):
        use_client(lambda client: client.chat.completions.create(model="gpt-4o", messages=CHAT))


def test_a_response_belongs_to_the_last_question():
    assert "response" not in chat_row([*CHAT, {"role": "user", "content": "Again"}])
    assert chat_row(CHAT)["response"] == "hi!"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"score": 4}, "4"),
        ({"explanation": "x", "choice": "A"}, "A"),
        ({"a": True, "b": [1]}, '{"a":true,"b":[1]}'),
    ],
)
def test_the_text_is_the_main_field(output, text):
    assert verdict_as_text(output) == text


def test_langchain_invokes_and_streams_the_judge(house, scripted_model):
    langchain = pytest.importorskip("langchain_openai", reason="LangChain's client of OpenAI's API")
    scripted_model.answer = lambda _: json.dumps({"score": 3})

    async def within(client: Any, _: Any) -> tuple[Any, list[Any]]:
        judge = langchain.ChatOpenAI(
            model="helpful",
            base_url="http://test/v1",
            api_key="none",
            http_async_client=client,
            max_retries=0,
        )
        chat = [(message["role"], message["content"]) for message in CHAT]
        return await judge.ainvoke(chat), [chunk async for chunk in judge.astream(chat)]

    answered, chunks = house.within(within, JUDGE)
    assert answered.content == "3" and answered.response_metadata["finish_reason"] == "stop"
    assert "".join(chunk.content for chunk in chunks) == "3"


@pytest.mark.filterwarnings("ignore")  # litellm's own
def test_litellm_calls_the_judge_over_http(processes, monkeypatch):
    monkeypatch.setenv(
        "LITELLM_LOCAL_MODEL_COST_MAP", "True"
    )  # else its import looks for newer prices on the network
    litellm = pytest.importorskip("litellm")
    text = JUDGE.replace("{name: gpt-4o-mini, temperature: 0, retries: 0}", "baseline/lexical")
    server = processes.start(text)
    answered = litellm.completion(
        model="openai/helpful",
        messages=CHAT,
        api_base=f"{server.url}/v1",
        api_key="none",
        num_retries=0,
    )
    assert 1 <= int(answered.choices[0].message.content) <= 5


class Verdict(BaseModel):
    score: int


class Explained(BaseModel):
    score: int
    explanation: str


class Named(BaseModel):
    score: Literal["good", "bad"]


def test_parse_gives_the_verdict_in_the_requested_schema(use_client):
    completion = use_client(
        lambda client: client.chat.completions.parse(
            model="helpful", messages=CHAT, response_format=Verdict
        )
    )
    assert completion.choices[0].message.parsed == Verdict(score=3)
    assert completion.verdict["output"] == {"score": 3}


def test_a_json_object_is_the_whole_output(use_client):
    completion = use_client(
        lambda client: client.chat.completions.create(
            model="helpful", messages=CHAT, response_format={"type": "json_object"}
        )
    )
    assert json.loads(completion.choices[0].message.content) == {"score": 3}


@pytest.mark.parametrize(
    ("keys", "words", "calls"),
    [
        ({"response_format": Explained}, "the schema requires explanation", 0),
        ({"response_format": Named}, "score: 3 is not one of ['good', 'bad']", 1),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "calls no tools", 0),
    ],
)
def test_a_form_that_the_verdict_cannot_have_is_a_400_before_a_call_if_possible(
    use_client, scripted_model, keys, words, calls
):
    openai = pytest.importorskip("openai")

    async def parse(client: Any) -> None:
        form = keys.get("response_format")
        if form is None:
            await client.chat.completions.create(model="helpful", messages=CHAT, **keys)
        else:
            await client.chat.completions.parse(
                model="helpful", messages=CHAT, response_format=form
            )

    with pytest.raises(openai.BadRequestError) as caught:
        use_client(parse)
    assert words in str(caught.value)
    assert len(scripted_model.requests) == calls


def test_usage_has_the_tokens_of_the_judges_calls(use_client, scripted_model):
    scripted_model.answer = lambda _: Reply('{"score": 4}', usage=Usage(20, 5))

    async def both(client: Any) -> Any:
        create = client.chat.completions.create
        whole = await create(model="helpful", messages=CHAT)
        chunks = await create(
            model="helpful", messages=CHAT, stream=True, stream_options={"include_usage": True}
        )
        return whole.usage, [chunk async for chunk in chunks][-1].usage

    for usage in use_client(both):
        assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (20, 5, 25)


def test_the_judge_is_retrieved_by_its_name_alone(use_client):
    openai = pytest.importorskip("openai")
    assert use_client(lambda client: client.models.retrieve("helpful")).id == "helpful"
    with pytest.raises(openai.NotFoundError, match="the judge is 'helpful'"):
        use_client(lambda client: client.models.retrieve("gpt-4o"))
