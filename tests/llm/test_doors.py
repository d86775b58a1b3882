"""A provider of a package: one file and one entry point."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.llm.providers import PROVIDERS, provider_class
from verdict_cli.llm.providers.model_checks import check_model
from verdict_cli.model import Model

PACKAGE = """
class OwnProvider:
    def __init__(self, on_token=None): pass
    @staticmethod
    def serves(model): return model.name.startswith("own/")
    @staticmethod
    def check(model): return None
    async def ask(self, request): raise NotImplementedError
    async def close(self): pass
"""
ENTRY_POINTS = """[verdict_cli.providers]
own = own_parts:OwnProvider
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "own_parts.py").write_text(PACKAGE)
    info = tmp_path / "own_parts-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-parts\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(PROVIDERS, "plugins", {})
    yield
    sys.modules.pop("own_parts", None)


def test_a_package_brings_a_provider(package):
    assert provider_class(Model(name="own/m")).__name__ == "OwnProvider"
    assert provider_class(Model(name="baseline/lexical")).__name__ == "BaselineProvider"


def test_a_model_in_this_process_is_refused_with_what_runs_it_now():
    error = str(check_model(Model(name="local/model.gguf")))
    assert "local/… models were removed; start `llama-server" in error
