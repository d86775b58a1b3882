"""Two runs side by side: who is paired with whom, what changed, and whether that is more than chance."""

import itertools

import numpy as np
import pytest
import scipy.stats
from evaluation_data import label_data, number_data
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from verdict_cli.errors import DataError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.compare import Significance, compare_runs, holm, significance_of
from verdict_cli.stats.intervals.intervals import Draw, paired_metric_value
from verdict_cli.stats.metrics import confusion
from verdict_cli.stats.metrics.numbers import number_values
from verdict_cli.stats.metrics.probability import probability_statistics
from verdict_cli.stats.paired import PairedRows, paired_differences
from verdict_cli.stats.permutation import sign_flip_test, swap_tests
from verdict_cli.storage.tables.writer import ParquetTable

RIGHT = Evaluation(
    prediction="output.said", target="source.label", metrics=["accuracy", "cohen_kappa"]
)


@pytest.fixture
def run(tmp_path):
    """Writes rows of (id, source, said) as a run; id None stands for the row's number."""

    def write(name, rows):
        folder = tmp_path / name
        folder.mkdir()
        with ParquetTable(folder / "results.parquet", {"row": "int", "status": "str"}) as table:
            for index, (key, source, output) in enumerate(rows):
                row = {"row": index, "id": index if key is None else key, "status": "ok"}
                row |= {f"source.{column}": value for column, value in source.items()}
                if key is not None:
                    row["source.id"] = key
                table.write(row | {"output.said": output})
        return folder / "results.parquet"

    return write


def questions(hits, ids=True, **further):
    """Rows with even targets a and b; `said` holds whether each prediction is right."""
    rows = []
    for index, right in enumerate(hits):
        target = "ab"[index % 2]
        source = {"label": target, "text": f"question {index}"} | {
            k: v[index] for k, v in further.items()
        }
        rows.append((f"q{index}" if ids else None, source, target if right else "ba"[index % 2]))
    return rows


def whole(first, second, evaluation=RIGHT, **further):
    return compare_runs({"e": (evaluation, evaluation)}, (first, second), **further)


def test_rows_are_paired_by_id_in_any_order(run):
    rows = questions([True] * 6 + [False] * 2)
    other = questions([True] * 8)
    comparison = whole(run("a", rows), run("b", list(reversed(other))))
    one = comparison.evaluations["e"]
    assert comparison.paired.by == "id"
    assert (one.whole.n, one.alone) == (8, (0, 0))
    assert one.whole.differences["accuracy"].first == 0.75
    assert one.whole.differences["accuracy"].second == 1
    assert one.whole.differences["accuracy"].change.value == 0.25
    assert {flip.id for flip in one.flips} == {"q6", "q7"}
    flip = next(flip for flip in one.flips if flip.id == "q6")
    assert (flip.first, flip.second, flip.target, flip.gain) == ("b", "a", "a", 1)


def test_rows_without_ids_are_paired_by_what_they_hold(run):
    first = run("a", questions([True] * 5 + [False], ids=False))
    second = run("b", list(reversed(questions([True] * 6, ids=False))))
    comparison = whole(first, second)
    assert comparison.paired.by == "content"
    assert comparison.evaluations["e"].whole.differences["accuracy"].change.value == pytest.approx(
        1 / 6
    )
    assert [flip.id for flip in comparison.evaluations["e"].flips] == [0]


@pytest.mark.parametrize(
    ("key", "message"),
    [("x", "rows 0 and 2 have the same id 'x'"), (None, "rows 0 and 2 have no id")],
)
def test_indistinguishable_rows_are_refused(run, key, message):
    rows = [
        (key, {"label": "a"}, "a"),
        (key and "y", {"label": "b"}, "a"),
        (key, {"label": "a"}, "b"),
    ]
    with pytest.raises(DataError, match=message):
        whole(run("a", rows), run("b", rows))


def test_rows_that_only_one_run_has_are_counted_and_left_out(run):
    rows = questions([True] * 6)
    compared = whole(run("a", rows[:5]), run("b", rows[2:])).evaluations["e"]
    assert (compared.whole.n, compared.alone) == (3, (2, 1))


