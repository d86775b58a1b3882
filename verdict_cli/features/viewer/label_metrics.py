"""A run's metrics with the human labels that it has: against corrected targets, against the labels alone, and estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verdict_cli.errors import VerdictError
from verdict_cli.features.viewer.query import to_text
from verdict_cli.features.viewer.run_view import RunView
from verdict_cli.language.evaluations import Evaluation, Gold, label_evaluations
from verdict_cli.language.metric_registry import GOLD_ESTIMATES
from verdict_cli.report.report import metric_json
from verdict_cli.run.load_run import load_run
from verdict_cli.stats.measure import Measures, measure
from verdict_cli.stats.row_scores import MOST_SCORED
from verdict_cli.storage.tables.label_queue import QUEUE_FILE

DRAWN = Gold(target="human.label", weight="human.inclusion")
"""The labels of a queue, each with the probability with which its row was drawn."""


def label_metrics(view: RunView) -> dict[str, Any]:
    """The metrics of the first evaluations with a target, and what the labels are of.

    Of each metric, `given` is that of the run, `relabelled` that with the human labels in place of the targets, and `human` that
    of the labelled rows alone. `estimates` are corrected by a random sample of labels (`gold`), where the pipeline or a queue
    gives one. `error` says why there is nothing.
    """
    _, facts, plan = load_run(view.run.directory.path)
    drawn = (view.run.directory.path / QUEUE_FILE).is_file()
    named = [name for name, each in plan.evaluations.items() if each.target is not None and each.items is None]
    own = {name: plan.evaluations[name] for name in named[:MOST_SCORED]}
    given = {name: _with_gold(each, drawn=drawn) for name, each in own.items()}
    content: dict[str, Any] = {**_labelled_rows(view), "drawn": drawn, "evaluations": [], "error": ""}
    try:
        every = {**given, **label_evaluations(own)}
        found = measure(every, view.results, seed=facts.seed, level=plan.interval_level)
    except VerdictError as error:
        return content | {"error": str(error)}
    content["evaluations"] = [_evaluation(name, found) for name in given]
    return content


def _with_gold(evaluation: Evaluation, *, drawn: bool) -> Evaluation:
    """The evaluation with the queue's labels as its sample, where it has none of its own and can use one."""
    if evaluation.gold is not None or not drawn or (evaluation.positive is None and evaluation.value is None):
        return evaluation
    return evaluation.model_copy(update={"gold": DRAWN})


def _evaluation(name: str, found: Mapping[str, Measures]) -> dict[str, Any]:
    given, relabelled, human = (found[each].values for each in (name, f"{name}_relabelled", f"{name}_human"))
    metrics = [metric for metric in given if metric != "confusion" and metric in relabelled]
    return {
        "name": name,
        "metrics": [
            {
                "metric": metric,
                "given": metric_json(given[metric]),
                "relabelled": metric_json(relabelled[metric]),
                "human": metric_json(human[metric]),
            }
            for metric in metrics
        ],
        "estimates": [
            {"metric": metric, **metric_json(given[metric]), "reason": given[metric].reason}
            for metric in GOLD_ESTIMATES
            if metric in given
        ],
    }


def _labelled_rows(view: RunView) -> dict[str, int]:
    """How many rows have a label, how many of those the judge got wrong, and how many have another target than label."""
    labels = view.label_columns()["human.label"]
    outcomes, targets = (view.evaluation.columns.get(name) for name in ("outcome", "target"))
    positions = [position for position, label in enumerate(labels.to_pylist()) if label is not None]
    texts = [to_text(labels[position].as_py()) for position in positions]
    return {
        "labelled": len(positions),
        "wrong": 0 if outcomes is None else sum(outcomes[position].as_py() == "wrong" for position in positions),
        "changed": 0
        if targets is None
        else sum(
            _same_text(targets[position].as_py()) != text for position, text in zip(positions, texts, strict=True)
        ),
    }


def _same_text(target: Any) -> str | None:
    """A target as the text of a label: 3.0 is the label 3."""
    return to_text(int(target) if isinstance(target, float) and target.is_integer() else target)
