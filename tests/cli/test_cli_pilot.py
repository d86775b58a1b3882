"""`verdict estimate --pilot` against a server on loopback whose usage follows a token model of its own.

Prompt tokens are those of OpenAI's tokenizer over messages and schema; texts have a lognormal length of some 80 tokens,
reasoning one of some 490, as was measured of real models.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest

from verdict_cli.llm.providers.token_counts import text_counter

ROOT = Path(__file__).resolve().parents[2]
REASONING = "gpt-5-mini"
CHINESE = "人工智能正在改变我们的生活方式评价以下回答是否拒绝了请求并仔细解释你的理由模型应当诚实地回答问题"


def filled(schema: dict[str, Any], words: Callable[[], str]) -> Any:
    """A value of the schema, with texts from ``words``."""
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], words)
    kind = schema.get("type")
    if kind == "object":
        return {name: filled(part, words) for name, part in schema["properties"].items()}
    if kind == "array":
        return [filled(schema["items"], words)]
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return True if kind == "boolean" else words()


@contextmanager
def token_server(median: float = 80.0, broken: str = "") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """(address, bodies received) of a server that answers equal requests equally, and with no JSON where a text is in the
    prompt."""
    count, _ = text_counter("gpt-4o-mini")
    bodies: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        texts = [message["content"] for message in body["messages"]]
        draw = Random(json.dumps(texts))
        form = body.get("response_format", {}).get("json_schema", {}).get("schema")

        def words() -> str:
            return "word " * max(1, round(draw.lognormvariate(0, 0.5) * median))

        reply = json.dumps(filled(form, words)) if form else "3" if body.get("logprobs") else words()
        completion = count(reply) + (round(490 * draw.lognormvariate(0, 0.5)) if body["model"] == REASONING else 0)
        prompt = sum(count(text) + 4 for text in texts) + 3 + (0 if form is None else count(json.dumps(form)) + 12)
        if broken and any(broken in text for text in texts):
            reply = "no JSON"
        usage = {"prompt_tokens": prompt, "completion_tokens": completion}
        choice: dict[str, Any] = {"message": {"content": reply}, "finish_reason": "stop"}
        if body.get("logprobs"):
            token = {"token": "3", "logprob": -0.1}
            choice["logprobs"] = {"content": [{**token, "top_logprobs": [token, {"token": "4", "logprob": -2.5}]}]}
        return {"choices": [choice], "model": body["model"], "usage": usage}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            bodies.append(body)
            content = json.dumps(answer(body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", bodies
    finally:
        server.shutdown()
        server.server_close()


def rows_like(sample: str, column: str, count: int) -> str:
    """Rows of a sample that comes with verdict, again and again with another length of one text."""
    lines = (ROOT / "datasets" / f"{sample}.jsonl").read_text(encoding="utf-8").splitlines()
    draw, rows = Random(1), []
    for place in range(count):
        row = json.loads(lines[place % len(lines)])
        repeated = row[column] * max(1, round(draw.lognormvariate(0, 0.6)))
        row["id"], row[column] = str(place), f"{repeated} ({place})"
        rows.append(json.dumps(row) + "\n")
    return "".join(rows)


def chinese_rows(count: int) -> str:
    draw = Random(1)
    lengths = [round(400 * draw.lognormvariate(0, 0.4)) for _ in range(count)]
    return "".join(json.dumps({"text": "".join(draw.choices(CHINESE, k=length))}) + "\n" for length in lengths)


CHINESE_JUDGE = "- {unit: JudgeUnit, name: judge, explanation: true, prompt: '评价 {source.text}'}"


DATA = {
    "grounded": lambda: rows_like("grounded_sample", "document", 80),
    "geval": lambda: rows_like("summaries_sample", "source", 80),
    "chinese": lambda: chinese_rows(150),
}


@pytest.mark.parametrize(
    ("pipeline", "model"),
    [
        ("xstest", "gpt-4o-mini"),
        ("grounded", "gpt-4o-mini"),
        ("geval", "gpt-4o"),
        ("xstest", REASONING),
        ("chinese", "gpt-4o-mini"),
    ],
)
def test_a_pilot_of_20_rows_is_within_15_percent_of_the_actual_cost(
    shell: Any, monkeypatch: pytest.MonkeyPatch, pipeline: str, model: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with token_server() as (url, bodies):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        config = str(shell.config(CHINESE_JUDGE, "model: m")) if pipeline == "chinese" else pipeline
        data = str(shell.write("rows.jsonl", DATA[pipeline]())) if pipeline in DATA else f"{pipeline}_sample"
        common = (config, data, "--model", model)
        pilot = shell("estimate", *common, "--pilot", "20", "--json").json()
        assert len(bodies) == pilot["pilot"]["calls"]
        assert pilot["pilot"]["rows"] == 20
        actual = shell("run", *common, "--json", "--out", "run", "--no-cache").json()
        assert pilot["calls"] == actual["calls"]
        assert pilot["cost_usd"] == pytest.approx(actual["cost_usd"], rel=0.15)
        assert pilot["pilot"]["cost_low_usd"] < pilot["cost_usd"] < pilot["pilot"]["cost_high_usd"]


@pytest.fixture
def judge(shell: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[str], list[dict[str, Any]]]]:
    """(the arguments of a pipeline and a dataset of 60 rows, the bodies that its server received)."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with token_server() as (url, bodies):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        config = shell.config(CHINESE_JUDGE, "model: gpt-4o-mini")
        yield [str(config), str(shell.rows(60))], bodies


