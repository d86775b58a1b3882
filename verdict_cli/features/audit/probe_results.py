"""Measure the effects of an audit from its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.cli.variant_runs import VariantRun, main_metric
from verdict_cli.features.audit.effects import (
    DEGRADE,
    Effect,
    Noise,
    all_noticed,
    attack_p,
    attack_success,
    measure_effect,
    measure_noise,
    measure_position,
    metric_change,
    notice_effect,
    probe_p,
    read_verdicts,
    self_preference,
    verdict_rank,
    wilson_rate,
    with_family,
)
from verdict_cli.features.audit.probes import AuditOptions, Probe, ProbeVerdict
from verdict_cli.language.extractors import EXTRACTORS
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.run.re_extract import OWN_EXTRACTOR, re_extract
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.intervals.interval_methods import MetricValue


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The finished run of a probe: its plan, its directory and the number of its failed rows."""

    probe: Probe
    plan: Plan
    folder: Path
    failed: int


def measure_probes(
    baseline: VariantRun, probed: Sequence[ProbeResult], verdict: ProbeVerdict, options: AuditOptions, seed: int
) -> tuple[list[Effect], dict[str, str]]:
    """The effects in the order of the probes, and the reason for each that could not be measured."""
    before = read_verdicts(_results(baseline.folder), verdict.text)
    after = {result.probe.name: read_verdicts(_results(result.folder), verdict.text) for result in probed}
    repeats = [after[result.probe.name] for result in probed if result.probe.repeat]
    noise = measure_noise([before, *repeats], seed) if repeats else None
    left_out: dict[str, str] = {}
    effects = [] if noise is None else [_noise_effect(noise)]
    if repeats and noise is None:
        left_out["repeated"] = "no row has two verdicts"
    effects += _position_effects(baseline, probed, seed)
    controls, cluster = [after[result.probe.name] for result in probed if result.probe.repeat], _clusters(baseline)
    parts: dict[str, Floats] = {}
    for result in probed:
        probe = result.probe
        if probe.repeat or probe.cause == "position":
            continue
        unchanged = _unchanged_rows(baseline, probe, len(before))
        verdicts = [None if same else verdict for verdict, same in zip(after[probe.name], unchanged, strict=True)]
        effect = measure_effect(probe.name, probe.cause, before, verdicts, probe.goal, noise, seed)
        rank = verdict_rank(baseline.plan, verdict.field, probe.goal) if probe.cause == DEGRADE else None
        if rank is not None:
            effect, parts[probe.name] = notice_effect(probe.name, before, verdicts, controls, rank, cluster, seed)
        elif probe.attack:
            success = attack_success(before, verdicts, probe.goal)
            beyond, p = attack_p(before, verdicts, controls, probe.goal, cluster, seed)
            effect = replace(effect, success=success, success_beyond_noise=beyond, p=p)
        else:
            effect = replace(effect, p=probe_p(before, verdicts, controls, probe.goal, cluster, seed))
        notes = [effect.note, f"{plural(result.failed, 'row')} failed" if result.failed else ""]
        if all(unchanged) and unchanged:
            notes[0] = "the change leaves every text as it is"
        elif any(unchanged):
            why = "where this cannot be planted" if rank is not None else "whose text the change leaves as it is"
            notes.append(f"{plural(sum(unchanged), 'row')} left out, {why}")
        note = ", ".join(part for part in notes if part)
        effects.append(replace(effect, note=note, metric_change=_metric_change(baseline, result, len(before), seed)))
    whole = all_noticed(parts, [effect for effect in effects if effect.cause == DEGRADE], cluster, seed)
    effects += [] if whole is None else [whole]
    effects += _extraction_effects(baseline, left_out, seed)
    effects += _self_preference(baseline, before, verdict, options, seed)
    return with_family(effects), left_out


def _unchanged_rows(baseline: VariantRun, probe: Probe, rows: int) -> list[bool]:
    """Whether the probe leaves each row's text as it is: such rows say nothing of the change."""
    if probe.change is None:
        return [False] * rows
    texts = read_verdicts(_results(baseline.folder), f"source.{probe.column}")
    return [isinstance(text, str) and probe.change(text) == text for text in texts]


