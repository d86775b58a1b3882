"""`verdict audit CONFIG DATA`, and its document: the effect of each probe, and the papers that describe them."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct, structs

from verdict_cli.cli.console import print_error, print_json, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import ask_to_spend, execute_all_or_exit, stopping, tell_cost
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import AsJson, Config, Data, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.cli.variant_runs import VariantRun
from verdict_cli.errors import SpecError, UsageError
from verdict_cli.features.audit.effects import Effect, ProbeResult, conclusion, measure_probes, replay_obstacle
from verdict_cli.features.audit.probes import (
    BASELINE,
    DEGRADE,
    PLANTED,
    AuditOptions,
    Probe,
    estimate_audit,
    plan_audit,
    planted_change,
    planted_texts,
    planting_pipeline,
    planting_requests,
    probe_options,
)
from verdict_cli.language.document.document import parse_document, read_document
from verdict_cli.language.document.overrides import apply_override
from verdict_cli.language.package_files import configs, file_or_named
from verdict_cli.plan.resolve import as_yaml
from verdict_cli.plural import plural
from verdict_cli.report import formatting, run_notes
from verdict_cli.report.charts import ChartPoint, Dots
from verdict_cli.report.conclusions import listed_names
from verdict_cli.report.document import Group, Note, Part, ReportDocument, Section, Table
from verdict_cli.report.report import metric_json
from verdict_cli.report.write_report import write_report
from verdict_cli.run.job import Stop
from verdict_cli.run.model_warnings import sampled_dry_run
from verdict_cli.run.session import open_run
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.storage.datasets.read import stream_rows

if TYPE_CHECKING:
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.node import Plan
    from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts


SIGNIFICANCE = 0.05
NEARLY_STABLE = 0.05
"""Share of pairs of repeats that differ, up to which a judge counts as nearly stable."""
_WHAT = {"scale": "the direction of the scale", "labels": "label names", "paraphrase": "the wording of the instruction"}
"""What a judge is sensitive to, by cause; of other causes, the name of the effect."""
_OPTION = re.compile(r"--\w.*")


def audit_conclusion(effects: Sequence[Effect]) -> str:
    """`injection: …; sensitive to length: yes, +0.120 [0.050, 0.190]; stable: yes; no significant effect of style`."""
    tested = [effect for effect in effects if effect.cause not in ("repeated", "attack", "extraction", DEGRADE)]
    sensitive = sorted((effect for effect in tested if _matters(effect)), key=_size, reverse=True)
    others = [_what(effect) for effect in tested if not _matters(effect) and effect.n and _has_test(effect)]
    without = [_what(effect) for effect in tested if effect.n and not _has_test(effect)]
    parts = [
        *_injection(effects),
        *(_sensitivity(effect) for effect in sensitive),
        *_stability(effects),
        *_planted_errors(effects),
        *_extraction(effects),
    ]
    parts += [f"no significant effect of {listed_names(others, len(others))}"] if others else []
    parts += [f"not decided without repeats: {listed_names(without, len(without))}"] if without else []
    return "; ".join(parts)


def not_tested(left_out: Mapping[str, str]) -> str:
    """The checks that need an option, with that option; "" if there are none."""
    options: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        if needed := _OPTION.search(reason):
            options.setdefault(needed.group(), []).append(name)
    checks = [f"{', '.join(names)} ({option})" for option, names in options.items()]
    return f"not tested: {'; '.join(checks)}" if checks else ""


def _what(effect: Effect) -> str:
    name, colon, detail = effect.name.partition(": ")
    return _WHAT.get(effect.cause, f"{name} ({detail})" if colon else name)


def _has_test(effect: Effect) -> bool:
    """Self-preference compares two groups of rows, so it needs no repeats."""
    return effect.p_holm is not None or effect.cause == "self-preference"


def _matters(effect: Effect) -> bool:
    if effect.cause == "self-preference":
        return _excludes_zero(effect.shift)
    return effect.p_holm is not None and effect.p_holm <= SIGNIFICANCE


def _excludes_zero(metric: MetricValue | None) -> bool:
    """Whether the interval excludes 0; of equal changes in all rows, which have none, whether the change is not 0."""
    if metric is None or metric.low is None or metric.high is None:
        return metric is not None and bool(metric.value)
    return not metric.low <= 0 <= metric.high


def _shown_size(effect: Effect) -> tuple[MetricValue | None, str]:
    """The verdict's shift if its interval excludes 0, else how many more verdicts changed than in repeats; and its unit."""
    if _excludes_zero(effect.shift) or effect.beyond_noise is None:
        unit = "" if effect.shift_of in ("", "verdict") else f" ({effect.shift_of})"
        return effect.shift, unit
    return effect.beyond_noise, " of the verdicts changed, beyond those of repeats"


