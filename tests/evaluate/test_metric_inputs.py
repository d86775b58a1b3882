"""Figures from rows as a run holds them: labels as numbers, truths and words, one class, all ties, one row, missing ones."""

import warnings

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from verdict_cli.evaluate.collect import Collected
from verdict_cli.evaluate.column import Growing
from verdict_cli.evaluate.intervals import Draw
from verdict_cli.evaluate.measured import measured
from verdict_cli.evaluate.rows import Data
from verdict_cli.spec.evaluate import Evaluation

SPELLED = {
    "numbers": [0, 1, 2],
    "words": ["bad", "fair", "good"],
    "truths": [False, True],
    "decimals": [0.5, 1.0, 2.5],
}


def figures(metrics, columns, **keys):
    """The figures of columns of values, None where a row has none, as a run's results give them."""
    places = {}
    growing = {name: Growing(places) for name in columns}
    for name, values in columns.items():
        for value in values:
            growing[name].add(value)
    rows = len(next(iter(columns.values())))
    found = {name: one.column() for name, one in growing.items()}
    evaluation = Evaluation(**{name: f"source.{name}" for name in columns}, **keys)
    data = Data.of(evaluation, Collected(rows, found, (), None, None, None, {}))
    made = measured(metrics, data, np.arange(rows), Draw(np.random.default_rng(0)))
    return {name: figure.value for name, figure in made.items()}


def drawn(seed, values):
    """Targets and predictions of one to thirty rows: in every fourth one class, in every fifth all the same."""
    rng = np.random.default_rng(seed)
    n = 1 if seed % 7 == 0 else int(rng.integers(1, 31))
    classes = values[:1] if seed % 4 == 0 else values
    target = [classes[place] for place in rng.integers(0, len(classes), n)]
    said = target if seed % 5 == 0 else [values[place] for place in rng.integers(0, len(values), n)]
    said = [
        None if seed % 3 == 0 and lost else value
        for lost, value in zip(rng.random(n) < 0.2, said, strict=True)
    ]
    return target, said


def present(target, said):
    """The rows with a prediction, as places among the labels."""
    both = [(a, b) for a, b in zip(target, said, strict=True) if b is not None]
    labels = sorted({value for pair in both for value in pair})
    return tuple(np.array([labels.index(value) for value in side]) for side in zip(*both, strict=True)) or (
        (),
        (),
    )


def gwet(target, said, labels):
    """Gwet (2008), row by row; `labels` is how many the evaluation has."""
    if labels < 2:
        return None
    shares = [
        np.mean([int(a == label) + int(b == label) for a, b in zip(target, said, strict=True)]) / 2
        for label in range(3)
    ]
    chance = sum(share * (1 - share) for share in shares) / (labels - 1)
    return (np.mean(target == said) - chance) / (1 - chance)


