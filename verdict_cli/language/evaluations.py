"""The `evaluate:` section: the metrics that a run is measured by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import Field

from verdict_cli.config_model import (
    ConfigModel,
    Issue,
    KeyRule,
    NonEmptyText,
    NonEmptyTuple,
    OneOrMore,
    PositiveInt,
    PositiveNumber,
    Whole,
    added_keys,
    with_added_keys,
)
from verdict_cli.errors import Problem
from verdict_cli.language.document.source_positions import KeyPath
from verdict_cli.language.expressions.paths import RowValues
from verdict_cli.language.metric_registry import (
    CHOICE_INPUTS,
    REQUIRED_KEYS,
    EvaluationKind,
    MetricKey,
    find_metric,
)
from verdict_cli.messages import NamedValues
from verdict_cli.registry import feature_part

Reducer = Literal["max", "min", "mean", "median", "mode", "first", "any", "all"]
"""How the rows of one group are combined into one value."""

GoldScope = Literal["population", "rows"]
"""What a corrected estimate is about."""

ExpressionText = NonEmptyText


class Reduce(ConfigModel):
    """How the rows of one group are combined, for each expression of the evaluation."""

    prediction: Reducer | None = None
    """How the predictions of a group are combined."""
    target: Reducer | None = None
    """How the targets of a group are combined; rows without a target are ignored."""
    value: Reducer | None = None
    """How the values of a group are combined."""
    probability: Reducer | None = None
    """How the probabilities of a group are combined."""


class Gold(ConfigModel):
    """Human labels of some rows, which correct the judge's estimate over all rows."""

    target: ExpressionText
    """Expression over `source` and `human` for the human label of a row, such as `source.human`, or `human.label` for labels that `verdict view` collected; null for rows without one."""
    where: ExpressionText | None = None
    """Expression over `source` and `human` that is true of the rows whose label counts; they must be drawn at random, with `weight` where some were more likely."""
    weight: ExpressionText | None = None
    """Expression over `source` and `human` for the probability with which a row was drawn to be labelled, such as `human.inclusion` after `verdict queue`; labels of rows where it is null do not count. Without it all rows were as likely."""
    of: GoldScope = "population"
    """What the intervals are about: the `population` that the run's rows were drawn from, or these `rows` alone, of which the labelled ones are a random sample."""
    half_width: PositiveNumber | None = None
    """The half width of the interval that is wanted; the report says how many labels that takes."""


_MEASURED = (
    "prediction",
    "probability",
    "value",
    "consistent",
    "options",
    "positive",
    "group",
    "gold",
)

KEY_RULES = (
    *(
        KeyRule(key, "panel", (), f"`panel` and `{key}` are two evaluations", f"give `{key}` one of its own")
        for key in _MEASURED
    ),
    KeyRule("items", "panel", (), "`panel` compares units on rows, `items` are the entries of one unit", "leave one of the two out"),
    KeyRule("gold", "", ("value", "prediction", "panel"), "`gold` needs a `value` or a `prediction`", "such as `value: output.score`"),
    KeyRule("gold", "group", (), "`gold` corrects metrics of rows, not of groups", "leave `group` or `gold` out"),
    KeyRule("target", "", ("prediction", "probability", "panel"), "`target` needs a `prediction` or a `probability`", "such as `prediction: output.score`"),
    KeyRule("options", "", ("prediction", "panel"), "`options` needs the choice between them", "such as `prediction: output.choice`"),
)  # fmt: skip

_ADDED = added_keys("Evaluation")
_ADDED_FIELDS = {} if _ADDED is None else _ADDED.model_fields
_OF_OWN_KIND = [key for key, field in _ADDED_FIELDS.items() if field.default is None]
"""Keys that a feature adds: an evaluation of its own kind has one of them."""
MEASURABLE = KeyRule("", "", ("metrics", "target", "value", "panel", "gold", "consistent", "options", *_OF_OWN_KIND), "there is nothing to measure", "give `prediction` and `target`, `probability` and `target`, `value`, or `panel`")  # fmt: skip
"""An evaluation has one of these."""


