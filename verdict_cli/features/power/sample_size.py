"""How many rows a wanted interval, or a wanted chance to find a difference, needs.

- A share: the least n whose exact interval (Clopper and Pearson, 1934), which reports show, is as narrow at that share.
- A mean: the least n with t * s / sqrt(n) at most the half-width.
- Any metric, from a pilot: its interval narrows as the square root of the rows.
- A difference of two shares of the same rows: the exact power of the test of `verdict compare`, which for a share is
  McNemar's; for very many rows its normal approximation (Connett, Smith and McHugh, 1987), with a row less on either side.
- A difference, from two pilots: the same with the share of rows that differ in the pilots and those that the effect adds, or the
  power of Student's test (noncentral t) with the pilots' spread; averaged over what so few rows leave open of it.
- Repeats: the mean over n rows of r askings each has the variance (between + within / r) / n.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from verdict_cli.errors import UsageError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.messages import JsonObject, Row
from verdict_cli.plan.check_evaluations import PossibleValues
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.run.estimate import Line, total
from verdict_cli.run.label_counts import count_labels
from verdict_cli.run.load_run import RunResult, load_run
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.compare import compare_runs
from verdict_cli.stats.intervals.interval_methods import (
    MetricValue,
    clopper_pearson,
    normal,
    student,
)
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.measure import Measures, measure
from verdict_cli.stats.paired import run_rows
from verdict_cli.stats.prediction_powered import GoldFacts
from verdict_cli.stats.row_scores import scores_of

if TYPE_CHECKING:
    from verdict_cli.features.power.command import RequirementOptions

MOST_ROWS_NEEDED = 10**9
"""The largest answer: more rows than anybody has."""
MOST_ROWS_SUMMED = 20_000
"""Beyond this, the normal approximation gives the power to a thousandth."""
WORST = 0.5
"""The share whose interval is widest."""


def half_width_of_share(p: float, n: int, level: float) -> float:
    """Half the width of the exact interval at the share p of n rows."""
    low, high = clopper_pearson(p * n, n, level)
    return (high - low) / 2


def rows_for_share(p: float, half_width: float, level: float) -> int:
    """The least rows whose interval at the share p is at most this wide to each side."""
    return _least(lambda n: half_width_of_share(p, n, level) <= half_width)


def rows_for_mean(spread: float, half_width: float, level: float) -> int:
    """The least rows whose t interval of a mean with this standard deviation is at most this wide to each side."""
    return max(
        2, _least(lambda n: n > 1 and student(level, n - 1) * spread / math.sqrt(n) <= half_width)
    )


def rows_scaled(rows: int, width: float, half_width: float) -> int:
    """The rows for the half-width, of a metric whose interval over `rows` rows had the half-width `width`."""
    return max(2, math.ceil(rows * (width / half_width) ** 2 - 1e-9))


def discordant(first: float, second: float) -> float:
    """The share of rows that only one of two judges gets right, if their errors have nothing to do with each other."""
    return first * (1 - second) + second * (1 - first)


def rows_for_difference(effect: float, apart: float, level: float, power: float) -> int:
    """The rows on which the exchange of two runs within rows finds the difference `effect` of two shares with this power,
    where the share `apart` of the rows (at least the effect) is right in only one of the two."""
    from scipy.special import ndtri

    reach = normal(level) * math.sqrt(apart) + float(ndtri(power)) * math.sqrt(
        max(apart - effect * effect, 0.0)
    )
    root = (reach + math.sqrt(reach * reach + 4 * effect)) / (2 * effect)
    if root * root > MOST_ROWS_SUMMED:
        return math.ceil(root * root - 1e-9)
    return _least(lambda n: power_of_difference(n, effect, apart, level) >= power)


def power_of_difference(rows: int, effect: float, apart: float, level: float) -> float:
    """The power of exchanging two runs within rows, which for a share is McNemar's exact test: the probability that its
    p-value is at most one minus the level, summed over how many rows differ."""
    from scipy.special import bdtr, bdtrik

    half = 10 * math.sqrt(rows * apart * (1 - apart)) + 20
    counts = np.arange(max(1, int(rows * apart - half)), min(rows, int(rows * apart + half)) + 1)
    weights = bdtr(counts, rows, apart) - bdtr(counts - 1, rows, apart)
    # The most rows on the losing side of a rejection.
    last = np.floor(bdtrik((1 - level) / 2, counts, 0.5) + 1e-9)
    losses = np.maximum(last, 0)
    last = np.where(2 * bdtr(losses, counts, 0.5) <= 1 - level + 1e-12, last, last - 1)
    losses = np.maximum(last, 0)
    gains = min(0.5 + effect / apart / 2, 1.0)
    tails = bdtr(losses, counts, 1 - gains) + bdtr(losses, counts, gains)
    return float(weights @ np.where(last >= 0, tails, 0.0))


TESTS_OF_TWO_LABELS, TESTS_OF_MORE_LABELS = 1.3, 1.6
"""By how much max-T raises the p-value of accuracy among the default metrics, which are nearly copies of each other: 1.0 with
two equal labels, 1.3 with two of 20 and 80%, up to 1.6 with three to five (benchmarks/type_one_error.py, `plan`)."""


def alike_tests(evaluation: Evaluation, rows: Iterable[Row]) -> float:
    """How many independent tests the metrics of the evaluation are worth, by the number of labels that the rows have."""
    if len(evaluation.metrics or ()) == 1:
        return 1.0
    counts = count_labels(evaluation, PossibleValues(None, None))
    if counts is None:
        return TESTS_OF_MORE_LABELS
    for number, row in enumerate(rows):
        counts.add(number, row.source)
        if len(counts.counts) > 2:
            return TESTS_OF_MORE_LABELS
    return TESTS_OF_TWO_LABELS


LEFT_OPEN = (np.arange(15) + 0.5) / 15
"""The quantiles of what the pilots leave open, over which the power is averaged."""


class PilotChange(Struct, frozen=True):
    """What two pilots of so many `rows` show of a paired difference.

    `spread` is the standard deviation of what a row adds to it, and `step` the least that a row which changes adds: a row that
    is right in only one run, a point of a scale; next to 0 where values are continuous. `differing` counts the rows that are
    right in only one of the two where the metric is their share, else it is None. `known_effect` is how large a difference the
    pilots show beyond chance, which is in the spread already.
    """

    rows: int
    spread: float
    step: float
    differing: int | None
    known_effect: float

    def rows_for(self, effect: float, level: float, power: float) -> int:
        """The rows on which this difference is found with the power, on average over what the pilots leave open."""
        return max(2, _least(lambda n: n > 1 and self.power(n, effect, level) >= power))

    def power(self, rows: int, effect: float, level: float) -> float:
        """The power of the decision of `verdict compare`. Two runs that differ also do so on rows that the pilots agree on: the
        effect adds to the spread as many rows as it takes (Connett, Smith and McHugh, 1987)."""
        from scipy.special import betaincinv, chdtri, nctdtr

        more = max(effect - self.known_effect, 0.0)
        if self.differing is not None:
            of_rows = betaincinv(self.differing + 1, self.rows - self.differing + 1, LEFT_OPEN)
            shares = np.minimum(np.maximum(of_rows + more, effect), 1.0)
            return float(
                np.mean([power_of_difference(rows, effect, share, level) for share in shares])
            )
        variance = (
            self.spread**2 * (self.rows - 1) / chdtri(self.rows - 1, LEFT_OPEN) + more * self.step
        )
        ratio, limit = effect * np.sqrt(rows / variance), student(level, rows - 1)
        return float(np.mean(1 - nctdtr(rows - 1, ratio, limit) + nctdtr(rows - 1, ratio, -limit)))


class Parts(Struct, frozen=True):
    """The variance of a row's score: among rows, and among askings of one row."""

    between: float
    within: float


