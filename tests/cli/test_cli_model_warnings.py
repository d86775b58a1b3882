"""What is known of a model before its first call is told by `validate`, `estimate` and `run`; a run tells its cost first."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from verdict_cli.cli.model_options import PipelineOptions
from verdict_cli.llm.providers import price_book
from verdict_cli.run.model_warnings import retirement_warnings

JUDGE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'%s}"
COMMANDS = ("validate", "run", "estimate")


def warnings_of(
    shell: Any, command: str, model: str, judge: str = JUDGE % "", text: str = "a"
) -> str:
    """What the command writes to standard error; no server answers a run."""
    shell.write("rows.jsonl", json.dumps({"text": text}) + "\n")
    done = shell(command, shell.config(judge, f"model: {model}"), "rows.jsonl")
    return " ".join(done.err.split())


@pytest.fixture
def retiring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes gpt-4o retire in 12 days, by the price data."""
    day = (datetime.now(UTC).date() + timedelta(days=12)).isoformat()
    real = price_book.entry_of

    def entry_of(name: str) -> Any:
        return {**(real(name) or {}), "deprecation_date": day} if name == "gpt-4o" else real(name)

    monkeypatch.setattr("verdict_cli.llm.providers.model_checks.entry_of", entry_of)


@pytest.mark.parametrize("command", COMMANDS)
class TestRetirement:
    def test_a_retired_model_is_warned_of(self, shell, command):
        assert "model deepseek/deepseek-chat was retired on 2026-07-24" in warnings_of(
            shell, command, "deepseek/deepseek-chat"
        )

    @pytest.mark.usefixtures("retiring")
    def test_a_model_that_retires_within_30_days_is_warned_of(self, shell, command):
        assert ", in 12 days, by litellm's data" in warnings_of(shell, command, "gpt-4o")

    @pytest.mark.parametrize("model", ["gpt-4o-mini", "baseline/lexical", "nobody-knows"])
    def test_a_model_without_a_date_of_retirement_is_not(self, shell, command, model):
        assert "retire" not in warnings_of(shell, command, model)

    def test_a_private_server_has_another_model_under_that_name(self, shell, command):
        model = "{name: deepseek/deepseek-chat, api_base: 'http://127.0.0.1:9/v1', retries: 0}"
        assert "retire" not in warnings_of(shell, command, model)


def test_the_warning_begins_30_days_before_the_date(shell):
    plan = PipelineOptions().plan(
        shell.config(JUDGE % "", "model: claude-sonnet-4-5"), warn=False
    )  # retires on 2026-11-30
    assert not retirement_warnings(plan, date(2026, 10, 30))
    assert "in 30 days" in retirement_warnings(plan, date(2026, 10, 31))[0].message
    assert "in 1 day," in retirement_warnings(plan, date(2026, 11, 29))[0].message
    assert "was retired" in retirement_warnings(plan, date(2026, 12, 1))[0].message


TOKENS = JUDGE % ", extract: token_probability"
KNOWN = [
    ("gpt-4o-mini", JUDGE % "", "OPENAI_API_KEY is not set"),
    ("{name: claude-haiku-4-5, seed: 7}", JUDGE % "", "claude-haiku-4-5 takes no seed"),
    ("{name: gpt-5-codex, seed: 7}", JUDGE % "", "gpt-5-codex takes no seed"),
    ("anthropic/claude-haiku-4-5", TOKENS, "returns no token log-probabilities"),
    ("gpt-5-mini", TOKENS, "this reasoning model returns no log-probabilities"),
    ("{name: gpt-4o-mini, max_tokens: 99999}", JUDGE % "", "its replies have 16,384 at most"),
]


@pytest.mark.parametrize(("model", "judge", "message"), KNOWN)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_model_does_not_take_is_reported_before_any_call(
    shell, monkeypatch, command, model, judge, message
):
    if "KEY" not in message:
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(name, "sk-none")
    assert message in warnings_of(shell, command, model, judge)


@pytest.mark.parametrize(
    ("model", "judge", "message"),
    [
        ("groq/openai/gpt-oss-120b", TOKENS, "returns no log-probabilities, as far as is known"),
        (
            "mistral/mistral-large-latest",
            TOKENS,
            "returns no log-probabilities, as far as is known",
        ),
        ("{name: perplexity/sonar, seed: 1}", JUDGE % "", "takes no seed, as far as is known"),
        (
            "{name: perplexity/sonar, params: {tools: [{type: function}]}}",
            JUDGE % "",
            "takes no tools, as far as is known",
        ),
    ],
)
def test_what_a_provider_may_not_take_is_a_warning(shell, monkeypatch, model, judge, message):
    for name in ("GROQ_API_KEY", "MISTRAL_API_KEY", "PERPLEXITYAI_API_KEY"):
        monkeypatch.setenv(name, "sk-none")
    for command in ("validate", "estimate"):
        assert message in warnings_of(shell, command, model, judge)