@pytest.mark.parametrize("spelled", SPELLED)
def test_two_hundred_inputs_have_scikit_learns_figures_however_labels_are_spelled(spelled):
    values = SPELLED[spelled]
    metrics = sklearn.metrics
    for seed in range(200):
        target, said = drawn(seed, values)
        names = [
            "accuracy",
            "balanced_accuracy",
            "cohen_kappa",
            "mcc",
            "gwet_ac1",
            "f1",
            "precision",
            "recall",
        ]
        found = figures(names, {"target": target, "prediction": said}, kind="classification")
        a, b = present(target, said)
        if not len(a):
            assert set(found.values()) == {None}
            continue
        macro = {"average": "macro", "zero_division": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = {
                "accuracy": metrics.accuracy_score(a, b),
                "balanced_accuracy": metrics.balanced_accuracy_score(a, b),
                "cohen_kappa": metrics.cohen_kappa_score(a, b) if len({*a, *b}) > 1 else None,
                "mcc": metrics.matthews_corrcoef(a, b) if len({*a}) > 1 and len({*b}) > 1 else None,
                "gwet_ac1": gwet(a, b, len({value for value in (*target, *said) if value is not None})),
                "f1": metrics.f1_score(a, b, **macro),
                "precision": metrics.precision_score(a, b, **macro),
                "recall": metrics.recall_score(a, b, **macro),
            }
        for name, value in wanted.items():
            near = None if value is None else pytest.approx(value, abs=1e-9)
            assert found[name] == near, (seed, name, target, said)


def test_two_hundred_inputs_have_scipys_correlations_and_errors():
    for seed in range(200):
        target, said = drawn(seed, [1, 2, 5])
        names = ["pearson", "spearman", "kendall", "mae", "rmse"]
        found = figures(names, {"target": target, "prediction": said}, kind="ordinal")
        both = [(a, b) for a, b in zip(target, said, strict=True) if b is not None]
        if not both:
            assert set(found.values()) == {None}
            continue
        a, b = np.array(both, float).T
        varies = len(set(a)) > 1 and len(set(b)) > 1
        wanted = {"mae": np.abs(a - b).mean(), "rmse": np.sqrt(((a - b) ** 2).mean())}
        for name, formula in (
            ("pearson", scipy.stats.pearsonr),
            ("spearman", scipy.stats.spearmanr),
            ("kendall", scipy.stats.kendalltau),
        ):
            wanted[name] = formula(b, a).statistic if varies else None
        for name, value in wanted.items():
            near = None if value is None else pytest.approx(value, abs=1e-9)
            assert found[name] == near, (seed, name, target, said)


def test_two_hundred_inputs_have_the_calibration_error_of_ten_bins_counted_by_hand():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 1 if seed % 7 == 0 else int(rng.integers(1, 31))
        p = [float(one) for one in (rng.random(n) if seed % 2 else rng.integers(0, 11, n) / 10)]
        y = [bool(one) for one in (np.ones(n) if seed % 5 == 0 else rng.random(n) < 0.5)]
        given = [None if seed % 3 == 0 and one < 0.2 else one for one in p]
        found = figures(["ece"], {"target": y, "probability": given})["ece"]
        kept = [(one, true) for one, true in zip(given, y, strict=True) if one is not None]
        gaps = []
        for place in range(10):
            low, high = place / 10, (place + 1) / 10
            held = [pair for pair in kept if low < pair[0] <= high or (place == 0 and pair[0] == 0)]
            if held:
                gaps.append(abs(sum(true for _, true in held) - sum(one for one, _ in held)))
        assert found == (pytest.approx(sum(gaps) / len(kept), abs=1e-9) if kept else None), seed


def test_two_hundred_rankings_have_scipys_and_scikit_learns_figures():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, k = (1 if seed % 7 == 0 else int(rng.integers(1, 9))), int(rng.integers(2, 6))
        items = [f"item {place}" for place in range(k)] if seed % 2 else list(range(k))
        target = [[items[at] for at in rng.permutation(k)] for _ in range(n)]
        said = target if seed % 5 == 0 else [[items[at] for at in rng.permutation(k)] for _ in range(n)]
        names = ["accuracy", "top1", "spearman", "kendall", "kendall_distance", "ndcg"]
        found = figures(names, {"target": target, "prediction": said})
        rows = []
        for true, made in zip(target, said, strict=True):
            ranks = [true.index(item) for item in items], [made.index(item) for item in items]
            gains = [[k - 1 - place for place in side] for side in ranks]
            tau = scipy.stats.kendalltau(*ranks).statistic
            rho = scipy.stats.spearmanr(*ranks).statistic
            dcg = sklearn.metrics.ndcg_score([gains[0]], [gains[1]])
            rows.append((true == made, true[0] == made[0], rho, tau, (1 - tau) / 2, dcg))
        assert list(found.values()) == pytest.approx(
            np.mean(np.array(rows, float), axis=0).tolist(), abs=1e-9
        ), seed
