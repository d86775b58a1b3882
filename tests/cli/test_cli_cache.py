"""`verdict cache`, `verdict run --no-cache` and `verdict estimate`, against a server on this machine."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

STEPS = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"


@pytest.fixture
def served(loopback: Any, shell: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    url = loopback.start()
    shell.config(STEPS, f"model: {{name: gpt-4o-mini, api_base: '{url}'}}")
    shell.rows(6)
    return url


def calls_of(url: str) -> int:
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        return int(json.load(answer)["requests"])


def ran(shell: Any, out: str, *flags: str) -> Any:
    done = shell("run", "pipeline.yaml", "data.jsonl", "--out", out, "--json", "--quiet", *flags)
    assert done.code == 0, done.err
    return done.json()


def test_a_second_run_makes_no_call_and_costs_nothing(served, shell):
    first, second = ran(shell, "a"), ran(shell, "b")
    assert calls_of(served) == 6
    assert first["cost_usd"] > 0
    assert (second["calls"], second["cost_usd"]) == (6, 0)
    facts = json.loads((shell.folder / "b" / "run.json").read_text())
    assert facts["cached"] == 6
    report = shell("report", "b")
    assert "6 from the cache" in report.out


def test_equal_calls_of_a_first_run_do_not_count_as_cached(served, shell):
    shell.write(
        "data.jsonl",
        "".join(f'{{"key": "r{place}", "text": "text {place % 2}"}}\n' for place in range(6)),
    )
    ran(shell, "a")
    assert calls_of(served) == 2
    facts = json.loads((shell.folder / "a" / "run.json").read_text())
    assert (facts["calls"], facts["cached"], facts["shared"]) == (6, 4, 4)
    out = " ".join(shell("report", "a").out.split())
    assert "calls 6 (4 shared with equal calls)" in out
    ran(shell, "b")
    assert "calls 6 (6 from the cache)" in " ".join(shell("report", "b").out.split())


def test_no_cache_neither_reads_nor_keeps(served, shell):
    ran(shell, "a", "--no-cache")
    ran(shell, "b", "--no-cache")
    ran(shell, "c")
    assert calls_of(served) == 18


def test_another_seed_and_cache_false_ask_anew(served, shell):
    ran(shell, "a")
    ran(shell, "b", "--seed", "1")
    ran(shell, "c", "--set", "model.cache=false")
    assert calls_of(served) == 18


def test_cached_replies_are_listed_and_cleared(served, shell):
    ran(shell, "a")
    cache = shell("cache", "info", "--json").json()
    assert (cache["replies"], cache["models"]) == (6, {"gpt-4o-mini": 6})
    assert cache["path"] == shell("cache", "path").out.strip()
    assert "6 replies" in shell("cache").out
    assert "repeat: 3" in shell("cache", "explain").out
    shell("cache", "clear")
    assert shell("cache", "info", "--json").json()["replies"] == 0
    ran(shell, "b")
    assert calls_of(served) == 12


def test_without_a_cache_that_opens_there_is_a_warning_and_the_run_continues(
    served, shell, monkeypatch
):
    shell.write("file", "not a folder")
    monkeypatch.setenv("VERDICT_CACHE_DIR", str(shell.folder / "file"))
    done = shell("run", "pipeline.yaml", "data.jsonl", "--out", "a")
    assert done.code == 0
    assert "the cache cannot be used" in done.err


def test_a_model_without_log_probabilities_stops_the_run_after_one_paid_call(
    loopback, shell, monkeypatch
):
    from aiohttp import web

    paid = []

    async def handle(request: web.Request) -> web.Response:
        paid.append(1)
        message = {"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}]}
        return web.json_response(message)

    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    with serving(handle) as url:
        steps = "- {unit: JudgeUnit, extract: token_probability, prompt: 'Rate {source.text}'}"
        shell.config(steps, f"model: {{name: m, api_base: '{url}'}}")
        shell.rows(50)
        done = shell("run", "pipeline.yaml", "data.jsonl", "--out", "a", "--quiet")
    assert done.code == 4
    assert "returned no log-probabilities" in done.err
    assert len(paid) == 1


def test_an_estimate_counts_calls_and_says_what_it_assumes(served, shell):
    estimate = shell("estimate", "pipeline.yaml", "data.jsonl", "--limit", "4", "--json").json()
    assert (estimate["rows"], estimate["calls"]) == (4, 4)
    assert estimate["models"][0]["model"] == "gpt-4o-mini"
    assert estimate["cost_usd"] > 0
    assert estimate["assumptions"][0] == "tokens of gpt-4o-mini are counted by o200k_base"
    output = shell(
        "estimate", "pipeline.yaml", "data.jsonl", "--set", "model.name=nobody-knows"
    ).out
    assert "unknown" in output
    assert calls_of(served) == 0


class serving:  # noqa: N801 - used like a function
    """A server with this handler, in a thread of its own; gives its base URL."""

    def __init__(self, handler: Any) -> None:
        self.handler = handler

    def __enter__(self) -> str:
        import asyncio
        import threading

        from aiohttp import web

        ready = threading.Event()
        self.loop = asyncio.new_event_loop()

        async def start() -> None:
            app = web.Application()
            app.router.add_post("/v1/chat/completions", self.handler)
            self.runner = web.AppRunner(app)
            await self.runner.setup()
            site = web.TCPSite(self.runner, "127.0.0.1", 0)
            await site.start()
            self.port = self.runner.addresses[0][1]
            ready.set()

        def run() -> None:
            self.loop.run_until_complete(start())
            self.loop.run_forever()
            self.loop.run_until_complete(self.runner.cleanup())
            self.loop.close()

        self.thread = threading.Thread(target=run)
        self.thread.start()
        ready.wait()
        return f"http://127.0.0.1:{self.port}/v1"

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
