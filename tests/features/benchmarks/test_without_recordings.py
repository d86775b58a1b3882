"""A clone without the recorded sets: what needs them says which file is missing and goes on with the rest."""

import os
import subprocess
import sys

import pytest
from paths import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        (("audit.py",), 2),
        (("calibration.py", "1"), 3),
        (("early_stopping.py", "5"), 1),
        (("gold.py", "1", "random"), 2),
        (("plan.py",), 1),
    ],
)
def test_a_benchmark_names_what_is_missing_and_continues(script, parts, tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script[0]), *script[1:]],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "VERDICT_SHARED": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("left out: ") == parts, done.stderr
    assert "benchmarks/rebuild_recordings.py" in done.stderr
