"""`verdict run --update`: a changed pipeline or dataset in the directory of its run."""

from __future__ import annotations

import json
from typing import Any

import pytest

STEPS = "- {unit: JudgeUnit, name: first, prompt: 'Rate {source.text}'}\n- {unit: JudgeUnit, name: then, prompt: '%s {source.text}'}"


def facts(shell: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shell.folder / "out" / "run.json").read_text())
    return found


@pytest.fixture
def ran(shell: Any) -> Any:
    """A shell in which `out` holds a finished run."""
    shell.config(STEPS % "Weigh")
    shell.rows(4)
    assert shell("run", "pipeline.yaml", "data.jsonl", "--out", "out").code == 0
    return shell


def test_without_it_both_fingerprints_and_what_it_would_ask_are_told(ran: Any) -> None:
    before = facts(ran)
    ran.config(STEPS % "Judge")
    ran.rows(5)
    done = ran("run", "pipeline.yaml", "data.jsonl", "--out", "out")
    assert done.code == 2
    for name in ("spec_fingerprint", "data_fingerprint"):
        assert before[name][:12] in done.err
    said = " ".join(done.err.split())
    assert "calls 1 of 2 units again: then and calls models for rows that it does not have" in said
    assert facts(ran) == before


def test_with_it_the_run_goes_on_as_the_changed_one(ran: Any) -> None:
    before = facts(ran)
    ran.config(STEPS % "Judge")
    ran.rows(5)
    done = ran("run", "pipeline.yaml", "data.jsonl", "--out", "out", "--update")
    assert done.code == 0
    assert "out: the update calls 1 of 2 units again: then and calls models for rows that it does not have" in done.err
    after = facts(ran)
    assert (after["rows"], after["done"]) == (5, 5)
    assert after["spec_fingerprint"] != before["spec_fingerprint"]
    assert [name for name in after["nodes"] if after["nodes"][name] != before["nodes"][name]] == ["then"]
    again = ran("run", "pipeline.yaml", "data.jsonl", "--out", "out")
    assert "nothing left to do" in again.err


@pytest.mark.parametrize(
    ("more", "said"),
    [(["--out", "out", "--fresh"], "--fresh and --update cannot be combined"), ([], "--update needs the directory")],
)
def test_it_needs_a_directory_that_it_keeps(more: list[str], said: str, ran: Any) -> None:
    done = ran("run", "pipeline.yaml", "data.jsonl", "--update", *more)
    assert done.code == 2
    assert said in done.err


def test_in_a_new_directory_it_is_a_run_like_any_other(shell: Any) -> None:
    shell.config(STEPS % "Weigh")
    shell.rows(2)
    assert shell("run", "pipeline.yaml", "data.jsonl", "--out", "out", "--update").code == 0