@with_added_keys
class Evaluation(ConfigModel):
    """Metrics over the rows of a run: a prediction or a probability against a target, a value alone, several judges
    against each other, or what a feature measures in its own way."""

    key_rules = (*KEY_RULES, MEASURABLE)

    items: ExpressionText | None = None
    """The name of a unit under `each`: one observation for each entry instead of one for each row. Expressions see the entry under its `as` name, `index`, the unit's `output` there, and `source`; intervals resample rows unless `cluster` says otherwise."""
    prediction: ExpressionText | None = None
    """Expression for the pipeline's verdict on the row, such as `output.score`."""
    target: ExpressionText | None = None
    """Expression for the true value of the row, such as `source.label`; rows where it is null are excluded."""
    value: ExpressionText | None = None
    """Expression for a number or boolean that is summarised without a target."""
    positive: str | int | bool | float | None = None
    """The target that counts as positive in precision, recall, F1 and the metrics of a probability (there, `true` where targets are booleans)."""
    probability: ExpressionText | None = None
    """Expression for the probability of `positive`: AUROC, average precision, Brier score, log loss, calibration error."""
    panel: Annotated[tuple[ExpressionText, ...], Field(min_length=2)] | ExpressionText | None = None
    """The verdict of each of several judges on the row: expressions such as `nodes['judge[0]'].score`, or `judge.score` for that field of every unit of that name. With `target`, the effective number of judges is of their errors, else of their votes."""
    consistent: ExpressionText | None = None
    """Expression that is true where a pairwise judge's choice is the same in both orders, such as `output.consistent`."""
    options: Annotated[tuple[ExpressionText, ...], Field(min_length=2, max_length=2)] | None = None
    """Expressions for the options A and B of a pairwise judge, or for their lengths: how often it prefers the longer."""
    metrics: NonEmptyTuple[MetricKey] | None = None
    """The metrics; by default a few that fit the kind. `pearson_within` and the like are the mean of each cluster's own correlation."""
    average: Literal["macro", "micro", "weighted"] = "macro"
    """How precision, recall, specificity, F1 and F-beta are averaged over the labels without `positive`: every label alike, all decisions pooled, or each label by its share of the targets."""
    beta: PositiveNumber | None = None
    """How many times as much recall counts as precision in `f_beta`."""
    k: PositiveInt | None = None
    """The samples of a problem of which one has to be right in `pass_at_k`."""
    by: Annotated[tuple[ExpressionText, ...], OneOrMore] = ()
    """An expression or a list of them; the same metrics are computed for each value of each."""
    cluster: ExpressionText | None = None
    """Expression that is equal for rows with correlated errors, such as `source.document_id`; intervals resample whole clusters."""
    published: NonEmptyText | None = None
    """A YAML file with a paper's table, whose rows are shown next to the run's; relative to the pipeline file."""
    group: ExpressionText | None = None
    """Expression that is equal for rows that `reduce` combines before anything is measured."""
    reduce: Reduce | None = None
    """How the rows of one group are combined."""
    missing: Literal["exclude", "wrong"] = "exclude"
    """Whether rows without a prediction are excluded or count as wrong."""
    kind: EvaluationKind | None = None
    """What predictions and targets are; without it, inferred from their types. Words of a scale with `ordered: true` or `scores` are `ordinal`, other words `classification`."""
    where: ExpressionText | None = None
    """Expression that is true for the rows to be measured."""
    gold: Gold | None = None
    """Human labels of some rows: estimates the mean of `value`, or the proportion of `prediction` that is `positive`, as if people had labelled all rows."""

    def alone(self, metric: str) -> Evaluation:
        """The evaluation with this metric only, over all rows together and by the judge's own verdicts."""
        return self.model_copy(update={"metrics": (metric,), "by": (), "gold": None})


Evaluations = Mapping[str, Evaluation]
"""The evaluations of a configuration, by name."""


class PublishedRow(ConfigModel):
    """One row of a published table."""

    judge: NonEmptyText
    """The judge's name in the table."""
    value: float
    """The value, in the table's unit."""
    own: bool = False
    """Whether this row is the method that the source itself proposes."""