def test_runs_of_other_rows_or_other_targets_are_not_compared(run):
    rows = questions([True] * 3)
    other = [(f"x{key}", source, output) for key, source, output in rows]
    with pytest.raises(DataError, match="these runs share no row"):
        whole(run("a", rows), run("b", other))
    turned = [(key, source | {"label": "c"}, output) for key, source, output in rows]
    assert "targets differ" in whole(run("c", rows), run("d", turned)).evaluations["e"].reason


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
@settings(deadline=None)
def test_right_and_wrong_is_mcnemars_exact_test(pairs):
    first, second = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    test = significance_of(first, second, None, np.random.default_rng(0))
    better, worse = (
        int(((first == 0) & (second == 1)).sum()),
        int(((first == 1) & (second == 0)).sum()),
    )
    tail = scipy.stats.binom.cdf(min(better, worse), better + worse, 0.5)
    assert test.name == "mcnemar"
    assert test.p == pytest.approx(min(1.0, 2 * tail) if better != worse else 1.0)
    assert (test.better, test.worse) == (better, worse)


def test_numbers_are_tested_by_flipping_the_signs_of_their_differences():
    first, second = np.array([1.0, 2.5, 2, 4, 3, 1]), np.array([1.5, 3, 2, 3.75, 5, 2])
    gain = [gain for gain in second - first if gain]
    sums = [abs(np.dot(gain, signs)) for signs in itertools.product((-1, 1), repeat=len(gain))]
    test = significance_of(first, second, None, np.random.default_rng(0))
    assert test.name == "permutation"
    assert test.p == pytest.approx(np.mean(np.array(sums) >= abs(np.sum(gain)) - 1e-9))
    assert test.effect == pytest.approx((second - first).mean() / (second - first).std(ddof=1))


def test_clusters_are_flipped_as_a_whole():
    first, second = np.zeros(60), np.ones(60)
    alone = significance_of(first, second, None, np.random.default_rng(0))
    together = significance_of(first, second, np.repeat([0, 1, 2], 20), np.random.default_rng(0))
    assert alone.p < 1e-10
    assert together.name == "cluster permutation"
    assert together.p == pytest.approx(2 / 2**3)


def test_one_row_or_cluster_that_differs_is_no_evidence():
    """One differing row, or cluster, ended the comparison with an internal error."""
    first = np.linspace(0, 1, 20)
    second = first + 0.3 * (np.arange(20) == 7)
    assert significance_of(first, second, None, np.random.default_rng(0)).p == 1
    right = np.ones(20)
    changed = np.where(np.arange(20) < 2, 0.0, 1.0)
    clusters = np.repeat(np.arange(5), 4)
    assert significance_of(right, changed, clusters, np.random.default_rng(0)).p == 1


def test_many_differences_have_the_normal_limit():
    gain = np.random.default_rng(1).normal(0.02, 1, size=6000)
    test = significance_of(np.zeros(6000), gain, None, np.random.default_rng(0))
    assert test.p == pytest.approx(scipy.stats.ttest_1samp(gain, 0).pvalue, abs=0.01)


def test_holm_steps_down_and_never_up():
    tests = [
        Significance("mcnemar", 9, 1, 1, p, p, "cohen_g", 0.0) for p in (0.01, 0.04, 0.03, 0.005)
    ]
    assert [test.p_holm for test in holm([*tests, None])[:4]] == pytest.approx(
        [0.03, 0.06, 0.06, 0.02]
    )


def test_slices_are_compared_and_corrected_together(run):
    kinds = ["x"] * 12 + ["y"] * 8
    first = run("a", questions([False] * 12 + [True] * 8, type=kinds))
    second = run("b", questions([True] * 20, type=kinds))
    slices = whole(first, second, by=["source.type"]).evaluations["e"].slices["source.type"]
    assert list(slices) == ["x", "y"]
    assert slices["x"].differences["accuracy"].change.value == 1
    assert slices["x"].test.p_holm == pytest.approx(2 * slices["x"].test.p)
    assert slices["y"].test.p == 1


