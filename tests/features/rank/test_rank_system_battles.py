"""The battles of systems: every pair once, or fewer that are spread over the pairs, and none twice."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from paths import ROOT
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.errors import DataError
from verdict_cli.features.rank.leaderboard import (
    BattleColumns,
    battle_row,
    pairings,
    read_outputs,
)

COLUMNS = BattleColumns("board", "system", "task")


def outputs(systems: str = "abcd", tasks: int = 6, **missing: set[int]) -> Any:
    rows = [
        {
            "id": f"{task}{system}",
            "task": f"t{task}",
            "system": system,
            "question": f"q{task}",
            "answer": f"{system}{task}",
        }
        for task in range(tasks)
        for system in systems
        if task not in missing.get(system, set())
    ]
    return read_outputs(iter(rows), COLUMNS, "outputs.jsonl")


def test_a_round_robin_has_every_pair_at_every_task_that_both_have_once():
    battles = [(item, frozenset(pair)) for item, *pair in pairings(outputs(d={0, 1}), None, 0)]
    expected = {
        (f"t{task}", frozenset(pair))
        for task in range(6)
        for pair in combinations("abcd", 2)
        if not ("d" in pair and task < 2)
    }
    assert len(battles) == len(expected)
    assert set(battles) == expected


def test_which_system_is_first_is_drawn_with_the_seed():
    first = Counter(pair[0] for _, *pair in pairings(outputs(tasks=40), None, 3))
    assert max(first.values()) - min(first.values()) < 40
    assert (
        [*pairings(outputs(), None, 1)]
        == [*pairings(outputs(), None, 1)]
        != [*pairings(outputs(), None, 2)]
    )


def test_fewer_battles_are_spread_over_the_pairs_and_the_tasks():
    battles = [*pairings(outputs(tasks=20), 12, 0)]
    assert set(Counter(frozenset(pair) for _, *pair in battles).values()) == {2}
    assert len({item for item, *_ in battles}) > 6


def test_a_row_has_shared_columns_and_those_of_both_systems():
    assert battle_row(outputs(), "t2", "c", "a") == {
        "id": "t2:c:a", "task": "t2", "system_a": "c", "system_b": "a", "question": "q2", "answer_a": "c2", "answer_b": "a2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"task": 1, "answer": "x"}], "row 0 has no 'system'"),
        ([{"task": 1, "system": "a"}, {"task": 1, "system": "a"}], "'a' has two outputs for '1'"),
        ([{"task": 1, "system": "a"}], "1 system: battles need at least 2"),
    ],
)
def test_outputs_without_battles_are_an_error(rows, message):
    with pytest.raises(DataError, match=message):
        read_outputs(iter(rows), COLUMNS, "outputs.jsonl")


def test_the_sample_of_battles_is_the_commands_and_a_run_ranks_its_systems(
    tmp_path,
):
    run = CliRunner().invoke
    ranked = run(
        app,
        [
            "rank",
            "arena_battles",
            "systems_sample",
            "--systems",
            "--out",
            str(tmp_path / "battles.jsonl"),
        ],
    )
    assert ranked.exit_code == 0, ranked.output
    sample = ROOT / "datasets" / "battles_sample.jsonl"
    assert (tmp_path / "battles.jsonl").read_text() == sample.read_text()
    judged = [
        "run",
        "arena_battles",
        "battles_sample",
        "--model",
        "baseline/lexical",
        "--quiet",
        "--json",
    ]
    result = run(app, [*judged, "--out", str(tmp_path / "run")])
    systems = json.loads(result.stdout)["evaluations"]["leaderboard"]["systems"]
    assert [set(system) for system in systems] == [
        {"system", "n", "bradley_terry", "win_rate", "rank"}
    ] * 3
    report = json.loads((tmp_path / "run" / "report.json").read_text())["evaluations"][
        "leaderboard"
    ]
    assert np.array(report["battles"]).sum() == 72
    assert "careless" in (tmp_path / "run" / "report.md").read_text()


def test_options_of_candidates_and_of_systems_are_not_mixed(tmp_path):
    for words in (["--systems", "--samples", "2"], ["--battles", "3"]):
        result = CliRunner().invoke(app, ["rank", "arena_battles", "systems_sample", *words])
        assert result.exit_code != 0
        assert "--systems" in str(result.exception)
