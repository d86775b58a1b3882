"""Several judges of the same rows: alpha, kappa over pairs, and how many independent judges they are worth."""

import gzip
import itertools
import json
import warnings

import krippendorff
import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import SHARED

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.compare import compare_runs
from verdict_cli.stats.measure import measure
from verdict_cli.stats.metrics.panel import panel_statistics
from verdict_cli.storage.tables.writer import ParquetTable

TRIVIAQA = SHARED / "data" / "triviaqa_judges" / "judgements_v1.jsonl.gz"
NOMINAL = st.sampled_from(["safe", "unsafe", "odd", None])
NUMBERS = st.sampled_from([1, 2, 5, None])


def panels(votes, targets):
    return st.lists(
        st.tuples(votes, votes, votes, st.sampled_from(targets)), min_size=1, max_size=25
    )


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """Writes rows of (vote of each judge …, target) and gives the file and the panel's expressions."""

    def write(rows):
        path = tmp_path_factory.mktemp("run") / "results.parquet"
        with ParquetTable(path, {"row": "int", "status": "str"}) as out:
            for index, (*votes, target) in enumerate(rows):
                row = {"row": index, "id": f"r{index}", "status": "ok", "source.label": target}
                out.write(row | {f"judge[{index}].score": vote for index, vote in enumerate(votes)})
        return path

    return write


def panel(path, judges=3, **further):
    expressions = [f"nodes['judge[{index}]'].score" for index in range(judges)]
    return measure({"e": Evaluation(panel=expressions, **further)}, path)["e"]


