"""Leaderboards: values against independent fits, ranks that the data allow, and what is told where nothing can be said."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import ROOT
from scipy.optimize import minimize

from verdict_cli.features.rank.arena_keys import ArenaKeys
from verdict_cli.features.rank.contest import Leaderboard
from verdict_cli.features.rank.leaderboard import leaderboards
from verdict_cli.language.evaluations import Evaluation, evaluation_problems
from verdict_cli.language.gate_rules import Gate, gate_problems
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.writer import ParquetTable

FILE = ROOT / "benchmarks" / "arena_ranks.py"
spec = importlib.util.spec_from_file_location("arena_ranks", FILE)
simulation = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = simulation
spec.loader.exec_module(simulation)

SCORES = {"system": "source.system", "item": "source.task", "score": "output.score"}
BATTLES = {"a": "source.a", "b": "source.b", "winner": "output.choice", "item": "source.item"}


def table(
    path: Path, rows: Sequence[dict[str, Any]], declared: dict[str, DeclaredType] | None = None
) -> Path:
    with ParquetTable(
        path, {"row": "int", "id": "int", "status": "str"}, declared=declared or {}
    ) as file:
        for index, row in enumerate(rows):
            file.write({"row": index, "id": index, "status": "ok", **row})
    return path


def board(
    path: Path, rows: Sequence[dict[str, Any]], keys: dict[str, Any], **others: Any
) -> Leaderboard:
    evaluation = Evaluation(arena=ArenaKeys(**keys), **others)
    return leaderboards({"board": evaluation}, table(path, rows))["board"]


def values(leaderboard: Leaderboard, metric: str) -> dict[str, float | None]:
    return {standing.name: standing.values[metric].value for standing in leaderboard.standings}


def scored(rng: np.random.Generator, systems: int = 4, items: int = 60) -> list[dict[str, Any]]:
    """Answers whose scores depend on the system, the item and the length; some are missing."""
    rows = []
    for item in range(items):
        hard = rng.normal()
        for system in range(systems):
            length = int(rng.integers(50, 400)) + 60 * system
            score = round(5 + 0.4 * system + hard + 0.004 * length + rng.normal(), 1)
            if rng.random() > 0.05:
                rows.append(
                    {
                        "source.system": f"s{system}",
                        "source.task": item,
                        "source.length": length,
                        "output.score": score,
                    }
                )
    return rows


def battled(rng: np.random.Generator, systems: int = 4, battles: int = 300) -> list[dict[str, Any]]:
    rows = []
    for battle in range(battles):
        a, b = (int(system) for system in rng.choice(systems, 2, replace=False))
        lengths = rng.integers(50, 400, 2)
        chance = 1 / (1 + np.exp(-(0.5 * (a - b) + 0.004 * (lengths[0] - lengths[1]))))
        winner = "tie" if rng.random() < 0.2 else "A" if rng.random() < chance else "B"
        rows.append(
            {
                "source.a": f"s{a}", "source.b": f"s{b}", "source.item": battle // 2, "output.choice": winner,
                "source.length_a": int(lengths[0]), "source.length_b": int(lengths[1]),
            }
        )  # fmt: skip
    return rows


def logistic(design: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The most probable coefficients of a logistic regression with a normal prior of standard deviation 2, by a general optimiser."""

    def loss(at: np.ndarray) -> float:
        odds = design @ at
        return float((np.logaddexp(0, odds) - share * odds).sum() + at @ at / 8)

    def gradient(at: np.ndarray) -> np.ndarray:
        return design.T @ (1 / (1 + np.exp(-design @ at)) - share) + at / 4

    fitted = minimize(
        loss, np.zeros(design.shape[1]), jac=gradient, method="BFGS", options={"gtol": 1e-9}
    )
    return np.asarray(fitted.x)


def test_the_scores_of_wildbench_come_out_to_the_digit(shared, tmp_path):
    folder = shared / "data" / "wildbench"
    rows = [
        {
            "source.system": line["system"], "source.task": line["task"], "source.length": line["response_chars"],
            "output.score": float(line["score"]),
        }
        for file in sorted(folder.glob("*.jsonl.gz"))
        for line in map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
    ]  # fmt: skip
    leaderboard = board(tmp_path / "results.parquet", rows, SCORES)
    published = {
        "Qwen1.5-72B-Chat-greedy": (7.173359451518119, 1021, (1, 2)),
        "reka-core-20240501": (7.0517578125, 1024, (1, 2)),
        "reka-flash-20240226": (6.730205278592376, 1023, (3, 4)),
        "gpt-3.5-turbo-0125": (6.613880742913001, 1023, (3, 4)),
        "Phi-3-mini-128k-instruct": (6.286692759295499, 1022, (5, 6)),
        "reka-edge": (6.159335288367546, 1023, (5, 6)),
        "gemma-7b-it": (5.5087890625, 1024, (7, 7)),
        "gemma-2b-it": (4.737512242899118, 1021, (8, 8)),
    }
    assert {
        standing.name: (standing.values["mean_score"].value, standing.n, standing.rank)
        for standing in leaderboard.standings
    } == published
    assert [standing.name for standing in leaderboard.standings] == list(published)
    assert leaderboard.items == 1024


