"""Gates: what passes, what fails, and what is not known well enough to pass."""

import shutil

import numpy as np
import orjson
import pytest
from finished_runs import finished_run
from msgspec import structs
from scipy import stats

from verdict_cli.errors import DataError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.gate_rules import Gate
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.gates import decide_gates
from verdict_cli.stats.intervals.confidence_sequence import anytime_interval
from verdict_cli.stats.intervals.intervals import Draw, paired_metric_value
from verdict_cli.stats.measure import measure
from verdict_cli.stats.metrics import confusion
from verdict_cli.storage.tables.writer import ParquetTable

EVALUATIONS = {
    "e": Evaluation(
        prediction="output.label", target="source.label", metrics=["accuracy", "cohen_kappa"]
    )
}
FACTS = finished_run(
    rows=100,
    done=100,
    calls=100,
    cost_usd=0.5,
    wall_s=3.0,
)


def write(path, right, ids=None, kinds=None, docs=None):
    """A run with one row for each entry of `right`: whether the prediction is the target."""
    path.mkdir(exist_ok=True)
    with ParquetTable(path / "results.parquet", {"row": "int", "status": "str"}) as table:
        for index, hit in enumerate(right):
            target = "ab"[index % 2]
            table.write(
                {
                    "row": index,
                    "id": ids[index] if ids else index,
                    "status": "ok",
                    "source.key": ids[index] if ids else index,
                    "source.label": target,
                    "source.type": kinds[index] if kinds else "x",
                    "source.doc": docs[index] if docs else index,
                    "output.label": None if hit is None else target if hit else "ba"[index % 2],
                }
            )
    return path / "results.parquet"


def outcome(gate, results, facts=FACTS, **further):
    measures = measure(EVALUATIONS, results)
    return decide_gates([Gate(**gate)], EVALUATIONS, measures, facts, results, **further)[0]


def test_a_point_gate_looks_at_the_value_only(tmp_path):
    results = write(tmp_path, [True] * 93 + [False] * 7)
    assert outcome({"metric": "e.accuracy", "min": 0.93}, results).passed
    missed = outcome({"metric": "e.accuracy", "min": 0.94}, results)
    assert (missed.passed, missed.value, missed.limit) == (False, 0.93, 0.94)
    assert missed.reason == "0.93 is below 0.94"
    assert outcome({"metric": "e.accuracy", "max": 0.9}, results).verdict == "failed"


def test_a_gate_with_confidence_needs_the_intervals_end(tmp_path):
    results = write(tmp_path, [True] * 93 + [False] * 7)
    result = outcome({"metric": "e.accuracy", "min": 0.9, "confidence": 0.95}, results)
    assert result.verdict == "inconclusive"
    assert not result.passed
    assert "lower end 0.86" in result.reason
    passed = outcome({"metric": "e.accuracy", "min": 0.86, "confidence": 0.95}, results)
    assert (passed.passed, passed.held) == (True, f"lower end {passed.low:.4g} ≥ 0.86")
    most = outcome({"metric": "e.accuracy", "max": 0.99, "confidence": 0.95}, results)
    assert most.held == f"upper end {most.high:.4g} ≤ 0.99"
    assert not outcome(
        {"metric": "e.accuracy", "min": 0.9}, results
    ).held  # the value is compared, not an end
    assert outcome({"metric": "e.accuracy", "min": 0.9, "confidence": 0.5}, results).passed


def test_perfect_agreement_of_few_rows_is_no_confident_kappa(tmp_path):
    results = write(tmp_path, [True] * 4)
    result = outcome({"metric": "e.cohen_kappa", "min": 0.5, "confidence": 0.95}, results)
    assert (result.verdict, result.value) == ("inconclusive", 1)


def test_where_restricts_a_gate_to_some_rows(tmp_path):
    results = write(tmp_path, [True, True, False, False], kinds=["x", "x", "y", "y"])
    result = outcome({"metric": "e.accuracy", "where": {"source.type": "x"}, "min": 1.0}, results)
    assert result.passed
    assert result.n == 2
    assert (
        outcome({"metric": "e.accuracy", "where": {"source.type": "z"}, "min": 0}, results).verdict
        == "inconclusive"
    )


