"""Figures of few labels: against ppi-python, against each other, and over random subsets."""

from __future__ import annotations

import importlib
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonl import jsonl
from msgspec.structs import replace
from scipy.stats import linregress, t
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.language import evaluations as section
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.gate_rules import Gate, gate_problems
from verdict_cli.stats.columns.row_data import GoldPairs
from verdict_cli.stats.intervals.intervals import Draw
from verdict_cli.stats.measure import measure
from verdict_cli.stats.prediction_powered import corrected, labels_needed, ppi, rogan_gladen, tuned
from verdict_cli.storage.tables.writer import ParquetTable

RNG = np.random.default_rng(12)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Each test draws the same numbers, whichever tests ran before it in the same process."""
    RNG.bit_generator.state = np.random.default_rng(12).bit_generator.state


def judged(rows: int, right: float, labels: int) -> tuple[GoldPairs, float]:
    """A judge of true or false that is right this often, with labels at random; and the share of true rows."""
    truth = (RNG.random(rows) < 0.6).astype(float)
    judge = np.where(RNG.random(rows) < right, truth, 1 - truth)
    labels_seen = np.full(rows, np.nan)
    chosen = RNG.choice(rows, labels, replace=False)
    labels_seen[chosen] = truth[chosen]
    return GoldPairs(judge, labels_seen, True), float(truth.mean())


@pytest.mark.parametrize("binary", [True, False])
def test_ppi_is_that_of_ppi_python(binary):
    pytest.importorskip("ppi_py", reason="ppi-python is not installed")
    theirs = importlib.import_module("ppi_py")
    pairs, _ = judged(3_000, 0.8, 400)
    if not binary:
        judge = pairs.judge + RNG.normal(0, 1, 3_000)
        pairs = GoldPairs(judge, np.where(np.isnan(pairs.truth), np.nan, pairs.truth * 3), False)
    has = pairs.labelled
    parts = (pairs.truth[has], pairs.judge[has], pairs.judge[~has])
    ours = ppi(pairs, tuned(pairs.judge, pairs.truth), 0.95)
    low, high = theirs.ppi_mean_ci(*parts, alpha=0.05)
    assert ours.value == pytest.approx(float(theirs.ppi_mean_pointestimate(*parts)[0]), abs=2e-3)
    assert (ours.low, ours.high) == pytest.approx((float(low[0]), float(high[0])), abs=2e-3)


def test_a_weight_of_nothing_is_the_mean_of_the_labels():
    pairs, _ = judged(500, 0.8, 100)
    estimate = ppi(pairs, 0.0, 0.95)
    labels = pairs.truth[pairs.labelled]
    assert estimate.value == pytest.approx(labels.mean())
    # Wilson's interval of as many rows as the variance is worth, which counts one more error than the labels show.
    assert estimate.high - estimate.low == pytest.approx(
        2 * t.ppf(0.975, 99) * labels.std(ddof=1) / 10, rel=0.03
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_judge_that_is_right_on_all_labels_may_err_on_other_rows(
    seed,
):
    """Whether its tuned weight is 1 or just below does not matter: 100 labels do not rule out an error in 100 rows."""
    RNG.bit_generator.state = np.random.default_rng(seed).bit_generator.state
    pairs, share = judged(4_000, 1.0, 100)
    values, facts = corrected(pairs, Draw(RNG), None)
    assert facts.weight == pytest.approx(100 / 4_000 * 39, rel=0.1)
    assert values["ppi"].value == pytest.approx(share, abs=0.01)
    of_all_labels = share * (1 - share) / 4_000
    expected = 2 * t.ppf(0.975, 99) * math.sqrt(of_all_labels + 1 / 100**2)
    assert values["ppi"].high - values["ppi"].low == pytest.approx(expected, rel=0.1)
    assert expected < 0.3 * (values["labelled"].high - values["labelled"].low)


def test_a_judge_that_guesses_costs_nothing():
    pairs, _ = judged(4_000, 0.5, 200)
    figures, _ = corrected(pairs, Draw(RNG), None)
    widths = {name: figures[name].high - figures[name].low for name in ("ppi", "labelled")}
    assert widths["ppi"] < 1.03 * widths["labelled"]


def test_the_intervals_hold_the_truth_as_often_as_they_say():
    covered = {"ppi": 0, "rogan_gladen": 0}
    for _ in range(300):
        pairs, share = judged(2_000, 0.85, 150)
        figures, _ = corrected(pairs, Draw(RNG), None)
        for name in covered:
            covered[name] += figures[name].low <= share <= figures[name].high
    assert all(count / 300 >= 0.91 for count in covered.values())


def test_rogan_and_gladen_undo_what_the_judge_gets_wrong():
    judge = np.concatenate(
        [np.repeat([1.0, 0.0], [45, 5]), np.repeat([1.0, 0.0], [10, 40]), RNG.random(0)]
    )
    truth = np.repeat([1.0, 0.0], 50)
    more = np.concatenate([judge, np.repeat([1.0, 0.0], [600, 400])])
    pairs = GoldPairs(more, np.concatenate([truth, np.full(1_000, np.nan)]), True)
    share = more.mean()
    assert rogan_gladen(pairs, 0.95).value == pytest.approx((share + 0.8 - 1) / (0.9 + 0.8 - 1))


@pytest.mark.parametrize(
    ("judge", "truth", "reason"),
    [
        ([1, 1, 0, 0, 1], [1, 1, 1, 1, None], "all the same"),
        ([0, 0, 1, 1, 1], [1, 1, 0, 0, None], "no better than chance"),
        ([1, 1, 1, 1, 0, 1], [1, 0, 0, 0, 0, None], "do not tell the judge from chance"),
        ([1, 0, 1, 1, 1], [1, None, None, None, None], "fewer than two"),
    ],
)
def test_labels_without_information_give_no_estimate(judge, truth, reason):
    labels = np.array([math.nan if label is None else label for label in truth], dtype=float)
    figures, _ = corrected(GoldPairs(np.array(judge, dtype=float), labels, True), Draw(RNG), None)
    assert figures["rogan_gladen"].value is None
    assert reason in figures["rogan_gladen"].reason


@given(st.floats(0.55, 0.9), st.sampled_from([0.02, 0.03, 0.05]))
def test_as_many_labels_as_needed_by_the_plan_make_the_width(right, half_width):
    pairs, _ = judged(20_000, right, 2_000)
    needed, alone = labels_needed(pairs, half_width, 0.95)
    assert needed is not None and needed <= alone
    again, _ = judged(20_000, right, needed)
    figures, _ = corrected(again, Draw(RNG), None)
    assert (figures["ppi"].high - figures["ppi"].low) / 2 == pytest.approx(half_width, rel=0.25)


def test_a_width_that_all_labels_would_not_give_says_so():
    pairs, _ = judged(300, 0.7, 100)
    assert labels_needed(pairs, 0.01, 0.95)[0] is None


def test_clusters_make_the_interval_wider():
    truth = np.repeat((RNG.random(60) < 0.5).astype(float), 20)
    judge = np.where(RNG.random(1_200) < 0.8, truth, 1 - truth)
    labels = np.where(np.repeat(np.arange(60) % 2, 20) == 0, truth, np.nan)
    alone = ppi(GoldPairs(judge, labels, True), 0.5, 0.95)
    together = ppi(GoldPairs(judge, labels, True, np.repeat(np.arange(60), 20)), 0.5, 0.95)
    assert together.value == alone.value
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_of_rows_ppi_is_the_regression_estimator_of_a_finite_population():
    """Cochran (1977, section 7.4), where the best weight is the slope of the labels on what the judge says."""
    judge = RNG.normal(0, 1, 500)
    truth = np.full(500, np.nan)
    truth[:120] = 0.6 * judge[:120] + RNG.normal(0, 0.5, 120)
    weight = np.cov(judge[:120], truth[:120])[0, 1] / np.var(judge[:120], ddof=1) * 380 / 500
    estimate = ppi(GoldPairs(judge, truth, False, of="rows"), weight, 0.95)
    line = linregress(judge[:120], truth[:120])
    assert estimate.value == pytest.approx(line.intercept + line.slope * judge.mean())
    residuals = truth[:120] - line.slope * judge[:120]
    reach = t.ppf(0.975, 119) * np.sqrt((1 - 120 / 500) * residuals.var(ddof=1) / 120)
    assert (estimate.low, estimate.high) == pytest.approx(
        (estimate.value - reach, estimate.value + reach)
    )


def test_of_rows_that_all_have_a_label_nothing_is_left_open():
    pairs, share = judged(400, 0.8, 400)
    figures, _ = corrected(replace(pairs, of="rows"), Draw(RNG), None)
    for name in ("labelled", "ppi", "rogan_gladen"):
        estimate = figures[name]
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
            (share,) * 3, abs=1e-3
        ), name
    assert figures["judged"].low == figures["judged"].high == figures["judged"].value


@pytest.mark.parametrize("of", ["rows", "population"])
def test_intervals_cover_what_they_are_of(of):
    """Half of the rows have a label, so that rows and population are told apart."""
    names = ("labelled", "ppi", "rogan_gladen")
    covered, rng = dict.fromkeys(names, 0), np.random.default_rng(5)
    people = (rng.random(600) < 0.6).astype(float)
    verdicts = np.where(rng.random(600) < 0.8, people, 1 - people)
    for _ in range(400):
        rows = np.arange(600) if of == "rows" else rng.choice(600, 600)
        truth = np.where(
            np.isin(np.arange(600), rng.choice(600, 300, replace=False)), people[rows], np.nan
        )
        figures, _ = corrected(GoldPairs(verdicts[rows], truth, True, of=of), Draw(rng), None)
        for name in names:
            covered[name] += figures[name].low <= people.mean() <= figures[name].high
    assert all(0.92 <= count / 400 <= 0.98 for count in covered.values()), covered


def test_labels_without_an_error_still_leave_half_a_row_open():
    judge = np.concatenate([np.ones(10), np.repeat([1.0, 0.0], 100)])
    truth = np.concatenate([np.ones(10), np.full(200, np.nan)])
    estimate = ppi(GoldPairs(judge, truth, True), 1.0, 0.95)
    assert estimate.high - estimate.value >= 0.2


@given(st.floats(0.55, 0.9), st.sampled_from([0.02, 0.03, 0.05]))
def test_of_rows_as_many_labels_as_needed_by_the_plan_make_the_width(right, half_width):
    RNG.bit_generator.state = np.random.default_rng(
        12
    ).bit_generator.state  # for each example alike
    pairs, _ = judged(2_000, right, 800)
    needed, alone = labels_needed(replace(pairs, of="rows"), half_width, 0.95)
    assert needed is not None and needed <= alone <= 2_000
    widths = []
    for _ in range(8):  # so few labels that one draw alone may give a third more or less
        again, _ = judged(2_000, right, needed)
        figures, _ = corrected(replace(again, of="rows"), Draw(RNG), None)
        widths.append((figures["ppi"].high - figures["ppi"].low) / 2)
    assert np.mean(widths) == pytest.approx(half_width, rel=0.25)


def test_each_group_is_corrected_by_its_own_labels(tmp_path):
    rng = np.random.default_rng(2)
    results, truths = tmp_path / "results.parquet", {"a": [], "b": []}
    with ParquetTable(results, {"row": "int", "id": "int", "status": "str"}) as table:
        for row in range(2_000):
            kind = "ab"[row % 2]
            true = rng.random() < (0.7 if kind == "a" else 0.3)
            verdict = true if rng.random() < 0.9 else kind == "a"
            truths[kind].append(true)
            human = true if rng.random() < 0.3 else None
            table.write(
                {
                    "row": row,
                    "status": "ok",
                    "output.score": verdict,
                    "source.kind": kind,
                    "source.human": human,
                }
            )
        table.write({"row": 2_000, "status": "ok", "output.score": True, "source.kind": "c"})
    evaluation = Evaluation.model_validate(
        {"value": "output.score", "gold": {"target": "source.human"}, "by": ["source.kind"]}
    )
    groups = measure({"e": evaluation}, results)["e"].groups["source.kind"]
    for kind, true in truths.items():
        estimate = groups[kind]["ppi"]
        assert estimate.n == 1_000
        assert estimate.low < np.mean(true) < estimate.high < estimate.low + 0.12
        assert abs(estimate.value - np.mean(true)) < abs(
            groups[kind]["judged"].value - np.mean(true)
        )
    assert groups["c"]["ppi"].value is None and "fewer than two" in groups["c"]["ppi"].reason


CONFIG = """
verdict: 1
name: g
model: {name: m, retries: 0}
dataset: {id: key}
pipeline:
  - {unit: JudgeUnit, name: judge, scale: {values: [bad, good]}, prompt: "{source.key}", extract: {type: regex, fields: {score: bad|good}}}
