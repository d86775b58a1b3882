"""Write a first pipeline for a user's data: a small commented file from the question and the columns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any

from verdict_cli.language.scaffold_columns import ColumnPath, column_slot

SCHEMA = "pipeline.schema.json"
"""The name of the copy of the schema next to the pipeline, for editors."""

MAX_CATEGORIES = 12
"""A column with more distinct texts than this is not treated as categories."""

_SCHEMA_LINE = re.compile(r"\A# yaml-language-server: \$schema=\S+\n")
_NAME = re.compile(r"[a-z0-9]+")
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Scaffold:
    """The parts of a first pipeline. ``scale`` is `boolean`, `A-B` (whole numbers) or words from worst to best;
    ``numbers`` is `int` or `float` where the file writes the target's numbers as texts. ``paths`` has the paths of columns
    within columns, ``types`` those to declare, ``compared`` evaluations with the scores of another tool."""

    name: str
    question: str
    columns: tuple[str, ...]
    scale: str
    model: str
    id: str | None = None
    target: str | None = None
    numbers: str | None = None
    paths: Mapping[str, ColumnPath] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    compared: Sequence[tuple[str, list[str]]] = ()

    def slot(self, column: str) -> str:
        """The placeholder of a column."""
        return column_slot(self.paths.get(column, (column,)))


def with_schema_line(text: str) -> str:
    """The pipeline with the line that leads editors to the schema next to it."""
    return f"# yaml-language-server: $schema={SCHEMA}\n{_SCHEMA_LINE.sub('', text)}"


def scale_of(values: Sequence[Any]) -> str | None:
    """The scale of these labels, as in `Scaffold`; None where it cannot be inferred."""
    seen = [value for value in values if value is not None]
    if not seen:
        return None
    if all(isinstance(value, bool) for value in seen):
        return "boolean"
    if all(numeric(value) for value in seen):
        numbers = [float(value) for value in seen]
        low, high = floor(min(numbers)), ceil(max(numbers))
        return f"{low}-{high}" if low >= 0 and 0 < high - low < MAX_CATEGORIES else None
    words = sorted({str(value) for value in seen})
    return ",".join(words) if 1 < len(words) <= MAX_CATEGORIES and not any("," in word for word in words) else None


def numeric(value: Any) -> bool:
    """Whether a value is a number, or a text that is one."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value.strip()) is not None)


def number_type(values: Sequence[Any]) -> str | None:
    """The type of numbers that a file writes as texts, None where it does not."""
    seen = [value for value in values if value is not None]
    if not seen or not all(isinstance(value, str) and numeric(value) for value in seen):
        return None
    return "float" if any("." in value for value in seen) else "int"


def texts(values: Sequence[Any]) -> list[str]:
    """The distinct texts among labels, without numbers and truth values."""
    words = dict.fromkeys(value for value in values if isinstance(value, str) and not numeric(value))
    return [word for word in words if word.lower() not in ("true", "false")]


def nameable(column: str) -> bool:
    """Whether a placeholder can name the column."""
    return not re.search(r"[{}\n]", column) and not {"'", '"'} <= set(column) and column.isprintable()


def identifier(samples: Mapping[str, Sequence[Any]]) -> str | None:
    """The column that identifies each row: `id` or the like, without duplicates."""
    for name, values in samples.items():
        keyed = name.lower() in ("id", "key", "uid", "uuid") or name.lower().endswith("_id")
        if keyed and None not in values and len({str(value) for value in values}) == len(values):
            return name
    return None


