"""Finding S4: a prompt that shows an option by its own path while its place changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from verdict_cli import Pipeline
from verdict_cli.errors import SpecError

HEAD = "verdict: 1\nname: pairs\nmodel: baseline/lexical\npipeline:\n  - "
PAIR = "unit: PairwiseJudgeUnit, options: [source.answer, source.reference], positions: both"
BEST = "unit: BestOfKJudgeUnit, options: [source.a, source.b, source.c], shuffle: true"


def plan(folder: Path, unit: str, before: str = "") -> Any:
    path = folder / "pairs.yaml"
    head = f"{HEAD}{before}\n  - " if before else HEAD
    path.write_text(f"{head}{{{unit}}}\n")
    return Pipeline.from_yaml(path).plan()


@pytest.mark.parametrize(
    "unit",
    [
        f"{PAIR}, prompt: 'Which is better? {{source.answer}} or {{source.reference}}'",
        f"{PAIR}, prompt: 'A: {{input.A}} B: {{input.B}} Reference: {{source.reference}}'",
        f"{PAIR}, prompt: {{jinja: 'Which? {{{{ source.answer }}}} {{{{ source.reference }}}}'}}",
        f"{BEST}, prompt: '{{source.a}} {{source.b}} {{source.c}}'",
        f"{BEST}, prompt: {{jinja: '{{{{ source.a }}}} {{{{ source.b }}}} {{{{ source.c }}}}'}}",
        "unit: PairwiseJudgeUnit, input: {A: source.x, B: source.y}, positions: both, prompt: '{source.x} {source.y}'",
        "unit: PairwiseJudgeUnit, options: ['source.pair[0]', 'source.pair[1]'], positions: both, prompt: '{source.pair}'",
    ],
)
def test_s4_an_option_that_keeps_its_place_is_refused(tmp_path, unit):
    with pytest.raises(SpecError, match="keeps its place") as caught:
        plan(tmp_path, unit)
    cure = "`{{input.A}}`" if "jinja" in unit else "`{input.A}`"
    assert cure in str(caught.value)


PREP = '{unit: MapUnit, name: prep, map: {a: source.answer, b: "source.reference | upper", n: source.answer | length}}'
MADE = "unit: PairwiseJudgeUnit, options: [previous.prep.a, previous.prep.b], positions: both"


@pytest.mark.parametrize(
    "unit",
    [
        f"{PAIR}, prompt: '{{previous.prep.a}} {{input.A}} {{input.B}}'",
        f"{PAIR}, prompt: '{{previous.prep.b}} {{input.A}} {{input.B}}'",
        f"{PAIR}, prompt: {{jinja: '{{{{ previous }}}} {{{{ input.A }}}} {{{{ input.B }}}}'}}",
        f"{PAIR}, input: {{text: previous.prep.a}}, prompt: '{{input.text}} {{input.A}} {{input.B}}'",
        f"{MADE}, prompt: '{{source.answer}} {{input.A}} {{input.B}}'",
    ],
)
def test_s4_a_copy_of_an_option_that_an_earlier_unit_makes_is_refused(tmp_path, unit):
    with pytest.raises(SpecError, match="keeps its place"):
        plan(tmp_path, unit, PREP)


def test_s4_a_number_computed_from_an_option_may_be_shown(tmp_path):
    assert plan(tmp_path, f"{PAIR}, prompt: '{{previous.prep.n}} {{input.A}} {{input.B}}'", PREP)


@pytest.mark.parametrize(
    ("unit", "letters"),
    [
        (f"{PAIR}, prompt: 'Is {{input.A}} good?'", "`{input.A}` and `{input.B}`"),
        (
            f"{BEST}, prompt: '{{input.A}} or {{input.B}}?'",
            "`{input.A}`, `{input.B}` and `{input.C}`",
        ),
    ],
)
def test_s4_an_option_that_the_prompt_does_not_show_is_refused(tmp_path, unit, letters):
    with pytest.raises(SpecError, match="does not show option") as caught:
        plan(tmp_path, unit)
    assert f"write {letters}" in str(caught.value)


@pytest.mark.parametrize(
    "unit",
    [
        f"{PAIR}, prompt: 'Which is better? {{input.A}} or {{input.B}}'",
        f"{PAIR}, prompt: 'Question: {{source.question}} {{input.options}}'",
        f"{BEST}, prompt: '{{input.options}}'",
        "unit: PairwiseJudgeUnit, options: [source.answer, source.reference], prompt: '{source.answer} {source.reference}'",
    ],
)
def test_s4_letters_or_a_fixed_order_are_valid(tmp_path, unit):
    assert plan(tmp_path, unit).nodes
