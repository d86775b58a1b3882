from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from verdict_cli.errors import DataError, Rejected
from verdict_cli.llm import providers
from verdict_cli.llm.providers import Providers
from verdict_cli.llm.providers.model_checks import check_model
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model

Make = Callable[..., Request]


def ask(request: Request, recording: Recording | None = None) -> Reply:
    async def run() -> Reply:
        providers = Providers(recording)
        try:
            return await providers.ask(request)
        finally:
            await providers.close()

    return asyncio.run(run())


def recorded(path: Path, reply: str) -> Path:
    path.write_text(
        json.dumps({"row": 0, "unit": "judge", "reply": reply}) + "\n", encoding="utf-8"
    )
    return path


def test_a_models_name_says_who_answers(tmp_path, loopback, request_for, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.url)
    path = recorded(tmp_path / "r.jsonl", "as recorded")
    assert ask(request_for("baseline/echo")).text.startswith("Question:")
    assert ask(request_for(f"replay/{path}")).text == "as recorded"
    assert ask(request_for("gpt-4o-mini")).text.endswith("Score: 4")


@pytest.mark.filterwarnings("ignore:Item .* on TypedDict class:UserWarning")  # litellm's own
def test_every_other_name_goes_through_litellm(loopback, request_for, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    assert ask(request_for(Model(name="custom_openai/m", api_base=loopback.url))).text.endswith(
        "Score: 4"
    )


def test_a_recording_answers_for_every_model(tmp_path, request_for):
    for model in ("baseline/echo", "gpt-4o-mini", "anthropic/x", "replay/elsewhere"):
        recording = Recording.load(recorded(tmp_path / "r.jsonl", "as recorded"))
        assert ask(request_for(model), recording).text == "as recorded"


def test_a_call_that_a_recording_lacks_is_never_made(tmp_path, loopback, request_for):
    recording = Recording.load(recorded(tmp_path / "r.jsonl", "x"))
    request = request_for(Model(name="m", api_base=loopback.url), node="verifier")
    with pytest.raises(Rejected, match="verifier"):
        ask(request, recording)


def test_a_recording_named_as_a_model_is_loaded_once(tmp_path, request_for, monkeypatch):
    loads: list[Path] = []
    load = Recording.load
    monkeypatch.setattr(Recording, "load", lambda path: loads.append(path) or load(path))
    path = recorded(tmp_path / "r.jsonl", "x")

    async def run() -> None:
        providers = Providers()
        for _ in range(3):
            await providers.ask(request_for(f"replay/{path}"))
        await providers.close()

    asyncio.run(run())
    assert loads == [path]


def test_a_recording_that_is_not_there_is_a_data_error(tmp_path, request_for):
    with pytest.raises(DataError, match=r"none\.jsonl"):
        ask(request_for(f"replay/{tmp_path / 'none.jsonl'}"))


def test_a_provider_is_one_file_and_one_entry_point(tmp_path, request_for, monkeypatch):
    (tmp_path / "shouting_provider.py").write_text(
        "from verdict_cli.messages import Reply\n"
        "class ShoutingProvider:\n"
        "    def __init__(self, on_token=None): pass\n"
        "    @staticmethod\n"
        "    def serves(model): return model.name.startswith('shout/')\n"
        "    @staticmethod\n"
        "    def check(model): return None if model.temperature is None else 'it is always hot'\n"
        "    async def ask(self, request): return Reply(request.messages[-1].content.upper())\n"
        "    async def close(self): pass\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    info = tmp_path / "shouting-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[verdict_cli.providers]\nshout = shouting_provider:ShoutingProvider\n"
    )
    monkeypatch.setattr(providers.PROVIDERS, "plugins", {})
    assert ask(request_for("shout/x")).text == request_for("x").messages[-1].content.upper()
    assert check_model(Model(name="shout/x")) is None
    assert check_model(Model(name="shout/x", temperature=1.0)) == "it is always hot"
    assert ask(request_for("baseline/echo")).text.startswith("Question:")
