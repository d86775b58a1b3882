"""The rows of one evaluation as figures see them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.errors import DataError, Problem
from verdict_cli.evaluate.collect import LONGER, Collected
from verdict_cli.evaluate.column import MISSING, Column, Floats, Ints
from verdict_cli.evaluate.keyed import key_text
from verdict_cli.evaluate.kinds import infer
from verdict_cli.evaluate.labels import Labels
from verdict_cli.spec.evaluate import Evaluation, Kind


@dataclass(frozen=True, slots=True)
class Data:
    """The rows of an evaluation: codes of labels, numbers, and what they mean.

    `target`, `prediction` and each judge's `votes` are places in `labels`, MISSING where there is none; `wrong` says
    that a missing prediction counts as a label of its own. Numbers are NaN where a value is missing or no number.
    `panel` is empty where there is no panel of judges.
    """

    kind: Kind
    labels: tuple[Any, ...]
    target: Ints
    prediction: Ints
    targets: Column
    predictions: Column
    probability: Column
    value: Column
    consistent: Column
    longer: Column
    panel: tuple[Column, ...]
    votes: tuple[Ints, ...]
    positive: int | None
    wrong: bool
    cluster: Ints | None

    @staticmethod
    def of(evaluation: Evaluation, collected: Collected) -> Data:
        """The rows of a collected evaluation."""
        none = _nothing(collected.rows)
        columns = collected.columns
        targets, predictions = columns.get("target", none), columns.get("prediction", none)
        positive = () if evaluation.positive is None else (evaluation.positive,)
        panel = tuple(column for key, column in columns.items() if key.startswith("panel["))
        found = Labels.of(targets, predictions, *panel, also=positive)
        return Data(
            kind=infer(evaluation, (predictions, targets, *panel)),
            labels=found.values,
            target=found.codes(targets),
            prediction=found.codes(predictions),
            targets=targets,
            predictions=predictions,
            probability=columns.get("probability", none),
            value=columns.get("value", none),
            consistent=columns.get("consistent", none),
            longer=columns.get(LONGER, none),
            panel=panel,
            votes=tuple(found.codes(column) for column in panel),
            positive=found.place(evaluation.positive) if positive else None,
            wrong=evaluation.missing == "wrong",
            cluster=collected.cluster.codes.astype(np.int64) if collected.cluster else None,
        )

    @property
    def is_positive(self) -> Floats | None:
        """1 where the target is positive, else 0; None where nothing says which target is."""
        place = self.positive
        if place is None and self.targets.types == {"bool"}:
            place = next((at for at, label in enumerate(self.labels) if label is True), len(self.labels))
        return None if place is None else (self.target == place).astype(np.float64)


def _nothing(rows: int) -> Column:
    return Column(np.full(rows, np.nan), np.full(rows, MISSING, dtype=np.int32), (), frozenset())


def check_labels(name: str, data: Data, results: Path) -> None:
    """Raises DataError when one side is all text and the other all numbers: nothing can ever be equal."""
    if not data.targets.types or not data.predictions.types or data.kind == "ranking":
        return
    if data.targets.numeric == data.predictions.numeric or (
        np.intersect1d(data.target[data.target != MISSING], data.prediction).size
    ):
        return
    spelled = []
    for side, column, codes in (
        ("predictions", data.predictions, data.prediction),
        ("targets", data.targets, data.target),
    ):
        example = data.labels[int(codes[codes != MISSING][0])]
        kind = ("booleans" if column.types == {"bool"} else "numbers") if column.numeric else "text"
        spelled.append(f"{side} are {kind} such as {_spelled(example)}")
    message = f"no prediction can ever equal a target: {' and '.join(spelled)}"
    hint = (
        "convert one of them in its expression, such as `'yes' if output.score else 'no'` or `source.label | int`; "
        "`verdict validate CONFIG DATA` says which fits these labels"
    )
    raise DataError(Problem("label-types", message, hint, file=str(results), path=f"evaluate.{name}"))


def _spelled(label: Any) -> str:
    return key_text(label) if isinstance(label, bool) else repr(label)


def check_positive(name: str, evaluation: Evaluation, data: Data, results: Path) -> None:
    """Raises DataError where nothing says which target a probability is of."""
    if evaluation.probability is None or not data.targets.types or data.is_positive is not None:
        return
    example = key_text(data.labels[int(data.target[data.target != MISSING][0])])
    message = "`probability` needs `positive`, the target whose probability it is: only booleans need none"
    hint = f"such as `positive: {example}`"
    raise DataError(Problem("positive", message, hint, file=str(results), path=f"evaluate.{name}"))
