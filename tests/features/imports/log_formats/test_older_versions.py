"""Logs that older versions of the tools wrote, and logs that are cut off."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonl import jsonl
from test_tool_logs import CHAT, LANGFUSE

from verdict_cli.errors import DataError
from verdict_cli.features.imports.logs import read_logs
from verdict_cli.features.imports.otlp import event_messages, numbered_messages

LOGS = Path(__file__).parent / "logs"
FORMATS = {
    "inspect-": "inspect", "promptfoo-": "promptfoo", "deepeval-": "deepeval", "otlp-": "otlp", "lm_eval-": "lm-eval", "samples_": "lm-eval",
    "langfuse-": "langfuse", "chat-": "openai-chat",
}  # fmt: skip


def rows_of(name: str) -> list[dict[str, Any]]:
    return list(read_logs(format_of(name), [LOGS / name]))


def test_results_of_promptfoo_in_version_2_have_their_assertions():
    rows = rows_of("promptfoo-0.43.1.json")
    assert [(row["input"], row["scores"]) for row in rows] == [
        ("Say bye.", {"pass": True, "score": 1, "equals": 1}),
        ("Say bye twice.", {"pass": False, "score": 0, "equals": 0}),
        ("Say hello.", {"pass": False, "score": 0.5, "contains": 1, "long": 0}),
        ("Say hello twice.", {"pass": True, "score": 1, "contains": 1, "long": 1}),
    ]
    assert [message["role"] for message in rows[3]["messages"]] == ["system", "user", "assistant"]
    assert (rows[0]["target"], rows[0]["model"], rows[0]["metadata"]) == (
        "Say bye.",
        "echo",
        {"vars": {"word": "bye"}},
    )


@pytest.mark.parametrize("version", ["2.5.5", "3.3.9"])
def test_deepevals_test_cases_are_the_same_in_older_versions(version):
    first, second = rows_of(f"deepeval-{version}.json")
    assert (first["scores"], first["metadata"]) == ({"pass": False, "Length": 0.05}, {"level": 1})
    assert (second["output"], second["target"]) == ("The capital is Paris.", "Paris")
    assert (second["retrieval_context"], second["context"]) == (
        ["Paris is the capital of France."],
        ["A list"],
    )
    (talk,) = rows_of(f"deepeval-{version}-conversation.json")
    assert [(message["role"], message["content"]) for message in talk["messages"]] == [
        ("user", "Hello"),
        ("assistant", "Hi. How can I help?"),
        ("user", "Bye"),
        ("assistant", "Bye."),
    ]
    assert talk["scores"] == {"pass": True, "Turns": 1.0}


def test_samples_of_lm_eval_0_4_2_are_one_document():
    sums = rows_of("lm_eval-0.4.2-sums.jsonl")
    assert [(row["input"], row["output"], row["target"], row["scores"]) for row in sums] == [
        ("Q: 1+3\nA:", "lol", "4", {"exact_match": 0.0}),
        ("Q: 2+3\nA:", "lol", "5", {"exact_match": 0.0}),
    ]
    choices = rows_of("lm_eval-0.4.2-choice.jsonl")
    assert [(row["output"], row["target"], row["scores"]) for row in choices] == [
        (0, 1, {"acc": 0.0}),
        (0, 2, {"acc": 0.0}),
    ]


@pytest.mark.parametrize("name", ["otlp-openllmetry-0.33.12.jsonl", "otlp-openai-v2-2.0b0.jsonl"])
def test_messages_in_attributes_and_log_records_are_those_of_the_last_call(name):
    agent, chat = rows_of(name)
    assert [message["role"] for message in agent["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert agent["messages"][2]["tool_calls"][0]["function"] == {
        "name": "weather",
        "arguments": '{"city": "Paris"}',
    }
    assert (agent["messages"][3]["name"], agent["messages"][3]["content"]) == (
        "weather",
        "rainy, 57F",
    )
    assert (agent["input"], agent["output"]) == ("Weather in Paris?", "It is rainy, 57F.")
    assert (agent["model"], agent["metadata"]) == (
        "gpt-4o-mini-2024-07-18",
        {"name": "invoke_agent"},
    )
    assert ([message["content"] for message in chat["messages"]], chat["model"]) == (
        ["Hi", "Hello!"],
        "gpt-4o-mini-2024-07-18",
    )


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("gen_ai.user.message", {"gen_ai.event.content": '{"content": "Hi"}'}, ("input", [{"role": "user", "content": "Hi"}])),
        ("gen_ai.user.message", {"content": '[{"type": "text", "text": "Hi"}]'}, ("input", [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}])),
        ("gen_ai.tool.message", {"content": "5", "id": "c1"}, ("input", [{"role": "tool", "content": "5", "tool_call_id": "c1"}])),
        ("gen_ai.choice", {"index": 0, "message": '{"content": "Yes"}'}, ("output", [{"role": "assistant", "content": "Yes"}])),
        ("gen_ai.choice", {"message": "Yes"}, ("output", [{"role": "assistant", "content": "Yes"}])),
        ("gen_ai.choice", {"index": 1, "message": "No"}, ("output", [])),
        ("gen_ai.content.prompt", {"gen_ai.prompt": '[{"role": "user", "content": "Hi"}]'}, ("input", [{"role": "user", "content": "Hi"}])),
        ("gen_ai.content.completion", {"gen_ai.completion": "Yes"}, ("output", [{"role": "assistant", "content": "Yes"}])),
        ("gen_ai.user.message", {}, ("input", [{"role": "user", "content": ""}])),
        ("exception", {"content": "no"}, ("", [])),
    ],
)  # fmt: skip
def test_events_of_older_conventions_are_messages(name, values, expected):
    assert event_messages(name, values) == expected


@given(st.dictionaries(st.from_regex(r"gen_ai\.(prompt|completion)\.\d\.(tool_calls\.\d\.)?\w", fullmatch=True) | st.text(), st.text() | st.none(), max_size=6))  # fmt: skip
def test_any_attributes_are_messages_or_none(values):
    assert all(
        "role" in message
        for side in ("input", "output")
        for message in numbered_messages(values, side)
    )


CONTENTS = {path.name: path.read_bytes() for path in LOGS.iterdir()} | {
    "langfuse-1.jsonl": jsonl(LANGFUSE).encode(),
    "langfuse-2.json": json.dumps({"data": LANGFUSE, "meta": {"page": 1}}).encode(),
    "chat-1.jsonl": jsonl(CHAT).encode(),
}


def format_of(name: str) -> str:
    return next(log_format for start, log_format in FORMATS.items() if name.startswith(start))


@given(st.sampled_from(sorted(CONTENTS)), st.floats(0, 1, exclude_max=True))
@example("inspect-0.3.50.eval", 0.999)
def test_a_log_that_is_cut_off_is_one_error_or_has_whole_lines(tmp_path_factory, name, share):
    content = CONTENTS[name]
    cut = content[: int(len(content.rstrip()) * share)]
    path = tmp_path_factory.mktemp("cut") / name
    path.write_bytes(cut)
    try:
        rows = list(read_logs(format_of(name), [path]))
    except DataError as error:
        assert error.problem.file == str(path)
    else:
        assert name.endswith(".jsonl") and not content.startswith(b"[")
        assert cut.endswith((b"}", b"\n"))
        assert len(rows) <= len(cut.splitlines()) * 2


def documents(name: str) -> list[Any]:
    """The JSON documents of a log: its lines, or one."""
    content = gzip.decompress(CONTENTS[name]) if name.endswith(".gz") else CONTENTS[name]
    is_lines = name.endswith(".jsonl") and not content.startswith(b"[")
    return [json.loads(line) for line in (content.splitlines() if is_lines else [content])]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container within a value, with each of its keys."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, value_inside in inner:
        yield value, key
        yield from places(value_inside)


JSON_LOGS = sorted(name for name in CONTENTS if not name.endswith(".eval"))
ODD: Any = st.sampled_from(
    [
        None,
        True,
        -1,
        1e300,
        "x",
        "[{",
        "",
        [],
        [None],
        [3],
        [[]],
        {},
        {"a": None},
        {"role": 3},
        [{"role": "user"}],
    ]
)


@given(st.sampled_from(JSON_LOGS), st.integers(0, 10_000), ODD)
def test_a_log_with_an_odd_value_anywhere_has_rows_or_is_one_error(
    tmp_path_factory, name, place, odd
):
    log = documents(name)
    spots = list(places(log))
    container, key = spots[place % len(spots)]
    container[key] = odd
    path = tmp_path_factory.mktemp("odd") / name.removesuffix(".gz")
    path.write_text("\n".join(map(json.dumps, log)), encoding="utf-8")
    try:
        rows = list(read_logs(format_of(name), [path]))
    except DataError as error:
        assert error.problem.file == str(path)
    else:
        assert all(
            isinstance(row["id"], int | str) and isinstance(row["scores"], dict) for row in rows
        )