def _size(effect: Effect) -> float:
    metric, _ = _shown_size(effect)
    return abs(metric.value) if metric is not None and metric.value is not None else 0.0


def _sensitivity(effect: Effect) -> str:
    metric, unit = _shown_size(effect)
    change = (
        "" if metric is None else f"{formatting.signed(metric.value)} {formatting.interval(metric.low, metric.high)}"
    )
    text = "" if metric is None or metric.value is None else f", {change.strip()}{unit}"
    return f"sensitive to {_what(effect)}: yes{text}"


def _share(metric: MetricValue) -> str:
    ends = (
        ""
        if metric.low is None or metric.high is None
        else f" [{max(0.0, metric.low):.0%}, {max(0.0, metric.high):.0%}]"
    )
    return f"{max(0.0, metric.value):.0%}{ends}"


def _injection(effects: Sequence[Effect]) -> Iterator[str]:
    attacks = [
        (effect, effect.success)
        for effect in effects
        if effect.cause == "attack" and effect.success and effect.success.value is not None
    ]
    if not attacks:
        return
    worst, rate = max(attacks, key=lambda pair: pair[1].value)
    beyond = worst.success_beyond_noise
    if beyond is None or beyond.value is None:
        yield f"injection: up to {_share(rate)} succeed ({_kind(worst)}), without a control"
        return
    won = [attack for attack, _ in attacks if _matters(attack) and attack.beats_noise]
    control = f"against {max(0.0, rate.value - beyond.value):.0%} in repeats"
    if won:
        yield f"injection: up to {_share(rate)} succeed ({_kind(worst)}) {control}, {len(won)} of {len(attacks)} attacks significantly"
    else:
        yield f"injection: no attack succeeds significantly, at most {_share(rate)} {control}"


def _kind(effect: Effect) -> str:
    return effect.name.partition(": ")[2] or effect.name


def _stability(effects: Sequence[Effect]) -> Iterator[str]:
    for effect in effects:
        if effect.cause == "repeated" and effect.changed is not None and effect.changed.value is not None:
            share = effect.changed.value
            yes = "yes" if not share else "nearly" if share <= NEARLY_STABLE else "no"
            yield f"stable: {yes}" if not share else f"stable: {yes}, {_share(effect.changed)} of repeats differ"


def _planted_errors(effects: Sequence[Effect]) -> Iterator[str]:
    for effect in effects:
        noticed = effect.success_beyond_noise
        if effect.cause == DEGRADE and effect.success is None and noticed is not None and noticed.value is not None:
            yield f"planted errors: {_share(noticed)} noticed"


def _extraction(effects: Sequence[Effect]) -> Iterator[str]:
    differing = [
        f"{effect.name} {_share(effect.changed)}" for effect in effects
        if effect.cause == "extraction" and effect.changed is not None and effect.changed.value
    ]  # fmt: skip
    if differing:
        yield f"other extractors read some replies differently: {listed_names(differing)}"


