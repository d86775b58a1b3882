"""Write a first pipeline for a user's data: a small commented file from the question and the columns, with its evaluation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from msgspec import Struct, field

from verdict_cli.features.wizard.scaffold_columns import column_slot, option_labels
from verdict_cli.features.wizard.scaffold_labels import LabelScale, given_labels, label_words, numeric, partner, truth
from verdict_cli.features.wizard.scaffold_pairs import Pair, has_ties, pair_labels


class Rubric(Struct, frozen=True):
    """A column with a list of criteria for each row. ``text`` is the key of a criterion's text (None: it is a text itself),
    ``points`` and ``met`` those of its points and of the human label, if it has them."""

    column: str
    text: str | None = None
    points: str | None = None
    met: str | None = None


class Scaffold(Struct, frozen=True):
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
    absent: frozenset[str] = frozenset()
    """The columns that some rows do not have."""
    required: Sequence[str] = ()
    """The columns that rows without a value in them are left out for."""
    compared: Sequence[tuple[str, list[str]]] = ()
    pair: Pair | None = None
    sides: Pair | None = None
    """The columns with a number of each text of the pair."""
    side_values: tuple[Sequence[Any], Sequence[Any]] = ((), ())
    rubric: Rubric | None = None
    options: tuple[str, ...] = ()
    """The options of a multiple choice, of which the judge chooses one: columns, or entries of a list."""

    def slot(self, column: str) -> str:
        """The placeholder of a column."""
        return column_slot(self.paths.get(column, (column,)))

    def expression(self, column: str) -> str:
        """The expression of a column."""
        if column in self.absent and column not in self.paths:
            return f"source.get({expression_literal(column)})"
        # An expression's texts have escapes, a placeholder's have none.
        return self.slot(column)[1:-1].replace("\\", "\\\\")


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
        return [
            "  first_option:   # how often the first of them is chosen",
            "    value: 1.0 if output.choice == 'A' else 0.0",
        ]
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
    if start.pair is not None and start.sides is not None:
        prediction, more, target = "output.choice", _choice(start), _better_side(start)
    elif start.pair is not None:
        meant = pair_labels(start.pair, start.labels, start.target)
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


def _better_side(start: Scaffold) -> str:
    """The choice of the text with the higher number."""
    assert start.sides is not None
    amounts = []
    paths = [start.expression(name) for name in start.sides]
    for path, values in zip(paths, start.side_values, strict=True):
        seen = given_labels(values)
        if not any(isinstance(value, str) for value in seen):
            amounts.append(path)
        elif all(map(numeric, seen)):
            amounts.append(f"({path} | float)")
        else:
            yes = json.dumps(sorted({str(value).strip().lower() for value in seen if truth(value)}), ensure_ascii=False)
            amounts.append(f"({path} | string | trim | lower in {yes})")
    first, second = amounts
    blank = [
        path for path, values in zip(paths, start.side_values, strict=True) if len(given_labels(values)) < len(values)
    ]
    nothing = f"none if {' or '.join(f'{path} in [none, {chr(39) * 2}]' for path in blank)} else " if blank else ""
    return f"{nothing}'A' if {first} > {second} else 'B' if {second} > {first} else 'tie'"


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
        or not any(isinstance(label, str) for label in seen)
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


_SCHEMA_LINE = re.compile(r"\A# yaml-language-server: \$schema=\S+\n")
_NAME = re.compile(r"[a-z0-9]+")
_WORD = re.compile(r"\w+")


def without_schema_line(text: str) -> str:
    """A shipped pipeline without the line that leads editors to the schema next to it: a copy has none there."""
    return _SCHEMA_LINE.sub("", text)


def nameable(column: str) -> bool:
    """Whether a placeholder can name the column."""
    return not re.search(r"[{}\n]", column) and not {"'", '"'} <= set(column) and column.isprintable()


def pipeline_text(start: Scaffold) -> str:
    """The pipeline's text."""
    model = yaml_scalar(start.model)
    parts = [
        "verdict: 1",
        f"name: {yaml_scalar(start.name)}",
        "",
        "# Any model of OpenAI's API, of a server that speaks it, or that litellm knows, such as gpt-4o-mini,",
        "# anthropic/claude-haiku-4-5 or ollama/llama3.2. baseline/lexical needs no key: a baseline, not an LLM judge.",
        f"model: {model}"
        if not start.api_base
        else f"model: {{name: {model}, api_base: {yaml_scalar(start.api_base)}}}",
        "",
        "# Texts of rows are put between tags that they cannot contain, so that they cannot pass for instructions.",
        "delimit: true",
        "",
        *_dataset(start),
        "pipeline:",
        *_unit(start),
        "",
        *evaluation_lines(start),
    ]
    return "\n".join(parts) + "\n"


