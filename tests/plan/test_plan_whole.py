"""All errors of a file at once: those of its structure and those of its names."""

from pathlib import Path

import pytest

from verdict_cli.errors import SpecError
from verdict_cli.language.document.document import parse_document
from verdict_cli.plan.build import load_plan


def codes(text: str) -> list[tuple[int, str]]:
    with pytest.raises(SpecError) as caught:
        load_plan(parse_document(text.encode(), "p.yaml"), Path())
    return [(problem.line, problem.code) for problem in caught.value.problems]


HEAD = "verdict: 1\nname: p\nmodel: baseline/lexical\n"


def test_an_unknown_key_does_not_hide_an_unknown_unit():
    text = (
        HEAD
        + "pipeline:\n  - {unit: CoTUnit, promt: Think.}\n  - {unit: JudgUnit, prompt: Judge.}\n"
    )
    assert codes(text) == [(5, "unknown-key"), (6, "unknown-unit")]


def test_a_wrong_type_does_not_hide_an_unknown_scale():
    text = (
        HEAD
        + "pipeline:\n  - {unit: CoTUnit, pin: 3, prompt: Think.}\n  - {unit: JudgeUnit, scale: likrt, prompt: Judge.}\n"
    )
    assert codes(text) == [(5, "wrong-type"), (6, "unknown-scale")]


def test_what_only_the_wrong_key_brings_about_is_not_reported():
    text = (
        HEAD
        + "pipeline:\n  - {unit: JudgeUnit, scal: boolean, prompt: Judge.}\n  - {unit: MeanPoolUnit, field: score}\n"
    )
    assert codes(text) == [(5, "unknown-key")]


def test_a_file_without_a_pipeline_is_an_error_of_its_own():
    assert [code for _, code in codes(HEAD)] == ["missing-key"]
