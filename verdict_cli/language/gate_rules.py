"""The `gates:` section: the limits that a run must meet, and files of gates for `verdict gate --gates FILE`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from verdict_cli.config_model import (
    ConfigModel,
    Issue,
    KeyRule,
    MessageAndHint,
    NonEmptyText,
    did_you_mean,
)
from verdict_cli.errors import SpecError, UsageError
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.error_messages import explain_error
from verdict_cli.language.evaluations import Evaluation, Evaluations, evaluator_of, missing_keys
from verdict_cli.language.metric_registry import (
    GOLD_ESTIMATES,
    METRICS,
    POSITIVE,
    REAL_LINE,
    UNIT,
    find_metric,
    variance_ends,
)

RUN_METRICS: tuple[str, ...] = (
    "coverage",
    "failed",
    "abstained",
    "calls",
    "cost_usd",
    "wall_s",
    "calibration_age_days",
)
"""Metrics of the run itself, named `run.NAME`."""

ROW_METRICS: tuple[str, ...] = ("coverage", "shared")
"""Shares of an evaluation's rows: those with a prediction, and those of the baselines' rows that this run has."""

Ends = tuple[float, float]
"""The smallest and the largest number that something can be."""

Scalar = str | int | bool | float | None


class Gate(ConfigModel):
    """A limit on one metric; a run that fails it exits with 1."""

    metric: Annotated[str, Field(pattern=r"[^.]\.[a-z]")]
    """The metric: `EVALUATION.METRIC`, or `run.coverage`, `run.failed`, `run.abstained`, `run.calls`, `run.cost_usd`, `run.wall_s`, `run.calibration_age_days` (the oldest calibration that the pipeline uses, when the run began). `EVALUATION.coverage` is the share of its rows with a prediction, `EVALUATION.shared` that of its baselines' rows that this run has."""
    min: float | None = None
    """The smallest value that passes."""
    max: float | None = None
    """The largest value that passes."""
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The limit applies to the two-sided interval at this confidence instead of the value: its lower end to `min`, its upper end to `max`."""
    sided: Literal["one", "two"] = "two"
    """Whether `confidence` is that of an interval with two ends, or of the one end that is compared: `one` is wrong at the limit twice as often."""
    where: Annotated[dict[str, Scalar], Field(min_length=1)] | None = None
    """Path to value: only rows where every path has its value count, such as `{source.type: homonyms}`."""
    baseline: NonEmptyText | None = None
    """The directory of an earlier run, or a file that `verdict gate --bless` wrote; rows of the same id are compared pair by pair."""
    max_drop: Annotated[float, Field(ge=0)] | None = None
    """How much worse than the baseline the metric may be: the 95% interval of the paired difference must not reach beyond it."""

    @property
    def parts(self) -> tuple[str, str]:
        """The evaluation's name (or `run`) and the metric's."""
        evaluation, _, metric = self.metric.rpartition(".")
        return evaluation, metric


_SHORT = r"^\s*([^\s<>=]+)\s*(>=|<=)\s*([-+]?[0-9]+(?:\.[0-9]+)?)\s*$"
"""`EVALUATION.METRIC >= NUMBER`, in the syntax that Python and JSON Schema share."""


def _written_short(value: Any) -> Any:
    """The keys of a gate that is written as a text; what is not a text is left to the class."""
    if not isinstance(value, str):
        return value
    short = re.match(_SHORT, value)
    if short is None:
        expected = "a gate such as `right.accuracy >= 0.9` or `{metric: right.accuracy, min: 0.9}`"
        hint = "a gate in one line has a metric, `>=` or `<=`, and a number"
        strict = re.sub(r"([<>])(?!=)", r"\1=", value)
        if re.match(_SHORT, strict):
            hint = f"write `{strict}`"
        raise PydanticCustomError(
            "written_form", "expected {expected}", {"expected": expected, "hint": hint}
        )
    return {"metric": short[1], "min" if short[2] == ">=" else "max": float(short[3])}


GateList = tuple[
    Annotated[
        Gate,
        BeforeValidator(
            _written_short, json_schema_input_type=Gate | Annotated[str, Field(pattern=_SHORT)]
        ),
    ],
    ...,
]
"""Gates, each a mapping or a text such as `right.accuracy >= 0.9`."""


_RULES = (
    KeyRule("baseline", "", ("max_drop",), "`baseline` needs `max_drop`", "such as `max_drop: 0.01`"),
    KeyRule("max_drop", "", ("baseline",), "`max_drop` needs `baseline`", "such as `baseline: runs/main`"),
    *(
        KeyRule("baseline", key, (), "`baseline` cannot be combined with `min`, `max` and `confidence`", "write two gates")
        for key in ("min", "max", "confidence")
    ),
)  # fmt: skip


def gate_problems(
    gate: Gate, evaluations: Evaluations, scales: Mapping[str, Ends] | None = None
) -> list[Issue]:
    """What is wrong with a gate although each of its keys is well formed.

    `scales` has the ends of the scale that an evaluation's value or prediction is on, where it is on one.
    """
    evaluation, metric = gate.parts
    issues = _run(gate) if evaluation == "run" else _evaluation(gate, evaluations)
    if not issues:
        issues = _limits(gate, metric_range(gate, (scales or {}).get(evaluation)))
    issues += gate.broken_rules(_RULES)
    if not any(gate.has_value(key) for key in ("min", "max", "baseline", "max_drop")):
        hint = "give `min`, `max`, or `baseline` and `max_drop`"
        issues.append(Issue("", f"the gate on `{gate.metric}` has no limit", hint))
    if gate.min is not None and gate.max is not None and gate.min > gate.max:
        message = f"`min` {gate.min:g} is above `max` {gate.max:g}"
        issues.append(Issue("min", message, "nothing can pass this gate"))
    definition = find_metric(metric)
    counts_errors = definition is not None and definition.lower_is_better
    if counts_errors and gate.max is None and gate.min:  # `min: 0` is told as a limit that all meet
        message = (
            f"`{gate.metric}` counts errors: only runs with more of them pass `min: {gate.min:g}`"
        )
        issues.append(Issue("min", message, f"write `max: {gate.min:g}`"))
    if metric == "confusion":
        message = "`confusion` is a table and has no limit"
        issues.append(Issue("metric", message, "name another metric"))
    return list(dict.fromkeys(issues))


def metric_range(gate: Gate, scale: Ends | None) -> Ends:
    """The smallest and the largest value of the gate's metric, given the ends of the scale that is measured."""
    name, metric = gate.parts
    if metric in ROW_METRICS:  # also `run.coverage`
        return UNIT
    if name == "run":
        return POSITIVE
    if metric in ("mean", "median", *GOLD_ESTIMATES):
        return scale or REAL_LINE
    if metric in ("mae", "rmse") and scale is not None:
        return 0.0, scale[1] - scale[0]
    if metric == "variance" and scale is not None:
        return variance_ends(*scale)
    record = find_metric(metric)
    return REAL_LINE if record is None else record.bounds