def _dataset(start: Scaffold) -> list[str]:
    keys = []
    if start.id is not None:
        keys.append(f"  id: {yaml_scalar(start.id)}   # names each row in results and messages")
    types = {name: kind for name, kind in start.types.items() if name not in start.paths}
    if (number := written_number(start)) and start.target is not None and start.target not in start.paths:
        types[start.target] = number + ("?" if has_blanks(start) else "")
    if start.required:
        given = " and ".join(f"{start.expression(name)} is not none" for name in start.required)
        keys.append(f"  where: {yaml_scalar(given)}   # other rows have nothing to judge")
    if types:
        listed = ", ".join(f"{yaml_scalar(name)}: {yaml_scalar(kind)}" for name, kind in types.items())
        keys.append(f"  schema: {{{listed}}}")
    return ["dataset:", *keys, ""] if keys else []


def _unit(start: Scaffold) -> list[str]:
    explanation = "    explanation: true   # the reasons come before the score, and are kept with it"
    if start.pair is not None:
        tie = {} if start.sides else pair_labels(start.pair, start.labels, start.target or "") or {}
        is_tied = has_ties(*start.side_values) if start.sides else "tie" in tie.values()
        return [
            "  - unit: PairwiseJudgeUnit",
            "    positions: both   # judged in both orders; where the answers differ, the choice is `tie`",
            *["    tie: true"] * is_tied,
            f"    options: [{', '.join(yaml_scalar(start.expression(column)) for column in start.pair)}]",
            explanation.replace("score", "choice"),
            "    prompt: |",
            *_prompt(start),
        ]
    if start.options:
        return [
            "  - unit: BestOfKJudgeUnit",
            f"    k: {len(start.options)}",
            f"    options: [{', '.join(yaml_scalar(start.expression(column)) for column in start.options)}]",
            explanation.replace("score", "choice"),
            "    prompt: |",
            *_prompt(start),
        ]
    if start.rubric is not None:
        pool = (
            ["  - unit: MeanPoolUnit   # the share of the criteria that are met", "    field: score"]
            if start.rubric.points is None
            else [
                "  - unit: RubricPoolUnit   # the share of the points that are earned",
                "    field: score",
                f"    points: {yaml_scalar(criterion_expression(start.rubric.points))}",
            ]
        )
        return [
            f"  - each: {yaml_scalar(start.expression(start.rubric.column))}   # one call for each criterion",
            "    as: criterion",
            "    unit: JudgeUnit",
            "    scale: boolean",
            explanation,
            "    prompt: |",
            *_prompt(start),
            "",
            *pool,
        ]
    return ["  - unit: JudgeUnit", *_scale(start.scale), explanation, "    prompt: |", *_prompt(start)]


def _scale(scale: LabelScale) -> list[str]:
    if scale.kind == "boolean":
        return ["    scale: boolean   # yes or no; others: 1-5, {range: [0, 10]}, {values: [bad, good]}"]
    if scale.kind == "range":
        return [f"    scale: {{type: discrete, range: [{', '.join(scale.values)}]}}   # whole numbers, worst first"]
    if scale.kind == "continuous":
        low, high = scale.values
        return [f"    scale: {{type: continuous, min: {low}, max: {high}}}"]
    words = ", ".join(yaml_scalar(word) for word in scale.values)
    if scale.kind == "ordered" and len(scale.values) == 2:
        return [f"    scale: {{type: discrete, values: [{words}]}}   # a yes/no question"]
    if scale.kind == "ordered":
        return [f"    scale: {{type: discrete, values: [{words}], ordered: true}}   # from worst to best"]
    return [f"    scale: {{type: discrete, values: [{words}]}}   # categories; `ordered: true` if they have an order"]


def _prompt(start: Scaffold) -> list[str]:
    lines = [*start.question.strip().splitlines()]
    blocks = []
    for column in start.columns:
        slot = start.slot(column)
        if start.types.get(column, "").startswith("list["):
            slot = f"{slot[:-1]} | numbered}}"
        lists = {tuple(start.paths[name][:-1]) for name in start.options if name in start.paths}
        is_laid_out = column in (start.pair or start.options) or tuple(start.paths.get(column, (column,))) in lists
        if not is_laid_out and not (start.rubric and column == start.rubric.column):
            blocks.append(("_".join(_WORD.findall(column)) or "value", slot))
    for letter, column in zip("AB", start.pair or (), strict=False):
        words = [word for word in re.findall(r"[^\W\d_]+", column) if len(word) > 1]
        blocks.append((f"{words[0] if words and words[0].isascii() else 'option'}_{letter}", f"{{input.{letter}}}"))
    blocks += [
        (f"option_{letter}", f"{{input.{letter}}}") for letter, _ in zip(ascii_uppercase, start.options, strict=False)
    ]
    if start.rubric is not None:
        blocks.append(("criterion", f"{{{criterion_expression(start.rubric.text)}}}"))
    for tag, slot in blocks:
        lines += ["", f"<{tag}>", slot, f"</{tag}>"]
    return [f"      {line}".rstrip() for line in lines]


def plain_name(text: str) -> str:
    """The name of a pipeline from the name of a file."""
    return "-".join(_NAME.findall(text.lower())) or "judge"
