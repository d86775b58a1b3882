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


def plan(folder: Path, unit: str) -> Any:
    path = folder / "pairs.yaml"
    path.write_text(f"{HEAD}{{{unit}}}\n")
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
def test_s4_an_option_that_keeps_its_place_is_refused(tmp_path: Path, unit: str) -> None:
    with pytest.raises(SpecError, match="keeps its place") as caught:
        plan(tmp_path, unit)
    cure = (
        "write `{{input.A}}` and `{{input.B}}`"
        if "jinja" in unit
        else "write `{input.A}` and `{input.B}`"
    )
    assert cure in str(caught.value)


@pytest.mark.parametrize(
    "unit",
    [
        f"{PAIR}, prompt: 'Which is better? {{input.A}} or {{input.B}}'",
        f"{PAIR}, prompt: 'Question: {{source.question}} {{input.options}}'",
        f"{BEST}, prompt: '{{input.options}}'",
        "unit: PairwiseJudgeUnit, options: [source.answer, source.reference], prompt: '{source.answer} {source.reference}'",
    ],
)
def test_s4_letters_or_a_fixed_order_are_valid(tmp_path: Path, unit: str) -> None:
    assert plan(tmp_path, unit).nodes