def test_intervals_of_differences_are_paired_by_item(tmp_path):
    """Two systems whose scores differ by little at every item differ significantly, though each varies much."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "source.system": system,
            "source.task": item,
            "output.score": hard + more + 0.05 * rng.normal(),
        }
        for item, hard in enumerate(rng.normal(0, 3, 100))
        for system, more in (("better", 0.1), ("worse", 0.0))
    ]
    leaderboard = board(tmp_path / "results.parquet", rows, SCORES)
    assert [(standing.name, standing.rank) for standing in leaderboard.standings] == [
        ("better", (1, 1)),
        ("worse", (2, 2)),
    ]
    first, second = (standing.values["mean_score"] for standing in leaderboard.standings)
    assert second.high > first.low


def of_battles(rows: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """The signs of the four systems in each battle, and the first one's share of the win."""
    pairs = np.array([(int(row["source.a"][1:]), int(row["source.b"][1:])) for row in rows])
    share = np.array([{"A": 1.0, "B": 0.0, "tie": 0.5}[row["output.choice"]] for row in rows])
    return np.eye(4)[pairs[:, 0]] - np.eye(4)[pairs[:, 1]], share


def test_bradley_terry_equals_two_independent_fits_with_the_same_prior(tmp_path):
    linear = pytest.importorskip("sklearn.linear_model")
    rows = battled(np.random.default_rng(1))
    leaderboard = board(tmp_path / "results.parquet", rows, BATTLES)
    design, share = of_battles(rows)
    direct = logistic(design, share)
    twice, sides = np.concatenate([design, design]), np.repeat([1, 0], len(share))
    sklearn = linear.LogisticRegression(C=4.0, fit_intercept=False, tol=1e-10, max_iter=10_000)
    sklearn.fit(twice, sides, sample_weight=np.concatenate([share, 1 - share]))
    ours = values(leaderboard, "bradley_terry")
    for fitted in (direct, sklearn.coef_[0]):
        strengths = fitted - fitted.mean()
        assert [ours[f"s{system}"] for system in range(4)] == pytest.approx(strengths, abs=1e-5)


def test_control_of_battles_is_a_logistic_regression_with_the_difference(tmp_path):
    rows = battled(np.random.default_rng(2))
    leaderboard = board(tmp_path / "results.parquet", rows, {**BATTLES, "control": ("length",)})
    design, share = of_battles(rows)
    difference = np.array(
        [row["source.length_a"] - row["source.length_b"] for row in rows], dtype=float
    )
    spread = np.sqrt((difference**2).mean())
    fitted = logistic(np.column_stack([design, difference / spread]), share)
    strengths = fitted[:4] - fitted[:4].mean()
    ours = values(leaderboard, "bradley_terry")
    assert [ours[f"s{system}"] for system in range(4)] == pytest.approx(strengths, abs=1e-6)
    assert leaderboard.slopes["length"] == pytest.approx(fitted[4] / spread, rel=1e-6)
    plain = board(tmp_path / "plain.parquet", rows, BATTLES)
    assert {
        standing.name: standing.values["bradley_terry"].uncontrolled
        for standing in leaderboard.standings
    } == pytest.approx(values(plain, "bradley_terry"))


def test_control_of_scores_is_least_squares_on_the_length_centred_within_the_item(
    tmp_path,
):
    rows = scored(np.random.default_rng(3))
    leaderboard = board(tmp_path / "results.parquet", rows, {**SCORES, "control": ("length",)})
    system = np.array([int(row["source.system"][1:]) for row in rows])
    length = np.array([row["source.length"] for row in rows], dtype=float)
    item = np.array([row["source.task"] for row in rows])
    centred = length - np.array([length[item == task].mean() for task in item])
    score = [row["output.score"] for row in rows]
    fitted = np.linalg.lstsq(np.column_stack([np.eye(4)[system], centred]), np.array(score))[0]
    ours = values(leaderboard, "mean_score")
    assert [ours[f"s{system}"] for system in range(4)] == pytest.approx(fitted[:4], abs=1e-9)
    assert leaderboard.slopes["length"] == pytest.approx(fitted[4])


