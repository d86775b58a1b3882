"""`import verdict_cli` costs nothing; names are imported when they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import verdict_cli
from verdict_cli.language.authoring.arguments import UnitKeys
from verdict_cli.language.units import TYPES

HEAVY = ("litellm", "pandas", "pyarrow", "scipy", "sklearn", "numpy", "aiohttp")


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has after the code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_else():
    modules = loaded("import verdict_cli; verdict_cli.__version__")
    assert not {"pydantic", "jinja2", "yaml", *HEAVY} & modules
    assert {name for name in modules if name.startswith("verdict_cli")} == {"verdict_cli"}


def test_building_and_checking_a_pipeline_imports_nothing_heavy():
    modules = loaded(
        "from verdict_cli import Pipeline, JudgeUnit\n"
        "(Pipeline('p', model='m') >> JudgeUnit().prompt('J {source.x}')).validate()"
    )
    assert not set(HEAVY) & modules


@pytest.mark.parametrize("name", verdict_cli.__all__)
def test_every_exported_name_is_there(name):
    assert getattr(verdict_cli, name) is not None
    assert name in dir(verdict_cli)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'JudgeUnits'"):
        verdict_cli.JudgeUnits  # noqa: B018


def test_type_checkers_know_every_exported_name_from_its_own_module():
    module = ast.parse(Path(verdict_cli.__file__).read_text(encoding="utf-8"))
    (block,) = (
        node
        for node in module.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    )
    typed = {
        str(alias.asname): str(line.module)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
        if alias.asname
    }
    assert {"__version__", *typed, *TYPES} == set(verdict_cli.__all__)
    for name, home in typed.items():
        assert getattr(import_module(home), name) is getattr(verdict_cli, name)


def test_a_registered_unit_is_exported_under_its_name(monkeypatch):
    monkeypatch.setitem(TYPES._built_in, "ChecklistUnit", "judges.JudgeUnit")  # type: ignore[index]
    assert (
        "ChecklistUnit" in verdict_cli.__all__
        and verdict_cli.ChecklistUnit is verdict_cli.JudgeUnit
    )


def test_editors_know_every_key_of_a_unit():
    by_method = {"each", "as", "max", "per_call", "when", "propagate", "pin", "prompt", "model", "extract", "stream"}  # fmt: skip
    keys = {
        field.alias or name for kind in TYPES for name, field in TYPES[kind].model_fields.items()
    }
    expected = keys - by_method - {"unit", "map"}
    assert UnitKeys.__annotations__.keys() == expected, "add the key to UnitKeys"
