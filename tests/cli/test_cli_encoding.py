"""Names that are not UTF-8."""

from __future__ import annotations

import os

import pytest


@pytest.mark.parametrize("option", ["--out", "--set"])
def test_an_argument_that_is_not_utf8_is_refused_before_a_call(shell, option):
    name = os.fsdecode(b"na\xefve")
    config = shell.config("- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}")
    done = shell("run", config, shell.rows(2), option, name)
    assert (done.code, done.out) == (2, "")
    assert "the argument is not valid UTF-8" in done.err


def test_a_run_lies_in_a_folder_whose_name_is_not_utf8(shell, monkeypatch):
    folder = shell.folder / os.fsdecode(b"na\xefve")
    folder.mkdir()
    config = shell.config("- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}")
    data = shell.rows(2)
    monkeypatch.chdir(folder)
    assert shell("run", config, data, "--out", "out").code == 0
    assert shell("report", "out").code == 0