def test_an_item_with_one_system_has_no_battle_and_changes_no_strength(tmp_path):
    rows = scored(np.random.default_rng(6), items=20)
    alone = {**rows[0], "source.task": "alone"}
    metric = "bradley_terry"
    boards = [
        board(tmp_path / f"{len(some)}.parquet", some, SCORES, metrics=(metric,))
        for some in (rows, [*rows, alone])
    ]
    assert values(boards[1], metric) == pytest.approx(values(boards[0], metric))


def test_systems_that_share_no_item_have_no_battle_and_no_rank_of_their_own(tmp_path):
    rows = [
        {"source.system": f"s{item % 2}", "source.task": item, "output.score": 1.0}
        for item in range(20)
    ]
    leaderboard = board(tmp_path / "results.parquet", rows, SCORES, metrics=("bradley_terry",))
    assert [standing.rank for standing in leaderboard.standings] == [(1, 2), (1, 2)]
    assert "the battles do not connect s0" in leaderboard.warnings[0]


def test_an_interval_of_a_mean_is_the_clustered_one_at_the_simultaneous_level(
    tmp_path,
):
    """Of two systems without missing items, the paired test of the ranks is Student's, but for the level."""
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(4)
    for seed in range(6):
        first, second = rng.normal(0.0, 1, 40), rng.normal(0.32, 1, 40)
        rows = [
            {"source.system": name, "source.task": item, "output.score": float(score)}
            for name, column in (("one", first), ("two", second))
            for item, score in enumerate(column)
        ]
        leaderboard = board(tmp_path / f"{seed}.parquet", rows, SCORES)
        p = ttest_rel(first, second).pvalue
        assert (leaderboard.standings[0].rank == (1, 1)) == (p < 0.05), p


@pytest.mark.parametrize(
    ("winner", "share"),
    [
        ("A", 1.0),
        ("model_b", 0.0),
        ("tie (bothbad)", 0.5),
        ("s0", 1.0),
        ("s1", 0.0),
        (0.25, 0.25),
        (True, 1.0),
    ],
)
def test_a_winner_is_a_letter_a_name_or_a_share(winner, share, tmp_path):
    rows = [{"source.a": "s0", "source.b": "s1", "source.item": 0, "output.choice": winner}]
    leaderboard = board(tmp_path / "results.parquet", rows, BATTLES)
    assert values(leaderboard, "win_rate")["s0"] == share


def test_winners_of_which_one_is_not_read_make_no_ranking(tmp_path):
    rows = battled(np.random.default_rng(5))
    rows[-1] = {**rows[-1], "output.choice": "both"}
    leaderboard = board(tmp_path / "results.parquet", rows, BATTLES)
    assert leaderboard.standings == ()
    assert "1 of 300 winners by `output.choice` are neither A, B, tie" in leaderboard.conclusion()


def battle(a: str, b: str, winner: str, item: int) -> dict[str, Any]:
    return {"source.a": a, "source.b": b, "output.choice": winner, "source.item": item}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (
            [battle("x", "y", "A", 0), battle("y", "z", "A", 1), battle("z", "y", "A", 2)],
            "x never lost",
        ),
        (
            [battle("x", "y", "B", 0), battle("y", "z", "A", 1), battle("z", "y", "A", 2)],
            "x never won",
        ),
        (
            [battle("w", "x", "tie", 0), battle("y", "z", "tie", 1), battle("z", "y", "A", 2)],
            "the battles do not connect",
        ),
        (
            [
                battle("u", "v", "A", 0),
                battle("v", "u", "A", 1),
                battle("u", "x", "A", 2),
                battle("x", "y", "tie", 3),
                battle("y", "z", "tie", 4),
            ],
            "the battles do not connect u",
        ),
    ],
)
def test_a_strength_that_only_the_prior_bounds_has_no_interval_and_no_rank(rows, reason, tmp_path):
    leaderboard = board(tmp_path / "results.parquet", rows, BATTLES)
    unsure = [
        standing
        for standing in leaderboard.standings
        if standing.name in reason.partition(" never")[0]
    ]
    assert all(
        abs(value or 9) < 4 for value in values(leaderboard, "bradley_terry").values() if value
    )
    assert any(reason in warning for warning in leaderboard.warnings)
    for standing in unsure:
        assert standing.values["bradley_terry"].low is None
        assert reason in standing.values["bradley_terry"].reason
    assert all(
        standing.rank == (1, len(leaderboard.standings)) for standing in leaderboard.standings
    )
    json.dumps(leaderboard.as_json(), allow_nan=False)


