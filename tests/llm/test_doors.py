"""Providers and middleware of packages: one file and one entry point each."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.llm.middleware.chain import MIDDLEWARE, RunCalls, build_chain, middleware_order
from verdict_cli.llm.providers import PROVIDERS, provider_class
from verdict_cli.llm.providers.model_checks import check_model
from verdict_cli.messages import Ask, Message, Reply, Request, Row
from verdict_cli.model import Model

REQUEST = Request(
    Row(0, 0, {}),
    "judge",
    Model(name="own/m", api_base="http://127.0.0.1:1"),
    (Message("user", ""),),
)
PACKAGE = """
class OwnProvider:
    def __init__(self, on_token=None): pass
    @staticmethod
    def serves(model): return model.name.startswith("own/")
    @staticmethod
    def check(model): return None
    async def ask(self, request): raise NotImplementedError
    async def close(self): pass

def shout(ask, calls):
    async def ask_loudly(request):
        reply = await ask(request)
        return type(reply)(reply.text.upper())
    return ask_loudly
shout.before = "prefix_leader"
"""
ENTRY_POINTS = """[verdict_cli.providers]
own = own_parts:OwnProvider
[verdict_cli.middleware]
shout = own_parts:shout
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "own_parts.py").write_text(PACKAGE)
    info = tmp_path / "own_parts-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-parts\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    for registry in (PROVIDERS, MIDDLEWARE):
        monkeypatch.setattr(registry, "plugins", {})
    yield
    sys.modules.pop("own_parts", None)


async def answer(_: Request) -> Reply:
    return Reply("said")


def asked(ask: Ask) -> str:
    async def run() -> str:
        return (await ask(REQUEST)).text

    return asyncio.run(run())


def test_a_package_brings_a_provider(package: Any) -> None:
    assert provider_class(Model(name="own/m")).__name__ == "OwnProvider"
    assert provider_class(Model(name="baseline/lexical")).__name__ == "BaselineProvider"


def test_a_package_brings_middleware_that_says_where_it_belongs(package: Any) -> None:
    names = middleware_order()
    assert names.index("shout") == names.index("prefix_leader") - 1
    assert asked(build_chain(answer, RunCalls(limit=lambda ask: ask)).ask) == "SAID"


def test_without_packages_the_order_is_that_of_the_core_and_tracing_comes_last() -> None:
    names = [name for name in middleware_order() if name != "tracing"]
    assert names == [*MIDDLEWARE]
    assert asked(build_chain(answer, RunCalls(limit=lambda ask: ask)).ask) == "said"


def test_a_model_in_this_process_is_refused_with_what_runs_it_now() -> None:
    error = str(check_model(Model(name="local/model.gguf")))
    assert "local/… models were removed; start `llama-server" in error
