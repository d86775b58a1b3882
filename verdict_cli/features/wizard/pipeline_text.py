"""Write a first pipeline: a small commented file from what the user said about the columns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from msgspec import Struct

from verdict_cli.features.wizard.answers import BOOLEAN, AnswerScale, label_words, truth
from verdict_cli.features.wizard.columns import (
    SCORES,
    DatasetColumns,
    Pair,
    Path,
    criterion_key,
    nameable,
    numeric,
    points_key,
    without_blanks,
)
from verdict_cli.language.scales.written_number import folded

_RANKS = "    metrics: [spearman]"
_RESERVED = {"yes", "no", "true", "false", "on", "off", "null", "y", "n"}
_SCHEMA_LINE = re.compile(r"\A# yaml-language-server: \$schema=\S+\n")


class JudgeShape(Struct, frozen=True):
    """The kind of judge that columns and labels give, and what it is asked. At most one of ``pair``, ``options`` and
    ``rubric`` is there; else it is a judge on ``scale``."""

    question: str
    scale: AnswerScale = BOOLEAN
    target: str | None = None
    """The column with the labels that its answers are compared with."""
    choices: Mapping[Any, str] | None = None
    """Label -> the letter of a pair or of an option, `tie` for a tie."""
    pair: Pair | None = None
    options: tuple[Path, ...] = ()
    rubric: str | None = None


class FirstJudge(JudgeShape, frozen=True, kw_only=True):
    """What a first pipeline is made of."""

    name: str
    columns: DatasetColumns
    read: tuple[str, ...]
    model: str
    api_base: str | None = None

    @property
    def labels(self) -> Sequence[Any]:
        """The values of the target."""
        return self.columns.values[self.target] if self.target else ()

    @property
    def has_blank_labels(self) -> bool:
        """Whether some rows have no label."""
        return len(without_blanks(self.labels)) < len(self.labels)

    def expression(self, name: str) -> str:
        """The expression of a column."""
        path = self.columns.paths[name]
        if name in self.columns.absent and len(path) == 1:
            return f"source.get({expression_literal(name)})"
        # An expression's texts have escapes, a placeholder's have none.
        return path_text(path).replace("\\", "\\\\")


def pipeline_text(judge: FirstJudge) -> str:
    """The text of the pipeline file."""
    model = yaml_scalar(judge.model)
    if judge.api_base:
        model = f"{{name: {model}, api_base: {yaml_scalar(judge.api_base)}}}"
    lines = [
        "verdict: 1",
        f"name: {yaml_scalar(judge.name)}",
        "",
        "# Any model of OpenAI's API, of a server that speaks it, or that litellm knows, such as",
        "# anthropic/claude-haiku-4-5 or ollama/llama3.2. baseline/lexical needs no key: a baseline,",
        "# not an LLM judge.",
        f"model: {model}",
        "",
        "# Texts of rows are put between tags that they cannot contain: they are no instructions.",
        "delimit: true",
        "",
        *_dataset(judge),
        "pipeline:",
        *_units(judge),
        "",
        *_evaluate(judge),
    ]
    return "\n".join(lines) + "\n"


def _dataset(judge: FirstJudge) -> list[str]:
    columns = judge.columns
    keys = []
    identifier = columns.identifier()
    if identifier is not None:
        keys.append(f"  id: {yaml_scalar(identifier)}   # names each row in results and messages")
    types = {}
    for name in (*judge.read, *(str(path[0]) for path in judge.options)):
        declared = columns.declared_type(name)
        if declared and len(columns.paths[name]) == 1:
            types[name] = declared
    if judge.target and len(columns.paths[judge.target]) == 1 and _is_written_number(judge):
        number = (
            "float" if any("." in str(value) for value in without_blanks(judge.labels)) else "int"
        )
        types[judge.target] = f"{number}?" if judge.has_blank_labels else number
    if types:
        keys.append(f"  schema: {flow(types)}")
    needed = [name for name in judge.read if name in columns.names]
    incomplete = [
        name
        for name in needed
        if 0 < len(without_blanks(columns.values[name])) < len(columns.values[name])
    ]
    if incomplete:
        full = " and ".join(f"{judge.expression(name)} is not none" for name in incomplete)
        keys.append(f"  where: {yaml_scalar(full)}   # other rows have nothing to judge")
    return ["dataset:", *keys, ""] if keys else []


def _is_written_number(judge: FirstJudge) -> bool:
    """Whether the file has the target's numbers as texts."""
    is_scored = judge.rubric is not None or judge.scale.kind in ("range", "continuous")
    is_number = is_scored and judge.choices is None
    seen = without_blanks(judge.labels)
    return is_number and any(isinstance(value, str) for value in seen) and all(map(numeric, seen))


