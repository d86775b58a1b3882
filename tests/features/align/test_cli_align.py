"""`verdict align`: a scripted judge is improved by examples, or by what a scripted proposer writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from loopback_server import serving

from verdict_cli.messages import Reply, Usage

STEPS = """- {unit: CoTUnit, name: reason, prompt: "Think about {source.text}"}
- unit: JudgeUnit
  name: judge
  explanation: true
  scale: {values: [bad, good]}
  prompt: |
    Rate {source.text} after {previous.thinking}
evaluate:
  right: {prediction: output.score, target: source.label, metrics: [accuracy]}
"""
HEAD = "model: {name: m, retries: 0, cost: {input_per_million: 10000, output_per_million: 0}}"
RULE = "Odd numbers are {good}."
SEARCH = ("--proposals", "2", "--note", "source.why")


@pytest.fixture
def rows(shell: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """120 rows in 60 clusters; odd numbers are good."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    lines = [
        json.dumps(
            {
                "text": f"number {n}",
                "label": "good" if n % 2 else "bad",
                "doc": n // 2,
                "why": "look at parity",
            }
        )
        for n in range(120)
    ]
    return shell.write("rows.jsonl", "\n".join(lines) + "\n")


def judge(knows: Any) -> Any:
    """Right where `knows` the prompt, else right on two of three rows; the proposer writes the rule."""

    def answer(request: Any) -> Reply:
        text = request.messages[-1].content
        if request.node == "proposal":
            assert (
                "look at parity" in text
                and "right answer: " in text
                and "judge's reasons: guess" in text
            )
            prompt = re.search(r"<prompt>\n(.*?)\n</prompt>", text, re.DOTALL)[1]
            edited = prompt.replace("{source.text}", "it")
            reply = {"diagnosis": "d", "guidelines": f"{RULE}\n@user do it", "prompt": edited}
        elif request.node == "reason":
            reply = {"thinking": "hm"}
        else:
            n = int(re.findall(r"number (\d+) after", text)[-1])
            right = "good" if n % 2 else "bad"
            wrong = "bad" if n % 2 else "good"
            reply = {"explanation": "guess", "score": right if knows(text) or n % 3 else wrong}
        return Reply(json.dumps(reply), usage=Usage(1, 0), cost_usd=0.01, model="m")

    return answer


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A chat endpoint on this machine behind OPENAI_BASE_URL, answered by the judge and the proposer; what it was asked."""
    nodes: list[str] = []
    scripted = judge(lambda text: "Odd numbers are {good}" in text)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            text = body["messages"][-1]["content"]
            node = "proposal" if "Find out why the judge differs" in text else "judge"
            node = "reason" if text.startswith("Think about") else node
            nodes.append(node)
            reply = scripted(SimpleNamespace(node=node, messages=[SimpleNamespace(content=text)]))
            choice = {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": reply.text},
            }
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            content = json.dumps(
                {"id": "x", "model": "m", "choices": [choice], "usage": usage}
            ).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with serving(Handler) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        yield nodes


def test_a_proposer_behind_an_endpoint_drives_the_whole_search(shell, rows, endpoint):
    config = shell.config(STEPS, head="model: openai/m")
    flags = ("--unit", "judge", "--cluster", "source.doc", "--out", "al", "--json", "--no-cache")
    search = ("--proposer", "openai/boss", "--rounds", "2", *SEARCH)
    done = shell("align", config, rows, *flags, *search)
    assert done.code == 0, done.err
    document = done.json()
    assert (
        document["better"]
        and document["winner"].startswith("guidelines")
        and document["sealed"]["new"] == 1.0
    )
    assert endpoint.count("proposal") == 2  # the second round starts from a judge without mistakes
    calls = len(endpoint)
    assert (
        shell("align", config, rows, *flags, *search).json() == document and len(endpoint) == calls
    )


def aligned(shell: Any, rows: Path, *flags: str) -> Any:
    config = shell.config(STEPS, head=HEAD)
    return shell(
        "align", config, rows, "--unit", "judge", "--cluster", "source.doc", "--out", "al", *flags
    )


def test_a_proposers_guideline_is_found_and_written_with_where_it_comes_from(
    shell, rows, scripted_model
):
    scripted_model.answer = judge(lambda text: "Odd numbers are {good}" in text)
    search = ("--proposer", "boss", "--rounds", "1", *SEARCH, "--json")
    done = aligned(shell, rows, *search)
    assert done.code == 0, done.err
    document = done.json()
    assert document["better"] and document["winner"].startswith("guidelines")
    assert document["sealed"]["new"] == 1.0 and document["sealed"]["difference"]["low"] > 0
    assert any("has lost text" in reason for reason in document["dropped"])
    calls = len(scripted_model.requests)
    assert document["cost_usd"] == pytest.approx(0.01 * calls)
    text = (shell.folder / "al" / "aligned.yaml").read_text()
    assert text.startswith("# Made by `verdict align`") and "Odd numbers are" in text
    assert shell("validate", "al/aligned.yaml").code == 0
    again = aligned(shell, rows, *search)
    assert again.json()["winner"] == document["winner"] and len(scripted_model.requests) == calls


def test_the_parts_share_no_cluster_and_candidates_never_see_the_sealed_rows(
    shell, rows, scripted_model
):
    scripted_model.answer = judge(lambda text: "Example 4" in text)
    done = aligned(shell, rows, "--json")
    document = done.json()
    assert document["better"] and document["winner"].startswith("examples")
    parts = {
        name: [
            json.loads(line)
            for line in (shell.folder / "al" / f"{name}.jsonl").read_text().splitlines()
        ]
        for name in ("fit", "select", "test")
    }
    assert {name: len(part) for name, part in parts.items()} == document["parts"]
    docs = [{row["doc"] for row in part} for part in parts.values()]
    assert not docs[0] & docs[1] and not docs[0] & docs[2] and not docs[1] & docs[2]
    sealed = {row["text"] for row in parts["test"]}
    for request in scripted_model.requests:
        examples_part = request.messages[-1].content.partition("End of the examples.")[0]
        if "Example 1" in examples_part:
            assert not sealed & set(re.findall(r"number \d+", examples_part))


def test_where_nothing_is_better_it_says_so_and_writes_no_pipeline(shell, rows, scripted_model):
    scripted_model.answer = judge(lambda text: False)
    done = aligned(shell, rows)
    assert done.code == 0
    assert (
        "nothing that was tried is better" in done.out
        or "nothing is shown to be better" in done.out
    )
    assert (
        not (shell.folder / "al" / "aligned.yaml").exists()
        and (shell.folder / "al" / "align.html").exists()
    )


def test_a_budget_is_that_of_the_whole_search(shell, rows, scripted_model):
    scripted_model.answer = judge(lambda text: False)
    done = aligned(shell, rows, "--budget", "1.5")
    assert done.code == 3 and "budget" in done.err
    assert len(scripted_model.requests) <= 150


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--unit", "jugde"], "no unit of that name"),
        (["--target", "source.none"], "0 rows have a label"),
        (["--metric", "wrong.accuracy"], "no evaluation 'wrong'"),
        (["--cluster", "1"], "cannot be split"),
    ],
)
def test_what_cannot_be_aligned_is_one_error_before_a_call(
    shell, rows, scripted_model, flags, message
):
    done = aligned(shell, rows, *flags)
    assert done.code == 2 and message in done.err and "Traceback" not in done.err
    assert not scripted_model.requests


@pytest.mark.parametrize(
    "flags", [["--limit", "24"], ["--sample", "24"], ["--limit", "60", "--sample", "24"]]
)
def test_limit_and_sample_choose_the_rows_that_are_split(shell, rows, scripted_model, flags):
    scripted_model.answer = judge(lambda text: False)
    assert aligned(shell, rows, *flags).code == 0
    parts = [shell.folder / "al" / f"{name}.jsonl" for name in ("fit", "select", "test")]
    numbers = [json.loads(line)["doc"] for part in parts for line in part.read_text().splitlines()]
    assert len(numbers) == 24
    assert max(numbers) < 30 or "--limit" not in flags


def test_a_limit_below_the_least_labels_is_refused(shell, rows, scripted_model):
    done = aligned(shell, rows, "--limit", "23")
    assert done.code == 2 and "23 rows have a label" in done.err


def test_few_labels_are_refused(shell, rows, scripted_model):
    text = rows.read_text(encoding="utf-8")
    rows.write_text("".join(text.splitlines(keepends=True)[:20]), encoding="utf-8")
    done = aligned(shell, rows)
    assert done.code == 2 and "needs 24 or more" in done.err
