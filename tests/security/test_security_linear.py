"""A pipeline file of any shape is read in time proportional to its size."""

import time

import pytest

from verdict_cli.cli.model_options import PipelineOptions
from verdict_cli.errors import SpecError
from verdict_cli.language.load import load

HEAD = "verdict: 1\nname: p\nmodel: gpt-4o-mini\n"
JUDGE = "pipeline: [{unit: JudgeUnit, name: judge, prompt: '{source.q}'%s}]\n"
COUNT = 10_000
BOUND_S = 12
"""Far above the 1 to 2 s that linear checks take, and below what quadratic ones take for the keys and the scale."""


def test_many_unknown_keys_are_each_reported_in_linear_time(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(HEAD + JUDGE % "" + "".join(f"k{place}: 1\n" for place in range(COUNT)))
    started = time.thread_time()
    with pytest.raises(SpecError) as caught:
        load(file)
    assert time.thread_time() - started < BOUND_S
    assert len(caught.value.problems) == COUNT


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + "pipeline:\n"
        + "".join(f"- {{unit: Judge{place}, prompt: a}}\n" for place in range(COUNT // 4)),
        HEAD
        + JUDGE % ""
        + "evaluate: {e: {prediction: output.score, target: source.t, metrics: ["
        + ", ".join(f"m{place}" for place in range(COUNT // 4))
        + "]}}\n",
    ],
    ids=["units", "metrics"],
)
def test_installed_packages_are_looked_up_once_for_many_unknown_names(text, tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(text)
    started = time.thread_time()
    with pytest.raises(SpecError):
        PipelineOptions().built(file)
    assert time.thread_time() - started < BOUND_S


def test_a_scale_of_many_words_is_checked_in_linear_time(tmp_path):
    file = tmp_path / "p.yaml"
    words = ", ".join(f"w{place}" for place in range(COUNT))
    file.write_text(
        HEAD + f"scales: {{s: {{type: discrete, values: [{words}]}}}}\n" + JUDGE % ", scale: s"
    )
    started = time.thread_time()
    load(file)
    assert time.thread_time() - started < BOUND_S


def test_many_keys_with_anchors_are_read_in_linear_time(tmp_path):
    file = tmp_path / "p.yaml"
    keys = ", ".join(f"w{place}: &a{place} 1" for place in range(COUNT))
    file.write_text(
        HEAD.replace("gpt-4o-mini", f"{{name: m, params: {{extra_body: {{{keys}}}}}}}") + JUDGE % ""
    )
    started = time.thread_time()
    load(file)
    assert time.thread_time() - started < BOUND_S