def _clusters(baseline: VariantRun) -> Ints | None:
    """The rows' clusters by the first evaluation that has any; None: rows are independent."""
    for evaluation in baseline.plan.evaluations.values():
        if evaluation.cluster is not None:
            names = read_verdicts(_results(baseline.folder), evaluation.cluster)
            return np.unique([str(name) for name in names], return_inverse=True)[1].astype(np.int64)
    return None


def _results(folder: Path) -> Path:
    return folder / "results.parquet"


def _noise_effect(noise: Noise) -> Effect:
    note = f"{noise.repeats} repeats; pairs of them that differ"
    if noise.variance is not None:
        note += f"; variance within a row {formatting.metric_text(noise.variance)}"
        note += "" if noise.share is None else f", {noise.share:.1%} of the total"
    return Effect("repeated", "repeated", noise.disagreement.n, changed=noise.disagreement, note=note)


def _position_effects(baseline: VariantRun, probed: Sequence[ProbeResult], seed: int) -> list[Effect]:
    """From the run that calls judges in both orders: a probe's, or the baseline if it does so itself."""
    runs = [(result.plan, result.folder) for result in probed if result.probe.cause == "position"]
    plan, folder = runs[0] if runs else (baseline.plan, baseline.folder)
    return [
        Effect(
            f"position: {name}",
            "position",
            effect.flips.n,
            changed=effect.flips,
            shift=effect.first,
            shift_of="share of first position minus one half",
            p=effect.p,
        )
        for name, effect in measure_position(plan, folder / "calls.parquet", seed).items()
    ]


def _metric_change(baseline: VariantRun, result: ProbeResult, rows: int, seed: int) -> MetricValue | None:
    name = next(iter(baseline.plan.evaluations), None)
    if name is None or name not in result.plan.evaluations:
        return None
    metric = main_metric(baseline, name, seed)
    evaluations = (baseline.plan.evaluations[name], result.plan.evaluations[name])
    return metric_change(name, evaluations, metric, (_results(baseline.folder), _results(result.folder)), rows, seed)


def _extraction_effects(baseline: VariantRun, left_out: dict[str, str], seed: int) -> list[Effect]:
    # post_hoc calls a model, so it cannot read a recorded reply.
    names = [name for name in EXTRACTORS if name != "post_hoc"]
    readings, _ = re_extract(baseline.plan, baseline.folder / "calls.parquet", names, seed=seed, most=0)
    effects: list[Effect] = []
    refused: dict[str, str] = {}
    for reading in readings:
        if reading.extractor == OWN_EXTRACTOR:
            continue
        if reading.refused:
            refused[reading.extractor] = reading.refused
            continue
        note = f"{reading.readable:,} of {plural(reading.replies, 'reply|replies')} read"
        if reading.both:
            changed = wilson_rate(reading.both - reading.agreed, reading.both)
            name = f"{reading.unit} by {reading.extractor}"
            effects.append(Effect(name, "extraction", reading.both, changed=changed, note=note))
        else:
            reason = f"{note}, none of them also by the unit's own extractor"
            left_out[f"extraction of {reading.unit} by {reading.extractor}"] = reason
    if not effects and refused:
        left_out["extraction"] = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    return effects


def _self_preference(
    baseline: VariantRun, before: Sequence[Any], verdict: ProbeVerdict, options: AuditOptions, seed: int
) -> list[Effect]:
    if options.family is None or options.judge_family is None:
        return []
    families = read_verdicts(_results(baseline.folder), options.family)
    target = next(
        (evaluation.target for evaluation in baseline.plan.evaluations.values() if evaluation.target is not None), None
    )
    targets: Sequence[Any] = [None] * len(before)
    if target is not None:
        targets = read_verdicts(_results(baseline.folder), target)
    difference, unit = self_preference(before, families, targets, options.judge_family, verdict.best)
    return [Effect("self-preference", "self-preference", difference.n, shift=difference, shift_of=unit)]


def replay_obstacle(probe: Probe, units: Sequence[str], plan: Plan) -> str:
    """Why a recording of these units cannot answer the probe; "" if it can."""
    if probe.cause == "position":
        return ""
    if not probe.repeat:
        return "a recording has no reply to a changed text: run the audit with a model"
    renamed = probe.node_renaming(plan)
    names = [renamed(node.id) for node in plan.nodes] if renamed is not None else []
    return "" if any(name in units for name in names) else "the recording has no further sample of any unit"
