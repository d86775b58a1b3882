"""The result of a run or of a comparison in one sentence, and what its tests say, for every format and for JSON.

The sentence of a study (an audit, a sweep, a ranking) is in the package of the study.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import PurePath
from typing import TYPE_CHECKING

from verdict_cli.language.metric_registry import find_metric
from verdict_cli.messages import NamedValues
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.stats.compare import MCNEMAR, Slice

if TYPE_CHECKING:
    from verdict_cli.report.report import Report
    from verdict_cli.stats.compare import RunComparison, Significance
    from verdict_cli.stats.gates import GateOutcome
    from verdict_cli.stats.measure import Measures
    from verdict_cli.stats.paired import Difference

MOST_NAMED = 3
MOST_OPEN_ROWS = 0.02
"""With a larger share of rows that only one run scores, a comparison is inconclusive whatever the others show."""
TESTED_METRICS = {"right and wrong rows": "accuracy", "values": "mean"}
"""The metric whose difference McNemar's test is of."""
CONTRADICTION = (
    "the {level:g}% interval {does} 0, but {p}. The interval says how large the difference may be, and is rough for so few "
    "differing rows; the test says whether chance alone would give as large a difference, and the conclusion follows it"
)
_WITHOUT_DIRECTION = frozenset({"value", "choice", "choice_length", "lengths"})
"""Inputs of metrics whose high values are neither good nor bad, such as the mean of an expression."""


