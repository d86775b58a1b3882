"""From the tables of an audit's runs to its effects."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from finished_runs import finished_run

from verdict_cli.features.audit.effects import measure_probes, replay_obstacle
from verdict_cli.features.audit.options import AuditOptions
from verdict_cli.features.audit.probes import Probe, ProbeVerdict
from verdict_cli.plan.node import Plan
from verdict_cli.run.load_run import RunResult
from verdict_cli.run.result_columns import result_columns
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.tables.run_columns import CALL_COLUMNS, column_kinds_of
from verdict_cli.storage.tables.writer import ParquetTable

SCORE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.answer}'}"
PAIR = (
    "- {unit: PairwiseJudgeUnit, name: judge, options: [source.one, source.two], positions: both, tie: true,"
    " prompt: 'A: {input.A} B: {input.B}'}"
)
EVALUATE = (
    "evaluate: {right: {prediction: output.score, target: source.label, metrics: [accuracy]}}"
)
VERDICT = ProbeVerdict("output.score", "score", 5)

Writer = Callable[..., RunResult]


@pytest.fixture
def write_run(tmp_path: Path) -> Writer:
    """Write the tables of a run without running it; a row without a score failed."""

    def write(
        plan: Plan, name: str, scores: Sequence[int | None], replies: Sequence[dict[str, Any]] = ()
    ) -> RunResult:
        folder = tmp_path / name
        folder.mkdir()
        with (
            ParquetTable(
                folder / "results.parquet", result_columns(plan, ["label", "author"])
            ) as results,
            ParquetTable(folder / "calls.parquet", column_kinds_of(CALL_COLUMNS)) as calls,
        ):
            for row, score in enumerate(scores):
                output = (
                    {"failure.kind": "timeout"}
                    if score is None
                    else {"judge.score": score, "output.score": score}
                )
                source = {"source.label": 3, "source.author": "mine" if row % 2 else "other"}
                status = "failed" if score is None else "ok"
                results.write(
                    {
                        "row": row,
                        "id": row,
                        "status": status,
                        "calls": 1,
                        "cost_usd": 0.0,
                        **source,
                        **output,
                    }
                )
            for number, reply in enumerate(replies):
                calls.write(
                    {"row": number, "id": number, "unit": "judge", "call": 0, "attempt": 0, "model": "m",
                     "messages": "[]", "finish_reason": "stop", "prompt_tokens": 1, "completion_tokens": 1,
                     "cost_usd": 0.0, "latency_s": 0.1, **reply}
                )  # fmt: skip
        facts = finished_run(name="t", rows=4, done=4, failed=list(scores).count(None))
        return RunResult(RunDirectory(folder), facts, plan)

    return write


def test_each_probe_is_compared_with_the_baseline(planned, write_run):
    plan, _ = planned(SCORE, EVALUATE)
    baseline = write_run(plan, "baseline", [3, 3, 1, 5])
    probed = [
        (Probe("repeated", "repeated", repeat=1), write_run(plan, "again", [3, 2, 1, 5])),
        (Probe("length", "length", goal=5), write_run(plan, "length", [4, 3, 2, None])),
        (
            Probe("attack: x", "attack", goal=5),
            write_run(plan, "attack", [5, 3, 5, 5]),
        ),
    ]
    effects, left_out = measure_probes(baseline, probed, VERDICT, AuditOptions(), 0)
    assert [effect.name for effect in effects] == ["repeated", "length", "attack: x"]
    repeated, length, attack = effects
    assert repeated.changed.value == 0.25 and repeated.note.startswith(
        "2 repeats; pairs of them that differ"
    )
    assert (length.n, length.changed.value, length.shift.value) == (
        3,
        pytest.approx(2 / 3),
        pytest.approx(2 / 3),
    )
    assert length.beyond_noise.value == pytest.approx((1 - 1 + 1) / 3)
    assert length.note == "1 row failed" and length.success is None
    assert length.metric_change.value == pytest.approx(-1 / 3)
    assert (attack.success.value, attack.success.n) == (pytest.approx(2 / 3), 3)
    assert "repeated" not in left_out


def test_repeats_without_two_verdicts_are_left_out(planned, write_run):
    plan, _ = planned(SCORE)
    baseline = write_run(plan, "baseline", [3, None])
    again = (Probe("repeated", "repeated", repeat=1), write_run(plan, "again", [None, 3]))
    effects, left_out = measure_probes(baseline, [again], VERDICT, AuditOptions(), 0)
    assert effects == [] and left_out["repeated"] == "no row has two verdicts"


def test_a_pipeline_without_evaluations_has_no_metric_change(planned, write_run):
    plan, _ = planned(SCORE)
    baseline = write_run(plan, "baseline", [3, 2])
    style = (Probe("style", "style"), write_run(plan, "style", [3, 1]))
    (effect,), _ = measure_probes(baseline, [style], VERDICT, AuditOptions(), 0)
    assert (
        effect.metric_change is None and effect.beyond_noise is None and effect.changed.value == 0.5
    )


def test_self_preference_compares_the_families_of_the_baseline(planned, write_run):
    plan, _ = planned(SCORE, EVALUATE)
    baseline = write_run(plan, "baseline", [1, 5, 2, 4])
    options = AuditOptions(family="source.author", judge_family="mine")
    (effect,), _ = measure_probes(baseline, [], VERDICT, options, 0)
    assert (effect.name, effect.shift.value, effect.shift_of) == (
        "self-preference",
        3,
        "verdict minus target",
    )


def test_positions_are_read_from_the_calls_of_both_orders(planned, write_run):
    plan, _ = planned(PAIR)
    # Letters are positions: A in one order and B in the other is the same option.
    choices = [("A", "A"), ("A", "B"), ("B", "A"), ("tie", "tie"), ("tie", "A")]
    replies = [
        {"row": row, "id": row, "call": call, "reply": json.dumps({"choice": choice})}
        for row, pair in enumerate(choices)
        for call, choice in enumerate(pair)
    ]
    baseline = write_run(plan, "baseline", [None] * 5, replies)
    effects, _ = measure_probes(
        baseline, [], ProbeVerdict("output.choice", "choice"), AuditOptions(), 0
    )
    position = next(effect for effect in effects if effect.cause == "position")
    assert (position.changed.value, position.changed.n) == (0.4, 5)
    assert position.shift.value == pytest.approx((0.5 + 0 + 0) / 3)


def test_extractors_that_read_the_same_replies_differently_are_an_effect(planned, write_run):
    plan, _ = planned(SCORE)
    replies = [{"reply": '{"score": 4}'}, {"reply": '{"score": 2}'}]
    baseline = write_run(plan, "baseline", [4, 2], replies)
    effects, left_out = measure_probes(baseline, [], VERDICT, AuditOptions(), 0)
    extraction = [effect for effect in effects if effect.cause == "extraction"]
    assert extraction and all(effect.note.endswith("of 2 replies read") for effect in extraction)
    assert not any(name.startswith("judge by structured") for name in left_out)


@pytest.mark.parametrize(
    ("probe", "units", "obstacle"),
    [
        (Probe("position", "position"), ("judge",), ""),
        (Probe("length", "length"), ("judge",), "no reply to a changed text"),
        (Probe("repeated", "repeated", repeat=1), ("judge", "judge[1]"), ""),
        (Probe("repeated", "repeated", repeat=2), ("judge", "judge[1]"), "no further sample"),
    ],
)
def test_a_recording_answers_what_was_recorded(planned, probe, units, obstacle):
    plan, _ = planned(SCORE)
    reason = replay_obstacle(probe, units, plan)
    assert obstacle in reason and bool(reason) == bool(obstacle)


def test_rows_whose_text_the_probe_leaves_as_it_is_are_left_out(planned, write_run):
    """The author column stands for the judged text; only `mine` is changed by the probe."""
    plan, _ = planned(SCORE)
    baseline = write_run(plan, "baseline", [3, 3, 1, 5])
    probes = [
        Probe("repeated", "repeated", repeat=1),
        Probe(
            "style",
            "style",
            column="author",
            change=lambda text: text.replace("mine", "yours"),
            goal=5,
        ),
        Probe("nothing", "style", column="author", change=lambda text: text, goal=5),
    ]
    runs = [[3, 2, 1, 5], [4, 3, 4, 5], [4, 3, 4, 5]]
    probed = [
        (probe, write_run(plan, probe.name, scores))
        for probe, scores in zip(probes, runs, strict=True)
    ]
    style, nothing = measure_probes(baseline, probed, VERDICT, AuditOptions(), 0)[0][1:]
    assert (style.n, style.changed.value) == (2, 0)
    assert style.note == "2 rows left out, whose text the change leaves as it is"
    assert (nothing.n, nothing.p, nothing.note) == (
        0,
        None,
        "the change leaves every text as it is",
    )