def test_an_image_for_a_model_that_reads_text_only_is_reported_by_validate(shell, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    config = shell.config(
        "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.picture}'}",
        "model: gpt-3.5-turbo\ndataset: {schema: {picture: image}}",
    )
    for command in (["validate", config], ["validate", config, "--json"]):
        done = shell(*command)
        assert done.code == 2  # a run would be refused
        assert (
            "the prompt shows an image, but model gpt-3.5-turbo reads text only"
            in done.err + done.out
        )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_prompt_that_the_context_window_cannot_hold_is_warned_of(shell, monkeypatch, command):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    model = "{name: openai/judge, base_model: gpt-4, retries: 0}"
    assert "but model openai/judge reads 8,192 at most" in warnings_of(
        shell, command, model, text="many words " * 6000
    )
    assert "at most" not in warnings_of(shell, command, model, text="few words")


def test_one_missing_key_is_reported_once_for_several_units(shell):
    done = shell(
        "validate",
        shell.config("\n".join([JUDGE % ""] * 3).replace("name: judge, ", ""), "model: gpt-4o"),
    )
    assert done.err.count("OPENAI_API_KEY is not set") == 1
    assert done.code == 0


@pytest.fixture
def paid(shell: Any, monkeypatch: pytest.MonkeyPatch, loopback: Any) -> list[str]:
    """The arguments of a run whose model has a price, at a server on loopback."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.url)
    config = shell.config(JUDGE % ", explanation: true", "model: gpt-4o-mini")
    return [str(config), str(shell.rows(10))]


class TestCost:
    """A run tells its calls and cost before it spends."""

    def test_the_estimate_is_reported_before_the_run(self, shell, paid):
        done = shell("run", *paid)
        assert done.code == 0
        assert "10 rows: 10 calls of gpt-4o-mini, about $0.0" in done.err

    def test_a_finished_run_and_quiet_have_no_estimate(self, shell, paid):
        assert "calls of" not in shell("run", *paid, "--quiet").err
        assert "calls of" not in shell("run", *paid).err

    def test_a_benchmark_has_the_estimate_too(self, shell, paid):
        done = shell("bench", "xstest", "--limit", "4", "--out", "b", "--quiet")
        assert "4 rows" not in done.err
        done = shell("bench", "xstest", "--limit", "5", "--out", "c", "--model", "gpt-4o")
        assert "5 rows: 15 calls of gpt-4o, about $0.0" in done.err

    def test_an_unknown_price_is_unknown(self, shell, paid):
        assert (
            "10 calls of openai/own, cost unknown"
            in shell("run", *paid, "--model", "openai/own").err
        )

    def test_a_run_of_baselines_or_of_a_recording_has_no_estimate(self, shell, paid):
        shell("run", *paid, "--out", "a")
        for free in (["--model", "baseline/lexical"], ["--replay", "a"]):
            assert "calls of" not in shell("run", *paid, *free, "--out", "b", "--fresh").err

    def test_many_rows_are_estimated_from_a_sample(self, shell, paid):
        shell.rows(1_000)
        done = shell("run", *paid)
        assert "1,000 rows, estimated from 200 of them: 1,000 calls of gpt-4o-mini" in done.err

    @pytest.mark.parametrize(("answer", "code"), [("n\n", 130), ("y\n", 0), ("", 0)])
    def test_on_a_terminal_the_user_has_to_confirm(self, shell, paid, answer, code):
        output, ended = on_terminal(
            shell.folder, ["run", *paid, *([] if answer else ["--yes"])], answer
        )
        assert ended == code, output
        assert ("Continue?" in output) == bool(answer)
        assert ("stopped: no call was made" in output) == (code == 130)

    def test_an_unpriced_model_on_this_machine_needs_no_confirmation(self, shell, paid):
        output, ended = on_terminal(shell.folder, ["run", *paid, "--model", "openai/own"], "")
        assert (ended, "Continue?" in output, "cost unknown" in output) == (0, False, True), output


def on_terminal(folder: Path, arguments: list[str], answer: str) -> tuple[str, int]:
    """What the command prints on a terminal where the user types the answer, and its exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "verdict_cli", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"},
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    output = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the terminal's last user is gone
            break
        if not part:
            break
        output += part
    os.close(ours)
    return output.decode(), process.wait()
