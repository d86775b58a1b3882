"""Several annotators of a run: alpha, the ceiling, the alternative annotator test. Oracles: krippendorff, scipy, loops."""

from __future__ import annotations

from itertools import combinations

import krippendorff
import numpy as np
import pytest
from scipy import stats

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.annotators import ADVANTAGE, advantage_p
from verdict_cli.stats.measure import measure
from verdict_cli.storage.tables.human_labels import FILE, add_label
from verdict_cli.storage.tables.writer import ParquetTable

PEOPLE = ("ann", "bob", "cyd", "dan")


def run(folder, verdicts, labels, kind="str"):
    """A run with these verdicts, and each person's labels (None: not labelled)."""
    results = folder / "results.parquet"
    with ParquetTable(results, {"row": "int", "id": "str", "status": "str"}) as table:
        for row, verdict in enumerate(verdicts):
            table.write({"row": row, "id": f"r{row}", "status": "ok", "output.score": verdict})
    for name, votes in labels.items():
        for row, label in enumerate(votes):
            if label is not None:
                add_label(folder / FILE, f"r{row}", label, None, "", name)
    evaluation = Evaluation(prediction="output.score", target="human.label", metrics=("accuracy",))
    return measure({"e": evaluation}, results)["e"]


def drawn(seed, rows=60, skill=0.8, judge=0.8, missing=0.2):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, rows)

    def voice(right):
        return [int(t) if rng.random() < right else int(rng.integers(0, 3)) for t in truth]

    labels = {
        name: [None if rng.random() < missing else f"l{code}" for code in voice(skill)]
        for name in PEOPLE
    }
    return [f"l{code}" for code in voice(judge)], labels


@pytest.mark.parametrize("seed", range(3))
def test_human_alpha_is_krippendorffs_alpha_of_the_people(tmp_path, seed):
    verdicts, labels = drawn(seed)
    measured = run(tmp_path, verdicts, labels)
    data = [
        [np.nan if vote is None else float(vote[1:]) for vote in votes] for votes in labels.values()
    ]
    expected = krippendorff.alpha(np.array(data), level_of_measurement="nominal")
    alpha = measured.values["human_alpha"]
    assert alpha.value == pytest.approx(expected) and alpha.low < alpha.value < alpha.high


def test_human_alpha_of_numbers_is_on_the_interval_level(tmp_path):
    rng = np.random.default_rng(5)
    truth = rng.integers(1, 6, 40)
    labels = {
        name: [int(np.clip(t + rng.integers(-1, 2), 1, 5)) for t in truth] for name in PEOPLE[:3]
    }
    measured = run(tmp_path, [float(t) for t in truth], labels)
    expected = krippendorff.alpha(
        np.array(list(labels.values()), float), level_of_measurement="interval"
    )
    assert measured.values["human_alpha"].value == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_the_ceiling_and_the_judge_are_means_over_pairs_by_row(tmp_path, seed):
    verdicts, labels = drawn(seed)
    study = run(tmp_path, verdicts, labels).annotators
    mutual, judged = [], []
    for row, verdict in enumerate(verdicts):
        votes = [labels[name][row] for name in PEOPLE if labels[name][row] is not None]
        if len(votes) > 1:
            mutual.append(np.mean([first == second for first, second in combinations(votes, 2)]))
            judged.append(np.mean([verdict == vote for vote in votes]))
    assert study.ceiling.value == pytest.approx(np.mean(mutual))
    assert study.judge.value == pytest.approx(np.mean(judged))
    assert study.difference.value == pytest.approx(np.mean(judged) - np.mean(mutual))
    assert study.difference.low < study.difference.value < study.difference.high
    assert study.ceiling.n == len(mutual)


@pytest.mark.parametrize("seed", range(4))
def test_the_alternative_annotator_test_is_that_of_the_paper(tmp_path, seed):
    verdicts, labels = drawn(seed, rows=90)
    study = run(tmp_path, verdicts, labels).annotators
    p_values = []
    for left_out in PEOPLE:
        differences = []
        for row, verdict in enumerate(verdicts):
            vote = labels[left_out][row]
            others = [
                labels[name][row]
                for name in PEOPLE
                if name != left_out and labels[name][row] is not None
            ]
            if vote is None or not others:
                continue
            human = np.mean([vote == vote_of_other for vote_of_other in others])
            judge = np.mean([verdict == vote_of_other for vote_of_other in others])
            differences.append(float(human >= judge) - float(judge >= human))
        p_values.append(stats.ttest_1samp(differences, 0.2, alternative="less").pvalue)
    adjusted = stats.false_discovery_control(p_values, method="by")
    assert [annotator.p for annotator in study.annotators] == pytest.approx(adjusted)
    assert study.winning_rate == np.mean(adjusted <= 0.05)


def test_a_judge_that_guesses_does_not_win_and_one_as_good_as_people_does(tmp_path):
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    good = run(tmp_path / "good", *drawn(1, rows=200, judge=0.95)).annotators
    bad = run(tmp_path / "bad", *drawn(1, rows=200, judge=0.0)).annotators
    assert (good.winning_rate, bad.winning_rate) == (1.0, 0.0)


def test_few_rows_are_tested_by_signed_ranks():
    judge, human = np.array([1, 1, 0, 1, 0.5, 1, 0, 1]), np.array([0, 1, 0, 1, 1, 0, 0, 0.5])
    lead = (human >= judge).astype(float) - (judge >= human).astype(float)
    assert advantage_p(judge, human) == stats.wilcoxon(lead - ADVANTAGE, alternative="less").pvalue
    assert advantage_p(judge, judge) == 0.0 and advantage_p(np.zeros(5), np.ones(5)) == 1.0


def test_two_people_have_a_ceiling_but_no_test_and_their_confusion_is_counted(tmp_path):
    labels = {"ann": ["x", "x", "y", "y"], "bob": ["x", "y", "y", None]}
    study = run(tmp_path, ["x", "x", "x", "y"], labels).annotators
    (pair,) = study.pairs
    assert (pair.rows, pair.labels, pair.counts) == (3, ("x", "y"), ((1, 1), (0, 1)))
    assert study.winning_rate is None and "3 annotators" in study.untested


def test_one_person_or_an_evaluation_of_other_labels_gives_none(tmp_path):
    measured = run(tmp_path, ["x", "y"], {"ann": ["x", "y"]})
    assert measured.annotators is None and "human_alpha" not in measured.values
