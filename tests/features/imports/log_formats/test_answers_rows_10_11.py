"""Rows 10 and 11 of the safety findings: an answer is what was answered, and a log of which nothing is read is no success."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.errors import DataError
from verdict_cli.features.imports.logs import LogRow, read_logs
from verdict_cli.language.conversation import ConversationError, transcript


def rows(log_format: str, tmp_path: Path, *documents: Any, name: str = "log.jsonl") -> list[LogRow]:
    path = tmp_path / name
    path.write_text(jsonl(documents))
    return list(read_logs(log_format, [path]))


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Paris."}], "Paris."),
        ([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Paris."}], "Paris."),
        ([{"text": "hm", "thought": True}, {"text": "Paris."}], "Paris."),
        ([{"reasoningContent": {"reasoningText": {"text": "hm"}}}, {"text": "Paris."}], "Paris."),
        ([{"type": "refusal", "refusal": "No."}], "No."),
        ([{"type": "input_audio", "input_audio": {}}], None),
    ],
)
def test_row_10_an_answer_has_no_thoughts_and_no_placeholders(content, output, tmp_path):
    messages = [{"role": "user", "content": "Capital?"}, {"role": "assistant", "content": content}]
    (row,) = rows("openai-chat", tmp_path, {"messages": messages})
    assert row["output"] == output
    assert "hm" not in transcript(row["messages"])


def test_row_10_scores_of_langfuse_are_read_by_their_type(tmp_path):
    scores = [
        {"name": "ok", "dataType": "BOOLEAN", "value": 1, "stringValue": "True"},
        {"name": "ok", "dataType": "BOOLEAN", "value": 0, "comment": "wrong"},
        {"name": "tone", "dataType": "CATEGORICAL", "value": 0, "stringValue": "rude"},
        {"name": "n", "dataType": "NUMERIC", "value": 0.5, "stringValue": ""},
    ]
    (row,) = rows("langfuse", tmp_path, {"id": "t", "input": "q", "output": "a", "scores": scores})
    assert row["scores"] == {"ok": True, "ok_2": False, "tone": "rude", "n": 0.5}
    assert row["explanations"] == {"ok_2": "wrong"}


def test_row_10_of_observations_generations_are_rows_with_their_trace(tmp_path):
    observations = [
        {"id": "o1", "traceId": "t1", "type": "SPAN", "input": "q", "output": "doc"},
        {"id": "o2", "traceId": "t1", "type": "GENERATION", "input": "q", "output": "a"},
    ]
    (row,) = rows("langfuse", tmp_path, *observations)
    assert (row["trace_id"], row["span_id"]) == ("t1", "o2")


def attributes(**values: str) -> list[dict[str, Any]]:
    return [
        {"key": name.replace("__", "."), "value": {"stringValue": text}}
        for name, text in values.items()
    ]


def span(attribute_list: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {"spans": [{"traceId": "t", "spanId": "s", "attributes": attribute_list}]}
                ]
            }
        ]
    }


def test_row_10_openinference_is_read(tmp_path):
    head = "llm__input_messages__0__message__"
    attribute_list = attributes(
        **{
            f"{head}role": "user",
            f"{head}content": "Hi",
            "llm__output_messages__0__message__content": "Yo",
        }
    )
    (row,) = rows("otlp", tmp_path, span(attribute_list))
    assert (row["input"], row["output"]) == ("Hi", "Yo")


def test_row_10_a_file_of_which_nothing_is_read_is_no_success(shell):
    shell.write("spans.json", json.dumps(span(attributes(http__route="/"))))
    shell.write("events.jsonl", json.dumps({"id": "e", "trace_id": "t", "type": "EVENT"}) + "\n")
    for log_format, name in (("otlp", "spans.json"), ("langfuse", "events.jsonl")):
        result = shell("import", log_format, name, "--out", "rows.jsonl")
        assert result.code == 2, result.err
        assert name in result.err
        assert not (shell.folder / "rows.jsonl").exists()


def test_row_10_a_batch_with_errors_and_the_responses_api_are_read(tmp_path):
    failed, request, replied = rows(
        "openai-chat",
        tmp_path,
        {
            "custom_id": "r2",
            "response": None,
            "error": {"code": "batch_expired", "message": "expired"},
        },
        {"custom_id": "r1", "body": {"instructions": "Be short.", "input": "Capital?"}},
        {
            "input": "Capital?",
            "output": [],
            "response": {
                "output": [
                    {"type": "reasoning", "id": "x", "summary": []},
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": "Paris."}],
                    },
                ]
            },
        },
    )
    assert (failed["error"], failed["output"]) == ("expired", None)
    assert (request["input"], request["output"]) == ("Capital?", None)
    assert replied["output"] == "Paris."


def test_row_10_other_lines_are_named(tmp_path):
    with pytest.raises(DataError, match="a pair of preferences"):
        rows("openai-chat", tmp_path, {"input": {"messages": []}, "preferred_output": []})


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([{"role": "assistant", "content": None, "refusal": "I can't."}], "[1] assistant: I can't."),
        ([{"role": "assistant", "content": "", "refusal": "I can't."}], "[1] assistant: I can't."),
        ([{"role": "assistant", "content": [{"toolUse": {"name": "f", "input": {}}}]}], "[1] assistant called f({})"),
        (
            [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "1"}],
            "[1] assistant called f({})\n[2] tool f: 1",
        ),
        ([{"role": "assistant", "content": None, "audio": {"transcript": "Hello"}}], "[1] assistant: Hello"),
        ([{"role": "user", "content": [{"type": "input_audio", "transcript": "Hi"}]}], "[1] user: Hi"),
        ([{"type": "web_search_call", "id": "w", "action": {"query": "x"}}], '[1] assistant called web_search({"query": "x"})'),
        ([{"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}], "[1] assistant called f(x)"),
        ([{"role": "assistant", "content": [{"type": "server_tool_use", "id": "t", "name": "f", "input": {}}, {"type": "web_search_tool_result", "tool_use_id": "t", "content": [{"type": "web_search_result", "url": "u"}]}]}], '[1] assistant called f({})\n[2] tool f: [{"type": "web_search_result", "url": "u"}]'),
        ([{"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "t", "toolName": "f", "args": {}}]}], "[1] assistant called f({})"),
        ([{"role": "model", "parts": [{"executableCode": {"code": "1"}}]}], '[1] assistant called code_execution({"code": "1"})'),
        ([{"type": "ai", "content": "", "additional_kwargs": {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}}], "[1] assistant called f({})"),
        ([{"type": "human", "content": "Q"}, {"type": "ai", "content": "A"}], "[1] user: Q\n[2] assistant: A"),
        ([{"lc": 1, "id": ["langchain", "AIMessageChunk"], "kwargs": {"content": "A"}}], "[1] assistant: A"),
    ],
)  # fmt: skip
def test_row_11_messages_of_other_apis_are_shown(messages, text):
    assert transcript(messages) == text


@pytest.mark.parametrize("part", [{"hologram": "x"}, {"type": "hologram", "data": "x"}])
def test_row_11_a_part_that_is_not_read_is_refused_by_name(part):
    with pytest.raises(ConversationError, match="hologram"):
        transcript([{"role": "user", "content": [part]}])


def test_row_11_messages_that_are_not_read_are_reported_before_a_call(shell):
    shell.config('  - {unit: JudgeUnit, scale: boolean, prompt: "{source.messages}"}')
    rows = [
        [{"role": "user", "content": "Hi"}],
        [{"role": "user", "content": [{"type": "hologram"}]}],
    ]
    shell.write("rows.jsonl", jsonl({"messages": messages} for messages in rows))
    for words in (
        ("validate", "pipeline.yaml", "rows.jsonl"),
        ("run", "pipeline.yaml", "rows.jsonl", "--out", "out"),
    ):
        result = shell(*words)
        output = " ".join((result.out + result.err).split())
        assert (
            "1 row has messages in 'messages' that are not read and fails without a call, such as row 1"
            in output
        )
        assert "hologram" in output


def test_row_10_outputs_that_a_file_lacks_are_null_with_a_warning(shell):
    result = {
        "prompt": {"raw": "[prompt stripped]"},
        "response": {"output": "[output stripped]"},
        "success": True,
    }
    shell.write("out.json", json.dumps({"results": {"results": [result]}}))
    done = shell("import", "promptfoo", "out.json", "--out", "rows.jsonl")
    assert "1 row has no output" in done.err and "PROMPTFOO_STRIP_RESPONSE_OUTPUT" in done.err
    row = json.loads((shell.folder / "rows.jsonl").read_text())
    assert (row["input"], row["output"]) == (None, None)
