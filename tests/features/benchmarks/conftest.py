"""A web server on this machine, the project's folder, and a place of the test's own for what is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback_site import Site, opened
from paths import ROOT


@pytest.fixture
def site() -> Iterator[Site]:
    with opened() as new_site:
        yield new_site


@pytest.fixture
def root() -> Path:
    """The project's own folder."""
    return ROOT


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds what the user has fetched."""
    monkeypatch.setenv("VERDICT_DATA_DIR", str(tmp_path / "home"))
