"""The cases that public bug reports of other judges gave: what comes out of each, at run time or before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.errors import SpecError
from verdict_cli.storage.tables.reader import read_table

REFUSED = {"01a": "write {source.text}", "01b": "write {source.text}"}
WARNED = {
    "01d": "all rows get the same prompt",
    "17": "harm.score is on 1 to 5 (the end is the worst)",
}
VALUES: dict[str, tuple[str, list[Any]]] = {
    "02a": ("output.score", [True] * 6),
    "03a": ("judge.score", [8] * 9),
    "03b": ("judge.score", [9, 9, 2, 0, None, None]),
    "04": ("output.score", [4, 4, 4]),
    "05": ("output.score", [-1, -1, -2, -1]),
    "06a": ("output.score", [8, 3, 7]),
    "07": ("output.score", [None, None, None]),
    "08": ("all.matches", [["arguments"], ["arguments"], ["exact"]]),
    "11": ("output.score", [1.0, None]),
    "18": ("output.variance", [None, pytest.approx(1 / 3)]),
    "20": ("output.score", [4, 4, 4]),
}


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, Path]:
    """The folders of the cases, by the number that their names begin with."""
    folder = shared / "findings" / "cases" / "replies"
    if not folder.is_dir():
        pytest.skip("the shared folder has no cases of findings")
    return {case.name.partition("-")[0]: case for case in folder.iterdir()}


def run(case: Path, out: Path) -> Any:
    arguments = ["run", "pipeline.yaml", "data.jsonl", "--replay", "replay.jsonl", "--out", "run"]
    shutil.copytree(case, out)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(out)
        return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("number", VALUES)
def test_a_reply_has_its_intended_value_or_fails_its_row_alone(number, cases, tmp_path):
    column, expected = VALUES[number]
    done = run(cases[number], tmp_path / "case")
    assert done.exit_code == (3 if None in expected and number != "18" else 0), done.output
    values = [
        row
        for batch in read_table(tmp_path / "case/run/results.parquet", (column,))
        for row in batch[column]
    ]
    assert [
        json.loads(value) if isinstance(value, str) and value[:1] == "[" else value
        for value in values
    ] == expected


@pytest.mark.parametrize("number", REFUSED)
def test_a_prompt_that_shows_its_braces_is_refused(number, cases, tmp_path):
    done = run(cases[number], tmp_path / "case")
    assert isinstance(done.exception, SpecError) and REFUSED[number] in str(done.exception)


@pytest.mark.parametrize("number", WARNED)
def test_what_is_probably_a_mistake_is_warned_of(number, cases, tmp_path):
    done = run(cases[number], tmp_path / "case")
    assert done.exit_code == 0 and WARNED[number] in " ".join(done.output.split())


def test_what_a_prompt_shows_is_not_changed(cases, tmp_path):
    for number in ("14", "19"):
        run(cases[number], tmp_path / number)
    messages = [
        json.loads(batch["messages"][0])[-1]["content"]
        for number in ("14", "19")
        for batch in read_table(tmp_path / number / "run/calls.parquet", ("messages",))
    ]
    assert 'Rate: {"q": "日本の首都は?", "a": "<b>東京</b>"}' in messages[0]
    assert "\n    [3] tool pay" in messages[1] and "\n[3] tool pay" not in messages[1]
