"""Statistics that need an order, of a nominal scale; the order in which a prompt lists its values."""

from __future__ import annotations

from pathlib import Path

import pytest

from verdict_cli.errors import SpecError
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan

PIPELINE = """
verdict: 1
name: nominal
model: baseline/lexical
pipeline:
  - {{unit: JudgeUnit, name: judge, scale: {scale}, prompt: "{{source.x}}"}}
evaluate:
  e: {{prediction: output.score, target: source.y, metrics: [accuracy, {metric}]}}
"""


def messages(folder: Path, scale: str, metric: str) -> list[str]:
    path = folder / "p.yaml"
    path.write_text(PIPELINE.format(scale=scale, metric=metric))
    try:
        build_plan(load(path))
    except SpecError as error:
        return [problem.message for problem in error.problems]
    return []


@pytest.mark.parametrize("metric", ["spearman", "kendall", "weighted_kappa"])
def test_a_statistic_of_ranks_over_a_nominal_scale_is_an_error_that_says_why(tmp_path, metric):
    for scale in ("boolean", "{values: [no_error, error]}"):
        (message,) = messages(tmp_path, scale, metric)
        assert f"`{metric}` needs an order" in message
        assert "nominal scale" in message
    for scale in ("likert", "{values: [bad, good], ordered: true}"):
        assert messages(tmp_path, scale, metric) == []


PAIR = """
verdict: 1
name: pair
model: baseline/lexical
pipeline:
  - {{unit: PairwiseJudgeUnit, {labels} prompt: "{{input.options}}", options: [source.x, source.y]}}
evaluate:
  e: {{prediction: output.choice, {keys}}}
"""


@pytest.mark.parametrize(
    "keys", ["options: [source.x, source.y]", "metrics: [first_position_rate]"]
)
def test_a_preference_between_options_of_other_names_is_an_error(tmp_path, keys):
    path = tmp_path / "p.yaml"
    path.write_text(PAIR.format(labels="labels: [left, right],", keys=keys))
    with pytest.raises(SpecError, match="`output\\.choice` is left, right") as caught:
        build_plan(load(path))
    assert "'A' if output.choice == 'left' else 'B'" in caught.value.problems[0].hint
    path.write_text(PAIR.format(labels="", keys=keys))
    build_plan(load(path))


def test_a_statistic_of_labels_fits_a_nominal_scale(tmp_path):
    assert messages(tmp_path, "{values: [no_error, error]}", "cohen_kappa") == []
