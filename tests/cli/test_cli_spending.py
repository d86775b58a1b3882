"""Every command that may spend tells the calls and the cost first, and asks on a terminal."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
from jsonl import jsonl
from shell import needs

pytestmark = needs("align", "audit", "rank", "sweep")
JUDGE = """- unit: JudgeUnit
  name: judge
  scale: 1-5
  prompt: Rate {source.text}
evaluate:
  right: {prediction: output.score, target: source.label, metrics: [accuracy]}
"""
COMMANDS = {
    "run": (["run"], "40 rows: 40 calls of gpt-4o-mini, about $"),
    "sweep": (["sweep", "--vary", "model.temperature=0,1"], "2 runs of 40 rows: at most 80 calls of gpt-4o-mini, up to $"),
    "audit": (["audit", "--attack", "--text", "text"], "runs of 40 rows: at most "),
    "audit with planted errors": (["audit", "--text", "text", "--degrade-model", "gpt-4o"], "texts with planted errors: at most "),
    "align": (["align", "--unit", "judge"], "up to 5 prompts on 40 rows: at most "),
    "align with a proposer": (["align", "--unit", "judge", "--proposer", "gpt-4o"], "calls of gpt-4o-mini, gpt-4o, up to $"),
    "rank": (["rank"], "40 judgements: at most 40 calls of gpt-4o-mini, up to $"),
}  # fmt: skip


@pytest.fixture
def command(shell: Any, monkeypatch: pytest.MonkeyPatch, scripted_model: Any) -> Any:
    """Runs one of the commands with a model that has a price; the texts of the calls are in `command.calls`."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    calls: list[str] = []

    def answer(request: Any) -> str:
        calls.append(request.node)
        other = {"diagnosis": "", "guidelines": "Be kind.", "prompt": "", "text": "worse"}
        return json.dumps({"score": 4} if request.node == "judge" else other)

    scripted_model.answer = answer
    config = shell.config(JUDGE, "model: gpt-4o-mini")
    rows = [{"text": f"text number {n}", "label": 1 + n % 5} for n in range(40)]
    shell.write("rows.jsonl", jsonl(rows))
    shell.write("texts.jsonl", jsonl(row["text"] for row in rows))

    def run(name: str, *more: str, answer: str | None = None) -> Any:
        if answer is not None:
            monkeypatch.setattr("verdict_cli.cli.console.is_interactive", lambda: True)
            monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        first, *options = COMMANDS[name][0]
        return shell(
            first, config, "texts.jsonl" if first == "rank" else "rows.jsonl", *options, *more
        )

    run.calls = calls  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_the_estimate_is_shown_and_after_a_no_no_model_is_called(command, name):
    refused = command(name, answer="n\n")
    assert refused.code == 130, refused.err
    message = " ".join(refused.err.split())
    assert (
        COMMANDS[name][1] in message
        and "Continue?" in message
        and "stopped: no call was made" in message
    )
    assert command.calls == []


@pytest.mark.parametrize("name", COMMANDS)
def test_with_yes_or_without_a_terminal_there_is_no_question(command, name):
    agreed = command(name, "--yes", answer="")
    assert agreed.code in (0, 3) and "Continue?" not in agreed.err, agreed.err
    assert COMMANDS[name][1] in " ".join(agreed.err.split()) and command.calls


@pytest.mark.parametrize("name", ["sweep", "audit", "align", "rank"])
def test_free_models_have_no_estimate_of_cost(command, name):
    done = command(name, "--model", "baseline/lexical", answer="")
    assert done.code in (0, 3) and "Continue?" not in done.err and "calls of" not in done.err, (
        done.err
    )


@pytest.mark.parametrize(
    "name", [name for name in COMMANDS if name != "rank"]
)  # which keeps no run, only the cache
def test_a_finished_study_has_no_estimate_and_no_question(command, name):
    first = command(name)
    assert first.code in (0, 3), first.err
    count = len(command.calls)
    again = command(name, answer="")
    assert (again.code, len(command.calls)) == (first.code, count), again.err
    assert "Continue?" not in again.err and "calls of" not in again.err
