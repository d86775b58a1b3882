"""`--quiet` hides progress; warnings and errors are still printed to standard error."""

from __future__ import annotations

from typing import Any

import pytest
from shell import needs

STEP = "- {unit: JudgeUnit, name: judge, scale: boolean, prompt: 'Is {sorce.text} good?'}"


@pytest.mark.parametrize(
    "command",
    ["run", "judge", *(pytest.param(name, marks=needs(name)) for name in ("sweep", "audit"))],
)
def test_warnings_and_errors_are_printed_all_the_same(command, shell):
    config, data = shell.config(STEP), shell.rows(3)
    words: list[Any] = {
        "run": ["run", config, data, "--out", "o"],
        "sweep": [
            "sweep",
            config,
            data,
            "--vary",
            "model=baseline/random,baseline/lexical",
            "--out",
            "o",
        ],
        "judge": ["judge", config, "--row", '{"text": "a"}'],
        "audit": ["audit", config, data, "--out", "o", "--dry-run"],
    }[command]
    assert "warning: " in shell(*words, "--quiet").err
    broken = shell.config(STEP.replace("boolean", "bolean"), name="broken.yaml")
    failed = shell(*[broken if word is config else word for word in words], "--quiet")
    assert failed.code == 2 and "bolean" in failed.err
