"""The facts of a run, of the models that answered it, and what a reader must know beside its numbers: sentences that all
report formats show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from verdict_cli.language.units.base import ABSTAIN
from verdict_cli.plural import plural
from verdict_cli.report.formatting import (
    format_duration,
    format_number,
    message_lines,
    metric_text,
    money,
    visible_text,
)
from verdict_cli.report.report import ComparisonRow, Report
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.gates import GateOutcome
from verdict_cli.stats.intervals.interval_methods import MetricValue, clopper_pearson
from verdict_cli.stats.measure import Measures
from verdict_cli.stats.prediction_powered import GoldFacts

MOST_WARNING = 500
"""Characters of a warning that a report shows: it may name values of the data."""

Facts = list[tuple[str, str]]
"""Names and their texts, in the order of a report."""
UNAVAILABLE_HINT = "check that its server is running and the network is up; --retry-failed calls it again for the failed rows only"


def run_facts(run: RunFacts) -> Facts:
    """The run's facts as (name, text), in the order of a report."""
    from_cache = (run.cached - run.shared, "from the cache")
    sources = (
        (run.shared, "shared with equal calls"),
        (run.recalled, "from the journal"),
        from_cache,
    )
    reused = [f"{count:,} {source}" for count, source in sources if count]
    calls = f"{run.calls:,}" + (f" ({', '.join(reused)})" if reused else "")
    facts = [
        ("rows", f"{run.rows:,}" + (f" ({run.done:,} done)" if run.done != run.rows else "")),
        ("failed", f"{run.failed:,}"),
        *([("abstained", f"{run.abstained:,}")] if run.abstained else []),
        ("calls", calls),
        ("cost", money(run.cost_usd)),
        ("time", format_duration(run.wall_s)),
    ]
    if run.skipped_bad_rows:
        facts.insert(1, ("skipped bad rows", f"{run.skipped_bad_rows:,}"))
    if run.models:
        facts.append(("models", ", ".join(visible_text(name, 60) for name in run.models)))
    return facts


def summary_facts(report: Report) -> Facts:
    """The run's facts, position flips, evidence of token scores, answers by default, calls saved by early stopping, and the share of each stage,
    as (name, text)."""
    flips = [
        (f"{visible_text(node)} flips", metric_text(rate)) for node, rate in report.flips.items()
    ]
    return [
        *run_facts(report.facts),
        *flips,
        *_masses(report),
        *(
            (f"{visible_text(node)} defaulted", f"{count:,} × FAIL and 0")
            for node, count in report.defaulted.items()
        ),
        *_early_stopping(report),
        *_stages(report.facts, report.level),
    ]


def _masses(report: Report) -> Facts:
    """The median probability of the scale's tokens."""
    facts = []
    for node, mass in report.masses.items():
        text = f"median {format_number(mass.median)}, n={mass.n:,}"
        if mass.sequence:
            text += ", by products along tokens"
        facts.append((f"{visible_text(node)} mass", text))
    return facts


def _stages(run: RunFacts, level: float) -> Facts:
    """The share of rows that each model of an escalating unit answered, with the cost of its calls."""
    facts = []
    for node, stages in run.stages.items():
        rows = sum(stage.answered for stage in stages)
        if not rows:
            continue
        models = []
        for stage in stages:
            cost = (
                f" ({plural(stage.calls, 'call')}, {money(stage.cost_usd)})" if stage.calls else ""
            )
            models.append(f"{visible_text(stage.model, 60)} {stage.answered / rows:.1%}{cost}")
        facts.append((f"{visible_text(node)} answered by", ", ".join(models)))
        audited, kept = (
            sum(getattr(stage, name) for stage in stages) for name in ("audited", "kept")
        )
        if audited:
            share = MetricValue(kept / audited, *clopper_pearson(kept, audited, level), audited)
            last = [stage.model for stage in stages if stage.model != ABSTAIN][-1]
            facts.append(
                (
                    f"{visible_text(node)} audited:",
                    f"the verdict of {visible_text(last, 60)} in {metric_text(share)}",
                )
            )
    return facts


def _early_stopping(report: Report) -> Facts:
    """The calls that early stopping saved, and its guarantee."""
    facts = []
    for pool, confidence in report.promises.items():
        saved = report.facts.saved.get(pool, 0)
        verdict = (
            f"the full verdict with probability {confidence:g} or more"
            if confidence < 1
            else "the full verdict"
        )
        if not confidence:
            verdict = "without a promise of the full verdict, because the units of the layer differ"
        kept = report.kept.get(pool)
        if kept is not None:
            verdict += f"; on rows called in full, the early verdict was the full one in {metric_text(kept)}"
        facts.append(
            (f"{visible_text(pool)} stopped early:", f"{plural(saved, 'call')} saved, {verdict}")
        )
    return facts


def baseline_notice(model: str) -> str:
    """That a model is only a baseline."""
    return f"{visible_text(model)} is a baseline, not an LLM judge"


def notices(report: Report) -> list[str]:
    """What a reader must know before the metrics."""
    lines = facts_notices(report.facts)
    for pool, kept in report.kept.items():
        if kept.high is not None and kept.high < report.promises.get(pool, 0.0):
            lines.append(
                f"{visible_text(pool)}: the rows called in full contradict the promise of {report.promises[pool]:g}"
            )
    return lines


def facts_notices(run: RunFacts) -> list[str]:
    """What a reader must know of a run, whatever is measured."""
    lines = _no_verdict_notice(run)
    lines += [baseline_notice(name) for name in run.floors]
    lines += replay_notice(run)
    lines += [visible_text(warning, MOST_WARNING) for warning in run.warnings]
    if run.status != "finished":
        lines.append(
            f"the run is {visible_text(run.status)}: {run.done:,} of its {plural(run.rows, 'row')} are done, "
            "and its metrics cover only these"
        )
    return lines