def test_evaluations_are_corrected_together(run):
    first, second = run("a", questions([False] * 10)), run("b", questions([True] * 10))
    both = {"e": (RIGHT, RIGHT), "f": (RIGHT, RIGHT)}
    compared = compare_runs(both, (first, second)).evaluations
    assert compared["e"].whole.test.p_holm == pytest.approx(2 * compared["e"].whole.test.p)


def test_each_run_is_read_by_its_evaluation(run):
    rows = questions([True, False, True])
    turned = Evaluation(
        prediction="'a' if output.said == 'b' else 'b'", target="source.label", metrics=["accuracy"]
    )
    compared = compare_runs({"e": (turned, RIGHT)}, (run("a", rows), run("b", rows))).evaluations[
        "e"
    ]
    assert compared.whole.differences["accuracy"].first == pytest.approx(1 / 3)
    assert compared.whole.differences["accuracy"].second == pytest.approx(2 / 3)


def test_numbers_flip_by_their_distance_and_the_largest_change_comes_first(run):
    def rows(numbers):
        return [(f"q{n}", {"label": float(n)}, number) for n, number in enumerate(numbers)]

    evaluation = Evaluation(prediction="output.said", target="source.label")
    first, second = run("a", rows([0.5, 1.0, 5.0])), run("b", rows([0.0, 1.0, 2.0]))
    compared = whole(first, second, evaluation).evaluations["e"]
    assert [(flip.id, flip.gain) for flip in compared.flips] == [("q2", 3), ("q0", 0.5)]
    assert (compared.whole.test.name, compared.whole.test.of) == (
        "permutation",
        "distances to the target",
    )
    assert compared.whole.differences["mae"].change.value == pytest.approx(-3.5 / 3)


def test_the_same_seed_gives_the_same_comparison(run):
    rng = np.random.default_rng(0)
    first = [(f"q{n}", {"label": float(n % 5)}, float(rng.normal())) for n in range(40)]
    second = [(key, source, float(rng.normal())) for key, source, _ in first]
    paths = run("a", first), run("b", second)
    evaluation = Evaluation(prediction="output.said", target="source.label", metrics=["mae"])
    assert whole(*paths, evaluation, seed=3) == whole(*paths, evaluation, seed=3)


def test_a_difference_of_shares_has_agresti_and_mins_interval(run):
    """Agresti and Min (2005): of 100 pairs, 20 gained and 8 lost; half a row more of each, two rows in all."""
    first = [False] * 20 + [True] * 8 + [True] * 72
    second = [True] * 20 + [False] * 8 + [True] * 72
    compared = whole(run("a", questions(first)), run("b", questions(second))).evaluations["e"]
    change = compared.whole.differences["accuracy"].change
    middle = (20.5 - 8.5) / 102
    reach = 1.959964 * np.sqrt(20.5 + 8.5 - (20 - 8) ** 2 / 100) / 102
    assert (change.low, change.high) == pytest.approx((middle - reach, middle + reach), abs=1e-6)


def test_within_cluster_correlations_are_compared_cluster_by_cluster(run):
    def rows(order):
        return [
            (f"{doc}-{place}", {"label": place, "doc": doc}, order[doc][place])
            for doc in range(3)
            for place in range(3)
        ]

    evaluation = Evaluation(
        prediction="output.said",
        target="source.label",
        metrics=["spearman_within"],
        cluster="source.doc",
    )
    first = run("a", rows([[1, 0, 2], [2, 1, 0], [0, 1, 2]]))
    second = run("b", rows([[0, 1, 2], [0, 1, 2], [5, 5, 5]]))
    change = whole(first, second, evaluation).evaluations["e"].whole.differences["spearman_within"]
    assert (change.first, change.second, change.change.value) == pytest.approx((-0.25, 1, 1.25))


