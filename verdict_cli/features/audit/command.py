"""`verdict audit CONFIG DATA`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct, structs

from verdict_cli.cli.console import print_error, print_json, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import ask_to_spend, execute_all_or_exit, stopping, tell_cost
from verdict_cli.cli.options import AsJson, Config, Data, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.cli.study import Arm, open_arms, requests_arm
from verdict_cli.errors import SpecError, UsageError
from verdict_cli.language.document.document import parse_document, read_document
from verdict_cli.language.document.overrides import apply_override
from verdict_cli.language.package_files import configs, file_or_named
from verdict_cli.plural import plural
from verdict_cli.report.write_report import write_report
from verdict_cli.run.job import Stop
from verdict_cli.run.model_warnings import sampled_dry_run
from verdict_cli.storage.datasets.read import stream_rows

if TYPE_CHECKING:
    from verdict_cli.features.audit.probes import AuditOptions, Probe
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.node import Plan
    from verdict_cli.run.job import RunOptions


class Planting(Struct, frozen=True):
    """The calls and the cost of the model that planted the errors."""

    calls: int
    cost_usd: float | None
    is_told: bool = False
    """Whether the cost of the whole audit was told before these calls."""


@dataclass(frozen=True, kw_only=True)
class ProbingOptions:
    """Which probes an audit has, and of what."""

    attack: Annotated[
        bool, typer.Option("--attack", help="Also try prompt injections in the judged text.")
    ] = False
    degrade: Annotated[
        bool,
        typer.Option(
            "--degrade", help="Also plant errors in the judged text, which must lower its score."
        ),
    ] = False
    degrade_model: Annotated[
        str | None,
        typer.Option(
            "--degrade-model",
            metavar="MODEL",
            help="Let this model plant the errors of --degrade, not rules.",
        ),
    ] = None
    verdict: Annotated[
        str | None,
        typer.Option(
            "--verdict",
            metavar="EXPR",
            help="The verdict of a row. [default: output.choice or output.score]",
        ),
    ] = None
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            metavar="COLUMN",
            help="A column whose text is judged. [default: the options, the only column of prompts, or by its name]",
        ),
    ] = None
    goal: Annotated[
        str | None,
        typer.Option(
            "--goal",
            metavar="VALUE",
            help="The verdict that attacks aim at, and that errors must lower. [default: the best]",
        ),
    ] = None
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats", min=0, help="How often unchanged rows are judged again, to measure noise."
        ),
    ] = 2
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Rename a label.")
    ] = None
    paraphrase: Annotated[
        list[str] | None,
        typer.Option(
            "--paraphrase",
            metavar="UNIT=FILE",
            help="Replace the instruction of a unit by that of a text file.",
        ),
    ] = None
    family: Annotated[
        str | None,
        typer.Option(
            "--family", metavar="EXPR", help="The author of the judged text, such as source.model."
        ),
    ] = None
    judge_family: Annotated[
        str | None,
        typer.Option(
            "--judge-family",
            metavar="NAME",
            help="The value of --family for the judge's own model.",
        ),
    ] = None
    out: Annotated[
        Path | None, typer.Option("--out", help="The audit's directory. [default: audits/NAME]")
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the calls and the cost.")
    ] = False

    def as_audit(self, seed: int) -> AuditOptions:
        """The options as the plan of the probes takes them. UsageError for one of another form."""
        from verdict_cli.features.audit.probes import AuditOptions

        return AuditOptions(
            self.verdict,
            tuple(self.text or ()),
            self.repeats,
            dict(_pairs("--rename", self.rename, "OLD=NEW")),
            [
                (unit, Path(file))
                for unit, file in _pairs("--paraphrase", self.paraphrase, "UNIT=FILE")
            ],
            self.attack,
            None if self.goal is None else _value(self.goal),
            self.family,
            self.judge_family,
            self.degrade or self.degrade_model is not None,
            seed,
        )


def audit(
    config: Config,
    data: Data,
    probing: ProbingOptions,
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
    from verdict_cli.features.audit.effects import ProbeResult, measure_probes
    from verdict_cli.features.audit.probes import (
        BASELINE,
        estimate_audit,
        plan_audit,
        probe_options,
    )

    plan = options.plan(config)
    audit_options = probing.as_audit(options.seed)
    file = file_or_named(config, configs)
    audit_plan = plan_audit(
        plan,
        apply_override(read_document(file), options.settings or ()).data,
        file.parent,
        audit_options,
    )
    replay = options.recording(plan)
    skipped = dict(audit_plan.left_out)
    plans: list[tuple[Probe | None, Plan]] = [(None, plan)]
    for probe in audit_plan.probes:
        probe_plan = _probe_plan(config, options, probe, plan, replay)
        if isinstance(probe_plan, str):
            skipped[probe.name] = probe_plan
        else:
            plans.append((probe, probe_plan))
    folder = probing.out or Path("audits") / plan.name

    def arms() -> list[Arm]:
        return [
            Arm(
                BASELINE if probe is None else probe.name,
                probe_plan,
                str(config),
                data,
                folder,
                change=partial(probe_options, probe),
            )
            for probe, probe_plan in plans
        ]

    with stopping(stop := Stop()):
        planting = None
        if probing.degrade_model is not None:
            with open_arms(arms()[:1], options) as (baseline_run,):
                planting, plans = _plant_errors(
                    probing.degrade_model,
                    options,
                    baseline_run.options,
                    plans,
                    folder,
                    stop,
                    dry_run=probing.dry_run,
                    yes=yes,
                )
        if planting is not None and options.budget is not None:
            options = replace(
                options, budget=max(options.budget - (planting.cost_usd or 0.0), 1e-9)
            )
        with open_arms(arms(), options, (lambda _: None) if planting else print_error) as sessions:
            rows = sessions[0].options.data.rows
            costs = estimate_audit([session.options for session in sessions])
            is_told = planting is not None and planting.is_told
            is_told = is_told or (
                not probing.dry_run and tell_cost(sessions, yes=yes, quiet=options.quiet)
            )
            if probing.dry_run or not (is_told or options.quiet):
                print_message(costs.summary)
            if probing.dry_run and planting is not None:
                print_message(
                    f"{plural(planting.calls, 'call')} of {probing.degrade_model} plant the errors, and are not in this cost"
                )
            if probing.dry_run:
                print_json(
                    {
                        "runs": [BASELINE if probe is None else probe.name for probe, _ in plans],
                        "left_out": skipped,
                        **costs.as_json(),
                    }
                )
                raise typer.Exit(0)
            done = execute_all_or_exit(sessions, folder, stop, options)
    write_report(done[0], warn=print_error)
    results = [
        ProbeResult(probe, run)
        for (probe, _), run in zip(plans[1:], done[1:], strict=True)
        if probe is not None
    ]
    effects, unmeasured = measure_probes(
        done[0], results, audit_plan.verdict, audit_options, options.seed
    )
    skipped |= unmeasured
    costs_usd = [run.facts.cost_usd for run in done] + (
        [planting.cost_usd] if planting is not None else []
    )
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
        "failed": sum(run.facts.failed for run in done),
        "calls": sum(run.facts.calls for run in done)
        + (planting.calls if planting is not None else 0),
        "cost_usd": None if None in costs_usd else sum(cost or 0.0 for cost in costs_usd),
        **({} if planting is None else {"planted_by": probing.degrade_model}),
        "floors": sorted({floor for run in done for floor in run.facts.floors}),
    }
    show_study(audit_document(facts, effects, skipped), folder, "audit", as_json=as_json)
    raise typer.Exit(3 if facts["failed"] else 0)


def _plant_errors(
    model: str,
    options: RowOptions,
    baseline: RunOptions,
    plans: list[tuple[Probe | None, Plan]],
    folder: Path,
    stop: Stop,
    *,
    dry_run: bool,
    yes: bool,
) -> tuple[Planting | None, list[tuple[Probe | None, Plan]]]:
    """Let the model write the texts of the probes that plant errors; what it cost, and the plans with these texts."""
    from verdict_cli.features.audit.probes import (
        DEGRADE,
        PLANTED,
        planted_change,
        planted_texts,
        planting_pipeline,
        planting_requests,
    )

    probes = [probe for probe, _ in plans if probe is not None and probe.cause == DEGRADE]
    if not probes:
        return None, plans
    kinds = [probe.name.removeprefix(PLANTED) for probe in probes]
    dataset, data = baseline.dataset, baseline.data
    requests = planting_requests(stream_rows(dataset, data.selection), probes[0].column, kinds)
    if dry_run:
        return Planting(len(requests), None), plans
    arm, own = requests_arm(folder / "planted", planting_pipeline(model), requests, options)
    plan = arm.plan
    with open_arms([arm], own, lambda _: None) as (session,):
        facts = session.options.data
        if not session.is_finished:
            lines = [
                sampled_dry_run(probe_plan, dataset, data, own.seed).lines(data.rows)
                for _, probe_plan in plans
            ]
            what = f"{len(plans)} runs of {data.rows:,} rows, and {facts.rows:,} texts with planted errors"
            lines.append(
                sampled_dry_run(plan, session.options.dataset, facts, own.seed).lines(facts.rows)
            )
            ask_to_spend(
                what,
                lines,
                [plan, *(probe_plan for _, probe_plan in plans)],
                yes=yes,
                quiet=own.quiet,
            )
        (run,) = execute_all_or_exit([session], folder, stop, own)
    texts = planted_texts(run.directory.results, requests)
    changes = {
        probe: planted_change(texts, kind) for probe, kind in zip(probes, kinds, strict=True)
    }
    planted = [
        (probe, probe_plan)
        if probe not in changes
        else (
            structs.replace(probe, change=changes[probe][0], digest=changes[probe][1]),
            probe_plan,
        )
        for probe, probe_plan in plans
    ]
    return Planting(run.facts.calls, run.facts.cost_usd, not session.is_finished), planted


def _probe_plan(
    config: Path, options: RowOptions, probe: Probe, plan: Plan, replay: Recording | None
) -> Plan | str:
    """The plan of a probe, or why it is skipped."""
    from verdict_cli.features.audit.effects import replay_obstacle

    if replay is not None and (reason := replay_obstacle(probe, replay.units(), plan)):
        return reason
    if not probe.settings:
        return plan
    try:
        return (
            replace(options, settings=[*(options.settings or ()), *probe.settings])
            .built(config)
            .plan
        )
    except SpecError as error:
        return f"the pipeline does not allow it: {error.problems[0].message}"


def _pairs(option: str, values: list[str] | None, form: str) -> list[tuple[str, str]]:
    pairs = []
    for pair in values or []:
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{option} {pair!r} is not of the form {form}")
        pairs.append((key, value))
    return pairs


def _value(text: str) -> Any:
    """Read a value as YAML does: a number, true or false, otherwise the text."""
    try:
        return parse_document(f"value: {text}".encode(), "--goal").data["value"]
    except SpecError:
        return text
