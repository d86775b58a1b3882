"""Runs made by an earlier commit are shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from verdict_cli.features.viewer.run_view import Runs, RunView

EARLIER = Path(__file__).parents[2] / "run" / "earlier_runs"


@pytest.mark.parametrize("name", ["finished", "finished_parts"])
def test_a_finished_run_is_shown(name: str, tmp_path: Path) -> None:
    shutil.copytree(EARLIER / name, tmp_path / name)
    view = RunView(Runs(tmp_path / name).all()[0])
    assert view.rows == 12
    assert len(view.evaluate().columns["target"]) == 12