def test_a_baseline_gate_pairs_rows_by_id(tmp_path):
    rng = np.random.default_rng(0)
    old = rng.random(400) < 0.8
    write(tmp_path / "main", old)
    new = old.copy()
    new[np.flatnonzero(~old)[:10]] = True
    results = write(tmp_path / "new", new)
    gate = {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.01}
    result = outcome(gate, results, root=tmp_path)
    assert result.passed
    assert result.value == pytest.approx(10 / 400)
    assert 0 < result.low < result.value < result.high
    assert result.n == 400


@pytest.mark.parametrize(
    ("limit", "passed"),
    [({"min": 0.75}, True), ({"min": 0.76}, False), ({"max": 0.75}, True), ({"max": 0.74}, False)],
)
def test_a_value_at_its_limit_passes(tmp_path, limit, passed):
    results = write(tmp_path, [True, True, True, False])
    assert outcome({"metric": "e.accuracy"} | limit, results).passed == passed


def test_a_drop_beyond_the_limit_fails_and_an_unsure_one_is_inconclusive(tmp_path):
    old = np.array([True] * 80 + [False] * 20)
    worse = old.copy()
    worse[:10] = False
    write(tmp_path / "main", old)
    results = write(tmp_path / "new", worse)
    gate = {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.05}
    assert outcome(gate, results, root=tmp_path).verdict == "failed"
    result = outcome(gate | {"max_drop": 0.11}, results, root=tmp_path)
    assert result.verdict == "inconclusive"
    assert "may be up to" in result.reason
    assert outcome(gate | {"max_drop": 0.25}, results, root=tmp_path).passed


@pytest.mark.parametrize(
    ("n", "verdict"), [(3, "inconclusive"), (300, "inconclusive"), (400, "passed")]
)
def test_rows_that_do_not_differ_pass_only_if_they_are_many(tmp_path, n, verdict):
    """By the rule of three, up to 3.7 of n rows may differ although none of them did."""
    write(tmp_path / "main", [True, False, True, True] * 250)
    results = write(tmp_path / "new", ([True, False, True, True] * 250)[:n])
    result = outcome(
        {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.01}, results, root=tmp_path
    )
    assert (result.value, result.n, result.verdict) == (0, n, verdict)
    if n > 3:
        assert result.low == pytest.approx(-(1 - 0.025 ** (1 / n)))


def test_numbers_without_ends_that_do_not_differ_are_inconclusive(tmp_path):
    evaluations = {"m": Evaluation(value="source.key", metrics=["mean"])}
    write(tmp_path / "main", [True] * 50)
    results = write(tmp_path / "new", [True] * 50)
    gate = {"metric": "m.mean", "baseline": "main", "max_drop": 0.01}
    assert decided([gate], results, tmp_path, evaluations)[0].verdict == "inconclusive"


@pytest.mark.parametrize(
    ("ids", "reason"),
    [([7, 7, 8], "ids repeat"), ([10, 11, 12], "no row in common"), (None, "targets differ")],
)
def test_a_baseline_that_cannot_be_paired_fails_with_the_reason(tmp_path, ids, reason):
    write(tmp_path / "main", [True] * 3, ids=ids or [1, 0, 2])
    results = write(tmp_path / "new", [True] * 3)
    result = outcome(
        {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.1}, results, root=tmp_path
    )
    assert result.verdict == "failed"
    assert reason in result.reason


def test_fc16_a_baseline_that_is_not_there_is_an_error_and_no_failed_gate(tmp_path):
    results = write(tmp_path, [True])
    with pytest.raises(DataError, match="runs/main is not there, or holds no results"):
        outcome(
            {"metric": "e.accuracy", "baseline": "runs/main", "max_drop": 0.1},
            results,
            root=tmp_path,
        )