def _no_verdict_notice(run: RunFacts) -> list[str]:
    """That every row failed, with the reason of most of them; empty if a row has a verdict."""
    if not run.failed or run.failed < run.rows:
        return []
    kind = failure_kinds(run)[0][0] if run.failures else "unknown"
    reason = f": {'; '.join(message_lines(run.reasons[kind]))}" if kind in run.reasons else ""
    return [
        f"all {plural(run.rows, 'row')} failed, so there are no metrics. Most often: {kind}{reason}"
    ]


def replay_notice(run: RunFacts) -> list[str]:
    """That the run's replies are recorded; empty if models replied."""
    if not run.replay:
        return []
    return [f"all replies come from the recording {visible_text(run.replay)}: no model was called"]


def coverage_notes(measures: Measures) -> list[str]:
    """The rows that an evaluation leaves out, and how far they could move its metrics; empty if there are none."""
    lines = []
    if measures.coverage is None:
        lines.append("no row can be measured")
    elif measures.missing:
        labelled = measures.rows - measures.unlabelled
        share = f"{measures.coverage:.3f}" if measures.coverage < 0.9995 else "just under 1"
        lines.append(
            f"coverage {share}: {measures.missing} of {labelled} {measures.of} have no prediction"
        )
    for metric, (low, high) in measures.bounds.items():
        lines.append(
            f"{metric} bounds if the {measures.of} without a prediction were included: "
            f"{format_number(low)} to {format_number(high)}"
        )
    if measures.gold is not None:
        lines += _gold_notes(measures.gold)
    if measures.unlabelled:
        lines.append(f"{measures.unlabelled} {measures.of} have no target and are left out")
    return lines


def _gold_notes(gold: GoldFacts) -> list[str]:
    """The gold labels behind prediction-powered metrics, and how many a narrower interval needs."""
    weight = (
        ""
        if gold.weight is None
        else f"; `ppi` gives the judge's answers the weight {format_number(gold.weight)}"
    )
    lines = [f"{gold.labels:,} of {plural(gold.rows, 'row has|rows have')} a gold label{weight}"]
    if gold.half_width is not None and gold.alone is not None:
        needed = (
            f"{gold.needed:,}" if gold.needed is not None else "more labels than there are rows"
        )
        lines.append(f"±{gold.half_width:g} needs {needed} with the judge, {gold.alone:,} without")
    return lines


def row_origin(row: ComparisonRow) -> str:
    """The origin of a comparison's row: `this run` with its cost and time, `the paper's own`, or nothing."""
    if row.ours:
        return f"this run, {money(row.cost_usd)}, {format_duration(row.wall_s or 0.0)}"
    return "the paper's own" if row.own else ""


def gate_note(gate: GateOutcome) -> str:
    """The end of the interval that passed a gate or why it did not, and the rows."""
    parts = [gate.held] if gate.held else []
    if not gate.held and gate.verdict != "passed":
        parts.append(f"{gate.verdict}: {gate.reason}")
    if gate.verdict == "inconclusive" and gate.tolerated:
        parts.append("tolerated by --inconclusive pass")
    if gate.n is not None and not gate.metric.startswith("run."):
        parts.append(f"n={gate.n:,}")
    return "; ".join(parts)


def failure_kinds(run: RunFacts) -> list[tuple[str, int]]:
    """Failed rows by kind, the most frequent first."""
    return sorted(
        ((visible_text(kind), count) for kind, count in run.failures.items()),
        key=lambda item: -item[1],
    )


def version_notices(run: RunFacts) -> list[str]:
    """A warning for each model of the pipeline of which several versions answered."""
    return [
        f"{visible_text(model, 60)} was answered by {len(served)} versions of the model: "
        + ", ".join(f"{visible_text(name, 60)} ({count:,})" for name, count in served.items())
        for model, served in run.served.items()
        if len(served) > 1
    ]


def changed_versions(runs: Mapping[str, RunFacts]) -> list[str]:
    """A warning for each model that several of these runs called, and of which not the same versions answered."""
    notices = []
    for model in dict.fromkeys(model for run in runs.values() for model in run.served):
        served = {name: run.served[model] for name, run in runs.items() if model in run.served}
        if len({frozenset(versions) for versions in served.values()}) > 1:
            by = [f"by {_served_names(versions)} in {name}" for name, versions in served.items()]
            notices.append(f"{visible_text(model, 60)} was answered {', and '.join(by)}")
    return notices


def _served_names(versions: Iterable[str]) -> str:
    return ", ".join(visible_text(name, 60) for name in versions)


def prompt_cache_facts(run: RunFacts) -> Facts:
    """The share of the prompt tokens that came from providers' caches and what that saved; none where none did."""
    if not run.cached_tokens or not run.prompt_tokens:
        return []
    share = cached_share(run.cached_tokens, run.prompt_tokens)
    saved = run.cache_saved_usd
    cost = "saved an unknown sum"
    if saved is not None:
        cost = f"saved {money(saved)}" if saved >= 0 else f"cost {money(-saved)}"
    text = f"{share} of the prompt tokens came from the provider's cache, {cost}"
    return [("prompt cache", text)]


def cached_share(cached: int, prompt: int) -> str:
    """Cached tokens as a share of the prompt's, `–` without a prompt."""
    return f"{cached / prompt:.0%}" if prompt else "–"