PAPERS = {
    "repeated": "Can You Trust LLM Judgments? Reliability of LLM-as-a-Judge (Schroeder and Wood-Doughty, 2024)",
    "position": "Large Language Models are not Fair Evaluators (Wang et al., 2023)",
    "length": "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena (Zheng et al., 2023)",
    "style": "Style Outweighs Substance: Failure Modes of LLM Judges in Alignment Benchmarking (Feuer et al., 2024)",
    "labels": "Large Language Models Are Not Robust Multiple Choice Selectors (Zheng et al., 2024)",
    "scale": "Large Language Models are Inconsistent and Biased Evaluators (Stureborg et al., 2024)",
    "paraphrase": "State of What Art? A Call for Multi-Prompt LLM Evaluation (Mizrahi et al., 2024)",
    "self-preference": "LLM Evaluators Recognize and Favor Their Own Generations (Panickssery et al., 2024)",
    "extraction": '"My Answer is C": First-Token Probabilities Do Not Match Text Answers in Instruction-Tuned '
    "Language Models (Wang et al., 2024)",
    "degrade": "Finding Blind Spots in Evaluator LLMs with Interpretable Checklists (Doddapaneni et al., 2024)",
    "attack": "Optimization-based Prompt Injection Attack to LLM-as-a-Judge (Shi et al., 2024)",
}
"""Cause -> title (authors, year)."""
EFFECT_HEADERS = (
    "change", "n", "changed verdict rate", "excess over repeat noise", "verdict shift", "metric change", "p (Holm)", "",
)  # fmt: skip
CHARTS = (
    ("Changed verdict rate", "changed", "share", "Share of rows whose verdict changed."),
    ("Change of the metric", "metric_change", "difference", "Paired, row by row."),
    ("Attack success rate", "success", "share", "Among rows not already at the attacker's goal."),
    ("Planted errors noticed", "success_beyond_noise", "share", "Scored lower more often than in repeats."),
)
"""Title, field of an effect, axis and caption."""


def audit_document(facts: Mapping[str, Any], effects: Sequence[Effect], left_out: Mapping[str, str]) -> ReportDocument:
    """The document of an audit; `facts` are its directory, pipeline, dataset and counts, as its JSON has them."""
    best = "" if facts["best"] is None else f", its best value {facts['best']}"
    judged = ", ".join(f"source.{column}" for column in facts.get("judged", ()))
    counts = f"{plural(facts['runs'], 'run')} of {plural(facts['rows'], 'row')}, {plural(facts['calls'], 'call')}"
    opening: list[Part] = [Note(run_notes.baseline_notice(model), warning=True) for model in facts["floors"]]
    opening += [Note(text) for text in [not_tested(left_out)] if text]
    opening += [
        Note(f"the verdict is {facts['verdict']}{best}"),
        *([Note(f"the judged text is {judged}; --text COLUMN names another")] if judged else []),
        Note(f"{counts}, {formatting.money(facts['cost_usd'])}"),
    ]
    sections = [Section("", opening, listed=False, essential=True)]
    if charts := _charts(effects):
        sections.append(Section("Charts", [Group(charts)], formats=("html",)))
    biases = [effect for effect in effects if effect.success is None and effect.cause != DEGRADE]
    attacks = [(effect, effect.success) for effect in effects if effect.success is not None and effect.cause != DEGRADE]
    planted = [effect for effect in effects if effect.cause == DEGRADE]
    if biases:
        table = Table(EFFECT_HEADERS, [_effect_cells(effect) for effect in biases], (1,), records=True)
        sections.append(Section("Effects", [table], essential=True))
    if attacks:
        headers = ("attack", "n", "success rate", "more than in repeats", "p (Holm)", "")
        rows = [_success_cells(effect, rate.n) for effect, rate in attacks]
        sections.append(Section("Attacks", [Table(headers, rows, (1,), records=True)], essential=True))
    if planted:
        headers = ("error", "n", "scored lower", "noticed", "p (Holm)", "")
        table = Table(headers, [_success_cells(effect, effect.n) for effect in planted], (1,), records=True)
        notes = [Note(conclusion(effects))]
        if "planted_by" in facts:
            notes.append(Note(f"{facts['planted_by']} planted the errors: read some of them in planted/run"))
        sections.append(Section("Planted errors", [*notes, table], essential=True))
    if left_out:
        skipped = [Note(f"{name}: {reason}") for name, reason in left_out.items()]
        sections.append(Section("Skipped", skipped))
    papers = [Note(f"{cause}: {PAPERS[cause]}") for cause in dict.fromkeys(effect.cause for effect in effects)]
    sections.append(Section("Papers", papers))
    return ReportDocument(
        facts["pipeline"],
        sections,
        kicker="Verdict audit",
        lead="Bias, and robustness against prompt injection",
        elsewhere="in audit.html",
        data=lambda: audit_json(facts, effects, left_out),
        conclusion=audit_conclusion(effects),
    )


