"""`verdict plan`: rows, labels, calls and cost before anything is asked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.features.power.sample_size import Parts, rows_for_share, rows_with_repeats

STEPS = """
- layer:
    - {unit: JudgeUnit, name: judge, scale: boolean, prompt: "Is {source.text} good?"}
  repeat: 3
- {unit: ModePoolUnit, name: vote, field: score}
evaluate:
  right: {prediction: output.score, target: source.good, metrics: [accuracy, f1]}
  rate: {value: output.score, metrics: [mean]}
"""
PRICED = "model: {name: m, cost: {input_per_million: 10, output_per_million: 0}}"
LOCAL = "model: baseline/random"


def rows(shell: Any, count: int = 40) -> Path:
    return shell.write(
        "d.jsonl",
        jsonl({"text": f"text {index}", "good": index % 2 == 0} for index in range(count)),
    )


def test_the_worst_case_and_an_expected_share(shell):
    config, data = shell.config(STEPS, PRICED), rows(shell)
    worst = shell("plan", config, data, "--half-width", "0.05", "--json").json()
    (need,) = worst["needs"]
    assert need["rows"] == need["labels"] == rows_for_share(0.5, 0.05, 0.95)
    assert need["calls"] == 3 * need["rows"]
    assert need["cost_usd"] > 0
    assert not need["enough"]
    there = worst["rows_there"]
    assert worst["conclusion"] == (
        f"{need['rows']} rows for ±0.05 with 95% confidence: the dataset has {there}, {need['rows'] - there} too few"
    )
    lines = shell("plan", config, data, "--half-width", "0.05").out.splitlines()
    assert lines[1].startswith(f"{need['rows']} rows for ±0.05")
    better = shell("plan", config, data, "--half-width", "0.05", "--expect", "0.9", "--json").json()
    assert better["needs"][0]["rows"] == rows_for_share(0.9, 0.05, 0.95)


def test_calls_and_cost_are_those_of_estimate(shell):
    config, data = shell.config(STEPS, PRICED), rows(shell, 10)
    need = shell("plan", config, data, "--half-width", "0.3", "--json").json()["needs"][0]
    there = shell("estimate", config, rows(shell, need["rows"]), "--json").json()
    assert need["calls"] == there["calls"]
    assert need["cost_usd"] == pytest.approx(there["cost_usd"], rel=0.2)


def test_a_pilot_says_what_to_expect_and_what_repeats_are_worth(shell):
    config, data = shell.config(STEPS, LOCAL), rows(shell)
    assert shell("run", config, data, "--out", "p", "--quiet").code == 0
    document = shell("plan", config, data, "--half-width", "0.05", "--pilot", "p", "--json").json()
    accuracy = json.loads((shell.folder / "p" / "report.json").read_text())["evaluations"]["right"][
        "figures"
    ]["accuracy"]
    (need,) = document["needs"]
    assert need["rows"] == rows_for_share(accuracy["value"], 0.05, 0.95)
    assert need["rows_at_worst"] >= need["rows"]
    first, second = document["repeats"][0], document["repeats"][3]
    assert first["calls"] == first["rows"]
    assert second["calls"] == 4 * second["rows"]
    assert second["rows"] < first["rows"]  # a random judge differs among askings


def test_the_parts_of_a_pilot_are_those_of_its_rows(shell):
    from verdict_cli.storage.tables.reader import read_table

    config, data = shell.config(STEPS, LOCAL), rows(shell)
    shell("run", config, data, "--out", "p", "--quiet")
    document = shell("plan", config, data, "--half-width", "0.05", "--pilot", "p", "--json").json()
    names = ["source.good", *(f"judge[{copy}].score" for copy in range(3))]
    (batch,) = read_table(shell.folder / "p" / "results.parquet", names)
    right = [
        [float(batch[name][index] == batch["source.good"][index]) for name in names[1:]]
        for index in range(40)
    ]
    means = [sum(row) / 3 for row in right]
    middle = sum(means) / 40
    within = (
        sum(
            sum((hit - mean) ** 2 for hit in row) / 2
            for row, mean in zip(right, means, strict=True)
        )
        / 40
    )
    between = max(sum((mean - middle) ** 2 for mean in means) / 39 - within / 3, 0.0)
    expected = [rows_with_repeats(Parts(between, within), count, 0.05, 0.95) for count in (1, 9)]
    assert [document["repeats"][place]["rows"] for place in (0, 8)] == pytest.approx(
        expected, abs=1
    )


def test_a_comparison_is_planned_with_or_without_pilots(shell):
    config, data = shell.config(STEPS, LOCAL), rows(shell)
    need = shell("plan", config, data, "--mde", "0.05", "--discordant", "0.2", "--json").json()[
        "needs"
    ][0]
    assert (
        need["rows"] == 837
    )  # McNemar's exact test, summed over all outcomes, at the level of two evaluations together
    for name, seed in (("p", "1"), ("q", "2")):
        shell("run", config, data, "--out", name, "--seed", seed, "--quiet")
    result = shell("plan", config, data, "--mde", "0.05", "--pilot", "p", "--pilot", "q", "--json")
    assert result.json()["needs"][0]["rows"] > 40


def test_any_metric_is_planned_from_a_pilot_or_has_the_reason_why_not(shell):
    config, data = shell.config(STEPS, LOCAL), rows(shell)
    words = ("plan", config, data, "--half-width", "0.05", "--metric", "right.f1")
    without = shell(*words)
    assert without.code == 2
    assert "--pilot" in without.err
    shell("run", config, data, "--out", "p", "--quiet")
    assert shell(*words, "--pilot", "p", "--json").json()["needs"][0]["rows"] > 40


def test_gold_labels_are_planned_as_the_report_of_a_run_says(shell):
    gold = "gold: {target: source.good, half_width: 0.2}"
    config = shell.config(STEPS.replace("metrics: [mean]", f"metrics: [mean], {gold}"), LOCAL)
    data = rows(shell)
    done = shell("run", config, data, "--out", "p")
    needed_labels = re.search(
        r"±0.2 needs (.+) with the judge, ([\d,]+) without", " ".join(done.out.split())
    )
    assert needed_labels is not None
    words = (
        "plan",
        config,
        data,
        "--half-width",
        "0.2",
        "--metric",
        "rate.mean",
        "--pilot",
        "p",
        "--json",
    )
    notes = " ".join(shell(*words).json()["notes"])
    assert f"{needed_labels[2]} without it" in notes
    assert needed_labels[1].split()[0] in notes


def test_a_value_needs_no_labels(shell):
    config, data = shell.config(STEPS, LOCAL), rows(shell)
    shell("run", config, data, "--out", "p", "--quiet")
    words = ("plan", config, data, "--half-width", "0.1", "--metric", "rate.mean", "--pilot", "p")
    assert shell(*words, "--json").json()["needs"][0]["labels"] == 0
    assert "fewest calls" in shell(*words).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--half-width"),
        (("--half-width", "0"), "not a number above 0"),
        (("--half-width", "nan"), "nan is not a number above 0"),
        (("--half-width", "2"), "2% is 0.02"),
        (("--mde", "1"), "1% is 0.01"),
        (("--half-width", "0.1", "--expect", "1.5"), "--expect"),
        (("--mde", "0.2", "--discordant", "0.1"), "--discordant"),
        (("--half-width", "0.1", "--pilot", "nowhere"), "nowhere"),
        (("--half-width", "0.1", "--metric", "no.accuracy"), "no evaluation"),
    ],
)
def test_what_cannot_be_planned_is_refused(shell, words, message):
    done = shell("plan", shell.config(STEPS), rows(shell), *words)
    assert done.code == 2
    assert message in done.err


def test_a_metric_of_entries_cannot_be_planned(shell):
    steps = """
- {each: source.claims, unit: JudgeUnit, name: check, scale: boolean, prompt: "{item}"}
- {unit: MeanPoolUnit, field: score}
evaluate:
  claims: {items: check, value: output.score, metrics: [mean]}
"""
    data = shell.write("e.jsonl", '{"claims": ["a", "b"]}\n')
    done = shell("plan", shell.config(steps, LOCAL), data, "--half-width", "0.05")
    assert done.code == 2
    assert "'claims' counts entries of 'check'" in done.err
