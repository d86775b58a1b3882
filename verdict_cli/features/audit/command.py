"""`verdict audit CONFIG DATA`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from verdict_cli.cli.console import print_error, print_json, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import ask_to_spend, execute_all_or_exit, stopping, tell_cost
from verdict_cli.cli.options import AsJson, Config, Data, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.cli.study import Arm, open_arms, requests_arm, silent
from verdict_cli.errors import SpecError
from verdict_cli.features.audit.options import DEGRADE, AuditOptions
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.overrides import apply_override
from verdict_cli.language.package_files import configs, file_or_named
from verdict_cli.messages import sum_usd
from verdict_cli.plural import plural
from verdict_cli.report.formatting import money
from verdict_cli.report.write_report import write_report
from verdict_cli.run.job import Stop
from verdict_cli.run.model_warnings import sampled_dry_run
from verdict_cli.storage.datasets.read import stream_rows

if TYPE_CHECKING:
    from verdict_cli.features.audit.probes import Probe
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.node import Plan
    from verdict_cli.run.load_run import RunResult
    from verdict_cli.run.session import Session


def audit(
    config: Config,
    data: Data,
    probing: AuditOptions,
    *,
    options: RowOptions,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Test a judge for bias and prompt-injection robustness.

    Each probe changes something that should not matter, and reports its effect on the verdicts with an interval: order, length,
    style, label names, scale, wording, repeat noise, extraction, own model family; with --attack, injected verdicts. --degrade plants errors that should
    matter, by rules or by --degrade-model, and reports how many the judge noticed.

    Example: verdict audit pairwise_positions pairs_sample --model baseline/lexical --attack
    """
    from verdict_cli.features.audit.document import audit_document
    from verdict_cli.features.audit.effects import measure_probes
    from verdict_cli.features.audit.probes import (
        estimate_audit,
        plan_audit,
        probe_options,
    )

    plan = options.plan(config)
    file = file_or_named(config, configs)
    document = apply_override(read_document(file), options.settings or ())
    audit_plan = plan_audit(plan, document.data, file.parent, probing, options.seed)
    replay = options.recording(plan)
    plans, skipped = _planned(config, options, audit_plan.probes, plan, replay)
    skipped = {**audit_plan.left_out, **skipped}
    folder = probing.out or Path("audits") / plan.name

    def arms() -> list[Arm]:
        return [
            Arm(
                probe.name,
                probe_plan,
                str(config),
                data,
                folder,
                change=partial(probe_options, probe),
            )
            for probe, probe_plan in plans
        ]

    model = probing.degrade_model
    planting: list[RunResult] = []
    is_told = False
    with stopping(stop := Stop()):
        if model is not None and not probing.dry_run:
            planting, plans, is_told = _plant_errors(
                model, options, arms()[0], plans, folder, stop, yes=yes
            )
        if planting and options.budget is not None:
            spent = planting[0].facts.cost_usd or 0.0
            options = replace(options, budget=max(options.budget - spent, 1e-9))
        with open_arms(arms(), options, silent if planting else print_error) as sessions:
            rows = sessions[0].options.data.rows
            line = estimate_audit([session.options for session in sessions])
            cost = "from the recording" if replay else f"about {money(line.cost_usd)}"
            summary = f"{plural(len(plans), 'run')} of {plural(rows, 'row')}: {plural(line.calls, 'call')}, {cost}"
            if probing.dry_run:
                print_message(summary)
                probes = [probe for probe, _ in plans]
                if model is not None:
                    _tell_planting(model, sessions[0], probes)
                costs = {"calls": line.calls, "cost_usd": 0.0 if replay else line.cost_usd}
                names = [probe.name for probe in probes]
                print_json({"runs": names, "left_out": skipped, "rows": rows, **costs})
                raise typer.Exit(0)
            is_told = is_told or tell_cost(sessions, yes=yes, quiet=options.quiet)
            if not (is_told or options.quiet):
                print_message(summary)
            done = execute_all_or_exit(sessions, folder, stop, options)
    write_report(done[0], warn=print_error)
    probed = [(probe, run) for (probe, _), run in zip(plans[1:], done[1:], strict=True)]
    effects, unmeasured = measure_probes(done[0], probed, audit_plan.verdict, probing, options.seed)
    failed = sum(run.facts.failed for run in done)
    facts = {
        "audit": str(folder),
        "pipeline": plan.name,
        "config": str(config),
        "dataset": data,
        "verdict": audit_plan.verdict.text,
        "best": audit_plan.verdict.best,
        "judged": list(audit_plan.judged),
        "rows": rows,
        "runs": len(done),
        "failed": failed,
        "calls": sum(run.facts.calls for run in (*done, *planting)),
        "cost_usd": sum_usd(*[run.facts.cost_usd for run in (*done, *planting)]),
        **({"planted_by": model} if planting else {}),
        "floors": sorted({floor for run in done for floor in run.facts.floors}),
    }
    show_study(
        audit_document(facts, effects, skipped | unmeasured), folder, "audit", as_json=as_json
    )
    raise typer.Exit(3 if failed else 0)