def sample_parts(scores: Floats) -> Parts | None:
    """The parts, from scores of rows (first axis) by askings; rows that lack one are left out. None: fewer than two
    rows or askings are left. The moment estimator of a one-way layout; a negative part is 0."""
    complete_rows = scores[np.isfinite(scores).all(axis=1)]
    if len(complete_rows) < 2 or complete_rows.shape[1] < 2:
        return None
    within = float(complete_rows.var(axis=1, ddof=1).mean())
    between = float(complete_rows.mean(axis=1).var(ddof=1)) - within / complete_rows.shape[1]
    return Parts(max(between, 0.0), within)


def rows_with_repeats(parts: Parts, repeats: int, half_width: float, level: float) -> int:
    """The rows for the half-width, where each is asked so often and the mean of its scores counts."""
    spread = math.sqrt(parts.between + parts.within / repeats)
    return rows_for_mean(spread, half_width, level) if spread > 0 else 2


def _least(enough: Callable[[int], bool]) -> int:
    """The least number that is enough, where all larger ones are."""
    high = 1
    while not enough(high):
        high *= 2
        if high > MOST_ROWS_NEEDED:
            return MOST_ROWS_NEEDED
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def is_share(metric: str) -> bool:
    """Whether the metric is a share of rows."""
    definition = find_metric(metric)
    return definition is not None and definition.interval == "proportion"