@pytest.mark.parametrize("way", ["same", "link", "copy", "edited", "hard link", "no run.json"])
def test_s6_a_baseline_is_never_the_run_itself(way, tmp_path):
    results = write(tmp_path / "run", [True] * 20)
    facts = RunFacts(
        name="run",
        status="finished",
        config="",
        dataset="",
        spec_fingerprint="a",
        data_fingerprint="b",
        version="",
        started="2026-01-01",
        wall_s=2.5,
    )
    (tmp_path / "run" / "run.json").write_bytes(orjson.dumps(facts.as_json()))
    other = tmp_path / "other"
    if way == "link":
        other.symlink_to(tmp_path / "run")
    elif way == "hard link":
        other.mkdir()
        (other / "results.parquet").hardlink_to(results)
    elif way != "same":
        shutil.copytree(tmp_path / "run", other)
    if way == "no run.json":
        (other / "run.json").unlink()
    elif way == "edited":
        edited = structs.replace(facts, started="2026-01-02")
        (other / "run.json").write_bytes(orjson.dumps(edited.as_json()))
    gate = {
        "metric": "e.accuracy",
        "baseline": "run" if way == "same" else "other",
        "max_drop": 0.1,
    }
    with pytest.raises(DataError, match="is this run itself"):
        outcome(gate, results, root=tmp_path)


def test_s6_an_equal_outcome_of_another_run_is_a_baseline(tmp_path):
    write(tmp_path / "main", [True] * 100)
    results = write(tmp_path / "new", [True] * 100)
    gate = {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.1}
    assert outcome(gate, results, root=tmp_path).passed


def test_facts_of_the_run_have_gates(tmp_path):
    results = write(tmp_path, [True])
    assert outcome({"metric": "run.cost_usd", "max": 5}, results).passed
    assert outcome({"metric": "run.calls", "max": 99}, results).verdict == "failed"
    unknown = outcome(
        {"metric": "run.cost_usd", "max": 5}, results, structs.replace(FACTS, cost_usd=None)
    )
    assert unknown.verdict == "inconclusive"
    assert not structs.replace(unknown, tolerated=True).passed
    assert "cost is unknown" in unknown.reason


def test_full_coverage_is_implied_unless_a_gate_names_coverage(tmp_path):
    results = write(tmp_path, [True])
    measures = measure(EVALUATIONS, results)
    facts = structs.replace(FACTS, failed=1)

    def metrics(*gates):
        results_of_gates = decide_gates(
            [Gate(**gate) for gate in gates], EVALUATIONS, measures, facts, results
        )
        return [(result.metric, result.passed) for result in results_of_gates]

    assert metrics() == []
    assert metrics({"metric": "run.calls", "max": 500}) == [
        ("run.calls", True),
        ("run.coverage", False),
    ]
    assert metrics({"metric": "run.coverage", "min": 0.9}) == [("run.coverage", True)]


def decided(gates, results, root, evaluations=EVALUATIONS, **further):
    measures = measure(evaluations, results)
    checked_gates = [Gate(**gate) for gate in gates]
    return decide_gates(checked_gates, evaluations, measures, FACTS, results, root=root, **further)


def test_an_inconclusive_gate_passes_only_where_the_file_says_so(tmp_path):
    results = write(tmp_path, [True] * 93 + [False] * 7)
    gate = {"metric": "e.accuracy", "min": 0.9, "confidence": 0.95}
    result = outcome(gate, results, inconclusive="pass")
    assert (result.verdict, result.passed) == ("inconclusive", True)
    assert not outcome(gate, results, inconclusive="fail").passed
    assert not outcome(gate | {"min": 0.95}, results, inconclusive="pass").passed


def test_missing_predictions_that_could_undo_a_confident_gate_make_it_inconclusive(tmp_path):
    results = write(tmp_path, [True] * 300 + [None] * 60)
    result = outcome({"metric": "e.accuracy", "min": 0.9, "confidence": 0.95}, results)
    assert (result.verdict, result.value) == ("inconclusive", 1)
    assert "the interval may end at 0.79" in result.reason


def test_one_bound_covers_sampling_error_and_missing_rows_together(tmp_path):
    """Sampling error and the worst case were compared separately, so this passed."""
    results = write(tmp_path, [True] * 905 + [False] * 65 + [None] * 30)
    gate = {"metric": "e.accuracy", "min": 0.9, "confidence": 0.95}
    assert outcome(gate, results).verdict == "inconclusive"
    requirement = outcome(gate | {"min": 0.85}, results).held
    assert requirement.endswith("≥ 0.85 with the rows without a prediction at their worst"), (
        requirement
    )
    assert outcome(gate | {"min": 0.88}, results).passed
    assert (
        outcome({"metric": "e.accuracy", "max": 0.94, "confidence": 0.95}, results).verdict
        == "inconclusive"
    )