def pairs_of(columns, formula):
    """The mean of a formula over the pairs of columns, on the rows that both have; None where no pair has one."""
    values_of_pairs = []
    for first, second in itertools.combinations(columns, 2):
        both = [
            (a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None
        ]
        if both and (value := formula(*map(list, zip(*both, strict=True)))) is not None:
            values_of_pairs.append(value)
    return float(np.mean(values_of_pairs)) if values_of_pairs else None


def kappa(first, second):
    if len({*first, *second}) == 1:
        return None
    return sklearn.metrics.cohen_kappa_score(first, second)


def weighted(first, second):
    if len({*first, *second}) == 1:
        return None
    return sklearn.metrics.cohen_kappa_score(
        first, second, weights="quadratic", labels=[1, 2, 3, 4, 5]
    )


def correlation(first, second):
    if len(set(first)) == 1 or len(set(second)) == 1:
        return None
    return float(np.corrcoef(np.array(first, float), np.array(second, float))[0, 1])


def alpha(rows, level):
    votes = [[vote for vote in row if vote is not None] for row in rows]
    paired = [vote for row_votes in votes if len(row_votes) > 1 for vote in row_votes]
    if len(set(paired)) < 2:
        return None
    codes = (
        {label: place for place, label in enumerate(sorted(set(paired)))}
        if level == "nominal"
        else {}
    )
    data = [
        [
            np.nan if vote is None else float(codes.get(vote, vote if level != "nominal" else -1))
            for vote in row
        ]
        for row in rows
        if sum(vote is not None for vote in row) > 1
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return krippendorff.alpha(np.array(data).T, level_of_measurement=level)


def same(actual, wanted, name):
    assert actual == (None if wanted is None else pytest.approx(wanted, abs=1e-9)), (
        name,
        actual,
        wanted,
    )


def effective(rho, judges=3):
    worth = None if rho is None else 1 + (judges - 1) * rho
    return None if worth is None or worth <= 1e-9 else judges / worth


def values(rows, nominal):
    """The figures of rows with two votes or more, through atoms and counts; None where they are undefined."""
    labels = sorted({vote for row in rows for vote in row if vote is not None})
    codes = np.array([[-1 if vote is None else labels.index(vote) for vote in row] for row in rows])
    numbers = np.full(codes.shape, np.nan)
    if not nominal:
        numbers = np.array(
            [[np.nan if vote is None else float(vote) for vote in row] for row in rows]
        )
    sample = Sample.of(tuple(codes.T))
    codes, numbers = codes[sample.first], numbers[sample.first]
    votes, target = list(codes[:, :3].T), codes[:, 3]
    errors = list(numbers[:, :3].T)
    if nominal:
        errors = [np.where(vote < 0, np.nan, (vote != target).astype(float)) for vote in votes]
    statistics = panel_statistics(votes, list(numbers[:, :3].T), errors, nominal)
    values_by_name = {
        name: float(statistic.at(sample.counts[None, :])[0])
        for name, statistic in statistics.items()
    }
    return {name: value if np.isfinite(value) else None for name, value in values_by_name.items()}


@pytest.mark.parametrize("nominal", [True, False])
@settings(deadline=None, max_examples=80)
@given(st.data())
def test_values_of_a_panel_are_krippendorffs_scikit_learns_and_numpys(nominal, data):
    rows = data.draw(
        panels(NOMINAL if nominal else NUMBERS, ["safe", "unsafe", "odd"] if nominal else [1, 2])
    )
    rows = [row for row in rows if sum(vote is not None for vote in row[:3]) > 1]
    if not rows:
        return
    estimates = values(rows, nominal)
    columns = list(zip(*(row[:3] for row in rows), strict=True))
    errors = [
        [None if row[index] is None else float(row[index] != row[3]) for row in rows]
        for index in range(3)
    ]
    level = "nominal" if nominal else "interval"
    same(estimates["krippendorff_alpha"], alpha([row[:3] for row in rows], level), "alpha")
    same(estimates["pairwise_kappa"], pairs_of(columns, kappa if nominal else weighted), "kappa")
    wanted = effective(pairs_of(errors if nominal else columns, correlation))
    if wanted is not None and wanted < 1e6:
        same(estimates["effective_judges"], wanted, "effective")


def test_labels_as_numbers_and_as_strings_have_the_same_agreement(table):
    rng = np.random.default_rng(0)
    rows = [(*rng.integers(0, 2, 3).tolist(), 1) for _ in range(60)]
    words = [tuple(["no", "yes"][vote] for vote in row) for row in rows]
    numbers, spelled = (
        panel(table(rows_or_words), target="source.label", kind="classification").values
        for rows_or_words in (rows, words)
    )
    for name in ("krippendorff_alpha", "pairwise_kappa", "error_correlation"):
        assert numbers[name].value == pytest.approx(spelled[name].value, abs=1e-12)
        assert numbers[name].low == pytest.approx(spelled[name].low, abs=1e-9)


def test_judges_that_repeat_each_other_are_worth_one_and_independent_ones_all(table):
    rng = np.random.default_rng(1)
    first = rng.random(2000) < 0.8
    worth = {"target": "source.label", "metrics": ["error_correlation", "effective_judges"]}
    copies = panel(table([(*[bool(vote)] * 3, True) for vote in first]), **worth)
    assert copies.values["effective_judges"].value == pytest.approx(1)
    assert copies.values["error_correlation"].value == pytest.approx(1)
    rows = [(*(rng.random(3) < 0.8).tolist(), True) for _ in range(2000)]
    apart = panel(table(rows), **worth).values
    assert apart["effective_judges"].value == pytest.approx(3, rel=0.1)
    assert apart["error_correlation"].low < 0 < apart["error_correlation"].high


def test_the_errors_of_few_judgements_have_a_correlation_with_an_interval(table):
    """The worth in judges of 40 rows had an interval 566 wide."""
    rng = np.random.default_rng(4)
    rows = [(*(rng.random(2) < 0.8).tolist(), True) for _ in range(40)]
    estimates = panel(table(rows), 2, target="source.label").values
    wrong = np.array([[not is_right for is_right in row[:2]] for row in rows], float)
    correlation = estimates["error_correlation"]
    assert correlation.value == pytest.approx(np.corrcoef(wrong.T)[0, 1])
    assert -1 < correlation.low < correlation.value < correlation.high < 1
    worth = panel(table(rows), 2, target="source.label", metrics=["effective_judges"]).values[
        "effective_judges"
    ]
    assert worth.value == pytest.approx(2 / (1 + correlation.value))
    assert worth.low == pytest.approx(2 / (1 + correlation.high))
    assert worth.high == pytest.approx(max(worth.value, 2))


def test_errors_that_cancel_out_have_no_endless_worth(table):
    rows = [(0.0, 1.0, 0.5)] * 2 + [(1.0, 0.0, 0.5)] * 3 + [(0.25, 0.75, 0.5)]
    estimates = panel(
        table(rows), 2, target="source.label", metrics=["error_correlation", "effective_judges"]
    ).values
    assert estimates["error_correlation"].value == pytest.approx(-1)
    assert estimates["effective_judges"].value is None


def test_votes_of_three_labels_without_a_target_have_no_correlation(table):
    rows = [("a", "b", "c", None), ("a", "a", "b", None), ("c", "b", "c", None)]
    estimate = panel(table(rows)).values["error_correlation"]
    assert estimate.value is None and "target" in estimate.reason


def test_a_row_with_one_vote_is_no_row_of_the_panel(table):
    rows = [(True, True, False, None), (True, None, None, None), (False, False, None, None)]
    measures = panel(table(rows))
    assert (measures.rows, measures.missing, measures.values["krippendorff_alpha"].n) == (3, 1, 2)
    assert measures.coverage == pytest.approx(2 / 3)


def test_two_runs_of_a_panel_are_compared(table):
    rng = np.random.default_rng(2)
    target = rng.random(200) < 0.5
    runs = []
    for right in (0.7, 0.95):
        rows = [(*(label == (rng.random(3) < right)).tolist(), bool(label)) for label in target]
        runs.append(table(rows))
    evaluation = Evaluation(
        panel=[f"nodes['judge[{index}]'].score" for index in range(3)], target="source.label"
    )
    compared = compare_runs({"e": (evaluation, evaluation)}, tuple(runs)).evaluations["e"].whole
    change = compared.differences["krippendorff_alpha"].change
    assert 0 < change.low < change.value < change.high


@pytest.mark.skipif(not TRIVIAQA.is_file(), reason="no recorded verdicts beside the project")
def test_eleven_recorded_judges_have_the_alpha_kappa_and_worth_of_the_packages(table):
    """Thakur et al. (2024): 3,600 answers; a judge without a verdict on one has no vote there."""
    rows = [json.loads(line) for line in gzip.decompress(TRIVIAQA.read_bytes()).splitlines()]
    names = sorted(rows[0]["judges"])
    votes = [(*(row["judges"].get(name) for name in names), row["human"]) for row in rows]
    every = ["krippendorff_alpha", "pairwise_kappa", "effective_judges"]
    estimates = panel(table(votes), len(names), target="source.label", metrics=every).values
    same(
        estimates["krippendorff_alpha"].value,
        alpha([row[:-1] for row in votes], "nominal"),
        "alpha",
    )
    columns = list(zip(*votes, strict=True))
    same(estimates["pairwise_kappa"].value, pairs_of(columns[:-1], kappa), "kappa")
    errors = [
        [
            None if vote is None or true is None else float(vote != true)
            for vote, true in zip(column, columns[-1], strict=True)
        ]
        for column in columns[:-1]
    ]
    wanted = effective(pairs_of(errors, correlation), len(names))
    same(estimates["effective_judges"].value, wanted, "effective")
    assert 1 < estimates["effective_judges"].low < wanted < estimates["effective_judges"].high < 11