class Pilot(Struct, frozen=True):
    """A metric of an evaluation in a finished run."""

    run: RunResult
    name: str
    metric: str

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation as the run has it."""
        return self.run.plan.evaluations[self.name]

    def measured(self, evaluation: Evaluation) -> Measures:
        """What another evaluation gives on the run's rows."""
        run = self.run
        every = measure({self.name: evaluation}, run.directory.results, seed=run.facts.seed)
        return every[self.name]

    def value(self) -> MetricValue:
        """The metric."""
        return self.measured(self.evaluation.alone(self.metric)).values[self.metric]

    def gold_labels(self, half_width: float) -> GoldFacts | None:
        """How many gold labels the half-width needs; None where the evaluation has no `gold`, or too few."""
        if self.evaluation.gold is None:
            return None
        gold = self.evaluation.gold.model_copy(update={"half_width": half_width})
        facts = self.measured(self.evaluation.model_copy(update={"gold": gold, "by": ()})).gold
        return facts if facts is not None and facts.alone is not None else None


def pilot_change(old: Pilot, new: Pilot, seed: int) -> PilotChange | str:
    """What two pilots show of the difference of a metric; or why they show nothing."""
    name, metric = old.name, old.metric
    first_only, second_only = (pilot.evaluation.alone(metric) for pilot in (old, new))
    paths = old.run.directory.results, new.run.directory.results
    comparison = compare_runs({name: (first_only, second_only)}, paths, seed=seed).evaluations[name]
    if comparison.reason:
        return comparison.reason
    change = comparison.whole.differences[metric].change
    if not change.se or change.low is None or change.high is None or comparison.outcomes is None:
        return change.reason or "the two runs do not differ on any row"
    first, second = comparison.outcomes.scores
    gains = (second - first)[np.isfinite(first) & np.isfinite(second)]
    sizes = np.abs(gains[gains != 0])
    # The metric's spread over that of the rows' scores is what one row counts in it.
    spread = change.se * math.sqrt(change.n)
    counts = spread / max(float(np.sqrt((gains**2).mean())), 1 / change.n)
    of_rows = metric == "accuracy" and old.evaluation.cluster is None and len(gains) == change.n
    return PilotChange(
        rows=change.n,
        spread=spread,
        step=counts * counts * float(sizes.min()) if len(sizes) else 0.0,
        differing=len(sizes) if of_rows else None,
        known_effect=max(change.low, -change.high, 0.0),
    )


