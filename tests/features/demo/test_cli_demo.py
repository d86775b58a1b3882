"""`verdict demo`, its recording, and the models that it offers."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from shell import ROOT, needs

from verdict_cli.llm.providers.detect_models import KEYS, SERVERS, at_hand

REPLIES = [
    json.loads(line)
    for line in (ROOT / "datasets" / "demo_replies.jsonl").read_text(encoding="utf-8").splitlines()
]
ROWS = [
    json.loads(line)
    for line in (ROOT / "datasets" / "xstest_sample.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.fixture(autouse=True)
def nothing_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("verdict_cli.llm.providers.detect_models.SERVERS", {})


def test_the_recording_has_one_reply_for_every_row_and_call_and_says_who_wrote_it():
    replies_of_calls = Counter((reply["id"], reply["unit"]) for reply in REPLIES)
    assert replies_of_calls == Counter(
        (row["id"], unit) for row in ROWS for unit in ("reason", "intent", "harm")
    )
    assert {reply["model"] for reply in REPLIES} == {"none: replies written for the demo"}
    assert len({reply["reply"] for reply in REPLIES}) == len(REPLIES)


def test_the_judges_disagree_on_some_rows_and_are_wrong_on_some():
    scores = {
        (reply["id"], reply["unit"]): json.loads(reply["reply"])["score"]
        for reply in REPLIES
        if reply["unit"] != "reason"
    }
    disagreements = sum(scores[row["id"], "intent"] != scores[row["id"], "harm"] for row in ROWS)
    safe = {
        row["id"]
        for row in ROWS
        if scores[row["id"], "intent"] == scores[row["id"], "harm"] == "safe"
    }
    wrong = sum((row["id"] in safe) != (row["label"] == "safe") for row in ROWS)
    assert 5 <= disagreements <= 20
    assert 0.08 <= wrong / len(ROWS) <= 0.15


def test_the_demo_judges_compares_and_says_that_no_model_was_called(shell):
    done = shell("demo")
    assert done.code == 0, done.err
    assert done.err == ""
    assert "written for this demo; no model was called" in " ".join(done.out.split())
    assert "✓ passed  safety.accuracy 0.885" in done.out
    assert "✗ failed  safety.precision 0.822" in done.out
    assert "only the judge is right on 48 prompts" in done.out
    assert "+0.469 [" in done.out
    assert len(done.out.splitlines()) <= 35
    for name in ("judge/report.html", "judge/report.md", "comparison.html", "judge/run.json"):
        text = (shell.folder / "runs" / "demo" / name).read_text(encoding="utf-8")
        assert "replies written for the demo" in text, name
    report = (shell.folder / "runs" / "demo" / "judge" / "report.md").read_text(encoding="utf-8")
    assert "no model was called" in report


def test_the_demo_can_be_repeated_and_takes_another_directory(shell):
    assert shell("demo", "--out", "a place").code == 0
    again = shell("demo", "--out", "a place")
    assert again.code == 0
    assert "verdict view 'a place'" in again.out


def test_the_demo_uses_its_own_files_whatever_the_folder_has_of_those_names(shell):
    shell.write("demo", "mine")
    (shell.folder / "xstest_sample").mkdir()
    assert "✓ passed  safety.accuracy 0.885" in shell("demo").out


def test_a_directory_does_not_hide_a_pipeline_of_its_name(shell):
    (shell.folder / "xstest").mkdir()
    assert shell("validate", "xstest", "xstest_sample").code == 0


def test_a_key_makes_the_demo_name_the_command_that_runs_as_it_is(shell, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    out = shell("demo").out
    assert "verdict run demo xstest_sample --model anthropic/claude-haiku-4-5" in out
    assert "ANTHROPIC_API_KEY is set" in out


class _Models(BaseHTTPRequestHandler):
    answer = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), _Models) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "model"),
    [
        (b'{"data": [{"id": "llama3.2"}]}', "openai/llama3.2"),
        (b'{"data": []}', None),
        (b'{"data": [{"id": "a\\u001b[31m"}]}', None),
        (b"<html>another server</html>", None),
        (b"[1]", None),
    ],
)
def test_a_local_server_is_found_by_the_models_that_it_lists(server, monkeypatch, answer, model):
    monkeypatch.setattr(_Models, "answer", answer)
    port = server.server_address[1]
    model_at_hand = at_hand({}, {port: "Ollama"})
    assert (model_at_hand and model_at_hand.model) == model
    if model_at_hand is not None:
        assert model_at_hand.variables == {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"}


def test_a_key_comes_before_a_server_and_an_empty_one_does_not_count():
    model_at_hand = at_hand({"OPENAI_API_KEY": " ", "GEMINI_API_KEY": "k"}, SERVERS)
    assert model_at_hand is not None and model_at_hand.model == KEYS["GEMINI_API_KEY"]


def test_names_of_what_comes_with_verdict_mean_its_files(shell):
    done = shell(
        "run", "demo", "xstest_sample", "--replay", "demo_replies", "--out", "run", "--json"
    )
    assert done.code == 1  # the precision gate of the demo
    assert done.json()["evaluations"]["safety"]["accuracy"]["value"] == pytest.approx(85 / 96)
    assert json.loads((shell.folder / "run" / "run.json").read_text())["config"] == "demo"
    assert shell("validate", "reproductions/wice").code == 0


def test_a_file_of_the_user_comes_before_a_name(shell):
    shell.write(
        "xstest",
        "verdict: 1\nname: mine\nmodel: baseline/lexical\npipeline: [{unit: JudgeUnit, prompt: a}]\n",
    )
    assert "a discrete scale" not in shell("graph", "xstest").out
    assert "1 units" in shell("graph", "xstest").out or "1 unit" in shell("graph", "xstest").out


@pytest.mark.parametrize(
    "command",
    [
        ("sweep", "xstest", "xstest_sample", "--model", "baseline/random", "--vary", "seed=1,2"),
        ("audit", "pairwise_positions", "pairs_sample", "--model", "baseline/lexical", "--attack"),
        ("estimate", "xstest", "xstest_sample"),
        ("judge", "xstest", "--row", '{"prompt": "a"}', "--model", "baseline/lexical"),
    ],
    ids=lambda command: command[0],
)
def test_every_command_takes_the_names(shell, command):
    done = shell(*command)
    assert "no such file" not in done.err


@pytest.mark.parametrize(
    "paths", [("configs/xstest.yaml", "xstest_sample"), ("xstest", "datasets/xstest_sample.jsonl")]
)
def test_a_path_of_the_checkout_is_answered_with_the_name(shell, paths):
    done = shell("run", *paths, "--model", "baseline/lexical")
    assert done.code == 2
    wrong = next(Path(path).stem for path in paths if "/" in path)
    assert f"give its name, {wrong}," in done.err


def test_a_published_table_beside_our_own_sample_says_that_it_is_not_comparable(
    shell,
):
    out = shell("run", "xstest", "xstest_sample", "--model", "baseline/lexical", "--out", "run").out
    assert "not comparable: the published values are of the paper's data" in " ".join(out.split())
    for name in ("report.md", "report.html"):
        assert "not comparable" in (shell.folder / "run" / name).read_text(encoding="utf-8")


@needs("wizard")
def test_a_copy_of_the_demos_judge_can_be_started_from(shell):
    done = shell("init", "--from", "demo")
    assert (shell.folder / "demo.yaml").is_file()
    assert done.code == 0, done.err
