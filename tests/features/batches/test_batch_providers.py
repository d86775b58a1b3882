"""Each provider's batch interface: failed and expired requests, and a creation that was not acknowledged."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler

import pytest
from loopback_server import serving

from verdict_cli.errors import Retryable
from verdict_cli.features.batches.adapters import open_batch_api
from verdict_cli.features.batches.batch_facts import batches_of
from verdict_cli.features.batches.sent import result_lines
from verdict_cli.model import Model


@pytest.mark.parametrize(
    ("name", "base", "key"),
    [
        ("anthropic/claude-haiku-4-5", "", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-2.5-flash", "", "GEMINI_API_KEY"),
        ("mistral/mistral-small-latest", "/v1", "MISTRAL_API_KEY"),
        ("together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo", "/v1", "TOGETHERAI_API_KEY"),
    ],
)
def test_every_request_is_answered_and_paid_once(bench, monkeypatch, name, base, key):
    monkeypatch.setenv(key, "k-1")
    bench.server.fail, bench.server.expire, bench.server.lost = 0.1, 0.05, 1
    facts = bench.run(8, name=name, base=base)
    assert (facts.status, facts.done, facts.failed) == ("finished", 8, 0)
    assert len(bench.server.paid) == 48
    assert set(bench.server.paid.values()) == {1}
    assert facts.cost_usd is not None
    assert sum(batch.answered for batch in batches_of(facts)) == 48
    assert facts.cost_usd == pytest.approx(sum(batch.cost_usd or 0 for batch in batches_of(facts)))
    assert sum(batch.requests for batch in batches_of(facts)) == sum(bench.server.sizes)


@pytest.mark.parametrize(
    ("name", "base", "files", "target"),
    [
        ("gpt-5-pro", "", "https://api.openai.com/v1/files", "/v1/responses"),
        (
            "groq/llama-3.3-70b",
            "http://127.0.0.1:9/openai/v1",
            "http://127.0.0.1:9/openai/v1/files",
            "/v1/chat/completions",
        ),
        (
            "azure/mine",
            "http://127.0.0.1:9",
            "http://127.0.0.1:9/openai/v1/files",
            "/v1/chat/completions",
        ),
    ],
)
def test_files_are_uploaded_beside_the_address_of_ordinary_calls(
    monkeypatch, name, base, files, target
):
    for variable in ("OPENAI_API_KEY", "GROQ_API_KEY", "AZURE_API_KEY"):
        monkeypatch.setenv(variable, "k")
    api = open_batch_api(Model(name=name, api_base=base or None))
    assert (api.url("/files"), api.target) == (files, target)


BODY = b'{"choices": [{"message": {"content": "4"}}], "usage": {"prompt_tokens": 1}}'
DEEP = b"[" * 300 + b"]" * 300


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gpt-4o-mini", b'{"custom_id": [], "response": {"status_code": 200, "body": %b}}' % BODY),
        ("gpt-4o-mini", b'{"custom_id": "a", "response": {"status_code": Infinity}}'),
        ("gpt-4o-mini", b'{"custom_id": "a", "response": {"status_code": 400, "body": %b}}' % DEEP),
        ("gemini/gemini-2.5-flash", b'{"key": "a", "error": {"code": Infinity}}'),
    ],
)
def test_a_result_that_cannot_be_read_is_left_out(tmp_path, monkeypatch, name, line):
    file = tmp_path / "results"
    whole = b'{"custom_id": "b", "key": "b", "response": {"status_code": 200, "body": %b}}' % BODY
    file.write_bytes(line + b"\n" + whole)
    results = result_lines(file, open_batch_api(Model(name=name)))
    assert [result.custom_id for result in results] == ["b"]


@pytest.mark.parametrize("body", [b"null", b"5", b'"text"', b"<html>"])
@pytest.mark.parametrize("name", ["gpt-4o-mini", "mistral/mistral-small-latest"])
def test_a_batch_that_is_no_object_is_an_error_of_the_call(monkeypatch, name, body):
    monkeypatch.setenv("MISTRAL_API_KEY", "k-1")

    async def ask(address: str) -> None:
        async with aclosing(open_batch_api(Model(name=name, api_base=address))) as api:
            await api.get("b1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

    with serving(Handler) as address, pytest.raises(Retryable, match="JSON"):
        asyncio.run(ask(f"{address}/v1"))


def test_a_count_that_is_none_counts_nothing():
    api = open_batch_api(Model(name="gpt-4o-mini"))
    for count in ("9" * 5000, "²", -1, None, []):
        assert api.state({"id": "b", "request_counts": {"total": count}}).requests == 0


def test_azure_keeps_the_version_of_its_dated_api(monkeypatch):
    monkeypatch.setenv("AZURE_API_KEY", "k")
    api = open_batch_api(
        Model(
            name="azure/mine", api_base="http://127.0.0.1:9", params={"api_version": "2024-10-21"}
        )
    )
    assert (
        api.url_of("b1/cancel")
        == "http://127.0.0.1:9/openai/batches/b1/cancel?api-version=2024-10-21"
    )
    assert api.target == "/chat/completions"
