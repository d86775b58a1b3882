"""Position and length effects: what they count, by hand."""

import pytest

from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.report.report_context import ReportContext, evaluate_run
from verdict_cli.report.run_document import bias_effects
from verdict_cli.run.result_columns import result_columns
from verdict_cli.storage.tables.writer import ParquetTable

PIPELINE = """
verdict: 1
name: pairs
model: baseline/lexical
pipeline:
  - {unit: PairwiseJudgeUnit, name: judge, options: [source.first, source.second], prompt: "{input.A} or {input.B}?"}
evaluate:
  e: {prediction: output.choice, target: source.label}
"""


@pytest.fixture
def charts(tmp_path):
    """A hundred pairs: the longer one is chosen whenever it is 50 characters longer, and A three times in four."""
    (tmp_path / "p.yaml").write_text(PIPELINE)
    plan = build_plan(load(tmp_path / "p.yaml")).plan
    with ParquetTable(
        tmp_path / "r.parquet", result_columns(plan, ["first", "second", "label"])
    ) as table:
        for row in range(100):
            choice, far = "B" if row % 4 == 0 else "A", row >= 40
            longer = choice if far else "AB"[choice == "A"]
            texts = [
                "x" * (100 + (50 + row % 5 if far else 1 + row % 5) * (longer == side))
                for side in "AB"
            ]
            table.write(
                {"row": row, "id": row, "status": "ok", "source.first": texts[0], "source.second": texts[1],
                 "source.label": "A", "judge.choice": choice, "output.choice": choice}
            )  # fmt: skip
    results = tmp_path / "r.parquet"
    return {
        effect.title: effect
        for effect in bias_effects(
            ReportContext(plan, results, results, evaluate_run(plan.evaluations, results)), 40
        )
    }


def test_the_share_of_each_option_is_counted(charts):
    points = charts["judge: how often each option is chosen"].points
    assert [(point.label, point.value) for point in points] == [("A", 0.75), ("B", 0.25)]
    assert all(point.low < point.value < point.high for point in points)


def test_the_share_that_chooses_the_longer_is_by_how_much_longer_it_is(charts):
    points = charts["judge: how often the longer option is chosen"].series[0].points
    assert [point.y for point in points if point.x > 10] == [1.0] * sum(
        point.x > 10 for point in points
    )
    assert all(point.y == 0 for point in points if point.x < 10)
    assert {point.x > 10 for point in points} == {True, False}


def test_right_answers_are_by_the_length_of_what_the_prompt_shows(charts):
    points = charts["e: share of correct rows by length"].series[0].points
    counts = [int(point.label.split()[0]) for point in points]
    assert sum(counts) == 100
    assert sum(
        count * point.y for count, point in zip(counts, points, strict=True)
    ) == pytest.approx(75)
