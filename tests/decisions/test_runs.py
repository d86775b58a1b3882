"""Runs of decision models: resumed ones, images, warnings, and what they cannot do."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

from verdict_cli.llm.providers.decision_answers import other_form
from verdict_cli.llm.providers.decision_protocols import OPENAI_DECISIONS, SYSTEM_ONE

HEAD = 'model: {name: systemone/jev-latest, api_base: "%s"}'
RUBRIC = """- unit: JudgeUnit
  name: j
  each: source.rubric
  as: criterion
  scale: boolean
  prompt: "@system\\nIs it met? {criterion.text}\\n@user\\n{source.a}"
"""
BOOLEAN = '- {unit: JudgeUnit, name: j, scale: boolean, prompt: "Is {source.a} right?"%s}'


def rows(shell: Any, count: int) -> Any:
    texts = [{"text": f"criterion {number}"} for number in range(5)]
    lines = [
        json.dumps({"id": number, "a": f"answer {number}", "rubric": texts})
        for number in range(count)
    ]
    return shell.write("d.jsonl", "\n".join(lines) + "\n")


def test_a_killed_run_repeats_no_question(shell, decision_servers):
    url = decision_servers.start("--latency-ms", "40")
    config, data = shell.config(RUBRIC, HEAD % url), rows(shell, 60)
    words = ("run", config, data, "--out", "out", "--no-cache", "--yes", "--concurrency", "2")
    process = shell.start(*words)
    for _ in range(400):
        if decision_servers.get(url, "stats")["requests"] >= 12:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = shell(*words)
    assert done.code == 0, done.err
    facts = json.loads((shell.folder / "out" / "run.json").read_text())
    assert (facts["done"], facts["calls"]) == (60, 300)
    questions = decision_servers.get(url, "stats")["questions"]
    assert (
        300 <= questions <= 300 + 5 * 4
    )  # those in flight, and those whose record was lost with the process


def test_images_are_sent_in_the_form_of_each_server(shell, decision_servers, monkeypatch):
    url = decision_servers.start()
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    pixel = "data:image/png;base64,iVBORw0KGgo="
    data = shell.write("d.jsonl", json.dumps({"id": 1, "a": "text", "photo": pixel}) + "\n")
    steps = '- {unit: JudgeUnit, name: j, scale: boolean, prompt: "Does {source.photo} show {source.a}?"}'
    schema = "\ndataset: {id: id, schema: {photo: image, a: str}}"
    heads = {
        "systemone": HEAD % url,
        "decisions": f'model: {{name: decisions/gpt-6-luna, api_base: "{url}/v1"}}',
    }
    for form, head in heads.items():
        done = shell(
            "run", shell.config(steps, head + schema), data, "--out", form, "--no-cache", "--yes"
        )
        assert done.code == 0, done.err
    first_body, second_body = (sent["body"] for sent in decision_servers.get(url, "requests"))
    assert first_body["images"] == [pixel]
    assert first_body["questions"]["q1"]["instructions"] == "Does [image 1] show `a`?"
    assert second_body["input"][0]["content"][1] == {"type": "input_image", "image_url": pixel}


def test_an_image_is_refused_where_the_form_of_the_server_is_unknown(shell):
    steps = '- {unit: JudgeUnit, name: j, scale: boolean, prompt: "Does {source.photo} show {source.a}?"}'
    schema = "\ndataset: {schema: {photo: image, a: str}}"
    done = shell("validate", shell.config(steps, "model: typesafe/jev-1.13.0" + schema))
    assert done.code == 2
    assert "takes no images" in done.err + done.out


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (
            "- layer: ["
            + (BOOLEAN % "")[2:]
            + "]\n  repeat: 3\n- {unit: MeanPoolUnit, field: score}",
            "give the same answer",
        ),
        (
            '- {unit: JudgeUnit, name: j, scale: {range: [1, 5]}, prompt: "Rate {source.a}"}',
            "add `descriptions`",
        ),
        (
            '- {each: source.rubric, unit: JudgeUnit, name: j, scale: boolean, prompt: "@system\\nMet?\\n@user\\n{item} {source.a}"}',
            "name it in the `@system` part",
        ),
    ],
)
def test_a_judge_with_a_probable_mistake_gets_a_warning(shell, steps, words):
    done = shell("validate", shell.config(steps, HEAD % "http://127.0.0.1:1"))
    assert done.code == 0, done.err
    assert words in done.err + done.out


def test_two_versions_behind_an_alias_are_reported(shell, decision_servers):
    first = decision_servers.start("--alias", "jev-latest=jev-1.13.0")
    second = decision_servers.start("--alias", "jev-latest=jev-1.14.0")
    judges = [BOOLEAN.replace("name: j", f"name: {name}") % f', model: {{name: systemone/jev-latest, api_base: "{url}"}}'
              for name, url in (("x", first), ("y", second))]  # fmt: skip
    steps = "\n".join(
        [f"- layer: [{judges[0][2:]}, {judges[1][2:]}]", "- {unit: MeanPoolUnit, field: score}"]
    )
    done = shell(
        "run",
        shell.config(steps, HEAD % first),
        rows(shell, 2),
        "--out",
        "out",
        "--no-cache",
        "--yes",
    )
    assert done.code == 0, done.err
    report = (shell.folder / "out" / "report.md").read_text()
    assert "was answered by 2 versions of the model" in report


def test_decision_models_have_no_batches(shell):
    config = shell.config(BOOLEAN % "", "model: {name: typesafe/jev-1.13.0, batch: true}")
    done = shell("validate", config)
    assert "decision models have no batches" in done.err + done.out


@pytest.mark.parametrize(
    ("body", "protocol", "prefix"),
    [
        (
            b'{"detail": [{"loc": ["body", "state"], "msg": "Field required", "type": "missing"}]}',
            OPENAI_DECISIONS,
            "systemone",
        ),
        (
            b'{"error": {"message": "Missing required parameter", "param": "input"}}',
            SYSTEM_ONE,
            "decisions",
        ),
        (
            b'{"error": {"message": "Missing required parameter", "param": "input"}}',
            OPENAI_DECISIONS,
            "",
        ),
        (b'{"error": {"message": "overloaded"}}', SYSTEM_ONE, ""),
    ],
)
def test_a_server_of_the_other_form_is_reported(body, protocol, prefix):
    assert other_form(body, protocol) == prefix
