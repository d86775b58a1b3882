"""docs/errors.md holds every message of the program with its fix, as in the code."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from verdict_cli import errors

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location("errors_page", ROOT / "docs" / "tools" / "errors_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_fresh(made: ModuleType) -> None:
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == made.page(), "run: make errors"


def test_every_message_has_a_fix(made: ModuleType) -> None:
    found = made.messages()
    assert len(found) > 400
    assert [one for one in found if not re.search("[a-z]{2}", one.fix)] == []


def test_every_class_of_error_has_its_section(made: ModuleType) -> None:
    raised = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.VerdictError)
    }
    whole = {"VerdictError", "ProviderError", "SpecError", "DataError"}
    assert raised - whole <= set(made.RAISED)


def test_every_code_in_the_source_stands_on_the_page(made: ModuleType) -> None:
    codes = set()
    for path in (ROOT / "verdict_cli").rglob("*.py"):
        codes |= set(
            re.findall(r'(?:\bProblem|\.problem|_problem)\(\s*"([a-z0-9-]+)",', path.read_text(encoding="utf-8"))
        )
    assert len(codes) > 60
    assert codes <= {one.code for one in made.messages()}


@pytest.mark.parametrize(
    "said", ["unknown key", "there is no column", "needs a key: the environment variable", "the dataset holds no rows"]
)
def test_what_newcomers_meet_is_there(said: str) -> None:
    assert said in (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
