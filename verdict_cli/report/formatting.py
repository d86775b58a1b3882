"""How facts and figures read in a report."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from verdict_cli.messages import RunFacts
from verdict_cli.report.report import ComparisonRow, Report
from verdict_cli.stats.gates import GateOutcome
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.measure import Measures
from verdict_cli.stats.prediction_powered import GoldFacts

FEW = 30
"""With fewer labels, normal intervals are rough."""

_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")

NOBODY = "is its server running, and is there a network? --retry-failed asks again only what failed"
"""What to do where nobody answered."""


def visible_text(text: str, most: int = 0) -> str:
    """The text with control, direction and unpaired surrogate characters as escapes; cut at `most` characters."""
    shown = _HIDDEN.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)
    return f"{shown[: most - 1]}…" if most and len(shown) > most else shown


def format_number(value: float | None) -> str:
    """Counts as they are, else three decimals, or four digits of large and tiny numbers; a dash where there is none."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if value and (abs(value) >= 1000 or abs(value) < 0.001):
        return f"{value:.4g}"
    return f"{value:.3f}"


def interval(low: float | None, high: float | None) -> str:
    """`[0.730, 0.808]`, empty where there is none."""
    return "" if low is None or high is None else f"[{format_number(low)}, {format_number(high)}]"


def sentence(figure: MetricValue) -> str:
    """`0.771 [0.730, 0.808] n=450`."""
    parts = [format_number(figure.value), interval(figure.low, figure.high), f"n={figure.n}"]
    return " ".join(part for part in parts if part)


def label(value: Any) -> str:
    """A label of the data; the label None stands for "no prediction"."""
    return "(none)" if value is None else visible_text(str(value), 40)


def money(cost_usd: float | None) -> str:
    """Dollars, `unknown` where a price is."""
    if cost_usd is None:
        return "unknown"
    return f"${cost_usd:.2f}" if cost_usd >= 1 or not cost_usd else f"${cost_usd:.4g}"


def format_duration(seconds: float) -> str:
    """`4.2 s`, `3 min 20 s`, `1 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def facts(run: RunFacts) -> list[tuple[str, str]]:
    """The run's facts as (name, text), in the order in which a report gives them."""
    earlier = [
        f"{count:,} from the {source}" for count, source in ((run.recalled, "journal"), (run.cached, "cache")) if count
    ]
    calls = f"{run.calls:,}" + (f" ({', '.join(earlier)})" if earlier else "")
    found = [
        ("rows", f"{run.rows:,}" + (f" ({run.done:,} done)" if run.done != run.rows else "")),
        ("failed", f"{run.failed:,}"),
        *([("abstained", f"{run.abstained:,}")] if run.abstained else []),
        ("calls", calls),
        ("cost", money(run.cost_usd)),
        ("time", format_duration(run.wall_s)),
    ]
    if run.skipped_bad_rows:
        found.insert(1, ("skipped bad rows", f"{run.skipped_bad_rows:,}"))
    if run.models:
        found.append(("models", ", ".join(visible_text(name, 60) for name in run.models)))
    return found


def summary_line(report: Report) -> list[tuple[str, str]]:
    """The run's facts, how often judges that were asked in both orders flipped, and what stopping early saved, as
    (name, text)."""
    flips = [(f"{visible_text(node)} flips", sentence(figure)) for node, figure in report.flips.items()]
    return [*facts(report.facts), *flips, *_saved(report), *_stages(report.facts)]


def _stages(run: RunFacts) -> list[tuple[str, str]]:
    """Who answered where a unit escalates, what that cost, and how often the last model was not asked."""
    found = []
    for node, stages in run.stages.items():
        rows = sum(stage.answered for stage in stages)
        if not rows:
            continue
        said = []
        for stage in stages:
            cost = f" ({stage.calls:,} calls, {money(stage.cost_usd)})" if stage.calls else ""
            said.append(f"{visible_text(stage.model, 60)} {stage.answered / rows:.1%}{cost}")
        found.append((f"{visible_text(node)} answered by", ", ".join(said)))
    return found


