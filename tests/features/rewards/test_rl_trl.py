"""TRL's GRPOTrainer with the reward functions of `verdict_cli.rl` (`make test-trl`)."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from paths import ROOT

pytestmark = pytest.mark.trl


def test_grpo_trains_a_tiny_model_on_scores_pairs_and_criteria(tmp_path):
    python = os.environ.get("VERDICT_TRL")
    if not python:
        pytest.skip("TRL is not installed: `make test-trl`")
    done = subprocess.run(
        [python, str(Path(__file__).with_name("trl_training.py")), str(tmp_path)],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["steps"] == 3 == len(document["logged"])
    for entry in document["logged"]:
        means = {
            name: entry[f"rewards/{name}/mean"] for name in ("helpful", "better", "judged", "least")
        }
        assert 1 <= means["helpful"] <= 5
        assert means["better"] == pytest.approx(0.5)  # each comparison gives one point in all
        assert means["judged"] == pytest.approx(means["helpful"])
        assert 0 <= means["least"] <= 1
        assert entry["reward"] == pytest.approx(sum(means.values()), abs=1e-4)
