"""Selection on labelled rows: nothing is called better by chance, and the best of recorded prompts is found."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import SHARED
from scipy.stats import binomtest

from verdict_cli.features.align.search import (
    PART_SHARES,
    AlignSearch,
    JudgedRow,
    PromptCandidate,
    is_better,
    split_rows,
    successive_halving,
)

DATA = SHARED / "data"
SHARED = DATA / "realmistake"


def search(scores: np.ndarray, clusters: np.ndarray, seed: int) -> tuple[int, bool]:
    """The winner and whether it is shown to be better, with scores of shape (candidates, rows) in the place of runs."""
    parts = split_rows(clusters, seed)
    select, test = parts["select"], parts["test"]
    best, _ = successive_halving(
        len(scores),
        len(select),
        lambda candidates, rows: [scores[candidate][select[:rows]] for candidate in candidates],
    )
    gain = scores[best][test] - scores[0][test]
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    p = binomtest(better, better + worse).pvalue if better + worse else 1.0
    return best, best != 0 and is_better(float(gain.mean()), float(p))


@given(st.lists(st.integers(0, 30), min_size=3, max_size=200), st.integers(0, 2**32 - 1))
def test_every_row_is_in_one_part_and_no_cluster_in_two(clusters, seed):
    codes = np.array(clusters)
    parts = split_rows(codes, seed)
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(len(codes)))
    homes = defaultdict(set)
    for name, rows in parts.items():
        for row in rows:
            homes[codes[row]].add(name)
    assert all(len(names) == 1 for names in homes.values())


def test_the_parts_have_their_shares():
    parts = split_rows(np.arange(1000), 3)
    assert {name: len(rows) / 1000 for name, rows in parts.items()} == pytest.approx(
        PART_SHARES, abs=0.002
    )


def test_more_rows_are_judged_by_fewer_candidates_and_ties_stay_with_the_first():
    judged = []

    def score(candidates, rows):
        judged.append((len(candidates), rows))
        return [np.ones(rows) for _ in candidates]

    best, rounds = successive_halving(9, 100, score)
    assert best == 0 and judged == [(9, 16), (5, 32), (3, 64), (2, 100)]
    assert [round_.rows for round_ in rounds] == [16, 32, 64, 100]


def test_a_row_that_fails_counts_as_the_lowest_score():
    scores = [np.array([1.0, 0.0, 1.0, 0.0]), np.array([1.0, np.nan, np.nan, np.nan])]
    best, (round_result,) = successive_halving(
        2, 4, lambda candidates, rows: [scores[candidate][:rows] for candidate in candidates]
    )
    assert best == 0 and round_result.means == {0: 0.5, 1: 0.25}


def test_on_shuffled_labels_at_most_65_of_1000_searches_report_an_improvement():
    rng = np.random.default_rng(11)
    improvements = 0
    for seed in range(1000):
        labels = rng.integers(0, 2, 240)
        predictions = rng.integers(0, 2, (8, 240))
        improvements += search((predictions == labels).astype(float), np.arange(240), seed)[1]
    assert improvements <= 65


def test_a_better_candidate_is_found():
    rng = np.random.default_rng(5)
    improvements = 0
    for seed in range(200):
        scores = (rng.random((8, 600)) < np.array([0.6] * 7 + [0.8])[:, None]).astype(float)
        best, better = search(scores, np.arange(600), seed)
        improvements += best == 7 and better
    assert improvements >= 180


@pytest.mark.skipif(not SHARED.exists(), reason="the recorded judges are not here")
def test_the_best_of_recorded_prompts_is_found_or_one_within_the_bound():
    """ReaLMistake: four prompts for each judge. The regret on all rows is at most that of the best of `select` by chance."""
    by_judge: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    with gzip.open(SHARED / "simple__answerability_classification.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            right = row["prediction"] == row["label"]
            by_judge[row["responder"], row["judge"]][row["prompt"]][row["id"]] = float(right)
    regrets = []
    for prompts in by_judge.values():
        ids = sorted(set.intersection(*(set(scores) for scores in prompts.values())))
        scores = np.array([[prompts[prompt][key] for key in ids] for prompt in sorted(prompts)])
        means = scores.mean(axis=1)
        best, _ = search(scores, np.arange(len(ids)), 7)
        rows = int(PART_SHARES["select"] * len(ids))
        bound = 2 * np.sqrt(np.log(2 * len(scores) / 0.05) / (2 * rows))
        assert means.max() - means[best] <= bound
        regrets.append(means.max() - means[best])
    assert len(regrets) == 24 and np.mean(regrets) < 0.04


@pytest.mark.skipif(not DATA.exists(), reason="the recorded judges are not here")
@pytest.mark.parametrize(
    ("evaluator", "strategies"), [("GPT-4", 15), ("ChatGPT", 12), ("PaLM2", 8)]
)
def test_the_best_of_recorded_strategies_is_found_or_one_within_the_bound(evaluator, strategies):
    """LLMBar: 193 pairs, judged by each strategy in both orders; a row's score is the share of orders that are right."""
    labels = {}
    for subset in ("Natural", "GPTOut", "Manual"):
        with gzip.open(DATA / "llmbar" / f"dataset_{subset}.jsonl.gz", "rt") as lines:
            labels |= {(subset, row["index"]): row["label"] for row in map(json.loads, lines)}
    by_strategy: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
    with gzip.open(DATA / "llmbar" / f"outputs_{evaluator}.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            key = (row["subset"], row["index"])
            last = [stage for stage in row["stages"] if "orig" in stage][-1]
            right = [str(last[order]["winner"]) == str(labels[key]) for order in ("orig", "swap")]
            by_strategy[row["strategy"]][key] = sum(right) / 2
    assert len(by_strategy) == strategies
    keys = sorted(labels)
    scores = np.array([[scores[key] for key in keys] for _, scores in sorted(by_strategy.items())])
    means = scores.mean(axis=1)
    rows = int(PART_SHARES["select"] * len(keys))
    bound = 2 * np.sqrt(np.log(2 * len(scores) / 0.05) / (2 * rows))
    regrets = [
        means.max() - means[search(scores, np.arange(len(keys)), seed)[0]] for seed in range(20)
    ]
    assert max(regrets) <= bound and np.mean(regrets) < 0.05


class ScriptedSearch(AlignSearch):
    """A search without runs: each round has one new prompt, and the best prompt changes from round to round."""

    BEST = ("new 0", "as it was", "new 2")

    def _judged(self, candidate):
        return [JudgedRow({}, candidate.name, None, correct=True)]

    def _valid(self, candidates):
        return []

    def _proposed(self, proposer, base, judged, number):
        self.dropped.append(f"{base.name} / {judged[0].judged}")
        return [PromptCandidate(f"new {number}", "")]

    def _scores(self, candidates, indices, rows):
        best = self.BEST[len(self.dropped) - 1]
        return [np.full(rows, float(candidates[index].name == best)) for index in indices]

    def _runs(self, candidates, part, rows):
        raise LookupError(candidates[1].name)


def test_a_round_after_the_pipeline_won_again_reflects_on_what_the_pipeline_said():
    options = SimpleNamespace(proposer="boss", rounds=3)
    fields = dict.fromkeys(field.name for field in dataclasses.fields(AlignSearch))
    values = {"how": SimpleNamespace(replay="a recording"), "options": options, "path": "pipeline"}
    search = ScriptedSearch(**fields | values | {"sizes": {"select": 4, "test": 4}, "dropped": []})
    with pytest.raises(LookupError, match="new 2"):
        search.run(yes=True)
    assert search.dropped == [
        "as it was / as it was",
        "new 0 / new 0",
        "as it was / as it was",
    ]
