"""What `verdict run` refuses of engines and places before the first row."""

from __future__ import annotations

from typing import Any

import pytest
from shell import needs


@needs("ray", "object_store")
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--ray-address", "auto"), "give both, or leave --ray-address out"),
        pytest.param(
            ("--engine", "ray", "--trace"), "--trace does not reach", marks=needs("tracing")
        ),
        (("--out", "memory://run", "--engine", "ray"), "which Ray's workers cannot reach"),
    ],
)
def test_options_that_cannot_be_kept_are_refused(
    flags: tuple[str, ...], told: str, shell: Any
) -> None:
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