evaluate:
  share:
    prediction: output.score
    positive: good
    gold: {target: source.human, where: source.key < 60, half_width: 0.1}
gates:
  - {metric: share.ppi, min: 0.2}
  - {metric: share.ppi, min: 0.3, confidence: 0.9}
"""


def test_a_run_has_raw_and_corrected_values_and_gates_check_them(tmp_path):
    rows, replies = [], []
    for key in range(300):
        true = key % 2 == 0
        verdict = true if key % 5 else True
        rows.append({"key": key, "human": ("good" if true else "bad") if key % 7 else None})
        replies.append({"id": key, "unit": "judge", "reply": "good" if verdict else "bad"})
    (tmp_path / "c.yaml").write_text(CONFIG)
    for name, lines in (("d.jsonl", rows), ("r.jsonl", replies)):
        (tmp_path / name).write_text(jsonl(lines))
    words = ["run", tmp_path / "c.yaml", tmp_path / "d.jsonl", "--replay", tmp_path / "r.jsonl"]
    result = CliRunner().invoke(
        app, [*map(str, words), "--out", str(tmp_path / "out"), "--json", "--quiet"]
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    figures = document["evaluations"]["share"]
    assert list(figures) == ["judged", "labelled", "ppi", "rogan_gladen"]
    assert figures["judged"]["value"] == pytest.approx(0.6)
    assert figures["labelled"]["n"] == 51
    assert abs(figures["ppi"]["value"] - 0.5) < abs(figures["judged"]["value"] - 0.5)
    assert [gate["passed"] for gate in document["gates"]] == [True, True, True]
    page = (tmp_path / "out" / "report.md").read_text()
    assert "51 of 300 rows have a gold label" in page
    assert "needs" in page


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, "`gold` needs a `value` or a `prediction`"),
        ({"value": "output.x", "group": "source.g"}, "not of groups"),
    ],
)
def test_gold_alone_measures_nothing(keys, expected):
    evaluation = Evaluation.model_validate({"gold": {"target": "source.human"}, **keys})
    assert any(
        expected in message for _, message, _ in section.evaluation_problems("e", evaluation)
    )


def test_a_gate_on_a_corrected_value_needs_gold():
    evaluations = {"e": Evaluation(value="output.x")}
    (problem,) = gate_problems(Gate(metric="e.ppi", min=0.5), evaluations)
    assert "has no `gold`" in problem[1]


@pytest.mark.parametrize(
    ("share", "sensitivity", "specificity", "labels"),
    [(0.95, 0.97, 0.7, 60), (0.03, 0.8, 0.95, 100)],
)
def test_a_rare_or_a_frequent_label_is_covered_on_both_sides(
    share, sensitivity, specificity, labels
):
    """Student's interval covered 86 to 88%, with 11 to 13% of samples on one side."""
    rng = np.random.default_rng(12)
    above = below = 0
    for _ in range(300):
        true = (rng.random(600) < share).astype(float)
        verdicts = np.where(
            true == 1, rng.random(600) < sensitivity, rng.random(600) > specificity
        ).astype(float)
        labels_seen = np.full(600, np.nan)
        chosen = rng.choice(600, labels, replace=False)
        labels_seen[chosen] = true[chosen]
        estimate = corrected(GoldPairs(verdicts, labels_seen, True), Draw(rng))[0]["ppi"]
        above += estimate.low > share
        below += estimate.high < share
    assert above <= 21 and below <= 21  # 5%, and what chance adds to it