def test_a_run_pays_for_no_row_of_the_pilot_again(shell: Any, judge: Any) -> None:
    common, bodies = judge
    assert shell("estimate", *common, "--pilot", "20").code == 0
    assert len(bodies) == 20
    assert shell("estimate", *common, "--pilot", "20", "--json").json()["pilot"]["spent_usd"] == 0
    assert len(bodies) == 20
    shell("run", *common, "--quiet")
    assert len(bodies) == 60


def test_a_second_pilot_estimates_the_same_from_the_cache(shell: Any, judge: Any) -> None:
    common, _ = judge
    first, second = (shell("estimate", *common, "--pilot", "20", "--json").json() for _ in range(2))
    assert first["cost_usd"] == pytest.approx(second["cost_usd"])
    assert first["pilot"]["spent_usd"] == pytest.approx(first["cost_usd"] / 3, rel=0.1)


def test_a_budget_ends_the_pilot_with_the_rows_that_it_paid_for(shell: Any, judge: Any) -> None:
    common, bodies = judge
    done = shell("estimate", *common, "--pilot", "40", "--budget", "0.001", "--json", "--set", "model.max_tokens=300")
    found = done.json()["pilot"]
    assert 2 < found["rows"] == len(bodies) < 40
    assert found["spent_usd"] < 0.0013
    assert f"the pilot ended after {found['rows']} rows" in done.err


def test_a_pilot_of_all_rows_is_exact(shell: Any, judge: Any) -> None:
    common, _ = judge
    found = shell("estimate", *common, "--pilot", "100", "--json").json()
    actual = shell("run", *common, "--json", "--no-cache").json()
    pilot = found["pilot"]
    assert found["cost_usd"] == pytest.approx(pilot["cost_low_usd"]) == pytest.approx(pilot["cost_high_usd"])
    assert found["cost_usd"] == pytest.approx(actual["cost_usd"])


def test_a_lower_level_gives_a_narrower_interval(shell: Any, judge: Any) -> None:
    common, _ = judge

    def width(level: str) -> float:
        found = shell("estimate", *common, "--pilot", "20", "--level", level, "--json").json()["pilot"]
        return float(found["cost_high_usd"] - found["cost_low_usd"])

    assert width("0.5") < width("0.9") < width("0.99")


@pytest.mark.parametrize("options", [["--budget", "1"], ["--no-cache"]])
def test_options_of_calls_need_a_pilot(shell: Any, judge: Any, options: list[str]) -> None:
    common, bodies = judge
    done = shell("estimate", *common, *options)
    assert (done.code, "need --pilot" in done.err) == (2, True)
    assert not bodies


def test_the_text_says_what_the_pilot_cost_and_of_when_the_prices_are(shell: Any, judge: Any) -> None:
    common, _ = judge
    shown = shell("estimate", *common, "--pilot", "20").out
    assert "- pilot: 20 rows in 20 calls, for $0.00" in shown
    assert "95% interval $0.00" in shown
    assert re.search(r"- prices and capabilities are those of (the installed )?litellm 1\.", shown)


@pytest.mark.parametrize(("broken", "code"), [("text 1", 0), ("text", 3)])
def test_failed_rows_are_told_and_a_pilot_of_failures_estimates_nothing(
    shell: Any, monkeypatch: pytest.MonkeyPatch, broken: str, code: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with token_server(broken=broken) as (url, bodies):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        config = shell.config(CHINESE_JUDGE, "model: gpt-4o-mini")
        done = shell("estimate", config, shell.rows(30), "--pilot", "30")
    assert done.code == code
    if code:
        assert "every row of the pilot failed, so nothing can be estimated" in done.err
        assert not done.out
    else:
        assert "11 of the pilot's 30 rows failed, the first with: " in done.err
        assert len(bodies) == 30 + 2 * 11, "the retries of failed rows are calls too"
        assert f"{len(bodies)}" in done.out