def pipeline_text(start: Scaffold) -> str:
    """The pipeline's text."""
    parts = [
        "verdict: 1",
        f"name: {_scalar(start.name)}",
        "",
        "# Any model of OpenAI's API, of a server that speaks it, or that litellm knows, such as gpt-4o-mini,",
        "# anthropic/claude-haiku-4-5 or ollama/llama3.2. baseline/lexical needs no key: a baseline, not an LLM judge.",
        f"model: {_scalar(start.model)}",
        "",
        "# Texts of rows are put between tags that they cannot contain, so that they cannot pass for instructions.",
        "delimit: true",
        "",
        *_dataset(start),
        "pipeline:",
        "  - unit: JudgeUnit",
        *_scale(start.scale),
        "    explanation: true   # the reasons come before the score, and are kept with it",
        "    prompt: |",
        *_prompt(start),
        "",
        *_evaluate(start),
    ]
    return with_schema_line("\n".join(parts) + "\n")


def _dataset(start: Scaffold) -> list[str]:
    keys = []
    if start.id is not None:
        keys.append(f"  id: {_scalar(start.id)}   # names each row in results and messages")
    if start.numbers and start.target is not None and start.target not in start.paths:
        keys.append(f"  schema: {{{_scalar(start.target)}: float}}   # texts in the file")
    elif start.types:
        types = ", ".join(f"{_scalar(name)}: {_scalar(kind)}" for name, kind in start.types.items())
        keys.append(f"  schema: {{{types}}}")
    return ["dataset:", *keys, ""] if keys else []


def _scale(scale: str) -> list[str]:
    if scale == "boolean":
        return ["    scale: boolean   # yes or no; others: likert (1 to 5), {range: [0, 10]}, {values: [bad, good]}"]
    low, dash, high = scale.partition("-")
    if dash and low.isdecimal() and high.isdecimal():
        return [f"    scale: {{type: discrete, range: [{low}, {high}]}}   # whole numbers, worst first"]
    words = ", ".join(_scalar(word) for word in _words(scale))
    return [
        f"    scale: {{type: discrete, values: [{words}]}}   # labels; `ordered: true` if they run from worst to best"
    ]


def _words(scale: str) -> list[str]:
    return [word.strip() for word in scale.split(",") if word.strip()]


def _prompt(start: Scaffold) -> list[str]:
    lines = [*start.question.strip().splitlines()]
    for column in start.columns:
        tag = "_".join(_WORD.findall(column)) or "value"
        slot = start.slot(column)
        if start.types.get(column, "").startswith("list["):
            slot = f"{slot[:-1]} | numbered}}"
        lines += ["", f"<{tag}>", slot, f"</{tag}>"]
    return [f"      {line}".rstrip() for line in lines]


def _evaluate(start: Scaffold) -> list[str]:
    if start.target is not None:
        return [
            "evaluate:",
            "  agreement:   # with the labels: each metric with its 95% interval",
            "    prediction: output.score",
            f"    target: {_scalar(start.slot(start.target)[1:-1])}",
            *_compared(start),
        ]
    if start.compared:
        return ["evaluate:", *_compared(start)]
    value = "output.score"
    if start.scale != "boolean" and not re.fullmatch(r"\d+-\d+", start.scale):
        value = f"output.score == {_words(start.scale)[-1]!r}"
    return [
        "# With a column of people's labels: {prediction: output.score, target: source.LABEL} measures agreement.",
        "evaluate:",
        "  score:",
        f"    value: {_scalar(value)}",
    ]


def _compared(start: Scaffold) -> list[str]:
    """The evaluations with the scores of another tool."""
    lines = []
    for name, keys in start.compared:
        lines += [f"  {name}:   # the other tool's score of the same row", *(f"    {key}" for key in keys)]
    return lines


def _scalar(text: str) -> str:
    """The text in YAML: plain where it can only be a string, else quoted."""
    plain = re.fullmatch(r"[A-Za-z_][\w./-]*", text, re.ASCII) is not None
    return text if plain and text.lower() not in _RESERVED else json.dumps(text, ensure_ascii=False)


_RESERVED = {"yes", "no", "true", "false", "on", "off", "null", "y", "n"}


def plain_name(text: str) -> str:
    """The name of a pipeline from the name of a file."""
    return "-".join(_NAME.findall(text.lower())) or "judge"