def repeated(pilot: Pilot) -> tuple[str, Parts] | str:
    """The unit that the pilot repeats, and the parts of its score's variance; or why they are not known."""
    evaluation, nodes = pilot.evaluation, pilot.run.plan.nodes
    key = "prediction" if evaluation.prediction is not None else "value"
    expression = getattr(evaluation, key) or ""
    fields = set(re.findall(r"\boutput\.(\w+)", expression))
    counts = Counter(
        node.name for node, _ in pilot.run.plan.llm_nodes if fields <= set(node.output.fields)
    )
    copies = [unit for unit, count in counts.items() if count > 1]
    if not fields or len(copies) != 1:
        return "the pilot repeats no unit that gives what the evaluation looks at"
    if evaluation.group is not None or evaluation.items is not None:
        return "with `group` or `items` a row has no score of its own"
    columns = []
    for node in nodes:
        if node.name == copies[0]:
            text = re.sub(r"\boutput\.(?=\w)", f"nodes['{node.id}'].", expression)
            asked_once = evaluation.alone(pilot.metric).model_copy(update={key: text})
            rows = run_rows({pilot.name: asked_once}, pilot.run.directory.results, ())
            columns.append(scores_of(rows[pilot.name][0], [pilot.metric])[0])
    parts = sample_parts(np.column_stack(columns))
    if parts is None:
        return "fewer than two rows have a score in every asking"
    return copies[0], parts


MOST_REPEATS = 9


def needed(
    want: RequirementOptions, evaluation: Evaluation
) -> tuple[list[JsonObject], tuple[str, Parts] | None, list[str]]:
    """What is needed, the repeated unit of the pilot with the parts of its variance, and notes on both."""
    for option, value in (("--half-width", want.half_width), ("--mde", want.mde)):
        if value is not None and value >= 1 and is_share(want.metric):
            raise UsageError(
                f"{option} {value:g}: {want.metric} is a share from 0 to 1",
                hint=f"{value:g}% is {value / 100:g}",
            )
    pilots = [Pilot(load_run(path), want.name, want.metric) for path in want.pilot or ()]
    for path, pilot in zip(want.pilot or (), pilots, strict=True):
        if want.name not in pilot.run.plan.evaluations:
            raise UsageError(
                f"{path} has no evaluation {want.name!r}", hint="choose another pilot or --metric"
            )
    needs = []
    notes = []
    parts = None
    if want.half_width is not None:
        needs.append(_interval(want, want.half_width, evaluation, pilots))
    if want.mde is not None:
        needs.append(_difference(want, want.mde, pilots))
    if pilots and want.half_width is not None:
        gold = pilots[0].gold_labels(want.half_width)
        if gold is not None:
            few = f"{gold.needed:,}" if gold.needed is not None else "more than the pilot's rows"
            notes.append(
                f"what people would say of all rows (`gold`), to ±{want.half_width:g} with 95%: {few} labels with the judge on "
                f"{plural(gold.rows, 'row')} (`ppi`), {gold.alone:,} without it"
            )
        repeats = repeated(pilots[0])
        if isinstance(repeats, str):
            notes.append(f"rows against repeats: {repeats}")
        else:
            parts = repeats
            notes.append(
                f"a row's score varies by {repeats[1].between:.4g} among rows and {repeats[1].within:.4g} among askings of "
                f"{repeats[0]}; the table is for the mean of the askings' scores, not for a vote"
            )
    return needs, parts, notes


def _interval(
    want: RequirementOptions, half_width: float, evaluation: Evaluation, pilots: list[Pilot]
) -> JsonObject:
    purpose = f"±{half_width:g} with {want.confidence:.0%} confidence"
    if pilots:
        return {"for": purpose, **_as_in_pilot(want, half_width, pilots[0])}
    if not is_share(want.metric):
        raise UsageError(
            f"how much {want.metric} varies is not known beforehand",
            hint="give a small run with --pilot RUN",
        )
    p, why = want.expect, ""
    if p is None:
        p, why = WORST, ", the worst case"
    if evaluation.cluster is not None:
        why += "; rows in clusters need more: give --pilot RUN"
    rows = rows_for_share(p, half_width, want.confidence)
    return {"for": purpose, "from": f"a share of {p:g}{why}", "rows": rows}