class Published(ConfigModel):
    """A table of a paper, shown next to a run's metrics."""

    source: NonEmptyText
    """The paper, with enough detail to find it."""
    table: str | Annotated[int, Whole]
    """The table's name or number."""
    page: str | Annotated[int, Whole] | None = None
    """The page of the table, or a text such as `section 5.3`."""
    metric: MetricKey
    """The metric of the evaluation that the table contains."""
    unit: Literal["percent", "fraction"]
    """Whether the values are percentages or fractions of one."""
    data_rows: Annotated[int, Whole] | None = None
    """The number of rows that the values are of: a run of another number is told to be of other data."""
    caveat: NonEmptyText | None = None
    """Why a run's value cannot be compared with these, such as another split; shown wherever both are shown."""
    rows: NonEmptyTuple[PublishedRow]
    """The table's rows."""


def evaluation_problems(name: str, evaluation: Evaluation) -> list[Issue]:
    """What is wrong with an evaluation although each of its keys is well formed; empty when nothing is."""
    evaluator = evaluator_of(evaluation)
    if evaluator is None:
        issues = [*_figures(evaluation), *_lacking(evaluation)]
    else:
        issues = _of_own_kind(evaluation, evaluator)
    issues += [*_repeated(evaluation), *_groups(evaluation)]
    if name == "run":
        message = "`run` is the name of the run's own facts in `gates`"
        issues.insert(0, Issue("", message, "choose another name"))
    return issues


def _figures(evaluation: Evaluation) -> list[Issue]:
    issues = evaluation.broken_rules(KEY_RULES)
    if evaluation.panel is not None:
        if evaluation.missing == "wrong":
            hint = "leave it out: absent votes are left out"
            issues.append(Issue("missing", "`missing: wrong` has no meaning for a panel", hint))
        return issues
    of_gold = [issue for issue in issues if issue.key == "gold"]
    if of_gold:
        return of_gold[:1]
    if evaluation.gold is not None and evaluation.target is None and evaluation.probability is None:
        return []
    if evaluation.target is None and evaluation.value is None and not _choices_only(evaluation):
        keys = [key for key in ("prediction", "probability") if getattr(evaluation, key)]
        message = f"`{keys[0]}` needs a `target`" if keys else MEASURABLE.message
        return [Issue("", message, MEASURABLE.hint), *issues]
    return issues


def _choices_only(evaluation: Evaluation) -> bool:
    """Whether only a pairwise judge's preferences are measured, which needs no target."""
    if evaluation.metrics is not None:
        metrics = [find_metric(name) for name in evaluation.metrics]
        return all(metric is not None and metric.inputs[0] in CHOICE_INPUTS for metric in metrics)
    return evaluation.consistent is not None or evaluation.options is not None


class EvaluationCheck(Protocol):
    """What an evaluation needs of the dataset's columns, checked row by row before the first call."""

    def add(self, index: int, source: RowValues) -> None:
        """Check a row."""

    def problem(self) -> Problem | None:
        """The first thing that is wrong, None where nothing is."""


class Evaluator(Protocol):
    """What measures evaluations of a feature's own kind, by keys that the feature adds to them."""

    noun: str
    """What such an evaluation is, such as `leaderboard`."""
    metrics: tuple[str, ...]
    """The metrics that it measures."""
    gate_hint: str
    """Where its values are, for a gate that names one."""

    def takes(self, evaluation: Evaluation) -> bool:
        """Whether the evaluation is of this kind."""

    def problems(self, evaluation: Evaluation) -> list[Issue]:
        """What is wrong with its own keys."""

    def expressions(self, evaluation: Evaluation) -> list[tuple[KeyPath, str | None]]:
        """The expressions of its own keys, with their paths in the evaluation."""

    def row_check(self, name: str, evaluation: Evaluation) -> EvaluationCheck:
        """A check of the dataset's rows."""

    def measure(self, evaluations: Evaluations, results: Path, seed: int) -> NamedValues:
        """The `EvaluationStudy` of each evaluation, from a run's `results.parquet`. Raises DataError."""


def evaluator_of(evaluation: Evaluation) -> Evaluator | None:
    """What measures an evaluation of a feature's own kind; None for the metrics of rows."""
    kind: type[Evaluator] | None = feature_part("rank", "evaluator.ArenaEvaluator")
    if kind is None:
        return None
    evaluator = kind()
    return evaluator if evaluator.takes(evaluation) else None