def test_an_inconclusive_baseline_gate_says_how_many_rows_would_decide(tmp_path):
    rng = np.random.default_rng(3)
    old = rng.random(200) < 0.8
    new = np.where(rng.random(200) < 0.1, rng.random(200) < 0.8, old)
    write(tmp_path / "main", old)
    results = write(tmp_path / "new", new)
    gate = {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.01}
    (result, _) = decided([gate], results, tmp_path)
    assert result.verdict == "inconclusive"
    assert "rows would decide" in result.reason


def test_the_number_of_baseline_gates_needs_no_correction(tmp_path):
    """All gates must pass, so each may be tested at its own level."""
    rng = np.random.default_rng(4)
    old = rng.random(300) < 0.8
    new = np.where(rng.random(300) < 0.2, rng.random(300) < 0.8, old)
    write(tmp_path / "main", old)
    results = write(tmp_path / "new", new)
    gate = {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.4}
    (alone, _) = decided([gate], results, tmp_path)
    both = decided([gate, gate | {"metric": "e.cohen_kappa"}], results, tmp_path)
    assert (both[0].low, both[0].high) == (alone.low, alone.high)
    assert [result.verdict for result in both[:2]] == ["passed", "passed"]


def test_a_baseline_gate_has_missing_rows_in_its_bound(tmp_path):
    """At a worst-case drop of exactly `max_drop` it passed in 42% of samples: only the value was compared."""
    rng = np.random.default_rng(0)
    passed = 0
    for _ in range(60):
        old = rng.random(200) < 0.9
        new = [None if index < 10 else hit for index, hit in enumerate(old)]
        old[:10] = True  # the worst case is the truth: all rows that are lost were right
        write(tmp_path / "main", old.tolist())
        results = write(tmp_path / "new", new)
        gate = {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.05}
        result = decided([gate], results, tmp_path)[0]
        assert "worse than the baseline's, up to 0.0" in result.reason
        passed += result.verdict == "passed"
    assert passed <= 3


def test_rows_without_a_prediction_that_nothing_bounds_make_a_gate_inconclusive(tmp_path):
    evaluations = {"m": Evaluation(value="source.key if output.label else none", metrics=["mean"])}
    results = write(tmp_path, [True] * 99 + [None])
    result = decided(
        [{"metric": "m.mean", "min": 1, "confidence": 0.95}], results, tmp_path, evaluations
    )[0]
    assert (result.verdict, result.reason) == (
        "inconclusive",
        "nothing bounds what the 1 row without a prediction would change",
    )
    kappa = outcome({"metric": "e.cohen_kappa", "min": 0.5, "confidence": 0.95}, results)
    assert kappa.held.endswith("with the rows without a prediction at their worst")


def test_a_run_is_read_once_for_any_number_of_gates(tmp_path, monkeypatch):
    """Each gate with `confidence` read the whole run again."""
    from verdict_cli.stats import paired

    results = write(tmp_path, [True] * 50, kinds=["x", "y"] * 25)
    measures, reads = measure(EVALUATIONS, results), []
    read = paired.collect
    monkeypatch.setattr(
        paired,
        "collect",
        lambda *arguments, **keys: reads.append(arguments) or read(*arguments, **keys),
    )
    gates = [
        Gate(metric=f"e.{metric}", min=0.5, confidence=0.95, where=where)
        for metric in ("accuracy", "cohen_kappa")
        for where in (None, {"source.type": "x"}, {"source.type": "y"})
    ]
    decided_gates = decide_gates(gates, EVALUATIONS, measures, FACTS, results)
    assert [result.n for result in decided_gates[:6]] == [50, 25, 25] * 2
    assert len(reads) == 1