IDLE = "every value passes"
"""What is told of a limit that every value of its metric meets."""


def idle_limits(gates: Sequence[Gate], scales: Mapping[str, Ends]) -> list[tuple[int, str]]:
    """The gates whose `min` is the smallest value of the metric, or 0 below it, which every value meets: their index, and
    what to say of them."""
    idle = []
    for index, gate in enumerate(gates):
        low, _ = metric_range(gate, scales.get(gate.parts[0]))
        if gate.min is None or (gate.min != low and not gate.min == 0 < low):
            continue
        message = f"{low:g} is the smallest value of `{gate.metric}`: {IDLE} `min: {gate.min:g}`"
        idle.append((index, message))
    return idle


def _limits(gate: Gate, ends: Ends) -> list[Issue]:
    """Limits that every value of the metric meets, or none."""
    low, high = ends
    width = high - low
    issues = []
    for key in ("min", "max", "max_drop"):
        limit = getattr(gate, key)
        if limit is None:
            continue
        if not math.isfinite(limit):
            issues.append(Issue(key, f"`{key}: {limit:g}` is not a number", "give a number"))
            continue
        is_below = limit < low and limit != 0  # `min: 0` is how people write no limit: it is told
        says_nothing = {"min": is_below, "max": limit >= high, "max_drop": limit >= width}[key]
        forbids_all = {"min": limit > high, "max": limit < low, "max_drop": False}[key]
        if says_nothing or forbids_all:
            effect = "no run can fail" if says_nothing else "no run can pass"
            message = f"{_range_in_words(gate, ends)}: {effect} `{key}: {limit:g}`"
            issues.append(Issue(key, message, _meant(key, limit, ends)))
    return issues


def _range_in_words(gate: Gate, ends: Ends) -> str:
    low, high = ends
    if math.isinf(high):
        return f"`{gate.metric}` is at least {low:g}"
    if math.isinf(low):
        return f"`{gate.metric}` is at most {high:g}"
    metric = find_metric(gate.parts[1])
    is_share = ends == UNIT and (metric is None or not metric.lower_is_better)
    return f"`{gate.metric}` is {'a share ' if is_share else ''}from {low:g} to {high:g}"


def _meant(key: str, limit: float, ends: Ends) -> str:
    """What the author probably meant by a limit outside the range."""
    low, high = ends
    if ends == UNIT and 1 <= limit <= 100:
        points = "1 point is" if limit == 1 else f"{limit:g} points are"
        limit_text = points if key == "max_drop" else f"{limit:g}% is"
        return f"{limit_text} {limit / 100:g}"
    if key == "max_drop":
        return f"give a number below {high - low:g}"
    if limit == high:
        return "give a limit that a bad run fails"
    if math.isinf(high):
        return f"give a number from {low:g} on"
    if math.isinf(low):
        return f"give a number up to {high:g}"
    return f"give a number from {low:g} to {high:g}"