def listed_names(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """`a, b, c and 2 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(formatting.visible_text(name, 80) for name in names[:most]) + more


def run_conclusion(report: Report) -> str:
    """`Accuracy 0.900 [0.800, 0.950] on 96 rows; the gate passed; 10 rows disagree with the labels`: the first evaluation's
    main metric, what the gates decide, what studies conclude, and what failed; "" for a run without results."""
    parts = []
    name = next((name for name in report.measures if report.primary_metric(name)), "")
    main = report.primary_metric(name) if name else None
    several = len(report.measures) > 1
    if main is not None:
        metric, value = main
        head = f"{formatting.visible_text(name, 60)}: " if several else ""
        numbers = formatting.number_with_interval(value)
        counted = _counted(value.n, report.measures[name])
        parts.append(f"{head}{metric.replace('_', ' ')} {numbers} on {counted}")
    parts += [gates_conclusion(report.gates)] if report.gates else []
    if main is not None and (wrong := wrong_rows(report.measures[name].values)) is not None:
        unit = report.measures[name].of
        parts.append(f"{plural(wrong, f'{unit[:-1]} disagrees|{unit} disagree')} with the labels")
    sentences = {name: study.conclusion() for name, study in report.studies.items()}
    parts += [
        f"{formatting.visible_text(name, 60)}: {text}" for name, text in sentences.items() if text
    ]
    if parts and report.facts.failed:
        parts.append(f"{plural(report.facts.failed, 'row')} failed")
    text = "; ".join(parts)
    return text if main is None or several else text[:1].upper() + text[1:]


def _counted(count: int, measures: Measures) -> str:
    return plural(count, "entry|entries" if measures.of == "entries" else "row")


def wrong_rows(metrics: NamedValues) -> int | None:
    """How many rows have another prediction than their target; None where that is not what the metrics are of."""
    matrix, accuracy = metrics.get("confusion"), metrics.get("accuracy")
    if matrix is not None and matrix.value is not None:
        counts: list[list[int]] = matrix.value["counts"]
        return sum(sum(row) - row[index] for index, row in enumerate(counts))
    if accuracy is None or accuracy.value is None:
        return None
    wrong: int = round((1 - accuracy.value) * accuracy.n)
    return wrong


def gates_conclusion(gates: Sequence[GateOutcome]) -> str:
    """`1 of 3 gates failed: safety.accuracy 0.610 (≥ 0.7)`, and which are inconclusive. Gates that the file does not set
    are named where they do not pass, and not counted."""
    own = [gate for gate in gates if not gate.implied]
    parts: list[str] = []
    for verdict, one in (
        ("failed", "the gate failed"),
        ("inconclusive", "the gate is inconclusive"),
    ):
        decided = [gate for gate in own if gate.verdict == verdict]
        if not decided:
            continue
        count = f"{len(decided)} of {plural(len(own), 'gate')} {verdict}"
        if len(own) == 1:
            count = one
        elif parts:
            count = f"{len(decided)} {verdict}"
        is_tolerated = all(gate.passed for gate in decided)
        parts.append(
            f"{count}{' (tolerated)' if is_tolerated else ''}: {listed_names(_gate_values(decided))}"
        )
    if not parts and own:
        parts.append("the gate passed" if len(own) == 1 else f"all {len(own)} gates passed")
    implied = [gate for gate in gates if gate.implied and gate.verdict != "passed"]
    if implied:
        parts.append(f"not met: {listed_names(_gate_values(implied))}")
    return "; ".join(parts)


def _gate_values(gates: Sequence[GateOutcome]) -> list[str]:
    return [f"{gate.metric} {formatting.format_number(gate.value)} ({gate.rule})" for gate in gates]


def metric_direction(metric: str) -> int:
    """1 if high values of the metric are better, -1 if low ones are, 0 if neither is."""
    definition = find_metric(metric)
    if definition is None or _WITHOUT_DIRECTION.intersection(definition.inputs):
        return 0
    return -1 if definition.lower_is_better else 1


def is_significant(difference: Difference, level: float) -> bool:
    """Whether the metric's own test, adjusted for all tests made together, separates the two."""
    return difference.p_adjusted is not None and difference.p_adjusted <= 1 - level + 1e-12


def change_text(difference: Difference) -> str:
    """`+0.050 [0.010, 0.090], p = 0.012 (paired permutation test, adjusted)`."""
    change = difference.change
    text = f"{formatting.signed(change.value)} {formatting.interval(change)}".strip()
    return (
        text
        if difference.p_adjusted is None
        else f"{text}, {p_text(difference.p_adjusted)} (paired permutation test, adjusted)"
    )


def _decided_text(difference: Difference, level: float) -> str:
    """What decides where the interval and the test disagree, as they may in small samples; "" where they agree, and where
    nothing is decided."""
    excluded = _excludes_zero(difference)
    if (
        excluded is None
        or difference.doubt
        or difference.p_adjusted is None
        or excluded == is_significant(difference, level)
    ):
        return ""
    does = "excludes" if excluded else "includes"
    return f"; the interval, of how large it may be, {does} 0; the test, of whether it is chance, decides"


def _excludes_zero(difference: Difference) -> bool | None:
    """Whether the interval leaves 0 out; None where there is no interval."""
    low, high = difference.change.low, difference.change.high
    return None if low is None or high is None else not low <= 0 <= high


def p_text(p: float) -> str:
    """`p = 0.012`, `p < 0.001`."""
    number = formatting.p_value(p)
    return f"p {number}" if number.startswith("<") else f"p = {number}"


def short_names(runs: Sequence[str]) -> list[str]:
    """The names of runs for a reader: of their paths the last parts that tell them apart."""
    parts = [PurePath(run).parts or (run,) for run in runs]
    for length in range(1, max(map(len, parts))):
        names = [str(PurePath(*path[-length:])) for path in parts]
        if len(set(names)) == len(names):
            break
    else:
        names = list(runs)
    return [formatting.visible_text(name, 60) for name in names]


def comparison_conclusion(comparison: RunComparison, names: Sequence[str]) -> str:
    """Which pipelines (`names`) are better than the first, the reference, in the first metric of each evaluation; of runs of
    one pipeline, how much they differ."""
    if len(comparison.sizes) == 1:
        return _spread_conclusion(comparison)
    sentences = []
    for name, evaluation in comparison.evaluations.items():
        head = f"{formatting.visible_text(name, 60)}: " if len(comparison.evaluations) > 1 else ""
        sentence = (
            f"not compared: {evaluation.reason}"
            if evaluation.reason
            else _sentence(evaluation.whole, names, comparison.level)
        )
        sentences.append(head + sentence)
    more = (
        f"; {plural(len(sentences) - MOST_NAMED, 'more evaluation')}"
        if len(sentences) > MOST_NAMED
        else ""
    )
    return "; ".join(sentences[:MOST_NAMED]) + more


def _sentence(whole: Slice, names: Sequence[str], level: float) -> str:
    """The differences from the first pipeline in the first metric that has any, else of other metrics."""
    metrics = {metric: differences.differences for metric, differences in whole.metrics.items()}
    main = next(
        (
            name
            for name, differences in metrics.items()
            if any(difference.change.value is not None for difference in differences)
        ),
        None,
    )
    if main is None:
        reasons = [each.change.reason for differences in metrics.values() for each in differences]
        return ": ".join(["no metric could be compared", *reasons[:1]])
    pairs = [
        (name, difference)
        for name, difference in zip(names[1:], metrics[main], strict=True)
        if difference.change.value is not None
    ]
    scored = "are scored in only one run" if len(names) == 2 else "are not scored in all runs"
    significant = [pair for pair in pairs if is_significant(pair[1], level)]
    if significant:
        found = [
            (
                _open_text(difference, difference.change.value, scored) or _doubt(difference),
                f"{name} is {_better(main, difference, names)}: "
                f"{change_text(difference)}{_decided_text(difference, level)}",
            )
            for name, difference in significant
        ]
        # A doubt stands once, before all that it is about; what is certain comes first.
        by_doubt = groupby(sorted(found, key=itemgetter(0)), key=itemgetter(0))
        return "; ".join(doubt + "; ".join(text for _, text in each) for doubt, each in by_doubt)
    name, largest = max(pairs, key=lambda pair: abs(pair[1].change.value or 0.0))
    doubtful = next(
        (text for _, difference in pairs if (text := _open_text(difference, None, scored))), ""
    )
    largest_of = "the largest, " if len(pairs) > 1 else ""
    text = f"{doubtful}no significant difference in {main}: {largest_of}{name} − {names[0]} is {change_text(largest)}"
    text += _decided_text(largest, level)
    also = [
        name
        for name, differences in metrics.items()
        if any(is_significant(difference, level) for difference in differences)
    ]
    return f"{text}; significant differences in {listed_names(also)}" if also else text


def _open_text(difference: Difference, gain: float | None, scored: str) -> str:
    """Why a significant gain, or with None that there is none, is inconclusive; "" if it is not."""
    left_out = difference.open_rows
    if left_out is None:
        return ""
    share = f"{formatting.percent(left_out.share)} of the rows {scored}"
    if left_out.share > MOST_OPEN_ROWS:
        return f"inconclusive: {share}; on the others "
    if not left_out.turns(gain):
        return ""
    if not left_out.share:
        share = "rows that no run scores"
    return f"inconclusive: {share} and could turn the result; on the others "


def _doubt(difference: Difference) -> str:
    return f"inconclusive: {difference.doubt}; on these rows " if difference.doubt else ""


def _better(metric: str, difference: Difference, names: Sequence[str]) -> str:
    """`better on accuracy`, `higher in mean`; of several pipelines, than the reference."""
    gain = difference.change.value or 0.0
    direction = metric_direction(metric)
    than = f" than {names[0]}" if len(names) > 2 else ""
    if not direction:
        return f"{'higher' if gain > 0 else 'lower'}{than} in {metric}"
    return f"{'better' if gain * direction > 0 else 'worse'}{than} on {metric}"


def _spread_conclusion(comparison: RunComparison) -> str:
    whole = next(
        (
            evaluation.whole
            for evaluation in comparison.evaluations.values()
            if not evaluation.reason
        ),
        Slice(0, {}),
    )
    for metric, against in whole.metrics.items():
        if against.spread is not None and against.runs:
            floor = formatting.format_number(against.spread.noise_floor(comparison.level))
            return f"two runs of this pipeline differ by up to {floor} in {metric} ({100 * comparison.level:g} of 100 pairs)"
    return ""


def contradictions(whole: Slice, letters: Sequence[str], level: float) -> list[str]:
    """A line for each metric whose interval excludes 0 where a test beside it does not find a difference, or the reverse."""
    texts = []
    for name, against in whole.metrics.items():
        for letter, difference in zip(letters[1:], against.differences, strict=True):
            tests = [("p", difference.p)]
            if (
                whole.test is not None
                and whole.test.name == MCNEMAR
                and name == TESTED_METRICS.get(whole.test.of)
            ):
                tests.append(("McNemar's p", whole.test.p))
            if (excluded := _excludes_zero(difference)) is None:
                continue
            other = [
                f"{test} is {formatting.p_value(p)}"
                for test, p in tests
                if p is not None and (p < 1 - level) != excluded
            ]
            if other:
                subject = f"{name} of {letter}" if letters[2:] else name
                does = "excludes" if excluded else "includes"
                texts.append(
                    f"{subject}: {CONTRADICTION.format(does=does, level=100 * level, p=' and '.join(other))}"
                )
    return texts


def significance_text(test: Significance, name: str) -> str:
    """`mcnemar, of right and wrong rows: v2 better on 12 rows, worse on 3; p = 0.035 (Holm-adjusted: 0.07); cohen_g 0.3`."""
    effect = (
        ""
        if test.effect is None
        else f"; {test.effect_name} {formatting.format_number(test.effect)}"
    )
    p = f"{p_text(test.p)} (Holm-adjusted: {formatting.p_value(test.p_holm)})"
    better = plural(test.better, "row")
    return f"{test.name}, of {test.of}: {name} better on {better}, worse on {test.worse:,}; {p}{effect}"