def test_rogan_gladen_in_clusters_is_wider():
    """Its interval was the same with and without clusters."""
    rng = np.random.default_rng(13)
    cluster = np.repeat(np.arange(40), 10)
    true = np.repeat((rng.random(40) < 0.6).astype(float), 10)
    verdicts = np.where(rng.random(400) < 0.9, true, 1 - true)
    labels_seen = np.where(rng.random(400) < 0.5, true, np.nan)
    alone = corrected(GoldPairs(verdicts, labels_seen, True), Draw(rng))[0]["rogan_gladen"]
    together = corrected(GoldPairs(verdicts, labels_seen, True, cluster), Draw(rng))[0][
        "rogan_gladen"
    ]
    assert together.value == alone.value
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_labels_where_the_judge_says_no_are_not_a_random_sample():
    """Labels of only the rows on which the judge said no gave no warning."""
    verdicts = np.repeat([0.0, 1.0], [44, 256])
    labels_seen = np.where(verdicts == 0, (np.arange(300) % 4 == 0).astype(float), np.nan)
    estimates = corrected(GoldPairs(verdicts, labels_seen, True), Draw(np.random.default_rng(1)))[0]
    for name in ("labelled", "ppi"):
        assert "not a random sample" in estimates[name].reason and estimates[name].warnings
    labels_seen = np.where(np.arange(300) % 6 == 0, verdicts, np.nan)
    assert not corrected(GoldPairs(verdicts, labels_seen, True), Draw(np.random.default_rng(1)))[0][
        "ppi"
    ].warnings