def _saved(report: Report) -> list[tuple[str, str]]:
    """What stopping early saved, and what it promises."""
    found = []
    for pool, confidence in report.promises.items():
        saved = report.facts.saved.get(pool, 0)
        promise = f"the full verdict with probability {confidence:g} or more" if confidence < 1 else "the full verdict"
        found.append((f"{visible_text(pool)} stopped early:", f"{saved:,} calls saved, {promise}"))
    return found


def notices(report: Report) -> list[str]:
    """What a reader must know before the figures."""
    found = [f"{visible_text(name)} is a floor to beat, not a judge" for name in report.facts.floors]
    found += replayed(report.facts)
    if report.facts.status != "finished":
        found.append(f"the run is {visible_text(report.facts.status)}: these figures are of the rows done so far")
    return found


def replayed(run: RunFacts) -> list[str]:
    """That the run's replies are recorded; empty where models answered."""
    if not run.replay:
        return []
    return [f"all replies come from the recording {visible_text(run.replay)}: no model was called"]


def coverage(measures: Measures) -> list[str]:
    """What is left out of an evaluation's figures, and what that could change; empty when nothing is."""
    found = []
    if measures.coverage is None:
        found.append("no row can be measured")
    elif measures.missing:
        of = measures.rows - measures.unlabelled
        share = f"{measures.coverage:.3f}" if measures.coverage < 0.9995 else "just under 1"
        found.append(f"coverage {share}: {measures.missing} of {of} rows have no prediction")
    for metric, (low, high) in measures.bounds.items():
        found.append(f"with these rows, {metric} could be {format_number(low)} to {format_number(high)}")
    if measures.gold is not None:
        found += _gold(measures.gold)
    if measures.unlabelled:
        found.append(f"{measures.unlabelled} rows have no target and are left out")
    return found


def _gold(gold: GoldFacts) -> list[str]:
    """What corrected figures rest on, and what would make them narrower."""
    weight = "" if gold.weight is None else f"; `ppi` gives the judge's answers the weight {format_number(gold.weight)}"
    found = [f"{gold.labels:,} of {gold.rows:,} rows have a gold label{weight}"]
    if 2 <= gold.labels < FEW:
        found.append(f"fewer than {FEW} labels: the interval of `ppi` is rough")
    if gold.half_width is not None and gold.alone is not None:
        needed = f"{gold.needed:,}" if gold.needed is not None else "more labels than there are rows"
        found.append(f"±{gold.half_width:g} needs {needed} with the judge, {gold.alone:,} without")
    return found


def standing(row: ComparisonRow) -> str:
    """Whose row of a comparison it is: `this run`, with its cost and time, `the paper's own`, or nothing."""
    if row.ours:
        return f"this run, {money(row.cost_usd)}, {format_duration(row.wall_s or 0.0)}"
    return "the paper's own" if row.own else ""


def why(gate: GateOutcome) -> str:
    """Why a gate did not pass, and what its rows can show at all; empty where there is nothing to say."""
    parts = [] if gate.verdict == "passed" else [f"{gate.verdict}: {gate.reason}"]
    if gate.verdict == "inconclusive" and gate.tolerated:
        parts.append("let through by --inconclusive pass")
    if gate.detectable is not None:
        parts.append(f"least detectable difference {format_number(gate.detectable)} (80% power)")
    return "; ".join(parts)


def failures(run: RunFacts) -> list[tuple[str, int]]:
    """Failed rows by kind, the most frequent first."""
    return sorted(((visible_text(kind), count) for kind, count in run.failures.items()), key=lambda item: -item[1])


def plain_text(figures: Iterable[tuple[str, MetricValue]]) -> list[tuple[str, MetricValue]]:
    """The figures that are one number."""
    return [(metric, figure) for metric, figure in figures if metric != "confusion"]
