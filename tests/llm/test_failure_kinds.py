"""The kinds of a failed call are listed in one place, on the error classes."""

import ast
from pathlib import Path

import pytest

import verdict_cli
from verdict_cli.errors import Rejected, ReplyError, Retryable, failure_class, recorded_error

CLASSES = {kind.__name__: kind for kind in (Retryable, Rejected, ReplyError)}
ROOT = Path(verdict_cli.__file__).parent


def test_every_kind_in_the_code_is_listed_on_its_class():
    raised = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in CLASSES
            ):
                for keyword in node.keywords:
                    if keyword.arg == "kind" and isinstance(keyword.value, ast.Constant):
                        raised.add((node.func.id, keyword.value.value))
    assert len(raised) > 10
    assert {(name, kind) for name, kind in raised if kind not in CLASSES[name].kinds} == set()


@pytest.mark.parametrize("kind", CLASSES.values())
def test_a_recorded_failure_is_raised_as_its_class(
    kind,
):
    for failure in kind.kinds:
        error = recorded_error(failure, "why", "the reply")
        assert type(error) is kind and failure_class(failure) is kind
        assert (error.failure, error.message, error.reply) == (failure, "why", "the reply")


def test_an_unknown_failure_is_a_rejection():
    assert failure_class("new") is None
    assert type(recorded_error("new", "why")) is Rejected
