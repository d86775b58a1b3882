"""docs/errors.md holds every message of the program with its fix, as in the code."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType
from typing import Any

import pytest
from paths import ROOT

from verdict_cli import errors


@pytest.fixture(scope="module")
def page_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "errors_page", ROOT / "docs" / "tools" / "errors_page.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def messages(page_tool: ModuleType) -> list[Any]:
    """Every message, read once: the whole package is parsed for it."""
    listed: list[Any] = page_tool.messages()
    return listed


def test_every_message_has_a_fix(messages):
    assert len(messages) > 400
    assert [message for message in messages if not re.search("[a-z]{2}", message.fix)] == []


def test_every_path_that_decides_about_a_message_exists(page_tool):
    """A package that moves would otherwise lose its messages without a word."""
    missing = [
        path
        for path in (*page_tool.OF_DATA, *page_tool.OF_PARTS)
        if not (page_tool.PACKAGE / path).is_dir()
        and not (page_tool.PACKAGE / f"{path}.py").is_file()
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("yaml-syntax", "a tab is used for indentation"),
        ("bad-gate", "has no limit"),
        ("bad-evaluation", "needs a `value` or a `prediction`"),
        ("bad-extractor", "cannot be read from text"),
        ("bad-scale", "needs either `range` or `values`"),
        ("bad-unit", "a Unit needs a `response`"),
    ],
)
def test_messages_of_checks_are_there_with_their_codes(messages, code, text):
    assert any(text in message.text and message.code == code for message in messages)


def test_every_class_of_error_has_its_section(page_tool):
    raised = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.VerdictError)
    }
    whole = {
        "VerdictError",
        "SeveralErrors",
        "ProviderError",
        "SpecError",
        "DataError",
        "Pending",
    }  # no message of their own
    assert raised - whole <= set(page_tool.RAISED)


def test_every_code_in_the_source_is_on_the_page(messages):
    codes = set()
    for path in (ROOT / "verdict_cli").rglob("*.py"):
        codes |= set(
            re.findall(
                r'(?:\bProblem|\.problem|_problem)\(\s*"([a-z0-9-]+)",',
                path.read_text(encoding="utf-8"),
            )
        )
    assert len(codes) > 60
    assert codes <= {message.code for message in messages}


@pytest.mark.parametrize(
    "text",
    [
        "unknown key",
        "the data has no column",
        "needs a key: the environment variable",
        "the dataset holds no rows",
    ],
)
def test_what_newcomers_meet_is_there(page_tool, text):
    assert text in page_tool.page()
