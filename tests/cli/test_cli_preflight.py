"""Mistakes that only the data shows are told before the first call is paid."""

from __future__ import annotations

import json
from typing import Any

import pytest

COMMANDS = ("validate", "run", "estimate")


def data(shell: Any, *rows: dict[str, Any], name: str = "data.jsonl") -> Any:
    return shell.write(name, "".join(json.dumps(row) + "\n" for row in rows))


def judge(shell: Any, prompt: str = "Rate {source.text}", more: str = "") -> Any:
    return shell.config(f"- {{unit: JudgeUnit, name: judge, prompt: {json.dumps(prompt)}}}{more}")


class TestBraces:
    """A brace that names a column without `source.`."""

    @pytest.mark.parametrize("written", ["{text}", "{{text}}", "{{ text }}"])
    @pytest.mark.parametrize("command", COMMANDS)
    def test_a_column_without_its_root_is_an_error(self, shell: Any, command: str, written: str) -> None:
        done = shell(command, judge(shell, f"Rate {written}"), data(shell, {"text": "a"}))
        assert done.code == 2
        assert f"pipeline.yaml:5:42: pipeline[0].prompt: {written} is literal text" in done.err
        assert "write {source.text}; \\" + written + " prints it literally" in done.err
        assert not (shell.folder / "runs").exists()

    def test_a_name_with_a_space_is_spelled_as_a_path(self, shell: Any) -> None:
        done = shell("validate", judge(shell, "Rate {my text}"), data(shell, {"my text": "a"}))
        assert done.code == 2
        assert "write {source['my text']}" in done.err

    def test_every_such_brace_is_told_at_once(self, shell: Any) -> None:
        rows = data(shell, {"text": "a", "other": "b"})
        done = shell("validate", judge(shell, "Rate {text} and {{other}}"), rows, "--json")
        assert [one["code"] for one in done.json()["errors"]] == ["literal-column"] * 2

    def test_one_row_is_checked_too(self, shell: Any) -> None:
        done = shell("judge", judge(shell, "Rate {text}"), "--row", '{"text": "a"}')
        assert (done.code, "write {source.text}" in done.err) == (2, True)

    def test_an_escaped_brace_and_one_that_is_no_column_are_literal(self, shell: Any) -> None:
        config = judge(shell, "Rate {source.text}; write \\{text} or {word} or {Text}")
        rows = data(shell, {"text": "a"})
        assert shell("validate", config, rows).code == 0
        done = shell("judge", config, "--row", '{"text": "a"}', "--explain")
        assert "write {text} or {word} or {Text}" in done.out

    def test_a_bare_name_in_a_jinja_prompt_is_an_error_without_data(self, shell: Any) -> None:
        config = shell.config("- {unit: JudgeUnit, name: judge, prompt: {jinja: 'Rate {{ text }}'}}")
        done = shell("validate", config)
        assert (done.code, "unknown name `text`" in done.err) == (2, True)