def test_whole_numbers_and_means_of_them_are_compared_and_words_are_not(run):
    rows = [(f"q{n}", {"label": n % 3}, n % 3) for n in range(9)]
    halves = [(key, source, output + 0.5) for key, source, output in rows]
    words = [(key, source, bool(output)) for key, source, output in rows]
    evaluation = Evaluation(prediction="output.said", target="source.label")
    paths = run("a", rows), run("b", halves)
    compared = whole(*paths, evaluation).evaluations["e"]
    assert compared.whole.differences["mae"].change.value == 0.5
    truths = [(key, {"label": bool(source["label"])}, output) for key, source, output in words]
    whole_numbers = [
        (key, {"label": source["label"] > 0}, int(output)) for key, source, output in rows
    ]
    texts = [(key, source, str(said)) for key, source, said in truths]
    assert (
        "kinds"
        not in whole(run("c", truths), run("d", whole_numbers), evaluation).evaluations["e"].reason
    )
    with pytest.raises(
        DataError, match=r"predictions are text such as '.*' and targets are booleans such as"
    ):
        whole(run("f", truths), run("g", texts), evaluation)


def test_runs_that_score_every_row_alike_keep_an_interval_and_say_why(run):
    """The rule of three: of 20 rows none differs, so at most 17% of all do (two-sided)."""
    right = [True] * 15 + [False] * 5
    compared = whole(run("a", questions(right)), run("b", questions(right))).evaluations["e"]
    change = compared.whole.differences["accuracy"].change
    reach = 1 - 0.025 ** (1 / 20)
    assert (change.low, change.value, change.high) == pytest.approx((-reach, 0, reach), abs=1e-9)
    assert "score every row alike" in change.reason


def test_differences_of_kappa_hold_the_truth_about_as_often_as_they_say():
    """300 simulated pairs of judges, 20 rows each: 95% intervals that hold it in fewer than 90% would be too narrow."""
    covered = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        target, draw = rng.integers(0, 2, 20), rng.random((3, 20))
        predictions = [
            np.where(np.where(draw[2] < 0.5, draw[0], noise) < 0.8, target, 1 - target)
            for noise in draw[:2]
        ]
        sample = Sample.of((target, *predictions))
        first_columns = [column[sample.first] for column in (target, *predictions)]
        kappas = [
            confusion.label_statistics(first_columns[0], predicted, 2, None, False)["cohen_kappa"]
            for predicted in first_columns[1:]
        ]
        difference = paired_metric_value(*kappas, sample, Draw(rng))
        covered += difference.low is not None and difference.low <= 0 <= difference.high
    assert covered >= 270


def test_a_p_value_is_that_of_its_metric(run):
    # Both judges are right equally often, but B finds the bad rows: recall changes, accuracy does not.
    labels = ["bad"] * 40 + ["good"] * 40
    first = [(f"q{i}", {"label": label}, "good") for i, label in enumerate(labels)]
    second = [(f"q{i}", {"label": label}, "bad") for i, label in enumerate(labels)]
    evaluation = Evaluation(
        prediction="output.said",
        target="source.label",
        positive="bad",
        metrics=["accuracy", "recall"],
    )
    compared = whole(run("a", first), run("b", second), evaluation).evaluations["e"].whole
    assert compared.test.p == 1
    assert compared.differences["accuracy"].p == pytest.approx(1, abs=0.05)
    assert compared.differences["recall"].p < 0.001
    assert compared.differences["recall"].p <= compared.differences["recall"].p_adjusted < 0.001


def test_nearly_equal_metrics_are_adjusted_together_by_the_same_swaps(run):
    """By Holm the p-value of five rows that are better, none worse, became four times as large: 0.25."""
    first = [False] * 7 + [True] * 193
    second = [True] * 7 + [True] * 193
    evaluation = Evaluation(prediction="output.said", target="source.label")
    compared = (
        whole(run("a", questions(first)), run("b", questions(second)), evaluation)
        .evaluations["e"]
        .whole
    )
    assert set(compared.differences) == {"accuracy", "balanced_accuracy", "f1", "cohen_kappa"}
    assert compared.differences["accuracy"].p == pytest.approx(2 / 2**7)
    assert all(
        difference.p_adjusted == pytest.approx(2 / 2**7)
        for difference in compared.differences.values()
    )


