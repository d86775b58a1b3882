"""Pipelines as short texts, planned from a file of their own."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.load import load
from verdict_cli.plan.build import Built, build_plan

HEAD = "verdict: 1\nname: x\nmodel: m\n"


def write(path: Path, text: str) -> Path:
    """The file, with the required keys before the dedented text where it has none."""
    text = textwrap.dedent(text).lstrip("\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("verdict") else HEAD + text, encoding="utf-8")
    return path


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Built]:
    """Plans a pipeline text; `files` are written beside it as they are."""

    def make(
        text: str, files: dict[str, str] | None = None, settings: tuple[str, ...] = ()
    ) -> Built:
        for name, content in (files or {}).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(textwrap.dedent(content), encoding="utf-8")
        return build_plan(load(write(tmp_path / "p.yaml", text), settings))

    return make


@pytest.fixture
def refused(plan: Callable[..., Built]) -> Callable[..., tuple[Problem, ...]]:
    """The problems of a pipeline text that cannot be planned; each has its place and a message."""

    def make(text: str, files: dict[str, str] | None = None) -> tuple[Problem, ...]:
        with pytest.raises(SpecError) as caught:
            plan(text, files)
        assert caught.value.problems
        for problem in caught.value.problems:
            assert problem.file and problem.line >= 1 and problem.column >= 1 and problem.message
        return caught.value.problems

    return make


@pytest.fixture
def refusal(refused: Callable[..., tuple[Problem, ...]]) -> Callable[..., Problem]:
    """The only problem of a pipeline text."""

    def make(text: str, files: dict[str, str] | None = None) -> Problem:
        (only,) = refused(text, files)
        return only

    return make