def _run(gate: Gate) -> list[Issue]:
    issues: list[Issue] = []
    if gate.parts[1] not in RUN_METRICS:
        names = [f"run.{name}" for name in RUN_METRICS]
        issues.append(Issue("metric", f"`{gate.metric}` is unknown", _near(gate.metric, names)))
    return issues + _of_all_rows(gate, "fact of the whole run")


def _of_all_rows(gate: Gate, noun: str) -> list[Issue]:
    """The keys that choose or resample rows, which a value of all rows does not have."""
    return [
        Issue(
            key,
            f"`{gate.metric}` is a {noun}: `{key}` does not apply",
            f"leave `{key}` out",
        )
        for key in ("confidence", "where", "baseline")
        if getattr(gate, key) is not None
    ]


def _evaluation(gate: Gate, evaluations: Evaluations) -> list[Issue]:
    name, metric = gate.parts
    evaluation = evaluations.get(name)
    if evaluation is None:
        return [Issue("metric", f"`evaluate` has no `{name}`", _near(name, [*evaluations, "run"]))]
    if (evaluator := evaluator_of(evaluation)) is not None:
        hint = f"{evaluator.gate_hint}"  # a text for `make errors`
        message = f"`{name}` is a {evaluator.noun}: it has no metric of its own for a gate"
        return [Issue("metric", message, hint)]
    if metric in ROW_METRICS:
        return _of_all_rows(gate, "share of all rows")
    if metric in GOLD_ESTIMATES:
        return _gold(gate, evaluation)
    return [
        Issue("metric", message, hint) for message, hint in _unmeasured(name, metric, evaluation)
    ]


def _gold(gate: Gate, evaluation: Evaluation) -> list[Issue]:
    name, metric = gate.parts
    if evaluation.gold is None:
        message = f"`{name}` has no `gold`, which gives `{metric}`"
        return [Issue("metric", message, f"give `evaluate.{name}.gold`")]
    if gate.baseline is not None and metric != "ppi":
        hint = f"name `{name}.ppi`, or give `min` or `max`"
        return [Issue("baseline", f"`{metric}` is not compared between runs", hint)]
    return []


def _unmeasured(name: str, metric: str, evaluation: Evaluation) -> Iterator[MessageAndHint]:
    """(message, hint) of why the evaluation does not measure the metric."""
    if find_metric(metric) is None:
        yield f"`{metric}` is no metric", _near(metric, METRICS.names())
    elif evaluation.metrics is not None and metric not in evaluation.metrics:
        yield (
            f"`{name}` does not measure `{metric}`",
            f"add `{metric}` to `evaluate.{name}.metrics`",
        )
    else:
        for key in missing_keys(evaluation, metric):
            message = f"`{name}` cannot measure `{metric}`: it has no `{key}`"
            yield message, f"give `evaluate.{name}.{key}`"


def _near(word: str, names: Sequence[str]) -> str:
    return did_you_mean(word, names, f"known: {', '.join(names)}")


def with_baseline(gates: Sequence[Gate], baseline: str) -> tuple[Gate, ...]:
    """The gates, those with a baseline against this one. UsageError where none has one."""
    if all(gate.baseline is None for gate in gates):
        hint = "give a gate `baseline` and `max_drop`"
        raise UsageError("no gate has a `baseline` that --baseline could replace", hint=hint)
    return tuple(
        gate if gate.baseline is None else gate.model_copy(update={"baseline": baseline})
        for gate in gates
    )


class GatesFile(ConfigModel):
    """The gates of a file."""

    gates: GateList
    """The gates, in place of the run's own: `gates: [{metric: NAME.METRIC, min: …}]`."""


def read_gates(
    path: Path, evaluations: Evaluations, scales: Mapping[str, Ends] | None = None
) -> tuple[Gate, ...]:
    """The gates of a file that is a list of gates, has only `gates:`, or is a pipeline. SpecError with every problem."""
    document = read_document(path, list_key="gates")
    data = document.data
    if isinstance(data, dict) and "pipeline" in data:
        data = {"gates": data.get("gates", [])}
    try:
        gates = GatesFile.model_validate(data).gates
    except ValidationError as error:
        raise SpecError([*explain_error(error, GatesFile, document).values()]) from None
    problems = []
    for index, gate in enumerate(gates):
        for issue in gate_problems(gate, evaluations, scales):
            keys = ("gates", index, *issue.path)
            problems.append(document.problem("bad-gate", issue.message, issue.hint, keys))
    if problems:
        raise SpecError(problems)
    return gates
