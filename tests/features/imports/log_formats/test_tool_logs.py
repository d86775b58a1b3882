"""`verdict import`: logs that the tools themselves wrote, and files that are no such logs.

`logs/` has small logs, named after the tool's version. What they contain was read with the tools' own readers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.errors import DataError
from verdict_cli.features.imports.logs import LOG_FORMATS, read_logs

LOGS = Path(__file__).parent / "logs"


def rows_of(log_format: str, name: str) -> dict[Any, dict[str, Any]]:
    return {row["id"]: row for row in read_logs(log_format, [LOGS / name])}


@pytest.mark.parametrize(
    "name",
    [
        "inspect-0.3.285.eval",
        "inspect-0.3.285.json.gz",
        "inspect-0.3.50.eval",
        "inspect-0.3.50.json.gz",
    ],
)
def test_an_inspect_log_has_its_samples_messages_and_scores(name):
    rows = rows_of("inspect", name)
    assert {identity: row["scores"] for identity, row in rows.items()} == {
        "sum": {"includes": "C", "match": "C"},
        "capital": {"includes": "I", "match": "I"},
        3: {"includes": "C", "match": "C"},
    }
    tool_use = rows["sum"]
    assert [message["role"] for message in tool_use["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert tool_use["messages"][2]["name"] == "add"
    assert (tool_use["input"], tool_use["output"], tool_use["target"]) == (
        "What is 2 + 3?",
        "The answer is 5.",
        "5",
    )
    assert (tool_use["model"], tool_use["metadata"]) == ("mockllm/model", {"level": 1})
    picture = rows["capital"]["messages"][0]["content"][1]
    assert picture["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert rows["capital"]["target"] == ["Paris", "paris"]


@pytest.mark.parametrize("name", ["promptfoo-0.121.20.json", "promptfoo-0.121.20.jsonl"])
def test_promptfoos_results_have_their_prompts_and_assertions(name):
    rows = list(rows_of("promptfoo", name).values())
    assert [(row["input"], row["scores"]) for row in rows] == [
        ("Say hello.", {"pass": False, "score": 0.5, "contains": 1, "long": 0}),
        ("Say hello twice.", {"pass": True, "score": 1, "contains": 1, "long": 1}),
        ("Say bye twice.", {"pass": False, "score": 0, "equals": 0}),
        ("Say bye.", {"pass": True, "score": 1, "equals": 1}),
    ]
    assert [message["role"] for message in rows[1]["messages"]] == ["system", "user", "assistant"]
    assert rows[0]["messages"] is None and rows[0]["output"] == "Say hello."
    assert (rows[3]["target"], rows[3]["model"], rows[3]["metadata"]) == (
        "Say bye.",
        "echo",
        {"vars": {"word": "bye"}},
    )


def test_deepevals_test_cases_have_their_metrics_and_contexts():
    rows = rows_of("deepeval", "deepeval-4.3.1.json")
    assert {name: row["scores"] for name, row in rows.items()} == {
        "test_case_0": {"pass": False, "Length": 0.05},
        "test_case_1": {"pass": True, "Length": 1.0},
    }
    second = rows["test_case_1"]
    assert (second["input"], second["output"]) == (
        "Which city is the capital of France?",
        "The capital is Paris.",
    )
    assert (second["target"], second["retrieval_context"]) == (
        "Paris",
        ["Paris is the capital of France."],
    )
    assert (second["metadata"], second["explanations"]) == (
        {"level": 2},
        {"Length": "21 characters"},
    )


def test_a_conversational_test_case_has_its_turns():
    (row,) = rows_of("deepeval", "deepeval-4.3.1-conversation.json").values()
    assert [(message["role"], message["content"]) for message in row["messages"]] == [
        ("user", "Hello"),
        ("assistant", "Hi. How can I help?"),
        ("user", "Bye"),
        ("assistant", "Bye."),
    ]
    assert row["messages"][3]["tool_calls"][0]["function"]["name"] == "hang_up"
    assert (row["input"], row["target"], row["scores"]) == (
        "greeting",
        "polite",
        {"pass": True, "Turns": 1.0},
    )


def test_a_trace_has_the_conversation_of_its_last_call_and_its_scores():
    agent, chat = rows_of("otlp", "otlp-sdk-1.45.2.jsonl").values()
    assert [message["role"] for message in agent["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert (agent["input"], agent["output"]) == ("Weather in Paris?", "It is rainy, 57F.")
    assert (agent["model"], agent["metadata"]) == (
        "gpt-4o-mini-2024-07-18",
        {"name": "invoke_agent"},
    )
    assert (chat["scores"], chat["explanations"]) == ({"Polite": 0.9}, {"Polite": "greets"})
    assert len(chat["trace_id"]) == 32 and len(chat["span_id"]) == 16


LM_EVAL = [
    {"doc_id": 0, "doc": {"q": "2+2"}, "target": "4", "arguments": {"gen_args_0": {"arg_0": "Q: 2+2", "arg_1": {}}},
     "resps": [["4 "]], "filtered_resps": ["4"], "filter": "strict", "metrics": ["exact_match"], "exact_match": 1.0},
    {"doc_id": 1, "doc": {"q": "?"}, "target": 1, "arguments": [["Q", " a"], ["Q", " b"]],
     "resps": [[[-3.0, False]], [[-1.0, True]]], "filtered_resps": [[-3.0, False], [-1.0, True]], "acc": 1.0},
]  # fmt: skip
LANGFUSE = [
    {"id": "t1", "name": "chat", "input": [{"role": "user", "content": "Hi"}], "output": {"role": "assistant", "content": "Hello"},
     "scores": [{"name": "polite", "value": 1, "dataType": "NUMERIC"}, {"name": "tone", "stringValue": "warm", "value": None}],
     "observations": [{"type": "GENERATION", "model": "gpt-4o"}], "metadata": {"a": 1}},
    {"id": "t2", "input": "{\"messages\": [{\"role\": \"user\", \"content\": \"Bye\"}]}", "output": "Bye.", "scores": {"polite": [0]}},
]  # fmt: skip
CHAT = [
    {"custom_id": "a", "body": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}},
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]},
    {"request": {"messages": [{"role": "user", "content": "Hi"}]}, "response": {"model": "m-1", "choices": [{"message": {"role": "assistant", "content": "Yo"}}]}},
]  # fmt: skip


def lines(tmp_path: Path, name: str, values: list[Any]) -> Path:
    path = tmp_path / name
    path.write_text(jsonl(values), encoding="utf-8")
    return path


def test_logged_samples_of_lm_eval_0_4_13_have_their_scores():
    sums = rows_of("lm-eval", "samples_tiny_sums_2026-11-22T13-06-17.681285.jsonl")
    assert {
        number: (row["input"], row["output"], row["target"], row["scores"])
        for number, row in sums.items()
    } == {
        0: ("Q: 1+3\nA:", "lol", "4", {"exact_match": 0.0}),
        1: ("Q: 2+3\nA:", "lol", "5", {"exact_match": 0.0}),
    }
    choices = rows_of("lm-eval", "samples_tiny_choice_2026-11-22T13-06-17.681285.jsonl")
    assert [(row["output"], row["target"], row["scores"]["acc"]) for row in choices.values()] == [
        (0, "1", 0.0),
        (2, "2", 1.0),
    ]
    assert choices[0]["metadata"]["task"] == "tiny_choice"


def test_samples_of_lm_eval_have_the_response_or_the_likeliest_choice(tmp_path):
    path = lines(tmp_path, "samples_sums_2026-11-22T10-00-00.000000.jsonl", LM_EVAL)
    first, second = read_logs("lm-eval", [path])
    assert (first["id"], first["input"], first["output"], first["target"]) == (
        "0/strict",
        "Q: 2+2",
        "4",
        "4",
    )
    assert (first["scores"], first["metadata"]) == (
        {"exact_match": 1.0},
        {"doc": {"q": "2+2"}, "task": "sums"},
    )
    assert (second["id"], second["output"], second["scores"]) == (1, 1, {"acc": 1.0})


@pytest.mark.parametrize("whole", [True, False], ids=["one document", "lines"])
def test_langfuses_traces_have_their_scores_and_conversations(tmp_path, whole):
    path = tmp_path / "traces.json"
    if whole:
        path.write_text(json.dumps({"data": LANGFUSE, "meta": {"page": 1}}), encoding="utf-8")
    else:
        path = lines(tmp_path, "traces.jsonl", LANGFUSE)
    first, second = read_logs("langfuse", [path])
    assert (first["scores"], first["model"], first["trace_id"]) == (
        {"polite": 1, "tone": "warm"},
        "gpt-4o",
        "t1",
    )
    assert [message["content"] for message in first["messages"]] == ["Hi", "Hello"]
    assert [message["content"] for message in second["messages"]] == ["Bye", "Bye."]
    assert second["scores"] == {"polite": 0}


def test_chat_requests_examples_and_responses_are_rows(tmp_path):
    rows = list(read_logs("openai-chat", [lines(tmp_path, "chat.jsonl", CHAT)]))
    assert [(row["id"], row["input"], row["output"], row["model"]) for row in rows] == [
        ("a", "Hi", None, "m"),
        (1, "Hi", "Hello", None),
        (2, "Hi", "Yo", "m-1"),
    ]


@pytest.mark.parametrize("log_format", LOG_FORMATS)
@pytest.mark.parametrize(
    "content",
    [b"\x00\x01\x02", b"[1, 2]", b"[[]]", b'{"a": 1}', b'{"results": 3}', b'[{"id": null}]', b"[" * 100_000, b'{"a": ' * 100_000,
     b'{"results": {"results": [null]}}', b'{"testCases": [1]}', b'{"testCases": [{"name": "a", "turns": [1]}]}', b'{"resourceSpans": [{}]}',
     b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 1}]}]}]}', b'{"eval": {"model": "m"}, "samples": [3]}',
     b'{"data": [{"id": "a", "input": [{"role": "user", "content": 3}]}]}', b'{"doc_id": 1}', b'{"messages": "x"}', b"\xff\xfe"],
    ids=lambda content: content[:30],
)  # fmt: skip
def test_a_foreign_file_is_a_data_error_or_has_rows(tmp_path, log_format, content):
    path = tmp_path / "log.json"
    path.write_bytes(content)
    try:
        rows = list(read_logs(log_format, [path]))
    except DataError as error:
        assert error.problem.file == str(path)
    else:
        assert all(row["id"] is not None and isinstance(row["scores"], dict) for row in rows)


def test_memory_does_not_grow_with_the_log(tmp_path):
    import tracemalloc

    path = tmp_path / "big.json"
    result = json.loads((LOGS / "promptfoo-0.121.20.json").read_text("utf-8"))["results"][
        "results"
    ][0]
    with path.open("w", encoding="utf-8") as file:
        file.write('{"results": {"results": [')
        file.write(",".join([json.dumps(result)] * 3_000))
        file.write("]}}")
    tracemalloc.start()
    count = sum(1 for _ in read_logs("promptfoo", [path]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 3_000
    assert peak < 4_000_000 < path.stat().st_size