def _of_own_kind(evaluation: Evaluation, evaluator: Evaluator) -> list[Issue]:
    issues: list[Issue] = [
        Issue(
            key,
            f"a {evaluator.noun} and `{key}` are two evaluations",
            f"give `{key}` one of its own, or leave it out",
        )
        for key in Evaluation.model_fields
        if key not in {*_ADDED_FIELDS, "where", "metrics"} and key in evaluation.model_fields_set
    ]
    issues += evaluator.problems(evaluation)
    for index, name in enumerate(evaluation.metrics or ()):
        if find_metric(name) is not None and name not in evaluator.metrics:
            *head, last = (f"`{metric}`" for metric in evaluator.metrics)
            hint = f"name {', '.join(head)} or {last}"
            issues.append(
                Issue(f"metrics.{index}", f"a {evaluator.noun} does not measure `{name}`", hint)
            )
    return issues


def _lacking(evaluation: Evaluation) -> list[Issue]:
    """The metrics that need keys which the evaluation does not give."""
    issues: list[Issue] = []
    for index, metric in enumerate(evaluation.metrics or ()):
        lacking = missing_keys(evaluation, metric)
        if lacking:
            words = " and ".join(f"`{key}`" for key in lacking)
            issues.append(
                Issue(
                    f"metrics.{index}",
                    f"`{metric}` needs {words}",
                    f"give {words}, or leave `{metric}` out",
                )
            )
    return issues


def _repeated(evaluation: Evaluation) -> list[Issue]:
    """What is listed twice: a judge agrees with itself, and an option is as long as itself."""
    issues = []
    for key in ("metrics", "panel", "options"):
        listed = getattr(evaluation, key)
        for index, text in enumerate(listed if isinstance(listed, tuple) else ()):
            if text in listed[:index]:
                issues.append(Issue(f"{key}.{index}", f"`{text}` is a duplicate", "leave one out"))
    return issues


def missing_keys(evaluation: Evaluation, metric: str) -> list[str]:
    """The keys that a metric needs and the evaluation does not give."""
    record = find_metric(metric)
    if record is None:
        return []
    is_of_panel = evaluation.panel is not None and "panel" in record.inputs
    keys = (*(() if is_of_panel else REQUIRED_KEYS[record.inputs[0]]), *record.keys)
    missing = [key for key in keys if getattr(evaluation, key) is None]
    # The entries of a row are a cluster.
    return [key for key in missing if key != "cluster" or evaluation.items is None]


def _groups(evaluation: Evaluation) -> list[Issue]:
    if evaluation.group is None and evaluation.reduce is None:
        return []
    if evaluation.group is None:
        return [Issue("reduce", "`reduce` needs `group`", "such as `group: source.claim_id`")]
    issues: list[Issue] = []
    for key in Reduce.model_fields:
        has_key = getattr(evaluation, key) is not None
        reducer = getattr(evaluation.reduce, key, None)
        if has_key and reducer is None:
            path = "reduce" if evaluation.reduce else "group"
            hint = f"such as `reduce: {{{key}: {'first' if key == 'target' else 'max'}}}`"
            issues.append(
                Issue(path, f"`group` needs `reduce.{key}`: how a group's {key} is made", hint)
            )
        if reducer is not None and not has_key:
            issues.append(
                Issue(
                    f"reduce.{key}",
                    f"there is no `{key}` to reduce",
                    f"give `{key}`, or leave this out",
                )
            )
    return issues


RELABELLED = "human.label if human.label is not none else"
"""The beginning of a target that human labels replace where there are any."""


def label_evaluations(evaluations: Evaluations) -> dict[str, Evaluation]:
    """Two copies of each evaluation with a target: `NAME_human` against the human labels alone, and `NAME_relabelled` against the
    target, replaced by the human label where there is one."""
    labelled = {}
    for name, evaluation in evaluations.items():
        if evaluation.target is not None:
            relabelled = f"{RELABELLED} ({evaluation.target})"
            for suffix, target in (("human", "human.label"), ("relabelled", relabelled)):
                update = {"target": target, "gold": None, "published": None}
                labelled[f"{name}_{suffix}"] = evaluation.model_copy(update=update)
    return labelled
