"""Command lines that name what was removed."""

import pytest
from paths import ROOT

from verdict_cli.removed import COMMAND_LINES, KEYS, removed_from

PAGE = ROOT / "docs" / "removed.md"


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_a_removed_command_line_is_refused_with_its_replacement(shell, line):
    done = shell(*line.split())
    assert done.code == 2
    assert f"`verdict {line}` was removed" in done.err
    assert COMMAND_LINES[line] in done.err
    assert f"`verdict {line}`" in PAGE.read_text(encoding="utf-8")


def test_a_word_that_is_only_an_argument_is_not_refused():
    assert removed_from(["run", "extract", "rows.jsonl"]) is None


def test_a_removed_key_is_refused_with_its_replacement(shell):
    extract = "{type: token_probability, sequence: true, samples: 3}"
    judge = "{unit: JudgeUnit, scale: boolean, prompt: 'Is it? {source.text}'"
    done = shell("validate", shell.config(f"- {judge}, extract: {extract}}}"))
    assert (done.code, KEYS["samples"] in done.err) == (2, True), done.err
    assert "`samples`" in PAGE.read_text(encoding="utf-8")
