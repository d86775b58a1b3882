"""A run made by an earlier version is shown."""

import shutil
from pathlib import Path

from verdict_cli.features.viewer.run_view import Runs, RunView

EARLIER = Path(__file__).parents[2] / "run" / "earlier_runs"


def test_a_finished_run_is_shown(tmp_path):
    shutil.copytree(EARLIER / "finished", tmp_path / "finished")
    view = RunView(Runs(tmp_path / "finished").all()[0])
    assert view.rows == 12
    assert len(view.evaluate().values["target"]) == 12
