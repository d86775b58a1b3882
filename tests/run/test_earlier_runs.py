"""The finished run in `earlier_runs/`, made by an earlier version, is still read. It has 12 rows and a pinned unit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.errors import JournalError
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.run.job import RunOptions
from verdict_cli.run.run_metadata import run_fingerprint
from verdict_cli.run.session import open_run
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import scan

pytestmark = pytest.mark.slow  # `make test-all`


EARLIER = Path(__file__).parent / "earlier_runs"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    shutil.copytree(EARLIER, folder)
    return folder


def verdict(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def open_earlier(runs: Path, name: str, **options: Any) -> Any:
    """The run in a folder, opened with the options that made it."""
    dataset = Dataset(files=(runs / "data.jsonl",))
    plan = build_plan(load(runs / "pipeline.yaml")).plan
    names = {"config": "pipeline.yaml", "source": "data.jsonl", "concurrency": 1}
    return open_run(
        RunOptions(
            plan=plan, dataset=dataset, data=scan(dataset), out=runs / name, **names, **options
        )
    )


def test_a_finished_run_has_its_report_and_its_gates(runs):
    reported = verdict("report", str(runs / "finished"), "--json")
    assert reported.exit_code == 0, reported.output
    assert json.loads(reported.stdout)["rows"] == 12
    assert (runs / "finished" / "report.html").is_file()
    gated = verdict("gate", str(runs / "finished"))
    assert gated.exit_code == 0, gated.output


def test_a_finished_run_is_compared_and_is_a_baseline(runs):
    shutil.copytree(runs / "finished", runs / "other")
    facts = json.loads((runs / "other" / "run.json").read_text())
    (runs / "other" / "run.json").write_text(json.dumps({**facts, "seed": 1, "wall_s": 1.5}))
    compared = verdict("compare", str(runs / "finished"), str(runs / "other"), "--json")
    assert compared.exit_code == 0, compared.output
    spec = runs / "finished" / "spec.yaml"
    gate = f"[{{metric: label.accuracy, baseline: {runs / 'other'}, max_drop: 0.5}}]"
    head, _, _ = spec.read_text().partition("gates:")
    spec.write_text(f"{head}gates: {gate}\n")
    gated = verdict("gate", str(runs / "finished"))
    assert gated.exit_code == 0, gated.output


def test_an_unfinished_run_is_refused_with_what_to_do(runs):
    facts = json.loads((runs / "finished" / "run.json").read_text())
    plan = build_plan(load(runs / "pipeline.yaml")).plan
    stopped = {**facts, "status": "stopped", "spec_fingerprint": run_fingerprint(plan, 0, None)}
    (runs / "finished" / "run.json").write_text(json.dumps(stopped))
    with pytest.raises(JournalError, match="an earlier version") as caught:
        open_earlier(runs, "finished")
    assert "--fresh" in str(caught.value)
