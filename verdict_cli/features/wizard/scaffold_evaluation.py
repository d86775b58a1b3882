"""The parts of a first pipeline, and its evaluation: what the judge gives, compared with the human labels."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verdict_cli.features.wizard.scaffold_columns import column_slot, option_labels, pair_labels
from verdict_cli.features.wizard.scaffold_labels import LabelScale, given_labels, label_words, numeric, partner, truth


@dataclass(frozen=True, slots=True)
class Rubric:
    """A column with a list of criteria for each row. ``text`` is the key of a criterion's text (None: it is a text itself),
    ``points`` and ``met`` those of its points and of the human label, if it has them."""

    column: str
    text: str | None = None
    points: str | None = None
    met: str | None = None


@dataclass(frozen=True, slots=True)
class Scaffold:
    """The parts of a first pipeline. ``labels`` are values of the target, ``paths`` has the paths of columns within columns,
    ``types`` those to declare, ``compared`` evaluations with the scores of another tool. ``pair`` are two columns that are
    compared with each other, ``rubric`` is one that each row is judged by."""

    name: str
    question: str
    columns: tuple[str, ...]
    scale: LabelScale
    model: str
    api_base: str | None = None
    id: str | None = None
    target: str | None = None
    labels: Sequence[Any] = ()
    paths: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    compared: Sequence[tuple[str, list[str]]] = ()
    pair: tuple[str, str] | None = None
    rubric: Rubric | None = None
    options: tuple[str, ...] = ()
    """The options of a multiple choice, of which the judge chooses one: columns, or entries of a list."""

    def slot(self, column: str) -> str:
        """The placeholder of a column."""
        return column_slot(self.paths.get(column, (column,)))

    def expression(self, column: str) -> str:
        """The expression of a column."""
        return self.slot(column)[1:-1].replace(
            "\\", "\\\\"
        )  # an expression's texts have escapes, a placeholder's have none


def evaluation_lines(start: Scaffold) -> list[str]:
    """The section `evaluate` of the pipeline."""
    agreement = _agreement(start) if start.target is not None and given_labels(start.labels) else []
    others = _others(start) if not agreement or start.rubric else []
    lines = [*agreement, *others, *_compared(start)]
    if agreement or start.compared:
        return ["evaluate:", *(lines if agreement else _compared(start))]
    return [
        "# With a column of people's labels: {prediction: output.score, target: source.LABEL} measures agreement.".replace(
            "score", "choice" if start.pair else "score"
        ),
        "evaluate:",
        *lines,
    ]


def _others(start: Scaffold) -> list[str]:
    """The evaluations that need no label of the row."""
    if start.pair is not None:
        chosen = {"chosen", "rejected"} <= {
            word for column in start.pair for word in re.split(r"[\W_]+", column.lower())
        }
        first = ["  prefers_chosen:", "    value: 1.0 if output.choice == 'A' else 0.0"] if chosen else []
        return [*first, "  preference:", "    prediction: output.choice", *_choice(start)]
    if start.options:
        return ["  choice:", "    prediction: output.choice"]
    if start.rubric is not None:
        met = start.rubric.met and [
            "  criteria:   # each criterion against its human label",
            "    items: judge",
            "    prediction: output.score",
            f"    target: {yaml_scalar(criterion_expression(start.rubric.met))}",
            "    positive: true",
        ]
        return ["  score:", "    value: output.score", *(met or [])]
    value = "output.score"
    if start.scale.kind in ("ordered", "nominal"):
        value = f"output.score == {expression_literal(start.scale.values[-1])}"
    return ["  score:", f"    value: {yaml_scalar(value)}"]


def _choice(start: Scaffold) -> list[str]:
    options = ", ".join(yaml_scalar(start.expression(column)) for column in start.pair or ())
    return ["    consistent: output.consistent   # the same choice in both orders", f"    options: [{options}]"]


def _agreement(start: Scaffold) -> list[str]:
    """The evaluation with the labels; empty where they cannot be compared with what the judge gives."""
    assert start.target is not None
    path = start.expression(start.target)
    prediction, more = "output.score", []
    target = f"{path} or none" if has_blanks(start) else path
    if start.pair is not None:
        meant = pair_labels(start.pair, start.labels)
        if meant is None:
            return []
        prediction, more = "output.choice", _choice(start)
        if any(label != choice for label, choice in meant.items()):
            words = ", ".join(f"{expression_literal(label)}: '{choice}'" for label, choice in meant.items())
            target = f"{{{words}}}.get({path})"
    elif start.options:
        letters = option_labels(start.options, start.labels)
        if letters is None:
            return []
        prediction = "output.choice"
        words = ", ".join(f"{expression_literal(label)}: '{letter}'" for label, letter in letters.items())
        target = f"{{{words}}}.get({path})"
    elif start.scale.kind == "boolean":
        prediction, target = _truths(start, path)
        more = ["    positive: true"] if prediction == "output.score" and not start.rubric else []
        if start.rubric is not None:
            prediction = f"{'output.score == 1' if prediction == 'output.score' else prediction}"
    elif start.scale.kind in ("range", "continuous"):
        if start.target in start.paths and written_number(start):
            target = f"{path} | float" if not has_blanks(start) else f"{path} | float if {path} else none"
        elif not any(isinstance(value, str) for value in start.labels) or written_number(start):
            target = path
        more = ["    kind: numeric", "    metrics: [spearman]"] if start.rubric is not None else []
    elif start.rubric is not None:
        return []
    elif len(start.scale.values) == 2:
        # Of two words one is the class that matters: the worse, which a judge is there to find.
        more = [
            f"    positive: {yaml_scalar(start.scale.values[0])}   # the class that precision, recall and F1 are of"
        ]
    return [
        "  agreement:   # with the labels: each metric with its 95% interval",
        f"    prediction: {yaml_scalar(prediction)}",
        f"    target: {yaml_scalar(target)}",
        *more,
    ]


def _truths(start: Scaffold, path: str) -> tuple[str, str]:
    """The prediction and the target of labels that say yes or no."""
    score = "output.score == 1" if start.rubric is not None else "output.score"
    words = label_words(start.labels)
    seen = given_labels(start.labels)
    if all(isinstance(value, bool) for value in seen):
        return score, path
    nothing = f"none if {path} in [none, ''] else " if has_blanks(start) else ""
    if all(numeric(value) for value in seen):
        ones = sorted({value for value in seen if float(value) == 1}, key=str) or [1]
        same = f"== {expression_literal(ones[0])}" if len(ones) == 1 else f"in {json.dumps(ones)}"
        return score, f"{nothing}{path} {same}"
    yes, no = ([word for word in words if truth(word) is wanted] for wanted in (True, False))
    if all(isinstance(value, str) for value in seen) and len(yes) <= 1 and len(no) <= 1:
        first, second = (yes or [partner(no[0])])[0], (no or [partner(yes[0])])[0]
        return (
            f"{expression_literal(first)} if {score} else {expression_literal(second)}",
            f"{path} or none" if nothing else path,
        )
    listed = json.dumps(sorted({word.strip().strip(".").lower() for word in yes}), ensure_ascii=False)
    return score, f"{nothing}{path} | string | trim | lower in {listed}"


def _compared(start: Scaffold) -> list[str]:
    """The evaluations with the scores of another tool."""
    lines = []
    for name, keys in start.compared:
        lines += [f"  {name}:   # the other tool's score of the same row", *(f"    {key}" for key in keys)]
    return lines


def written_number(start: Scaffold) -> str | None:
    """`int` or `float` where the file has the target's numbers as texts."""
    seen = given_labels(start.labels)
    if (
        start.scale.kind not in ("range", "continuous")
        or start.pair
        or start.options
        or not any(isinstance(one, str) for one in seen)
    ):
        return None
    return "float" if any("." in str(value) for value in seen) else "int"


def has_blanks(start: Scaffold) -> bool:
    return len(given_labels(start.labels)) < len(start.labels)


def criterion_expression(key: str | None) -> str:
    """The expression of a criterion, or of one of its keys."""
    return "criterion" if key is None else column_slot((key,))[1:-1].replace("source", "criterion", 1)


def expression_literal(value: Any) -> str:
    """The text or number in an expression."""
    simple = isinstance(value, str) and value.isprintable() and not set(value) & set("'\\")
    return f"'{value}'" if simple else json.dumps(value, ensure_ascii=False)


def yaml_scalar(text: str) -> str:
    """The text in YAML: plain where it can only be a string, else quoted."""
    plain = re.fullmatch(r"[A-Za-z_][\w./-]*", text, re.ASCII) is not None
    return text if plain and text.lower() not in _RESERVED else json.dumps(text, ensure_ascii=False)


def flow(value: Any) -> str:
    """A value in YAML's flow style."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{yaml_scalar(str(key))}: {flow(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    return yaml_scalar(value) if isinstance(value, str) else json.dumps(value)


_RESERVED = {"yes", "no", "true", "false", "on", "off", "null", "y", "n"}
