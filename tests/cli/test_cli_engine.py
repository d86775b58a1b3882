"""What `verdict run` refuses of engines and places before the first row."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from shell import needs


@needs("ray", "object_store")
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--ray-address", "auto"), "give both, or leave --ray-address out"),
        pytest.param(("--engine", "ray", "--trace"), "--trace does not reach", marks=needs("tracing")),
        (("--out", "memory://run", "--engine", "ray"), "which Ray's workers cannot reach"),
    ],
)
def test_options_that_cannot_be_kept_are_refused(flags: tuple[str, ...], told: str, shell: Any) -> None:
    config = shell.config("- {unit: JudgeUnit, prompt: 'Rate {source.text}'}")
    done = shell("run", config, shell.rows(2), *flags)
    assert done.code == 2
    assert told in done.err


@needs("audit", "object_store")
def test_a_url_is_refused_where_only_paths_are_written_to(shell: Any) -> None:
    config = shell.config("- {unit: JudgeUnit, prompt: 'Rate {source.text}'}")
    done = shell("audit", config, shell.rows(2), "--out", "s3://bucket/run")
    assert (done.code, "only `verdict run` writes to one" in done.err) == (2, True)
    assert not (shell.folder / "s3:").exists()
    read = shell("report", "s3://bucket/run")
    assert (read.code, "copy the run from its store" in read.err) == (2, True)


def test_the_run_without_a_journal_that_others_are_compared_with_runs(shell: Any, root: Path) -> None:
    config = shell.config("- {unit: JudgeUnit, prompt: 'Rate {source.text}'}")
    words = ["without", "run", str(config), str(shell.rows(2)), "--out", "out", "--quiet"]
    subprocess.run(
        [sys.executable, str(root / "benchmarks" / "journal.py"), *words],
        cwd=shell.folder,
        env=os.environ | {"PYTHONPATH": str(root)},
        check=True,
    )


@needs("ray")
@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_ray_that_is_not_installed_is_told_with_its_extra(shell: Any) -> None:
    config = shell.config("- {unit: JudgeUnit, prompt: 'Rate {source.text}'}")
    done = shell("run", config, shell.rows(2), "--engine", "ray")
    assert (done.code, ".[ray]" in done.err) == (2, True)
