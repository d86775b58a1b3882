"""`--engine ray` where no Ray is needed to say what is wrong."""

import sys

import pytest
from shell import needs

STEPS = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "ray", "--shard", "0/2"), "exclude one another"),
        pytest.param(("--engine", "ray", "--trace"), "exclude one another", marks=needs("tracing")),
        (("--engine", "ray", "--fresh"), "exclude one another"),
        pytest.param(
            ("--engine", "ray", "--out", "memory://bucket/run"),
            "name a path by --out",
            marks=needs("object_store"),
        ),
        (("--shards", "2"), "--shards needs --engine ray"),
    ],
)
def test_what_workers_cannot_do_is_refused(shell, words, message):
    done = shell("run", shell.config(STEPS), shell.rows(4), *words)
    assert (done.code, message in done.err) == (2, True), done.err


def test_without_the_package_one_message_says_how_to_install_it(shell, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    done = shell("run", shell.config(STEPS), shell.rows(4), "--engine", "ray", "--out", "ray")
    assert done.code == 2
    assert done.err.count("verdict:") == 1
    assert "pip install 'ray>=2.40,<3'" in done.err
