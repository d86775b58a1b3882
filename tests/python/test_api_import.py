"""`import verdict_cli` costs nothing; names are imported when they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import verdict_cli

HEAVY = ("litellm", "pandas", "pyarrow", "scipy", "sklearn", "numpy", "aiohttp")


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has after the code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_else() -> None:
    found = loaded("import verdict_cli; verdict_cli.__version__; dir(verdict_cli)")
    assert not {"pydantic", "jinja2", "yaml", *HEAVY} & found
    assert {name for name in found if name.startswith("verdict_cli")} == {"verdict_cli"}


def test_building_and_checking_a_pipeline_imports_nothing_heavy() -> None:
    found = loaded(
        "from verdict_cli import Pipeline, JudgeUnit\n"
        "(Pipeline('p', model='m') >> JudgeUnit().prompt('J {source.x}')).validate()"
    )
    assert not set(HEAVY) & found


@pytest.mark.parametrize("name", verdict_cli.__all__)
def test_every_exported_name_is_there(name: str) -> None:
    assert getattr(verdict_cli, name) is not None
    assert name in dir(verdict_cli)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'JudgeUnits'"):
        verdict_cli.JudgeUnits  # noqa: B018


def test_the_names_for_type_checkers_are_those_that_are_exported() -> None:
    stub = ast.parse(Path(verdict_cli.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes: dict[str, set[str]] = {}
    for line in stub.body:
        if isinstance(line, ast.ImportFrom):
            homes.setdefault(str(line.module), set()).update(str(alias.asname) for alias in line.names)
    assert homes == {f"verdict_cli.{module}": set(names) for module, names in verdict_cli._HOMES.items()}
