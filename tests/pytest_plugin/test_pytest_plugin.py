"""A judge in somebody's own test suite: what it gives, how it fails, what it costs those who do not use it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest

CONFIG = """
verdict: 1
name: short
model: {name: gpt-4, retries: 0}
dataset: {id: id}
pipeline:
  - {unit: JudgeUnit, name: judge, prompt: 'How good is {source.text}?', extract: structured}
"""
TESTS = """
import pytest

pytestmark = pytest.mark.verdict("judges/short.yaml", replay="judges/replies.jsonl", accept="output.score >= 4")


def test_good(verdict_judge):
    assert verdict_judge.accept(id="good", text="a").score == 5


def test_bad(verdict_judge):
    verdict_judge.accept({"id": "bad", "text": "b"})


def test_plain_assert(verdict_judge):
    judged = verdict_judge({"id": "bad"}, text="b")
    assert judged.score > 3


def test_unreadable(verdict_judge):
    verdict_judge(id="unreadable", text="c")


def test_lacking(verdict_judge):
    verdict_judge(id="good")


@pytest.mark.verdict("judges/short.yaml", replay="judges/replies.jsonl")
def test_without_a_rule(verdict_judge):
    verdict_judge.accept(id="good", text="a")


@pytest.mark.verdict("judges/none.yaml")
def test_without_a_file(verdict_judge):
    pass


@pytest.mark.verdict("judges/short.yaml", modell="x")
def test_misspelt(verdict_judge):
    pass
"""
REPLIES = {"good": '{"score": 5}', "bad": '{"score": 2}', "unreadable": "\x1b[31m none at all"}


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    folder = pytester.mkdir("judges")
    (folder / "short.yaml").write_text(CONFIG)
    lines = [
        json.dumps({"id": name, "unit": "judge", "reply": reply}) for name, reply in REPLIES.items()
    ]
    (folder / "replies.jsonl").write_text("\n".join(lines) + "\n")
    return pytester


def run(suite: pytest.Pytester, *arguments: str) -> Any:
    """pytest in a process of its own, where the plugin is installed or named."""
    installed = entry_points(group="pytest11", name="verdict")
    plugins = () if installed else ("-p", "verdict_cli.pytest_plugin")
    return suite.runpytest_subprocess(*plugins, "--strict-markers", *arguments)


def test_verdicts_hold_and_failures_say_why_in_one_message(suite):
    suite.makepyfile(test_judged=TESTS)
    done = run(suite, "-W", "error")
    done.assert_outcomes(passed=1, failed=5, errors=2)
    text = done.stdout.str()
    for text_part in (
        "`output.score >= 4` is false",
        "output: {'score': 2}",
        "judge (gpt-4):",
        "the judge gave no verdict: judge",
        "the marker verdict has no accept",
        "judges/none.yaml",
        "unknown option modell; its keys are config, accept, model",
    ):
        assert text_part in text, text_part
    assert "Traceback" not in text and "another exception" not in text
    assert "\x1b[31m" not in text


def test_one_option_gives_every_judge_another_model(suite):
    suite.makepyfile(
        test_judged="""
        import pytest

        @pytest.mark.verdict(config="judges/short.yaml")
        def test_it(verdict_judge):
            judged = verdict_judge({"text": "a"})
            assert judged.calls[0].request.model.name == "baseline/lexical"
            assert verdict_judge.judge.reward([{"text": "a"}]) == [judged.score]
        """
    )
    run(suite, "--verdict-model", "baseline/lexical").assert_outcomes(passed=1)


def test_it_costs_nothing_where_no_test_uses_it():
    code = "import verdict_cli.pytest_plugin, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    modules = {name for name in loaded if name.startswith("verdict_cli")}
    assert modules == {"verdict_cli", "verdict_cli.pytest_plugin"}
    assert not {"pydantic", "yaml", "jinja2", "pyarrow"} & loaded