@pytest.mark.parametrize("labels", [14, 15])
def test_few_labels_of_numbers_are_warned_and_of_booleans_are_not(labels):
    rng = np.random.default_rng(1)
    for values, binary in (
        (rng.integers(4, 6, 200) * 1.0, False),
        ((rng.random(200) < 0.5) * 1.0, True),
    ):
        truth = np.full(200, np.nan)
        truth[:labels] = np.resize(np.unique(values), labels)
        pairs = GoldPairs(values, truth, binary, bounds=None if binary else (1.0, 5.0))
        warnings = corrected(pairs, Draw(rng))[0]["ppi"].warnings
        few = f"only {labels} labels: the interval may be too narrow"
        assert (few in warnings) == (labels < 15 and not binary)


def test_ppi_is_the_labels_alone_where_an_uninformed_judge_would_only_widen_it():
    wider = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        judge, truth = (rng.random(400) < 0.5).astype(float), np.full(400, np.nan)
        truth[:20] = rng.random(20) < 0.8
        figures, _ = corrected(GoldPairs(judge, truth, True), Draw(rng), None)
        ppi, labelled = figures["ppi"], figures["labelled"]
        assert ppi.high - ppi.low <= labelled.high - labelled.low + 1e-12
        wider += "labels alone" in ppi.method
        assert ("labels alone" in ppi.method) == ("the labels alone" in ppi.reason)
    assert wider


def test_rogan_gladen_at_an_end_keeps_its_uncertainty():
    """A judge that says yes more often than its sensitivity allows: 1.000 [1.000, 1.000]."""
    judge = np.concatenate(
        [np.repeat([1.0, 0.0], [15, 5]), np.repeat([1.0, 0.0], [3, 17]), np.ones(300)]
    )
    truth = np.concatenate([np.repeat([1.0, 0.0], 20), np.full(300, np.nan)])
    estimate = rogan_gladen(GoldPairs(judge, truth, True), 0.95)
    assert (estimate.value, estimate.high) == (1, 1)
    assert estimate.low < 0.9