@pytest.mark.parametrize(("rows", "most"), [(30, 0.075), (40, 0.05), (60, 0.05)])
def test_equal_means_differ_in_5_of_100_samples_also_where_differences_are_skewed(rows, most):
    """Many small gains beside few large losses: raw sums found a difference in 18% of samples of 30 rows."""
    low = 0
    for seed in range(400):
        rng = np.random.default_rng([seed, rows])
        low += sign_flip_test(np.where(rng.random(rows) < 0.9, 0.1, -0.9), None, rng, 999) <= 0.05
    assert low / 400 <= most


def test_equal_errors_differ_in_5_of_100_samples_also_where_differences_are_skewed():
    low, rows = 0, np.arange(40)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        target, side = rng.integers(1, 4, 40) * 1.0, rng.choice([-1.0, 1.0], 40)
        errors = np.ones(40), np.where(rng.random(40) < 0.9, 0.9, 1.9)
        runs = tuple(number_data(target, target + side * error) for error in errors)
        low += swap_tests(("mae",), runs, (rows, rows), rng, 499)["mae"][0] <= 0.05
    assert low / 200 <= 0.07


@pytest.mark.parametrize("share", [0.05, 1.0])
def test_the_difference_of_calibration_errors_holds_the_truth(share):
    """Two judges of 100 rows, of which the second says something else on a share: resamples held the truth in 81% of samples."""

    def sample_of(rng, rows):
        first, second = rng.normal(size=(2, rows))
        positive = (rng.random(rows) < 1 / (1 + np.exp(-1.5 * first))).astype(float)
        old = 1 / (1 + np.exp(-1.5 * first - 0.5 * second))
        new = np.where(rng.random(rows) < share, 1 / (1 + np.exp(-2.2 * first)), old)
        return positive, old, new

    def change_of(columns, rng):
        sample = Sample.of(columns)
        positive, *said = (column[sample.first] for column in columns)
        both = [probability_statistics(p, positive)["ece"] for p in said]
        return paired_metric_value(*both, sample, Draw(rng))

    truth = change_of(sample_of(np.random.default_rng(0), 400_000), np.random.default_rng(0)).value
    held = widths = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        change = change_of(sample_of(rng, 100), rng)
        held += change.low <= truth <= change.high
        widths += change.high - change.low
    assert held >= 56
    assert widths / 60 < (0.1 if share < 1 else 0.3)


def test_medians_of_rows_that_are_alike_have_no_interval_and_others_do():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, 50))
    sample = Sample.of((first, second))
    old, new = (number_values(x[sample.first], False)["median"] for x in (first, first + second))
    same = paired_metric_value(old, old, sample, Draw(rng))
    assert (same.value, same.low) == (0, None)
    assert same.warnings
    other = paired_metric_value(old, new, sample, Draw(rng))
    assert other.low < np.median(first + second) - np.median(first) < other.high


def changed_in_clusters(rng, clusters, change_of):
    """Ten rows of each cluster, in the order of the clusters, of which half share a place; the errors of two runs."""
    cluster = np.repeat(np.arange(clusters), 10)
    shared = rng.random(len(cluster)) < 0.5
    place = np.where(shared, rng.random(clusters)[cluster], rng.random(len(cluster)))
    first = rng.choice([1.0, 2.0], len(cluster))
    zeros, rows = np.zeros(len(cluster)), np.arange(len(cluster))
    numbers = (first, first + change_of(place))
    data = tuple(replace(number_data(zeros, each), cluster=cluster) for each in numbers)
    return PairedRows(data, (rows, rows), ([""] * len(cluster),) * 2)


@pytest.mark.parametrize("clusters", [10, 40])
def test_equal_means_in_clusters_that_lose_together_differ_in_5_of_100_samples(clusters):
    """A tenth of the rows lose much, whole clusters of them: swaps of clusters found a difference in a quarter of samples."""
    low = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        pairs = changed_in_clusters(rng, clusters, lambda place: np.where(place < 0.1, 0.9, -0.1))
        difference = paired_differences(("mae",), pairs, Draw(rng), 199)["mae"]
        low += difference.p <= 0.05 and not difference.doubt
    assert low <= 5


