"""Write a first pipeline for a user's data: a small commented file from the question and the columns."""

from __future__ import annotations

import re
from string import ascii_uppercase

from verdict_cli.features.wizard.scaffold_columns import pair_labels
from verdict_cli.features.wizard.scaffold_evaluation import (
    Scaffold,
    criterion_expression,
    evaluation_lines,
    has_blanks,
    written_number,
    yaml_scalar,
)
from verdict_cli.features.wizard.scaffold_labels import LabelScale

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
    if types:
        listed = ", ".join(f"{yaml_scalar(name)}: {yaml_scalar(kind)}" for name, kind in types.items())
        keys.append(f"  schema: {{{listed}}}")
    return ["dataset:", *keys, ""] if keys else []


def _unit(start: Scaffold) -> list[str]:
    explanation = "    explanation: true   # the reasons come before the score, and are kept with it"
    if start.pair is not None:
        tie = pair_labels(start.pair, start.labels) or {}
        return [
            "  - unit: PairwiseJudgeUnit",
            "    positions: both   # judged in both orders; where the answers differ, the choice is `tie`",
            *["    tie: true"] * ("tie" in tie.values()),
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
        laid_out = {
            *(start.pair or start.options),
            *(start.paths[name][0] for name in start.options if name in start.paths),
        }
        if column not in laid_out and not (start.rubric and column == start.rubric.column):
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