def _as_in_pilot(want: RequirementOptions, half_width: float, pilot: Pilot) -> JsonObject:
    """The rows for the half-width if the metric is as in the pilot, and if it is at the end of its interval that needs more."""
    value, level = pilot.value(), want.confidence
    # The interval of a share of independent rows is exact.
    exact = is_share(want.metric) and pilot.evaluation.cluster is None
    low, high = value.low, value.high
    if low is None or high is None or not (exact or high > low):
        raise UsageError(
            f"{pilot.run.directory.path}: {want.metric} has no interval there: {value.reason or 'no row differs'}",
            hint="a larger pilot has one",
        )
    if exact:
        worst = min(max(0.5, low), high)
        rows, safe = (rows_for_share(p, half_width, level) for p in (value.value, worst))
    else:
        width = (high - low) / 2 * normal(level) / normal(CONFIDENCE_LEVEL)
        rows = safe = rows_scaled(value.n, width, half_width)
    why = f"{want.metric} {value.value:.3f} [{low:.3f}, {high:.3f}] of {plural(value.n, 'row')} in the pilot"
    return {"from": why, "rows": rows, "rows_at_worst": safe}


def _difference(want: RequirementOptions, mde: float, pilots: list[Pilot]) -> JsonObject:
    purpose = f"a difference of {mde:g} found by `verdict compare` with power {want.power:.0%}, at {1 - want.confidence:.2g}"
    if len(pilots) == 2:
        change = pilot_change(pilots[0], pilots[1], want.seed)
        if isinstance(change, str):
            raise UsageError(f"the two pilots cannot be compared: {change}")
        why = (
            f"a row's difference spreads {change.spread:.3g} over {plural(change.rows, 'row')} of the pilots, and more "
            "where the runs differ"
        )
        rows = change.rows_for(mde, want.test_level, want.power)
        return {"for": purpose, "from": why, "rows": rows}
    if not is_share(want.metric):
        raise UsageError(
            f"how much a difference of {want.metric} varies is not known beforehand",
            hint="give two small runs with --pilot RUN --pilot RUN",
        )
    p = pilots[0].value().value if pilots else want.expect
    p = WORST if p is None else float(p)
    apart, why = want.discordant, "given"
    if apart is None:
        other = p - mde if p >= mde else p + mde
        apart = max(discordant(p, other), mde)
        why = f"independent errors at {p:.3g} and {other:.3g}"
    why = f"{apart:.3g} of the rows right in only one of the two ({why})"
    rows = rows_for_difference(mde, apart, want.test_level, want.power)
    return {"for": purpose, "from": why, "rows": rows}


def cost(lines: tuple[Line, ...]) -> JsonObject:
    """The calls and the cost of all units together."""
    summed = total(lines, "", "")
    return {"calls": summed.calls, "least_calls": summed.least, "cost_usd": summed.cost_usd}


def trade(
    want: RequirementOptions,
    repeats: tuple[str, Parts] | None,
    pipeline: Plan,
    lines: tuple[Line, ...],
    available: int,
) -> list[JsonObject]:
    """Rows, calls and cost for each number of repeats of the unit that the pilot repeats."""
    if repeats is None or want.half_width is None or not available:
        return []
    unit, parts = repeats
    copies = [node.id for node in pipeline.nodes if node.name == unit]
    if not copies:
        return []
    unit_total = total([line for line in lines if line.unit in copies], "", "")
    other_total = total([line for line in lines if line.unit not in copies], "", "")
    table = []
    for count in range(1, MOST_REPEATS + 1):
        rows = rows_with_repeats(parts, count, want.half_width, want.confidence)
        share, times = count / len(copies), rows / available
        usd = None
        if unit_total.cost_usd is not None and other_total.cost_usd is not None:
            usd = (unit_total.cost_usd * share + other_total.cost_usd) * times
        calls = round((unit_total.calls * share + other_total.calls) * times)
        table.append({"repeats": count, "rows": rows, "calls": calls, "cost_usd": usd})
    return table