@pytest.mark.parametrize("metric", ["mae", "rmse"])
def test_a_small_p_value_in_clusters_is_in_doubt_exactly_where_the_interval_includes_0(metric):
    found = doubted = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        pairs = changed_in_clusters(rng, 15, lambda place: place - 0.35)
        difference = paired_differences((metric,), pairs, Draw(rng), 199)[metric]
        includes_zero = difference.change.low <= 0 <= difference.change.high
        assert bool(difference.doubt) == (difference.p <= 0.05 and includes_zero)
        found += difference.p <= 0.05
        doubted += bool(difference.doubt)
    assert 0 < doubted < found


def test_few_rows_that_all_gain_leave_open_whether_the_means_differ():
    """Equal means: of 20 rows, 90% gain a little and 10% lose much; 12% of samples lack a loss, and p was tiny there."""
    low, rows = 0, np.arange(20)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        first = np.where(rng.random(20) < 0.5, 2.0, 3.0)
        losses = rng.random(20) < 0.1
        second = first + np.where(losses, 0.9, -0.1)
        data = tuple(number_data(np.zeros(20), numbers) for numbers in (first, second))
        pairs = PairedRows(data, (rows, rows), ([""] * 20, [""] * 20))
        draw = Draw(np.random.default_rng(seed))
        difference = paired_differences(("mae",), pairs, draw, 199)["mae"]
        assert bool(difference.doubt) == (not losses.any())
        low += difference.p <= 0.05 and not difference.doubt
    assert low / 200 <= 0.08


def test_levels_and_differences_side_by_side_are_of_the_same_rows(run):
    """A third run without an answer on 14 of 200 rows took them from the levels, but not from the others' difference."""
    rng = np.random.default_rng(2)
    answers = [rng.random(200) < share for share in (0.7, 0.8, 0.75)]
    rows = [questions(right) for right in answers]
    rows[2] = [
        (key, source, None if index < 14 else output)
        for index, (key, source, output) in enumerate(rows[2])
    ]
    runs = [run(name, outputs) for name, outputs in zip("abc", rows, strict=True)]
    evaluation = RIGHT.model_copy(update={"missing": "skip"})
    compared = (
        compare_runs({"e": [evaluation] * 3}, runs).evaluations["e"].whole.metrics["accuracy"]
    )
    first, *others = compared.values
    assert compared.values == pytest.approx([right[14:].mean() for right in answers])
    for level, difference in zip(others, compared.differences, strict=True):
        assert difference.change.n == 186
        assert (difference.first, difference.second) == pytest.approx((first, level))
        assert difference.change.value == pytest.approx(level - first)
        assert difference.open_rows.share == pytest.approx(0.07)


def test_a_metric_that_no_swap_defines_has_no_p_value():
    """Metrics that are all undefined once ended in an error of numpy."""

    rows, target = np.arange(4), np.zeros(4, np.int64)
    runs = [
        label_data(target, prediction)
        for prediction in (np.zeros(4, np.int64), np.array([0, 0, 0, 1]))
    ]
    assert swap_tests(("mcc",), runs, (rows, rows), np.random.default_rng(0), 199) == {}


def test_a_list_and_a_text_that_looks_like_it_are_two_labels():
    """The first run answers with the list ['a'] where the label, and the second run's answer, is the text."""
    zeros, labels = np.zeros(20, np.int64), ("['a']", ["a"])
    runs = label_data(zeros, zeros + 1, labels), label_data(zeros, zeros, labels)
    rows = (np.arange(20),) * 2
    p = swap_tests(["accuracy"], runs, rows, np.random.default_rng(0))["accuracy"][0]
    assert p < 0.001


def test_the_adjusted_p_values_of_equal_runs_are_small_in_few_comparisons():
    rng, small = np.random.default_rng(8), 0
    for _ in range(150):
        target = rng.choice(3, 60, p=[0.6, 0.3, 0.1])
        data = []
        for _ in range(2):
            prediction = np.where(rng.random(60) < 0.7, target, rng.integers(0, 3, 60))
            data.append(label_data(target, prediction, ("a", "b", "c")))
        metrics = ("accuracy", "balanced_accuracy", "f1", "cohen_kappa", "mcc", "gwet_ac1")
        p_values = swap_tests(metrics, (data[0], data[1]), (np.arange(60), np.arange(60)), rng, 199)
        assert all(p <= adjusted for p, adjusted in p_values.values())
        small += min(adjusted for _, adjusted in p_values.values()) <= 0.05
    assert small <= 14


