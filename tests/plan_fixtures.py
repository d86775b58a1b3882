"""Plans from a pipeline's steps, for the tests of audits and rankings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.language.document.document import read_document
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan


@pytest.fixture
def planned(tmp_path: Path) -> Callable[[str], tuple[Plan, dict[str, Any]]]:
    """The plan of these steps and of further keys, and the data of the file."""

    def plan(steps: str, more: str = "") -> tuple[Plan, dict[str, Any]]:
        path = tmp_path / "p.yaml"
        path.write_text(
            f"verdict: 1\nname: t\nmodel: baseline/lexical\npipeline:\n{steps}\n{more}\n",
            encoding="utf-8",
        )
        return build_plan(load(path)).plan, read_document(path).data

    return plan