def _units(judge: FirstJudge) -> list[str]:
    prompt = ["    prompt: |", *_prompt(judge)]
    reasons = "    explanation: true   # the reasons come before the answer, and are kept with it"
    if judge.pair is not None:
        tie = judge.choices is not None and "tie" in judge.choices.values()
        options = ", ".join(yaml_scalar(judge.expression(name)) for name in judge.pair)
        return [
            "  - unit: PairwiseJudgeUnit",
            "    positions: both   # judged in both orders; where the answers differ, it is `tie`",
            *(["    tie: true"] if tie else []),
            f"    options: [{options}]",
            reasons,
            *prompt,
        ]
    if judge.options:
        options = ", ".join(yaml_scalar(path_text(path)) for path in judge.options)
        size = f"    k: {len(judge.options)}"
        return ["  - unit: BestOfKJudgeUnit", size, f"    options: [{options}]", reasons, *prompt]
    if judge.rubric is not None:
        points = points_key(judge.columns.values[judge.rubric])
        pool = [
            "  - unit: MeanPoolUnit   # the share of the criteria that are met",
            "    field: score",
        ]
        if points:
            pool = [
                "  - unit: RubricPoolUnit   # the share of the points that are earned",
                "    field: score",
                f"    points: {yaml_scalar(path_text((points,), root='criterion'))}",
            ]
        return [
            f"  - each: {yaml_scalar(judge.expression(judge.rubric))}   # one call for each criterion",
            "    as: criterion",
            "    unit: JudgeUnit",
            "    scale: boolean",
            reasons,
            *prompt,
            "",
            *pool,
        ]
    return ["  - unit: JudgeUnit", f"    scale: {_scale(judge.scale)}", reasons, *prompt]


def _scale(scale: AnswerScale) -> str:
    values = ", ".join(yaml_scalar(word) for word in scale.values)
    if scale.kind == "boolean":
        return "boolean   # yes or no; others: 1-5, {range: [0, 10]}, {values: [bad, good]}"
    if scale.kind == "range":
        return (
            f"{{type: discrete, range: [{', '.join(scale.values)}]}}   # whole numbers, worst first"
        )
    if scale.kind == "continuous":
        low, high = scale.values
        return f"{{type: continuous, min: {low}, max: {high}}}"
    if scale.kind == "ordered" and len(scale.values) > 2:
        return f"{{type: discrete, values: [{values}], ordered: true}}   # from worst to best"
    return f"{{type: discrete, values: [{values}]}}   # `ordered: true` if they have an order"


def _prompt(judge: FirstJudge) -> list[str]:
    in_options = {str(path[0]) for path in judge.options}
    blocks = []
    for name in judge.read:
        if name in (judge.pair or ()) or name == judge.rubric or name in in_options:
            continue
        slot = path_text(judge.columns.paths[name])
        more = " | numbered" if judge.columns.kind(name) == "texts" else ""
        blocks.append(("_".join(re.findall(r"\w+", name)) or "value", f"{{{slot}{more}}}"))
    count = 2 if judge.pair else len(judge.options)
    blocks += [(f"option_{letter}", f"{{input.{letter}}}") for letter in ascii_uppercase[:count]]
    if judge.rubric is not None:
        key = criterion_key(judge.columns.values[judge.rubric])
        text = path_text((key,), root="criterion") if key else "criterion"
        blocks.append(("criterion", f"{{{text}}}"))
    lines = judge.question.strip().splitlines()
    for tag, slot in blocks:
        lines += ["", f"<{tag}>", slot, f"</{tag}>"]
    return [f"      {line}".rstrip() for line in lines]


def _evaluate(judge: FirstJudge) -> list[str]:
    compared = _other_scores(judge)
    if judge.target is None or not without_blanks(judge.labels):
        field = "choice" if judge.pair or judge.options else "score"
        hint = f"# With a column of right answers: {{prediction: output.{field}, target: source.LABEL}}."
        return [hint, "evaluate:", *(compared or _without_labels(judge))]
    prediction, target, more = _agreement(judge)
    return [
        "evaluate:",
        "  agreement:   # with the right answers: each metric with its 95% interval",
        f"    prediction: {yaml_scalar(prediction)}",
        f"    target: {yaml_scalar(target)}",
        *more,
        *compared,
    ]


def _without_labels(judge: FirstJudge) -> list[str]:
    """The evaluation of a judge whose answers are compared with nothing."""
    if judge.pair is not None:
        return ["  preference:", "    prediction: output.choice", *_pair_keys(judge)]
    if judge.options:
        value = "1.0 if output.choice == 'A' else 0.0"
        return ["  first_option:   # how often the first of them is chosen", f"    value: {value}"]
    value = "output.score"
    if judge.scale.kind in ("ordered", "nominal"):
        value = f"output.score == {expression_literal(judge.scale.values[-1])}"
    return ["  score:", f"    value: {yaml_scalar(value)}"]


def _pair_keys(judge: FirstJudge) -> list[str]:
    options = ", ".join(yaml_scalar(judge.expression(name)) for name in judge.pair or ())
    return [
        "    consistent: output.consistent   # the same choice in both orders",
        f"    options: [{options}]",
    ]


