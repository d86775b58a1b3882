"""`verdict judge`: one row, live, explained, with the exit codes of a run."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any

import pytest

STEPS = """
- {unit: CoTUnit, name: think, prompt: 'Think about {source.text}'}
- layer: [{unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}: {previous.thinking}'}]
  repeat: 2
- {unit: MeanPoolUnit, name: mean}
"""
LABELLED = """
- {unit: JudgeUnit, prompt: 'Rate {source.text}'}
evaluate: {right: {prediction: output.score, target: source.label}}
dataset: {schema: {label: int, text: str}}
"""


def fed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))


def test_one_row_gives_its_output_and_lights_up_its_units(shell):
    done = shell("judge", shell.config(STEPS), "--row", '{"text": "a"}')
    assert done.code == 0
    assert done.out.startswith("score  ") and "ok · 3 calls · $0.00" in done.out
    lines = [line.split()[1] for line in done.err.splitlines() if "●" in line]
    assert (
        lines[0] == "think"
        and sorted(lines[1:3]) == ["judge[0]", "judge[1]"]
        and lines[3] == "mean"
    )
    assert "baseline/lexical is a baseline, not an LLM judge" in done.err


def test_the_document_holds_every_unit(shell):
    done = shell("judge", shell.config(STEPS), "--row", '{"text": "a"}', "--json", "--quiet")
    document = done.json()
    assert done.err == "verdict: warning: baseline/lexical is a baseline, not an LLM judge\n"
    assert (document["status"], document["failure"], document["calls"], document["cost_usd"]) == (
        "ok",
        None,
        3,
        0.0,
    )
    assert list(document["units"]) == ["think", "judge[0]", "judge[1]", "mean"]
    assert document["output"] == document["units"]["mean"]


def test_explain_shows_each_call(shell):
    config = shell.config(STEPS)
    output = shell("judge", config, "--row", '{"text": "a red fox"}', "--explain").out
    assert (
        output.count("── ") == 3
        and "│ Think about a red fox" in output
        and " tokens · $0.00 · " in output
    )
    calls = shell("judge", config, "--row", '{"text": "a red fox"}', "--explain", "--json").json()[
        "calls"
    ]
    assert [call["unit"] for call in calls] == ["think", "judge[0]", "judge[1]"]
    assert json.loads(calls[0]["messages"])[0]["content"] == "Think about a red fox"


@pytest.mark.parametrize(
    ("text", "count"),
    [('{"text": "a"}', 1), ('{\n  "text":\n  "a"}', 1), ('{"text": "a"}\n\n{"text": "b"}\n', 2)],
    ids=["object", "several lines", "jsonl"],
)
def test_rows_come_from_standard_input(shell, monkeypatch, text, count):
    fed(monkeypatch, text)
    results = shell("judge", shell.config(STEPS), "--json").json()
    assert len(results) == count if isinstance(results, list) else results["status"] == "ok"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "standard input has no rows"),
        ("[1]", "standard input:1: a row must be an object, this is a list"),
        ('{"text": "a"}\n{"text": 1', "standard input:2:"),
        ('{"other": 1}', "the row has no column 'text'"),
        ('{"text": NaN}', "JSON has no NaN"),
    ],
)
def test_what_is_not_a_row_is_an_error(shell, monkeypatch, text, message):
    fed(monkeypatch, text)
    done = shell("judge", shell.config(STEPS))
    assert (done.code, message in done.err) == (2, True), done.err


def test_a_label_is_not_needed_to_judge(shell):
    config = shell.config(LABELLED)
    assert shell("judge", config, "--row", '{"text": "a"}').code == 0
    done = shell("judge", config, "--row", '{"text": "a", "label": "x"}')
    assert (done.code, "the column 'label'" in done.err) == (2, True)


def test_a_failed_row_ends_with_3_and_its_failure(shell):
    replay = shell.write("rec.jsonl", '{"row": 0, "unit": "judge", "reply": "mud"}\n')
    config = shell.config(
        "- {unit: JudgeUnit, prompt: 'Rate {source.text}'}", "model: {name: m, retries: 0}"
    )
    done = shell("judge", config, "--row", '{"text": "a"}', "--replay", replay)
    assert (done.code, "judge failed (unreadable)" in done.out) == (3, True)
    document = shell("judge", config, "--row", '{"text": "a"}', "--replay", replay, "--json").json()
    assert (document["status"], document["output"], document["failure"]["kind"]) == (
        "failed",
        None,
        "unreadable",
    )


def test_a_refusing_provider_ends_with_4_and_a_spent_budget_with_3(shell):
    config = shell.config("- {unit: JudgeUnit, prompt: 'Rate {source.text}'}", "model: gpt-4o-mini")
    assert shell("judge", config, "--row", '{"text": "a"}').code == 4
    config = shell.config("- {unit: JudgeUnit, prompt: 'Rate {source.text}'}")
    assert shell("judge", config, "--row", '{"text": "a"}', "--budget", "0").code == 3


def test_a_streamed_reply_is_shown_as_it_comes(shell, loopback, monkeypatch, root):
    from verdict_cli.cli.judge import LiveGraph

    chunks: list[str] = []
    append = LiveGraph.append_chunk

    def record(self: LiveGraph, request: Any, chunk: str) -> None:
        chunks.append(chunk)
        append(self, request, chunk)
        assert self.statuses["cot"].text.endswith(chunk) and self.statuses["cot"].state == "running"

    monkeypatch.setattr(LiveGraph, "append_chunk", record)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    config = shell.config(
        "- {unit: CoTUnit, stream: true, prompt: 'Think about {source.text}'}",
        f"model: {{name: openai/m, api_base: '{loopback.url}'}}",
    )
    document = shell("judge", config, "--row", '{"text": "a"}', "--json", "--no-cache").json()
    assert chunks and "".join(chunks).strip() == document["output"]["thinking"].strip()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="this system has no pseudo-terminals")
def test_the_graph_is_in_place_on_a_terminal(shell, root):
    import subprocess

    master, slave = os.openpty()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "verdict_cli",
            "judge",
            str(shell.config(STEPS)),
            "--row",
            '{"text": "a"}',
        ],
        cwd=shell.folder,
        env={**os.environ, "PYTHONPATH": str(root), "TERM": "xterm", "COLUMNS": "60"},
        stdout=subprocess.PIPE,
        stderr=slave,
        check=True,
        text=True,
    )
    os.close(slave)
    drawn = os.read(master, 65536).decode()
    os.close(master)
    assert done.stdout.startswith("score ")
    assert "● think" in drawn and "    ● mean" in drawn
