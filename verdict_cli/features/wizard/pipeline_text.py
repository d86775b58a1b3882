"""Write a first pipeline: a small commented file from what the user said about the columns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from msgspec import Struct

from verdict_cli.features.wizard.answers import BOOLEAN, AnswerScale, label_words, truth
from verdict_cli.features.wizard.columns import DatasetColumn, DatasetColumns, Path, numeric
from verdict_cli.language.scales.written_number import fold_case

_RESERVED = {"yes", "no", "true", "false", "on", "off", "null", "y", "n"}
_HEAD = """\
verdict: 1
name: {name}

# Any model of OpenAI's API, of a server that speaks it, or that litellm knows, such as
# anthropic/claude-haiku-4-5 or ollama/llama3.2. baseline/lexical needs no key: a baseline,
# not an LLM judge.
model: {model}

# Texts of rows are put between tags that they cannot contain: they are no instructions.
delimit: true

"""
_PAIR = """\
  - unit: PairwiseJudgeUnit
    positions: both   # judged in both orders; where the answers differ, it is `tie`
"""
_REASONS = """\
    explanation: true   # the reasons come before the answer, and are kept with it
    prompt: |
"""
_AGREEMENT = """\
evaluate:
  agreement:   # with the right answers: each metric with its 95% interval
    prediction: output.{field}
    target: {target}
"""
_NO_LABELS = """\
# With a column of right answers: {{prediction: output.{field}, target: source.LABEL}}.
evaluate:
"""
_FIRST_OPTION = """\
  first_option:   # how often the first of them is chosen
    value: 1.0 if output.choice == 'A' else 0.0
