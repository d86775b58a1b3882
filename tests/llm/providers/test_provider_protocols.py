"""Anthropic, Gemini, Azure and the Responses API through the native client, against a loopback server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from wire_servers import anthropic, gemini, responses, serve

from verdict_cli.errors import ReplyError, Retryable
from verdict_cli.llm.providers import Providers
from verdict_cli.llm.providers.wire_protocol import parameters
from verdict_cli.messages import Reply, Request, Usage
from verdict_cli.model import Model

Make = Callable[..., Request]
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}
SCORE = '{"score": 4}'


def ask(*requests: Request, on_token: Any = None) -> list[Reply]:
    async def run() -> list[Reply]:
        providers = Providers(on_token=on_token)
        try:
            return [await providers.ask(request) for request in requests]
        finally:
            await providers.close()

    return asyncio.run(run())


def test_a_pipeline_runs_on_anthropic_without_litellm(tmp_path):
    def answer(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if number == 1:
            return 429, {
                "type": "error",
                "error": {"type": "rate_limit_error", "message": "slow down"},
            }
        if "row 2" in json.dumps(body["messages"]):
            return 200, anthropic("I can't help with that.", "refusal")
        return 200, anthropic(SCORE)

    with serve(answer) as wire:
        (tmp_path / "rows.jsonl").write_text("".join(f'{{"text": "row {i}"}}\n' for i in range(3)))
        (tmp_path / "p.yaml").write_text(
            "verdict: 1\nname: p\n"
            f"model: {{name: anthropic/claude-haiku-4-5, api_base: '{wire.url}', retries: 1}}\n"
            "pipeline:\n- {unit: JudgeUnit, prompt: 'Rate {source.text}'}\n"
        )
        code = (
            "import sys; from verdict_cli.cli.app import main\n"
            "sys.argv = ['verdict', 'run', 'p.yaml', 'rows.jsonl', '--out', 'out', '--no-cache']\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "print('LITELLM', 'litellm' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert "LITELLM False" in done.stdout, done.stdout + done.stderr
    import pyarrow.parquet

    assert (tmp_path / "out").is_dir(), done.stdout + done.stderr
    (path,) = tmp_path.rglob("results.parquet")
    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert [row["status"] for row in rows] == ["ok", "ok", "failed"]
    by_hand = 100 * 1e-6 + 700 * 0.1e-6 + 200 * 1.25e-6 + 50 * 5e-6
    assert [row["cost_usd"] for row in rows[:2]] == pytest.approx([by_hand] * 2)
    assert set(wire.paths) == {"/v1/messages"}
    assert wire.bodies[0]["output_config"]["format"]["type"] == "json_schema"


def test_anthropics_key_goes_into_its_own_header(request_for, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-loopback")
    with serve(lambda *_: (200, anthropic("Good."))) as wire:
        ask(request_for(Model(name="claude-haiku-4-5", api_base=wire.url)))
    assert wire.headers[0]["x-api-key"] == "sk-ant-loopback"
    assert "anthropic-version" in wire.headers[0] and "authorization" not in wire.headers[0]


def test_a_rate_limit_and_a_refusal_are_the_errors_of_the_openai_path(request_for):
    limit = {"type": "error", "error": {"message": "slow down"}}
    with serve(lambda *_: (429, limit)) as wire, pytest.raises(Retryable) as limited:
        ask(request_for(Model(name="anthropic/claude-haiku-4-5", api_base=wire.url)))
    assert (limited.value.failure, limited.value.retry_after_s) == ("rate-limit", 0.0)
    with (
        serve(lambda *_: (200, anthropic("No.", "refusal"))) as wire,
        pytest.raises(ReplyError) as refused,
    ):
        ask(request_for(Model(name="anthropic/claude-haiku-4-5", api_base=wire.url)))
    assert refused.value.failure == "refused" and refused.value.reply is not None
    assert refused.value.reply.cost_usd == pytest.approx(0.00067)


def test_a_schema_that_anthropic_rejects_is_sent_as_a_tool_and_remembered(
    request_for,
):
    def answer(_: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if "output_config" in body:
            return 400, {
                "type": "error",
                "error": {"message": "output_config: extra inputs are not permitted"},
            }
        used = {"type": "tool_use", "name": "reply", "input": {"score": 4}}
        return 200, anthropic("") | {"content": [used], "stop_reason": "tool_use"}

    with serve(answer) as wire:
        request = request_for(Model(name="anthropic/old", api_base=wire.url), json_schema=SCHEMA)
        replies = ask(request, request)
    assert [json.loads(reply.text) for reply in replies] == [{"score": 4}] * 2
    assert [next(iter({"output_config", "tools"} & set(body))) for body in wire.bodies] == [
        "output_config",
        "tools",
        "tools",
    ]


def test_a_streamed_reply_of_anthropic_is_passed_on_piece_by_piece(request_for):
    head = {
        "type": "message_start",
        "message": {"type": "message", "usage": {"input_tokens": 10, "output_tokens": 1}},
    }
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        for text in ("Go", "od.")
    ]
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 5},
    }
    stream = [head, *deltas, end, {"type": "message_stop"}]
    pieces: list[str] = []
    with serve(lambda *_: (200, {"events": stream})) as wire:
        request = request_for(
            Model(name="anthropic/claude-haiku-4-5", api_base=wire.url), stream=True
        )
        (reply,) = ask(request, on_token=lambda _, text: pieces.append(text))
    assert (reply.text, "".join(pieces), reply.usage) == ("Good.", "Good.", Usage(10, 5))


def test_gemini_is_called_by_its_model_and_its_thinking_is_charged(request_for):
    with serve(lambda *_: (200, gemini(SCORE))) as wire:
        model = Model(name="gemini/gemini-2.5-flash", api_base=wire.url)
        (reply,) = ask(request_for(model, json_schema=SCHEMA))
    assert wire.paths == ["/v1beta/models/gemini-2.5-flash:generateContent"]
    assert wire.bodies[0]["generationConfig"]["responseJsonSchema"] == SCHEMA
    assert (reply.text, reply.usage) == (SCORE, Usage(100, 50, reasoning_tokens=30))
    assert reply.cost_usd == pytest.approx(100 * 0.3e-6 + 50 * 2.5e-6)


def test_models_that_only_the_responses_api_serves_are_called_there(request_for, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with serve(lambda *_: (200, responses(SCORE))) as wire:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{wire.url}/v1")
        (reply,) = ask(request_for("o3-pro", json_schema=SCHEMA))
    assert (reply.text, wire.paths) == (SCORE, ["/v1/responses"])
    assert reply.cost_usd == pytest.approx(100 * 20e-6 + 10 * 80e-6)


def test_azure_gets_its_key_and_no_version_in_the_body(request_for, monkeypatch):
    monkeypatch.setenv("AZURE_API_KEY", "azure-key")
    reply = {
        "choices": [{"message": {"content": "Good."}}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
    }
    with serve(lambda *_: (200, reply)) as wire:
        monkeypatch.setenv("AZURE_API_BASE", wire.url)
        model = Model(
            name="azure/mine",
            base_model="gpt-5-mini",
            max_tokens=100,
            params={"api_version": "2024-10-21"},
        )
        (received,) = ask(request_for(model))
    assert wire.paths == ["/openai/deployments/mine/chat/completions?api-version=2024-10-21"]
    assert wire.headers[0]["api-key"] == "azure-key"
    assert "api_version" not in wire.bodies[0] and wire.bodies[0]["max_completion_tokens"] == 100
    assert received.cost_usd == pytest.approx(0.00045)


@pytest.mark.parametrize(
    ("structured", "key"),
    [
        ("schema", "json_schema"),
        ("tool", "tools"),
        ("json", "json_object"),
        ("words", "satisfies this JSON Schema"),
    ],
)
def test_the_structured_key_decides_how_json_is_requested(request_for, structured, key):
    reply = {"choices": [{"message": {"content": SCORE}}]}
    with serve(lambda *_: (200, reply)) as wire:
        ask(
            request_for(
                Model(name="m", api_base=wire.url, structured=structured), json_schema=SCHEMA
            )
        )
    assert key in json.dumps(wire.bodies[0])
    assert len(wire.bodies) == 1


@pytest.mark.parametrize("form", ["json_schema", ["json_schema"], {"json_schema": {}}, 5])
def test_a_response_format_of_any_kind_is_among_the_parameters(form):
    assert "response_format" in json.loads(parameters({"response_format": form}))