def test_the_p_value_of_accuracy_is_that_of_mcnemars_test(run):
    first = [True] * 30 + [False] * 9 + [True] * 2
    second = [True] * 39 + [False] * 2
    compared = whole(run("a", questions(first)), run("b", questions(second))).evaluations["e"].whole
    exact = scipy.stats.binomtest(2, 11).pvalue
    assert compared.test.p == pytest.approx(exact)
    assert compared.differences["accuracy"].p == pytest.approx(exact)


def test_a_correlation_is_tested_as_such_and_not_as_a_distance(run):
    """The only test was of distances to the target: it could point the other way."""
    rng = np.random.default_rng(3)
    truth = rng.normal(size=80)
    evaluation = Evaluation(
        prediction="output.said", target="source.label", kind="numeric", metrics=["spearman", "mae"]
    )
    first = [(f"q{i}", {"label": float(t)}, float(t + rng.normal())) for i, t in enumerate(truth)]
    second = [
        (f"q{i}", {"label": float(t)}, float(t + 4 + 0.2 * rng.normal()))
        for i, t in enumerate(truth)
    ]
    differences = (
        whole(run("a", first), run("b", second), evaluation).evaluations["e"].whole.differences
    )
    assert differences["spearman"].change.value > 0.2
    assert differences["spearman"].p < 0.01
    assert differences["mae"].p < 0.01


@pytest.mark.parametrize("metric", ["balanced_accuracy", "cohen_kappa", "f1"])
def test_a_metrics_permutation_p_value_is_uniform_where_the_judges_are_equal(metric):
    rng = np.random.default_rng(11)
    values = []
    for _ in range(200):
        target = (rng.random(40) < 0.2).astype(np.int64)
        data = []
        for _ in range(2):
            prediction = np.where(rng.random(40) < 0.8, target, 1 - target)
            data.append(label_data(target, prediction))
        rows = np.arange(40)
        values.append(swap_tests((metric,), data, (rows, rows), rng, 199)[metric][0])
    assert np.mean(np.array(values) <= 0.05) <= 0.09
    assert np.mean(np.array(values) <= 0.5) == pytest.approx(0.5, abs=0.13)


def test_one_differing_row_has_p_1_in_the_whole_and_in_a_slice(run):
    """One differing row in a slice ended the comparison with an internal error."""
    numbers = Evaluation(
        prediction="output.said", target="source.label", metrics=["mae", "spearman"]
    )
    rows = [
        (f"q{index}", {"label": float(index), "type": "xy"[index % 2]}, index + (index % 3) / 4)
        for index in range(20)
    ]
    other = [(key, source, output + 0.5 * (key == "q7")) for key, source, output in rows]
    compared = whole(run("a", rows), run("b", other), numbers, by=["source.type"]).evaluations["e"]
    parts = [compared.whole, *compared.slices["source.type"].values()]
    assert [part.differences["mae"].p for part in parts] == [1, 1, 1]
    assert {part.test.p for part in parts} == {1}


def changed_answers(rewritten, id_column=None, count=400):
    """Rows of questions with answers, of which the second version rewrites some and is then wrong: both versions."""
    versions = []
    for version in (1, 2):
        rows = []
        for index in range(count):
            new = version == 2 and index < rewritten
            source = {
                "question": f"question {index}",
                "answer": f"answer {index}{' new' * new}",
                "label": "ab"[index % 2],
            }
            if id_column:
                source[id_column] = f"n{index}"
            rows.append((None, source, "ba"[index % 2] if new else "ab"[index % 2]))
        versions.append(rows)
    return versions


@pytest.mark.parametrize(
    ("id_column", "by"), [("id", "column"), ("question_id", "column"), (None, "content")]
)
def test_rows_whose_judged_text_changed_are_compared(run, id_column, by):
    """Paired by their whole content, exactly the rows that changed were left out, and nothing differed."""
    first, second = changed_answers(113, id_column)
    comparison = whole(run("a", first), run("b", second))
    one = comparison.evaluations["e"]
    assert (comparison.paired.by, one.whole.n, one.alone) == (by, 400, (0, 0))
    assert one.whole.differences["accuracy"].change.value == pytest.approx(-113 / 400)
    assert one.whole.differences["accuracy"].open_rows is None


