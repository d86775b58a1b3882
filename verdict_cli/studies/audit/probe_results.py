"""From the runs of an audit to its table of effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from verdict_cli.language.extractors import EXTRACTORS
from verdict_cli.plan.node import Plan
from verdict_cli.report import formatting
from verdict_cli.stats.re_extract import OWN_EXTRACTOR, re_extract
from verdict_cli.studies.audit.effects import (
    Effect,
    Noise,
    effect,
    figure_change,
    noise,
    position_effect,
    preference,
    share,
    success,
    verdicts,
)
from verdict_cli.studies.audit.probes import AuditOptions, Probe, ProbeVerdict
from verdict_cli.studies.sweep.results import VariantRun, main_metric


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A probe that has run: its plan and its run's directory."""

    probe: Probe
    plan: Plan
    folder: Path
    failed: int


def measure_probes(
    baseline: VariantRun, probed: Sequence[ProbeResult], verdict: ProbeVerdict, wanted: AuditOptions, seed: int
) -> tuple[list[Effect], dict[str, str]]:
    """The effects in the order of the probes, and what could not be measured, with the reason."""
    before = verdicts(_results(baseline.folder), verdict.text)
    said = {one.probe.name: verdicts(_results(one.folder), verdict.text) for one in probed}
    again = [said[one.probe.name] for one in probed if one.probe.again]
    floor = noise([before, *again], seed) if again else None
    left: dict[str, str] = {}
    effects = _noise(floor, len(before)) if again else []
    if again and floor is None:
        left["repeated"] = "no row has two verdicts"
    effects += _positions(baseline, probed, seed)
    for one in probed:
        if one.probe.again or one.probe.cause == "position":
            continue
        found = effect(one.probe.name, one.probe.cause, before, said[one.probe.name], one.probe.goal, floor, seed)
        if one.probe.attack:
            found = replace(found, success=success(before, said[one.probe.name], one.probe.goal))
        failed = f"{one.failed:,} rows failed" if one.failed else ""
        note = ", ".join(part for part in (found.note, failed) if part)
        effects.append(replace(found, note=note, figure=_figure(baseline, one, len(before), seed)))
    effects += _extraction(baseline, left, seed)
    effects += _preference(baseline, before, verdict, wanted, seed)
    return effects, left


def _results(folder: Path) -> Path:
    return folder / "results.parquet"


def _noise(floor: Noise | None, rows: int) -> list[Effect]:
    if floor is None:
        return []
    note = f"{floor.askings} askings; pairs of them that differ"
    if floor.variance is not None:
        note += f"; variance within a row {formatting.metric_text(floor.variance)}"
        note += "" if floor.share is None else f", {floor.share:.1%} of all"
    return [Effect("repeated", "repeated", floor.disagreement.n, changed=floor.disagreement, note=note)]


def _positions(baseline: VariantRun, probed: Sequence[ProbeResult], seed: int) -> list[Effect]:
    """From the run that asks in both orders: a probe's, or the baseline where it does so itself."""
    runs = [(one.plan, one.folder) for one in probed if one.probe.cause == "position"]
    plan, folder = runs[0] if runs else (baseline.plan, baseline.folder)
    return [
        Effect(
            f"position: {name}",
            "position",
            found.flips.n,
            changed=found.flips,
            shift=found.first,
            shift_of="first place minus a half",
        )
        for name, found in position_effect(plan, folder / "calls.parquet", seed).items()
    ]


def _figure(baseline: VariantRun, one: ProbeResult, rows: int, seed: int) -> Any:
    name = next(iter(baseline.plan.evaluations), None)
    if name is None or name not in one.plan.evaluations:
        return None
    metric = main_metric(baseline, name, seed)
    both = (baseline.plan.evaluations[name], one.plan.evaluations[name])
    return figure_change(name, both, metric, (_results(baseline.folder), _results(one.folder)), rows, seed)


def _extraction(baseline: VariantRun, left: dict[str, str], seed: int) -> list[Effect]:
    names = [name for name in EXTRACTORS if name != "post_hoc"]
    found, _ = re_extract(baseline.plan, baseline.folder / "calls.parquet", names, seed=seed, most=0)
    effects: list[Effect] = []
    refused: dict[str, str] = {}
    for one in found:
        if one.extractor == OWN_EXTRACTOR or one.refused:
            refused |= {one.extractor: one.refused} if one.extractor != OWN_EXTRACTOR else {}
            continue
        note = f"{one.readable:,} of {one.replies:,} replies read"
        if one.both:
            changed = share(one.both - one.agreed, one.both)
            effects.append(Effect(f"{one.unit} by {one.extractor}", "extraction", one.both, changed=changed, note=note))
        else:
            left[f"extraction of {one.unit} by {one.extractor}"] = (
                f"{note}, none of them by the unit's own extractor too"
            )
    if not effects and refused:
        left["extraction"] = "; ".join(f"{name}: {why}" for name, why in refused.items())
    return effects


def _preference(
    baseline: VariantRun, before: Sequence[Any], verdict: ProbeVerdict, wanted: AuditOptions, seed: int
) -> list[Effect]:
    if wanted.family is None or wanted.judge_family is None:
        return []
    families = verdicts(_results(baseline.folder), wanted.family)
    evaluation = next((one for one in baseline.plan.evaluations.values() if one.target is not None), None)
    targets: Sequence[Any] = [None] * len(before)
    if evaluation is not None and evaluation.target is not None:
        targets = verdicts(_results(baseline.folder), evaluation.target)
    found, unit = preference(before, families, targets, wanted.judge_family, verdict.best)
    return [Effect("self-preference", "self-preference", found.n, shift=found, shift_of=unit)]


def under_replay(probe: Probe, units: Sequence[str], plan: Plan) -> str:
    """Why a recording cannot answer the probe, "" where it can."""
    if probe.cause == "position":
        return ""
    if not probe.again:
        return "a recording holds the replies to what was asked then: ask a model"
    renamed = probe.renamed(plan)
    wanted = [renamed(node.id) for node in plan.nodes] if renamed is not None else []
    return "" if any(name in units for name in wanted) else "the recording has no further sample of any unit"