def _tell_planting(model: str, baseline: Session, probes: Sequence[Probe]) -> None:
    from verdict_cli.features.audit.probes import planting_requests

    options = baseline.options
    errors = [probe for probe in probes if probe.cause == DEGRADE]
    texts = planting_requests(stream_rows(options.dataset, options.data.selection), errors)
    if texts:
        calls = plural(len(texts), "call")
        print_message(f"{calls} of {model} plant the errors, and are not in this cost")


def _plant_errors(
    model: str,
    options: RowOptions,
    baseline: Arm,
    plans: list[tuple[Probe, Plan]],
    folder: Path,
    stop: Stop,
    *,
    yes: bool,
) -> tuple[list[RunResult], list[tuple[Probe, Plan]], bool]:
    """Let the model write the texts of the probes that plant errors: its run, the plans with these texts, and whether the cost
    of the whole audit was told."""
    from verdict_cli.features.audit.probes import (
        planted_change,
        planted_texts,
        planting_pipeline,
        planting_requests,
    )

    probes = [probe for probe, _ in plans if probe.cause == DEGRADE]
    if not probes:
        return [], plans, False
    with open_arms([baseline], options) as (unchanged,):
        dataset, data = unchanged.options.dataset, unchanged.options.data
        requests = planting_requests(stream_rows(dataset, data.selection), probes)
        arm, text_options = requests_arm(
            folder / "planted", planting_pipeline(model), requests, options
        )
        with open_arms([arm], text_options, silent) as (session,):
            texts = session.options
            is_told = not session.is_finished
            if is_told:
                lines = [
                    sampled_dry_run(probe_plan, dataset, data, text_options.seed).lines(data.rows)
                    for _, probe_plan in plans
                ]
                dry_run = sampled_dry_run(arm.plan, texts.dataset, texts.data, text_options.seed)
                lines.append(dry_run.lines(texts.data.rows))
                ask_to_spend(
                    f"{len(plans)} runs of {data.rows:,} rows, and {texts.data.rows:,} texts with planted errors",
                    lines,
                    [arm.plan, *(probe_plan for _, probe_plan in plans)],
                    yes=yes,
                    quiet=text_options.quiet,
                )
            runs = execute_all_or_exit([session], folder, stop, text_options)
    planted = planted_texts(runs[0].directory.results, requests)
    return runs, [(planted_change(probe, planted), plan) for probe, plan in plans], is_told


def _planned(
    config: Path,
    options: RowOptions,
    probes: Sequence[Probe],
    plan: Plan,
    replay: Recording | None,
) -> tuple[list[tuple[Probe, Plan]], dict[str, str]]:
    """Each probe with its plan, the baseline first; and why others are skipped."""
    from verdict_cli.features.audit.effects import replay_obstacle
    from verdict_cli.features.audit.probes import UNCHANGED

    plans, skipped = [(UNCHANGED, plan)], {}
    for probe in probes:
        reason = "" if replay is None else replay_obstacle(probe, replay.units(), plan)
        probe_plan = plan
        if probe.settings and not reason:
            settings = [*(options.settings or ()), *probe.settings]
            try:
                probe_plan = replace(options, settings=settings).built(config).plan
            except SpecError as error:
                reason = f"the pipeline does not allow it: {error.problems[0].message}"
        if reason:
            skipped[probe.name] = reason
        else:
            plans.append((probe, probe_plan))
    return plans, skipped
