"""The page of a comparison."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def compared(
    two_runs: Path, verdict: Callable[..., None], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The page of two runs over the sample, held against each other."""
    folder = tmp_path_factory.mktemp("compared")
    verdict(
        "compare", two_runs / "lexical", two_runs / "random", "--html", folder / "difference.html"
    )
    return folder / "difference.html"
