"""`verdict audit CONFIG DATA`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.console import document, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Config
from verdict_cli.errors import SpecError, UsageError

if TYPE_CHECKING:
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.node import Plan
    from verdict_cli.report.document import ReportDocument
    from verdict_cli.studies.audit.probes import Probe


def audit(
    config: Config,
    data: Annotated[str, typer.Argument(help="JSONL, JSON, CSV, TSV or Parquet: a file, a directory, a glob, or -.")],
    attack: Annotated[
        bool, typer.Option("--attack", help="Also try to inject a verdict through the judged text.")
    ] = False,
    verdict: Annotated[
        str | None,
        typer.Option("--verdict", metavar="EXPR", help="The verdict. [default: output.choice or output.score]"),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text", metavar="COLUMN", help="A column whose text is judged. [default: the options, or the only one]"
        ),
    ] = None,
    goal: Annotated[
        str | None, typer.Option("--goal", metavar="VALUE", help="The verdict that attacks want. [default: the best]")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=0, help="How often the same is asked again.")] = 2,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Another name for a label.")
    ] = None,
    paraphrase: Annotated[
        list[str] | None,
        typer.Option("--paraphrase", metavar="UNIT=FILE", help="Another instruction for a unit, from a text file."),
    ] = None,
    family: Annotated[
        str | None, typer.Option("--family", metavar="EXPR", help="Who wrote the judged text, such as source.model.")
    ] = None,
    judge_family: Annotated[
        str | None, typer.Option("--judge-family", metavar="NAME", help="The judge's own value of --family.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The audit's directory. [default: audits/NAME]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be asked and cost.")] = False,
    *,
    how: RowOptions,
    as_json: AsJson = False,
) -> None:
    """Change what should not matter to a judge, and measure what that does to its verdicts: effects with intervals.

    Order, length, style, names, scale, wording, chance, extraction, own family; with --attack, injected verdicts.

    Example: verdict audit pairwise_positions pairs_sample --model baseline/lexical --attack
    """
    from verdict_cli.cli.multi_run import opened_cache, run_all
    from verdict_cli.cli.open_dataset import checked, open_dataset
    from verdict_cli.cli.signals import stopping
    from verdict_cli.cli.write_report import write_report
    from verdict_cli.language.document.document import read_document
    from verdict_cli.language.document.overrides import apply_override
    from verdict_cli.language.package_files import configs, file_or_named
    from verdict_cli.run.job import Stop
    from verdict_cli.studies.audit.audit_document import audit_document
    from verdict_cli.studies.audit.audit_runs import BASELINE, AuditRunConfig, estimate_audit
    from verdict_cli.studies.audit.probe_results import ProbeResult, measure_probes
    from verdict_cli.studies.audit.probes import AuditOptions, plan_audit
    from verdict_cli.studies.sweep.results import VariantRun

    plan = how.plan(config)
    wanted = AuditOptions(
        verdict,
        tuple(text or ()),
        repeats,
        dict(_pairs("--rename", rename, "OLD=NEW")),
        [(unit, Path(file)) for unit, file in _pairs("--paraphrase", paraphrase, "UNIT=FILE")],
        attack,
        None if goal is None else _value(goal),
        family,
        judge_family,
    )
    file = file_or_named(config, configs)
    made = plan_audit(plan, apply_override(read_document(file), how.settings or ()).data, file.parent, wanted)
    recorded = how.recording(plan)
    left = dict(made.left_out)
    plans: list[tuple[Probe | None, Plan]] = [(None, plan)]
    for probe in made.probes:
        its = _planned(config, how, probe, plan, recorded)
        if isinstance(its, str):
            left[probe.name] = its
        else:
            plans.append((probe, its))
    stop = Stop()
    folder = out or Path("audits") / plan.name
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, stopping(stop):
        dataset = open_dataset(plan, data, Path(spool_to))
        rows = checked(plan, dataset, limit=how.limit, sample=how.sample, seed=how.seed, quiet=how.quiet)
        making = AuditRunConfig(
            folder, (str(config), data), how.seed, how.replay, how.concurrency, recorded, how.budget, fresh=how.fresh
        )
        runs = [making.prepare(probe, its, dataset, rows) for probe, its in plans]
        costs = estimate_audit(runs, recorded=recorded is not None)
        if dry_run or not how.quiet:
            print_message(costs.summary)
        if dry_run:
            document({"runs": [one.name for one in runs], "left_out": left, **costs.as_json()})
            raise typer.Exit(0)
        done = run_all(runs, stop, opened_cache(runs, folder, shared=not how.no_cache), quiet=how.quiet)
    write_report(plan, done[0].job.directory, done[0].facts, in_summary=False)
    baseline = VariantRun(BASELINE, plan, done[0].job.directory.path, done[0].facts)
    probed = [
        ProbeResult(probe, its, one.job.directory.path, one.facts.failed)
        for (probe, its), one in zip(plans[1:], done[1:], strict=True)
        if probe is not None
    ]
    effects, unmeasured = measure_probes(baseline, probed, made.verdict, wanted, how.seed)
    left |= unmeasured
    facts = {
        "audit": str(folder),
        "pipeline": plan.name,
        "config": str(config),
        "dataset": data,
        "verdict": made.verdict.text,
        "best": made.verdict.best,
        "rows": rows.rows,
        "runs": len(done),
        "failed": sum(one.facts.failed for one in done),
        "calls": sum(one.facts.calls for one in done),
        "cost_usd": _sum([one.facts.cost_usd for one in done]),
        "floors": sorted({floor for one in done for floor in one.facts.floors}),
    }
    _write(folder, audit_document(facts, effects, left), as_json=as_json)
    raise typer.Exit(3 if facts["failed"] else 0)


def _write(folder: Path, outcome: ReportDocument, *, as_json: bool) -> None:
    """Write the audit's files, and print it."""
    from verdict_cli.cli.write_report import to_terminal
    from verdict_cli.report.renderers.terminal import render_terminal
    from verdict_cli.run.run_directory import RunDirectory
    from verdict_cli.studies.study_files import write_study

    write_study(RunDirectory(folder), "audit", outcome)
    if as_json:
        document(outcome.data())
    else:
        to_terminal(render_terminal(outcome))


def _planned(config: Path, how: RowOptions, probe: Probe, plan: Plan, recorded: Recording | None) -> Plan | str:
    """The probe's plan, or why there is none."""
    from verdict_cli.studies.audit.probe_results import replay_obstacle

    if recorded is not None and (why := replay_obstacle(probe, recorded.units(), plan)):
        return why
    if not probe.settings:
        return plan
    try:
        return replace(how, settings=[*(how.settings or ()), *probe.settings], quiet=True).plan(config)
    except SpecError as error:
        return f"the pipeline does not allow it: {error.problems[0].message}"


def _pairs(option: str, given: list[str] | None, form: str) -> list[tuple[str, str]]:
    made = []
    for one in given or []:
        key, equals, value = one.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{option} {one!r} is not of the form {form}")
        made.append((key, value))
    return made


def _value(text: str) -> Any:
    """A value as YAML has it: a number, true or false, else the text."""
    from verdict_cli.language.document.document import parse_document

    try:
        return parse_document(f"value: {text}".encode(), "--goal").data["value"]
    except SpecError:
        return text


def _sum(costs: list[float | None]) -> float | None:
    return None if None in costs else sum(cost for cost in costs if cost is not None)