def audit_json(facts: Mapping[str, Any], effects: Sequence[Effect], left_out: Mapping[str, str]) -> dict[str, Any]:
    """The document of `verdict audit --json`, and `audit.json`."""
    planted = {"planted_errors": text} if (text := conclusion(effects)) else {}
    return {**facts, **planted, "effects": [_effect_json(effect) for effect in effects], "left_out": dict(left_out)}


def _effect_json(effect: Effect) -> dict[str, Any]:
    return {
        "name": effect.name,
        "cause": effect.cause,
        "paper": PAPERS[effect.cause],
        "n": effect.n,
        "changed": effect.changed and metric_json(effect.changed),
        "beyond_noise": effect.beyond_noise and metric_json(effect.beyond_noise),
        "shift": effect.shift and metric_json(effect.shift),
        "shift_of": effect.shift_of,
        "figure": effect.metric_change and metric_json(effect.metric_change),
        **_success_json(effect),
        "p": effect.p,
        "p_holm": effect.p_holm,
        "note": effect.note,
    }


def _success_json(effect: Effect) -> dict[str, Any]:
    """The share that an attack won, or that was scored lower for a planted error, and what of it repeats do not explain."""
    share, beyond = (metric and metric_json(metric) for metric in (effect.success, effect.success_beyond_noise))
    if effect.cause == DEGRADE:
        return {"lowered": share, "noticed": beyond}
    return {"success": share, "success_beyond_noise": beyond}


def _metric_text(metric: MetricValue | None) -> str:
    if metric is None:
        return "–"
    if metric.value is None:
        return metric.reason or "–"
    return formatting.number_with_interval(metric.value, metric.low, metric.high)


def _p_text(effect: Effect) -> str:
    return "–" if effect.p_holm is None else f"{effect.p_holm:.3g}"


def _success_cells(effect: Effect, n: int) -> tuple[str, ...]:
    beyond = _metric_text(effect.success_beyond_noise)
    return (effect.name, f"{n:,}", _metric_text(effect.success), beyond, _p_text(effect), effect.note)


def _effect_cells(effect: Effect) -> tuple[str, ...]:
    shift = "–" if effect.shift is None else f"{_metric_text(effect.shift)} ({effect.shift_of})"
    metrics = (
        _metric_text(effect.changed),
        _metric_text(effect.beyond_noise),
        shift,
        _metric_text(effect.metric_change),
        _p_text(effect),
    )
    return (effect.name, f"{effect.n:,}", *metrics, effect.note)


def _charts(effects: Sequence[Effect]) -> list[Part]:
    charts: list[Part] = []
    for title, field, axis, caption in CHARTS:
        points = [
            ChartPoint(effect.name, metric.value, metric.low, metric.high)
            for effect in effects
            if (effect.cause == DEGRADE) == (field == "success_beyond_noise")
            and (metric := getattr(effect, field)) is not None
            and metric.value is not None
        ]
        if points:
            charts.append(Dots(title, points, axis, reference=0, caption=caption))
    return charts