def test_a_counter_of_a_runs_rows_is_no_id(run):
    """`index` is unique in both runs, and numbers other questions in the second."""
    first, second = changed_answers(40)
    paths = []
    for name, rows in (("a", first), ("b", second[::-1])):
        paths.append(
            run(
                name,
                [
                    (key, {"id": index, **source}, output)
                    for index, (key, source, output) in enumerate(rows)
                ],
            )
        )
    comparison = whole(*paths)
    assert (comparison.paired.by, comparison.paired.columns) == ("content", ("question",))
    assert comparison.evaluations["e"].whole.differences["accuracy"].change.value == pytest.approx(
        -0.1
    )


def test_questions_that_repeat_are_paired_with_their_answers(run):
    first, second = changed_answers(0, count=40)
    for rows in (first, second):
        for index, (_, source, _) in enumerate(rows):
            source["question"] = f"question {index // 2}"
    comparison = whole(run("a", first), run("b", second))
    assert (comparison.paired.by, comparison.evaluations["e"].whole.n) == ("content", 40)


def test_the_worst_case_of_rows_that_only_one_run_has_is_that_of_filling_them(run):
    """Of 100 rows 90 are in both runs and right there; ten more each have one of the two."""
    rows = questions([True] * 110)
    difference = (
        whole(run("a", rows[:100]), run("b", rows[10:]))
        .evaluations["e"]
        .whole.differences["accuracy"]
    )
    assert difference.open_rows.share == pytest.approx(0.1)
    # Second run: 90 shared and 10 of its own right, the first one's ten wrong; first run: all of its rows and those of b right.
    assert difference.open_rows.worst.value == pytest.approx(100 / 110 - 1)
    assert (
        difference.open_rows.worst.low
        < difference.open_rows.worst.value
        < difference.open_rows.worst.high
    )
    assert difference.open_rows.best.value == pytest.approx(1 - 100 / 110)


def test_rows_without_a_prediction_can_turn_a_result(run):
    rows = questions([True] * 60 + [False] * 40)
    better = [
        (key, source, None if index >= 98 else source["label"])
        for index, (key, source, _) in enumerate(rows)
    ]
    difference = (
        whole(run("a", rows), run("b", better)).evaluations["e"].whole.differences["accuracy"]
    )
    assert difference.open_rows.share == pytest.approx(0.02)
    assert not difference.open_rows.turns(difference.change.value)
    equal = [
        (key, source, None if index < 9 else output)
        for index, (key, source, output) in enumerate(rows)
    ]
    nothing = whole(run("c", rows), run("d", equal)).evaluations["e"].whole.differences["accuracy"]
    assert nothing.change.value == 0 and nothing.open_rows.turns(None)


def test_runs_whose_answers_and_labels_are_all_alike_have_a_corrected_difference_of_0(run):
    evaluation = Evaluation(value="output.said", gold={"target": "source.human"})
    rows = [(f"q{index}", {"human": 3 if index < 4 else None}, 3) for index in range(8)]
    compared = whole(run("a", rows), run("b", rows), evaluation).evaluations["e"].whole
    difference = compared.differences["ppi"]
    assert (difference.change.value, difference.p) == (0, None)


@pytest.mark.parametrize("without", ["a", "b"])
def test_rankings_that_one_run_lacks_under_missing_wrong_are_why_there_is_no_difference(
    run, without
):
    evaluation = Evaluation(
        prediction="output.said", target="source.best", missing="wrong", metrics=["kendall"]
    )
    runs = []
    for name in "ab":
        said = [["x", "y"], None if name == without else ["y", "x"]]
        rows = [(f"q{at}", {"best": ["x", "y"]}, answer) for at, answer in enumerate(said)]
        runs.append(run(name, rows))
    change = whole(*runs, evaluation).evaluations["e"].whole.differences["kendall"].change
    assert change.value is None
    assert change.reason.startswith("a row without a prediction has no order")