def test_non_inferiority_takes_clusters_for_what_they_are(tmp_path):
    """Forty rows of each document change together: eight documents are less sure than 320 rows."""
    docs = [index // 40 for index in range(320)]
    old = [True] * 320
    new = [index // 40 != 3 for index in range(320)]
    write(tmp_path / "main", old, docs=docs)
    results = write(tmp_path / "new", new, docs=docs)
    gate = {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.2}
    (alone, _) = decided([gate], results, tmp_path)
    clustered = {"e": EVALUATIONS["e"].model_copy(update={"cluster": "source.doc"})}
    (together, _) = decided([gate], results, tmp_path, clustered)
    assert (alone.verdict, together.verdict) == ("passed", "inconclusive")
    assert together.value == alone.value


def test_losing_rows_never_makes_a_run_pass(tmp_path):
    """With the implied gate on coverage, any lost row fails the run."""
    results = write(tmp_path, [True] * 90 + [None] * 10)
    measures = measure(EVALUATIONS, results)
    facts = structs.replace(FACTS, failed=10)
    decided_gates = decide_gates(
        [Gate(metric="e.accuracy", min=0.95)], EVALUATIONS, measures, facts, results
    )
    assert [(result.metric, result.passed) for result in decided_gates] == [
        ("e.accuracy", True),
        ("run.coverage", False),
        ("e.coverage", False),
    ]


def test_rows_that_this_run_lost_cannot_prove_it_as_good_as_its_baseline(tmp_path):
    """The baseline is right everywhere; this run gave no answer on a tenth of the rows."""
    write(tmp_path / "main", [True] * 300)
    results = write(tmp_path / "new", [True] * 270 + [None] * 30)
    gate = {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.05}
    result, _, coverage = decided([gate], results, tmp_path)
    assert (coverage.metric, coverage.value, coverage.verdict) == ("e.coverage", 0.9, "failed")
    assert (result.verdict, result.value) == ("inconclusive", 0)
    assert "could make the metric 0.1 worse" in result.reason
    assert decided([gate | {"max_drop": 0.2}], results, tmp_path)[0].verdict == "passed"


def test_rows_that_the_expression_loses_fail_the_implied_gate_on_coverage(tmp_path):
    """Every row succeeded, but a tenth has no prediction: `run.coverage` is 1, the metric's own is not."""
    results = write(tmp_path, [True] * 90 + [None] * 10)
    gate = Gate(metric="e.accuracy", min=0.95)
    decided_gates = decide_gates([gate], EVALUATIONS, measure(EVALUATIONS, results), FACTS, results)
    assert [(result.metric, result.passed) for result in decided_gates[::2]] == [
        ("e.accuracy", True),
        ("e.coverage", False),
    ]
    allowed = [gate, Gate(metric="e.coverage", min=0.9)]
    decided_gates = decide_gates(
        allowed, EVALUATIONS, measure(EVALUATIONS, results), FACTS, results
    )
    assert all(result.passed for result in decided_gates)


def test_a_gate_on_the_runs_coverage_allows_for_as_many_rows_without_a_prediction(tmp_path):
    results = write(tmp_path, [True] * 90 + [None] * 10)
    for least, allowed in ((0.9, True), (0.95, False)):
        gates = [Gate(metric="e.accuracy", min=0.95), Gate(metric="run.coverage", min=least)]
        decided_gates = decide_gates(
            gates, EVALUATIONS, measure(EVALUATIONS, results), FACTS, results
        )
        assert all(result.passed for result in decided_gates) == allowed


def test_no_gates_imply_none(tmp_path):
    results = write(tmp_path, [True] * 9 + [None])
    assert decide_gates([], EVALUATIONS, measure(EVALUATIONS, results), FACTS, results) == ()


def test_a_run_without_some_of_the_baselines_rows_fails_the_implied_gate_on_shared(tmp_path):
    write(tmp_path / "main", [True] * 400 + [False] * 85)
    results = write(tmp_path / "new", [True] * 400)
    gate = {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.01}
    result, _, shared = decided([gate], results, tmp_path)
    assert result.passed
    assert (shared.metric, shared.verdict, shared.n) == ("e.shared", "failed", 485)
    assert shared.value == pytest.approx(400 / 485)
    assert all(
        result.passed
        for result in decided([gate, {"metric": "e.shared", "min": 0.8}], results, tmp_path)
    )


def test_gates_have_an_exact_bound_that_errs_in_at_most_2_5_percent_of_samples(
    tmp_path,
):
    from scipy.stats import binom

    from verdict_cli.stats.intervals.interval_methods import clopper_pearson

    for n, limit in ((20, 0.8), (50, 0.9), (100, 0.95), (300, 0.9)):
        passing = [hits for hits in range(n + 1) if clopper_pearson(hits, n, 0.95)[0] >= limit]
        assert binom.pmf(passing, n, limit).sum() <= 0.025
    results = write(tmp_path, [True] * 58 + [False] * 2)
    two = outcome({"metric": "e.accuracy", "min": 0.885, "confidence": 0.95}, results)
    one_sided = outcome(
        {"metric": "e.accuracy", "min": 0.885, "confidence": 0.95, "sided": "one"}, results
    )
    assert two.low == pytest.approx(clopper_pearson(58, 60, 0.95)[0])
    assert one_sided.low == pytest.approx(clopper_pearson(58, 60, 0.9)[0])
    assert (two.verdict, one_sided.verdict) == ("inconclusive", "passed")


def test_a_sequential_gate_at_its_limit_passes_in_few_histories_of_looks(tmp_path):
    """The fixed bound passes at one of twenty looks in several times as many histories as at the last look."""
    from verdict_cli.stats.intervals.interval_methods import clopper_pearson

    rng, fixed, anytime = np.random.default_rng(0), 0, 0
    for _ in range(200):
        hits = np.cumsum(rng.random(1000) < 0.9)
        looks = range(50, 1001, 50)
        fixed += any(clopper_pearson(hits[n - 1], n, 0.95)[0] > 0.9 for n in looks)
        anytime += any(anytime_interval(float(hits[n - 1]), n, 0.05)[0] > 0.9 for n in looks)
    assert anytime <= 5
    assert fixed >= 15
    results = write(tmp_path, [True] * 95 + [False] * 5)
    once = outcome({"metric": "e.accuracy", "min": 0.85, "confidence": 0.95}, results)
    always = outcome(
        {"metric": "e.accuracy", "min": 0.85, "confidence": 0.95}, results, sequential=True
    )
    assert (once.verdict, always.verdict) == ("passed", "inconclusive")
    assert always.low < once.low < once.high < always.high
    kappa = outcome(
        {"metric": "e.cohen_kappa", "min": 0.5, "confidence": 0.95}, results, sequential=True
    )
    assert (
        kappa.verdict == "inconclusive"
        and "no bound of this metric holds at every look" in kappa.reason
    )


def test_an_anytime_interval_holds_for_values_between_the_ends():
    rng, missed = np.random.default_rng(1), 0
    for _ in range(100):
        sums = np.cumsum(rng.beta(0.3, 0.2, 600))
        missed += any(
            not low <= 0.6 <= high
            for low, high in (
                anytime_interval(float(sums[n - 1]), n, 0.05) for n in range(10, 601, 30)
            )
        )
    assert missed <= 5
    assert anytime_interval(0.0, 0, 0.05) == (0.0, 1.0)
    low, high = anytime_interval(10.0, 10, 0.05)
    assert 0.5 < low < 1 == high


def test_a_run_exactly_max_drop_worse_passes_in_at_most_2_and_a_half_percent():
    """Of 30 rows of which 95% differ, every outcome with its probability: it passed in 3.0% without a correction for continuity."""
    rows, drop, apart = 30, 0.05, 0.95
    chances = np.array([(apart - drop) / 2, (apart + drop) / 2, 1 - apart])
    passes = 0.0
    for better in range(rows + 1):
        for worse in range(rows + 1 - better):
            chance = stats.multinomial.pmf([better, worse, rows - better - worse], rows, chances)
            if chance < 1e-6 or better + 4 < worse:
                continue
            kind = np.repeat([1, 2, 0], [better, worse, rows - better - worse])
            target, first, second = np.zeros(rows, int), (kind == 1) * 1, (kind == 2) * 1
            sample = Sample.of((target, first, second))
            at = [column[sample.first] for column in (target, first, second)]
            old, new = (
                confusion.label_statistics(at[0], prediction, 2, None, False)["accuracy"]
                for prediction in at[1:]
            )
            change = paired_metric_value(
                old, new, sample, Draw(np.random.default_rng(0), continuity=True)
            )
            passes += chance * (change.low >= -drop)
    assert 0.01 < passes <= 0.025