class Planting(Struct, frozen=True):
    """The calls and the cost of the model that planted the errors."""

    calls: int
    cost_usd: float | None
    is_told: bool = False
    """Whether the cost of the whole audit was told before these calls."""


@dataclass(frozen=True, kw_only=True)
class ProbingOptions:
    """Which probes an audit has, and of what."""

    attack: Annotated[bool, typer.Option("--attack", help="Also try prompt injections in the judged text.")] = False
    degrade: Annotated[
        bool, typer.Option("--degrade", help="Also plant errors in the judged text, which must lower its score.")
    ] = False
    degrade_model: Annotated[
        str | None,
        typer.Option(
            "--degrade-model", metavar="MODEL", help="Let this model plant the errors of --degrade, not rules."
        ),
    ] = None
    verdict: Annotated[
        str | None,
        typer.Option(
            "--verdict", metavar="EXPR", help="The verdict of a row. [default: output.choice or output.score]"
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
        int, typer.Option("--repeats", min=0, help="How often unchanged rows are judged again, to measure noise.")
    ] = 2
    rename: Annotated[list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Rename a label.")] = None
    paraphrase: Annotated[
        list[str] | None,
        typer.Option(
            "--paraphrase", metavar="UNIT=FILE", help="Replace the instruction of a unit by that of a text file."
        ),
    ] = None
    family: Annotated[
        str | None,
        typer.Option("--family", metavar="EXPR", help="The author of the judged text, such as source.model."),
    ] = None
    judge_family: Annotated[
        str | None,
        typer.Option("--judge-family", metavar="NAME", help="The value of --family for the judge's own model."),
    ] = None
    out: Annotated[Path | None, typer.Option("--out", help="The audit's directory. [default: audits/NAME]")] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the calls and the cost.")] = False

    def as_audit(self, seed: int) -> AuditOptions:
        """The options as the plan of the probes takes them. UsageError for one of another form."""
        return AuditOptions(
            self.verdict,
            tuple(self.text or ()),
            self.repeats,
            dict(_pairs("--rename", self.rename, "OLD=NEW")),
            [(unit, Path(file)) for unit, file in _pairs("--paraphrase", self.paraphrase, "UNIT=FILE")],
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
    plan = options.plan(config)
    audit_options = probing.as_audit(options.seed)
    file = file_or_named(config, configs)
    audit_plan = plan_audit(
        plan, apply_override(read_document(file), options.settings or ()).data, file.parent, audit_options
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
    stop = Stop()
    folder = probing.out or Path("audits") / plan.name
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, stopping(stop):
        dataset = open_dataset(plan, data, Path(spool_to))
        rows = check_data(
            plan, dataset, limit=options.limit, sample=options.sample, seed=options.seed, quiet=options.quiet
        )
        planting = None
        if probing.degrade_model is not None:
            planting, plans = _plant_errors(
                probing.degrade_model, options, dataset, rows, plans, folder, stop, dry_run=probing.dry_run, yes=yes
            )
        if planting is not None and options.budget is not None:
            options = replace(options, budget=max(options.budget - (planting.cost_usd or 0.0), 1e-9))
        run_options = options.run_options(plan, dataset, rows, (str(config), data), replay)
        sessions = [open_run(probe_options(run_options, probe, probe_plan, folder)) for probe, probe_plan in plans]
        costs = estimate_audit([session.options for session in sessions])
        is_told = planting is not None and planting.is_told
        is_told = is_told or (not probing.dry_run and tell_cost(sessions, yes=yes, quiet=options.quiet))
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
    baseline = VariantRun(BASELINE, plan, done[0].directory.path, done[0].facts)
    results = [
        ProbeResult(probe, probe_plan, run.directory.path, run.facts.failed)
        for (probe, probe_plan), run in zip(plans[1:], done[1:], strict=True)
        if probe is not None
    ]
    effects, unmeasured = measure_probes(baseline, results, audit_plan.verdict, audit_options, options.seed)
    skipped |= unmeasured
    costs_usd = [run.facts.cost_usd for run in done] + ([planting.cost_usd] if planting is not None else [])
    facts = {
        "audit": str(folder),
        "pipeline": plan.name,
        "config": str(config),
        "dataset": data,
        "verdict": audit_plan.verdict.text,
        "best": audit_plan.verdict.best,
        "judged": list(audit_plan.judged),
        "rows": rows.rows,
        "runs": len(done),
        "failed": sum(run.facts.failed for run in done),
        "calls": sum(run.facts.calls for run in done) + (planting.calls if planting is not None else 0),
        "cost_usd": None if None in costs_usd else sum(cost or 0.0 for cost in costs_usd),
        **({} if planting is None else {"planted_by": probing.degrade_model}),
        "floors": sorted({floor for run in done for floor in run.facts.floors}),
    }
    show_study(audit_document(facts, effects, skipped), folder, "audit", as_json=as_json)
    raise typer.Exit(3 if facts["failed"] else 0)


def _plant_errors(
    model: str,
    options: RowOptions,
    dataset: Dataset,
    data: DatasetFacts,
    plans: list[tuple[Probe | None, Plan]],
    folder: Path,
    stop: Stop,
    *,
    dry_run: bool,
    yes: bool,
) -> tuple[Planting | None, list[tuple[Probe | None, Plan]]]:
    """Let the model write the texts of the probes that plant errors; what it cost, and the plans with these texts."""
    probes = [probe for probe, _ in plans if probe is not None and probe.cause == DEGRADE]
    if not probes:
        return None, plans
    kinds = [probe.name.removeprefix(PLANTED) for probe in probes]
    requests = planting_requests(stream_rows(dataset, data.selection), probes[0].column, kinds)
    if dry_run:
        return Planting(len(requests), None), plans
    at = folder / "planted"
    at.mkdir(parents=True, exist_ok=True)
    config, file = at / "planted.yaml", at / "requests.jsonl"
    config.write_text(as_yaml(planting_pipeline(model)), encoding="utf-8")
    file.write_text("".join(json.dumps(request) + "\n" for request in requests), encoding="utf-8")
    own = replace(options, settings=None, model=None, limit=None, sample=None)
    plan = own.plan(config, warn=False)
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to:
        given = open_dataset(plan, str(file), Path(spool_to))
        facts = check_data(plan, given, seed=own.seed, quiet=own.quiet, warn=lambda _: None)
        session = open_run(own.run_options(plan, given, facts, (str(config), str(file)), None, out=at / "run"))
        if not session.is_finished:
            lines = [sampled_dry_run(probe_plan, dataset, data, own.seed).lines(data.rows) for _, probe_plan in plans]
            what = f"{len(plans)} runs of {data.rows:,} rows, and {facts.rows:,} texts with planted errors"
            lines.append(sampled_dry_run(plan, given, facts, own.seed).lines(facts.rows))
            ask_to_spend(what, lines, [plan, *(probe_plan for _, probe_plan in plans)], yes=yes, quiet=own.quiet)
        (run,) = execute_all_or_exit([session], folder, stop, own)
    texts = planted_texts(run.directory.results, requests)
    changes = {probe: planted_change(texts, kind) for probe, kind in zip(probes, kinds, strict=True)}
    planted = [
        (probe, probe_plan)
        if probe not in changes
        else (structs.replace(probe, change=changes[probe][0], digest=changes[probe][1]), probe_plan)
        for probe, probe_plan in plans
    ]
    return Planting(run.facts.calls, run.facts.cost_usd, not session.is_finished), planted


def _probe_plan(config: Path, options: RowOptions, probe: Probe, plan: Plan, replay: Recording | None) -> Plan | str:
    """The plan of a probe, or why it is skipped."""
    if replay is not None and (reason := replay_obstacle(probe, replay.units(), plan)):
        return reason
    if not probe.settings:
        return plan
    try:
        return replace(options, settings=[*(options.settings or ()), *probe.settings]).built(config).plan
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