"""


class FirstJudge(Struct, frozen=True):
    """What a first pipeline is made of: a judge on ``scale``, or of which of the ``compared`` texts is the best."""

    name: str
    columns: DatasetColumns
    read: tuple[DatasetColumn, ...]
    question: str
    model: str
    api_base: str | None = None
    scale: AnswerScale = BOOLEAN
    target: DatasetColumn | None = None
    """The column with the labels that its answers are compared with."""
    compared: tuple[Path, ...] = ()
    choices: Mapping[Any, str] | None = None
    """Label -> the letter of a compared text, `tie` for a tie."""

    @property
    def is_pair(self) -> bool:
        """Whether two texts are compared."""
        return len(self.compared) == 2

    @property
    def options(self) -> str:
        """The expressions of the texts that are compared, as YAML has a list."""
        expressions = [yaml_value(_escaped(path_text(path))) for path in self.compared]
        return f"[{', '.join(expressions)}]"


def pipeline_text(judge: FirstJudge) -> str:
    """The text of the pipeline file."""
    model: Any = judge.model
    if judge.api_base:
        model = {"name": judge.model, "api_base": judge.api_base}
    head = _HEAD.format(name=yaml_value(judge.name), model=yaml_value(model))
    return f"{head}{_dataset(judge)}pipeline:\n{_unit(judge)}{_prompt(judge)}\n{_evaluate(judge)}"


def _dataset(judge: FirstJudge) -> str:
    lines = []
    identifier = judge.columns.identifier()
    if identifier is not None:
        lines.append(f"  id: {yaml_value(identifier)}   # names each row in results and messages\n")
    compared = [judge.columns.by_name[str(path[0])] for path in judge.compared]
    types = {each.name: each.declared_type for each in (*judge.read, *compared)}
    declared = {name: kind for name, kind in types.items() if kind}
    if declared:
        lines.append(f"  schema: {yaml_value(declared)}\n")
    incomplete = [
        expression(column)
        for column in judge.read
        if len(column.path) == 1 and 0 < len(column.present) < len(column.values)
    ]
    if incomplete:
        full = " and ".join(f"{text} is not none" for text in incomplete)
        lines.append(f"  where: {yaml_value(full)}   # other rows have nothing to judge\n")
    return "".join(["dataset:\n", *lines, "\n"]) if lines else ""


def _unit(judge: FirstJudge) -> str:
    if judge.is_pair:
        has_ties = judge.choices is not None and "tie" in judge.choices.values()
        tie = "    tie: true\n" if has_ties else ""
        return f"{_PAIR}{tie}    options: {judge.options}\n{_REASONS}"
    if judge.compared:
        head = f"  - unit: BestOfKJudgeUnit\n    k: {len(judge.compared)}\n"
        return f"{head}    options: {judge.options}\n{_REASONS}"
    return f"  - unit: JudgeUnit\n    scale: {_scale(judge.scale)}\n{_REASONS}"


def _scale(scale: AnswerScale) -> str:
    values = ", ".join(yaml_value(word) for word in scale.values)
    if scale.kind == "boolean":
        return "boolean   # yes or no; others: 1-5, {range: [0, 10]}, {values: [bad, good]}"
    if scale.kind == "range":
        ends = ", ".join(scale.values)
        return f"{{type: discrete, range: [{ends}]}}   # whole numbers, worst first"
    if scale.kind == "continuous":
        low, high = scale.values
        return f"{{type: continuous, min: {low}, max: {high}}}"
    if scale.kind == "ordered" and len(scale.values) > 2:
        return f"{{type: discrete, values: [{values}], ordered: true}}   # from worst to best"
    return f"{{type: discrete, values: [{values}]}}   # `ordered: true` if they have an order"


def _prompt(judge: FirstJudge) -> str:
    compared = {path[0] for path in judge.compared}
    lines = judge.question.strip().splitlines()
    for column in judge.read:
        if column.path[0] not in compared:
            tag = "_".join(re.findall(r"\w+", column.name)) or "value"
            numbered = " | numbered" if column.kind == "texts" else ""
            lines += _tagged(tag, f"{{{path_text(column.path)}{numbered}}}")
    for letter in ascii_uppercase[: len(judge.compared)]:
        lines += _tagged(f"option_{letter}", f"{{input.{letter}}}")
    return "".join(f"      {line}".rstrip() + "\n" for line in lines)


def _tagged(tag: str, slot: str) -> list[str]:
    return ["", f"<{tag}>", slot, f"</{tag}>"]


def _evaluate(judge: FirstJudge) -> str:
    field = "choice" if judge.compared else "score"
    pair = ""
    if judge.is_pair:
        pair = "    consistent: output.consistent   # the same choice in both orders\n"
        pair += f"    options: {judge.options}\n"
    if judge.target is not None and judge.target.present:
        target, more = _agreement(judge, judge.target)
        return _AGREEMENT.format(field=field, target=yaml_value(target)) + pair + more
    head = _NO_LABELS.format(field=field)
    if judge.is_pair:
        return f"{head}  preference:\n    prediction: output.choice\n{pair}"
    if judge.compared:
        return head + _FIRST_OPTION
    value = "output.score"
    if judge.scale.kind in ("ordered", "nominal"):
        value = f"output.score == {expression_literal(judge.scale.values[-1])}"
    return f"{head}  score:\n    value: {yaml_value(value)}\n"


def _agreement(judge: FirstJudge, label: DatasetColumn) -> tuple[str, str]:
    """The target, and a further key of the evaluation with the labels."""
    path = expression(label)
    has_blanks = len(label.present) < len(label.values)
    blanks = sorted({"", *(text for text in label.values if str(text).isspace())})
    literals = ["none", *map(expression_literal, blanks)]
    labelled = f"none if {path} in [{', '.join(literals)}] else " if has_blanks else ""
    has_texts = any(isinstance(value, str) for value in label.present)
    if judge.choices is not None:
        return _choice_of_label(path, judge.choices), ""
    if judge.scale.kind == "boolean":
        return _is_true(path, labelled, label.present), "    positive: true\n"
    if judge.scale.kind in ("range", "continuous"):
        return (f"{labelled}{path} | float" if has_texts else path), ""
    worst = yaml_value(judge.scale.values[0])
    positive = f"    positive: {worst}   # precision, recall and F1 are of it\n"
    is_text = all(isinstance(value, str) for value in label.present)
    target = f"{labelled}{path}" if is_text else f"{labelled}{path} | string"
    return target, positive if len(judge.scale.values) == 2 else ""


def _choice_of_label(path: str, choices: Mapping[Any, str]) -> str:
    if all(str(label) == choice for label, choice in choices.items()):
        return path
    words = [f"{expression_literal(label)}: '{choice}'" for label, choice in choices.items()]
    return f"{{{', '.join(words)}}}.get({path})"


def _is_true(path: str, labelled: str, labels: Sequence[Any]) -> str:
    """The expression that says whether the label is a yes; ``labelled`` leaves out rows without one."""
    if all(isinstance(value, bool) for value in labels):
        return path
    if all(map(numeric, labels)):
        ones = sorted({value for value in labels if float(value) == 1}, key=str)
        return f"{labelled}{path} in {json.dumps(ones or [1])}"
    yes = sorted({fold_case(word) for word in label_words(labels) if truth(word)})
    return f"{labelled}{path} | string | trim | lower in {json.dumps(yes or ['yes'])}"


def expression(column: DatasetColumn) -> str:
    """The expression of a column."""
    if column.is_optional and len(column.path) == 1:
        return f"source.get({expression_literal(column.name)})"
    return _escaped(path_text(column.path))


def _escaped(path: str) -> str:
    """The path in an expression, whose texts have escapes; those of a placeholder have none."""
    return path.replace("\\", "\\\\")


def path_text(path: Path) -> str:
    """The path of a column, or of an entry of its list, as placeholders name it."""
    text = "source"
    for key in path:
        if isinstance(key, str) and re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
            text += f".{key}"
        elif isinstance(key, str):
            quote = '"' if "'" in key else "'"
            text += f"[{quote}{key}{quote}]"
        else:
            text += f"[{key}]"
    return text


def expression_literal(value: Any) -> str:
    """The text or number in an expression."""
    is_simple = isinstance(value, str) and value.isprintable() and not set(value) & set("'\\")
    return f"'{value}'" if is_simple else json.dumps(value, ensure_ascii=False)


def yaml_value(value: Any) -> str:
    """A value in YAML's flow style; a text is plain where it can only be a string, else quoted."""
    if isinstance(value, Mapping):
        pairs = [f"{yaml_value(str(key))}: {yaml_value(inner)}" for key, inner in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(yaml_value, value))}]"
    is_word = isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w./-]*", value, re.ASCII)
    if is_word and value.lower() not in _RESERVED:
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def plain_name(text: str) -> str:
    """The name of a pipeline from the name of a file."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower())) or "judge"