def test_a_difference_that_is_the_same_at_every_item_needs_enough_items(tmp_path):
    """The variance is 0: three items are no evidence, thirty are."""
    for items, rank in ((3, (1, 2)), (30, (1, 1))):
        rows = [
            {"source.system": name, "source.task": item, "output.score": score}
            for item in range(items)
            for name, score in (("five", 5.0), ("three", 3.0))
        ]
        leaderboard = board(tmp_path / f"{items}.parquet", rows, SCORES)
        assert leaderboard.standings[0].rank == rank
        assert leaderboard.standings[0].values["mean_score"].low is None
        assert "do not vary" in leaderboard.standings[0].values["mean_score"].reason


def test_no_rows_and_one_system_are_reported(tmp_path):
    failed = [{"source.system": "s", "source.task": 0, "output.score": None, "status": "failed"}]
    empty = board(tmp_path / "none.parquet", failed, SCORES)
    assert (empty.standings, empty.missing) == ((), 1)
    assert any("there are no systems" in warning for warning in empty.warnings)
    alone = [
        {"source.system": "s", "source.task": item, "output.score": float(item)}
        for item in range(12)
    ]
    leaderboard = board(tmp_path / "one.parquet", alone, SCORES)
    assert values(leaderboard, "mean_score") == {"s": 5.5}
    assert any("there is one system" in warning for warning in leaderboard.warnings)


def test_intervals_stay_on_the_scale(tmp_path):
    rows = [
        {"source.system": name, "source.task": item, "output.score": 4.0 if item == 0 else 5.0}
        for item in range(8)
        for name in ("a", "b")
    ]
    declared = {"output.score": DeclaredType({"type": "integer", "minimum": 1, "maximum": 5})}
    path = table(tmp_path / "results.parquet", rows, declared)
    leaderboard = leaderboards({"board": Evaluation(**SCORES)}, path)["board"]
    assert leaderboard.standings[0].values["mean_score"].high == 5.0


def test_a_system_that_is_null_or_battles_itself_makes_no_ranking(tmp_path):
    null = [{"source.system": None, "source.task": 1, "output.score": 1.0}]
    assert "the system is null" in board(tmp_path / "a.parquet", null, SCORES).conclusion()
    against_itself = board(tmp_path / "b.parquet", [battle("x", "x", "A", 0)], BATTLES)
    assert "in battle with itself" in against_itself.conclusion()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"system": "source.s", "score": "output.score"}, "an arena needs `item`"),
        ({"a": "source.a", "winner": "output.choice", "item": "source.i"}, "an arena needs `b`"),
        ({**SCORES, "a": "source.a"}, "is of scores and `a` of battles"),
        ({**BATTLES, "control": ("source.length",)}, "a battle has two answers"),
        ({**SCORES, "control": (("source.x", "source.y"),)}, "has one value of a control"),
        (
            {**SCORES, "prediction": "output.score"},
            "a leaderboard and `prediction` are two evaluations",
        ),
        ({**SCORES, "metrics": ("accuracy",)}, "a leaderboard does not measure `accuracy`"),
        ({**BATTLES, "metrics": ("mean_score",)}, "battles have no score"),
        ({"value": "output.score", "metrics": ("win_rate",)}, "`win_rate` needs `arena`"),
    ],
)
def test_keys_that_do_not_fit_are_reported(keys, message):
    problems = evaluation_problems("board", Evaluation(**keys))
    assert any(message in text for _, text, _ in problems), problems


def test_a_gate_on_a_leaderboard_is_reported():
    gate = Gate(metric="board.mean_score", min=5.0)
    (problem,) = gate_problems(gate, {"board": Evaluation(**SCORES)})
    assert "`board` is a leaderboard" in problem[1]


def test_of_equal_systems_few_leaderboards_distinguish_any():
    """5% are allowed: five or more of 30 would be there in one of 17 tests, and the seeds are fixed."""
    distinguished = {"scores": 0, "battles": 0}
    for seed in range(30):
        rng = np.random.default_rng(seed)
        drawn = simulation.scores(rng, 6, 60, "normal", np.zeros(6))
        distinguished["scores"] += any(
            standing.rank != (1, 6)
            for standing in simulation.leaderboard(drawn, ("mean_score",)).standings
        )
        drawn = simulation.battles(rng, 5, 150, 1, np.zeros(5))
        distinguished["battles"] += any(
            standing.rank != (1, 5)
            for standing in simulation.leaderboard(drawn, ("bradley_terry",)).standings
        )
    assert max(distinguished.values()) <= 4, distinguished