def _agreement(judge: FirstJudge) -> tuple[str, str, list[str]]:
    """The prediction, the target, and further keys of the evaluation with the labels."""
    assert judge.target is not None
    path = judge.expression(judge.target)
    if judge.choices is not None:
        more = _pair_keys(judge) if judge.pair else []
        return "output.choice", _choice_of_label(path, judge.choices), more
    if judge.rubric is not None:
        return "output.score", _number(judge, path), ["    kind: numeric", _RANKS]
    if judge.scale.kind == "boolean":
        return "output.score", _is_true(judge, path), ["    positive: true"]
    if judge.scale.kind in ("range", "continuous"):
        return "output.score", _number(judge, path), []
    worst = yaml_scalar(judge.scale.values[0])
    positive = f"    positive: {worst}   # precision, recall and F1 are of it"
    target = f"{path} or none" if judge.has_blank_labels else path
    return "output.score", target, [positive] if len(judge.scale.values) == 2 else []


def _choice_of_label(path: str, choices: Mapping[Any, str]) -> str:
    if all(str(label) == choice for label, choice in choices.items()):
        return path
    words = [f"{expression_literal(label)}: '{choice}'" for label, choice in choices.items()]
    return f"{{{', '.join(words)}}}.get({path})"


def _number(judge: FirstJudge, path: str) -> str:
    """The expression of a label that is a number; a column of the file itself is declared as one."""
    is_inner = judge.target is not None and len(judge.columns.paths[judge.target]) > 1
    return (
        f"{_blank(judge, path)}{path} | float" if is_inner and _is_written_number(judge) else path
    )


def _is_true(judge: FirstJudge, path: str) -> str:
    """The expression that says whether the label is a yes."""
    seen = without_blanks(judge.labels)
    if all(isinstance(value, bool) for value in seen):
        return path
    if all(map(numeric, seen)):
        ones = sorted({value for value in seen if float(value) == 1}, key=str)
        return f"{_blank(judge, path)}{path} in {json.dumps(ones or [1])}"
    yes = sorted({folded(word) for word in label_words(seen) if truth(word)})
    return f"{_blank(judge, path)}{path} | string | trim | lower in {json.dumps(yes or ['yes'])}"


def _blank(judge: FirstJudge, path: str) -> str:
    """The start of an expression that leaves rows without a label out."""
    return f"none if {path} in [none, ''] else " if judge.has_blank_labels else ""


def _other_scores(judge: FirstJudge) -> list[str]:
    """Evaluations that compare the judge with the scores of another tool, which `verdict import` keeps by name."""
    if judge.pair or judge.options or judge.rubric or judge.scale.kind in ("ordered", "nominal"):
        return []
    lines = []
    for name, path in judge.columns.paths.items():
        if path[0] == SCORES and len(path) == 2 and nameable(name):
            lines += _comparison(judge, str(path[1]), path_text(path), judge.columns.values[name])
    return lines


def _comparison(judge: FirstJudge, name: str, path: str, values: Sequence[Any]) -> list[str]:
    """The evaluation with one score; none where the scale cannot be compared with it."""
    is_boolean = judge.scale.kind == "boolean"
    prediction, target, more = "output.score", path, []
    if is_boolean and set(values) <= {"C", "I"}:  # Inspect's correct and incorrect
        target = f"{path} == 'C'"
    elif all(type(value) in (int, float) for value in values):
        prediction = "1.0 if output.score else 0.0" if is_boolean else prediction
        more = ["    kind: numeric", _RANKS]
    elif not is_boolean or not all(isinstance(value, bool) for value in values):
        return []
    key = "_".join(re.findall(r"[a-z0-9]+", name.lower())) or "score"
    return [
        f"  their_{key}:   # the other tool's score of the same row",
        f"    prediction: {yaml_scalar(prediction)}",
        f"    target: {yaml_scalar(target)}",
        *more,
    ]


def path_text(path: Path, root: str = "source") -> str:
    """The path of a column, or of an entry of its list, as placeholders and expressions name it."""
    text = root
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
            text += f".{key}"
        else:
            quote = '"' if "'" in key else "'"
            text += f"[{quote}{key}{quote}]"
    return text


def expression_literal(value: Any) -> str:
    """The text or number in an expression."""
    is_simple = isinstance(value, str) and value.isprintable() and not set(value) & set("'\\")
    return f"'{value}'" if is_simple else json.dumps(value, ensure_ascii=False)


def yaml_scalar(text: str) -> str:
    """The text in YAML: plain where it can only be a string, else quoted."""
    is_plain = re.fullmatch(r"[A-Za-z_][\w./-]*", text, re.ASCII) and text.lower() not in _RESERVED
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def flow(value: Any) -> str:
    """A value in YAML's flow style."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{yaml_scalar(str(key))}: {flow(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    return yaml_scalar(value) if isinstance(value, str) else json.dumps(value)


def without_schema_line(text: str) -> str:
    """A shipped pipeline without the line that leads editors to the schema next to it: a copy has none there."""
    return _SCHEMA_LINE.sub("", text)


def plain_name(text: str) -> str:
    """The name of a pipeline from the name of a file."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower())) or "judge"
