"""A disk that takes no more: here a limit on the size of a process's files, which the system enforces as it does space."""

import json
import os
import subprocess
import sys
from urllib.request import urlopen

import pytest
from paths import ROOT

from verdict_cli.storage.database.database import Database
from verdict_cli.storage.tables.reader import read_table

pytest.importorskip("resource", reason="this system limits no file sizes")
ROWS = 60
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
from verdict_cli.cli.app import main
main()
"""


@pytest.mark.parametrize("limit", [110_000, 160_001])
def test_a_full_disk_stops_the_run_with_a_clear_error_and_loses_nothing_written(
    limit, shell, loopback
):
    url = loopback.start("--latency-ms", "5")
    config = shell.config(
        "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}",
        f"model: {{name: openai/m, api_base: '{url}', cache: false}}",
    )
    words = [
        "run",
        str(config),
        str(shell.rows(ROWS)),
        "--out",
        "out",
        "--concurrency",
        "2",
        "--seed",
        "5",
    ]
    stopped = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *words],
        cwd=shell.folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert stopped.returncode == 2, stopped.stderr
    assert "run.db: the database cannot be written" in stopped.stderr
    assert "the same command resumes the run" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    with Database.open_foreign(shell.folder / "out" / "run.db") as database:
        finished_calls = sum(spent.calls for spent in database.spent())
    assert 0 < finished_calls < ROWS

    assert shell(*words).code == 0
    facts = json.loads((shell.folder / "out" / "run.json").read_text())
    assert (facts["done"], facts["seed"]) == (ROWS, 5)
    assert [
        row
        for batch in read_table(shell.folder / "out" / "results.parquet", ["row"])
        for row in batch["row"]
    ] == [*range(ROWS)]
    with urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        stats = json.load(answer)
    assert stats["distinct_bodies"] == ROWS
    assert stats["requests"] <= 2 * ROWS - finished_calls, "what was committed is not asked again"


def test_a_disk_that_is_full_at_the_report_keeps_the_results_to_report_later(shell, loopback):
    url = loopback.start()
    config = shell.config(
        "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}",
        f"model: {{name: openai/m, api_base: '{url}', cache: false}}",
    )
    words = ["run", str(config), str(shell.rows(ROWS)), "--out", "out"]
    stopped = subprocess.run(
        [sys.executable, "-c", LIMITED, "130000", *words],
        cwd=shell.folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert stopped.returncode == 2, stopped.stderr
    assert "report.html cannot be written: File too large" in stopped.stderr
    assert not list((shell.folder / "out").glob("*.part"))
    assert json.loads((shell.folder / "out" / "run.json").read_text())["status"] == "finished"
    assert shell(*words).code == 0
    assert (shell.folder / "out" / "report.html").exists()
    with urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        assert json.load(answer)["requests"] == ROWS
