"""The model-graded assertions of promptfoo as units. What each decides is that of promptfoo 0.121; the wording is our own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.features.imports.translate import (
    ForeignJudge,
    ForeignRow,
    block,
    judge_lines,
    literal_text,
    model_text,
    slot_of,
)

TRANSLATED = (
    "llm-rubric", "factuality", "answer-relevance", "context-faithfulness", "model-graded-closedqa", "g-eval", "select-best",
)  # fmt: skip
"""The assertions that are translated."""

_VARIABLE = re.compile(r"\{\{-?\s*([A-Za-z_]\w*(?:\.\w+)*)\s*-?\}\}")
_G_EVAL_THRESHOLD = 0.7
_FACTS = {"A": "subset", "B": "superset", "C": "same", "D": "contradiction", "E": "immaterial"}
"""The categories of `factuality`: promptfoo's letter -> ours. All but a contradiction pass."""


@dataclass(frozen=True, slots=True)
class AssertionUnit:
    """A model-graded assertion. ``prompt`` is the user's own, ``scores`` those of the categories of `factuality`."""

    type: str
    value: Any
    place: str
    negated: bool = False
    threshold: float | None = None
    weight: float = 1.0
    metric: str | None = None
    model: Mapping[str, Any] | None = None
    prompt: str | None = None
    scores: Mapping[str, Any] | None = None

    @property
    def signature(self) -> str:
        """Everything but the criterion: assertions that share it are one unit."""
        parts = (
            self.type,
            self.negated,
            self.threshold,
            self.weight,
            self.metric,
            self.model,
            self.prompt,
            self.scores,
        )
        return json.dumps(parts, sort_keys=True, default=str)


def prompt_text(template: str, slots: Mapping[str, str]) -> str:
    """A template of promptfoo as a prompt: its variables are columns, but for those in ``slots``."""
    parts, end = [], 0
    for variable in _VARIABLE.finditer(template):
        name, *keys = variable[1].split(".")
        parts += [literal_text(template[end : variable.start()]), slots.get(variable[1]) or slot_of(name, *keys)]
        end = variable.end()
    return "".join([*parts, literal_text(template[end:])])


def judge_of(
    unit: AssertionUnit,
    name: str,
    constant: str | None,
    *,
    optional: bool,
    has_input: bool,
    variables: Collection[str],
    changed: list[str],
    default: Mapping[str, Any],
) -> ForeignJudge:
    """The unit of an assertion. ``constant`` is its criterion where all test cases have the same; else the column `NAME_value` has it."""
    criterion = slot_of(f"{name}_value") if constant is None else prompt_text(constant, {})
    keys = {"when": json.dumps(f"source.{name}_value is not none")} if optional else {}
    if unit.model is not None and dict(unit.model) != dict(default):
        keys["model"] = model_text(unit.model)
    asked = "query" if unit.type in _OF_QUERY and "query" in variables else "input"
    question = block("question", slot_of(asked)) if asked == "query" or has_input else []
    lines, score, passed = _BUILDERS[unit.type](unit, name, keys, criterion, question)
    if unit.prompt is not None and unit.type != "context-faithfulness":
        lines, score, passed = _custom(unit, name, keys, criterion)
        changed.append(f"{unit.place}: {unit.type} with its own rubricPrompt replies with reason, pass and score")
    elif note := _CHANGES.get(unit.type):
        changed.append(f"{unit.place}: {unit.type}: {note}")
    if unit.negated:
        score, passed = f"1 - ({score})", f"not ({passed})"
    return ForeignJudge(name, lines, score, passed, unit.weight, optional)


_OF_QUERY = ("answer-relevance", "context-faithfulness")
"""The assertions that take the variable `query` for the question; the others take the prompt."""
_CHANGES = {
    "answer-relevance": "one call rates the relevance; promptfoo compares embeddings of questions that it generates",
    "g-eval": "one call plans its steps and rates; promptfoo generates the steps with a call of its own",
}

_Built = tuple[list[str], str, str]


def _yes_or_no(unit: AssertionUnit, name: str, keys: dict[str, str], prompt: Sequence[str], rate: str) -> _Built:
    """A yes or no, or with a threshold a score from 0 to 1."""
    if unit.threshold is None:
        lines = judge_lines(name, {**keys, "scale": "boolean", "explanation": "true"}, prompt)
        return lines, f"1.0 if previous.{name}.score else 0.0", f"previous.{name}.score"
    scale = "{type: continuous, min: 0, max: 1}"
    lines = judge_lines(name, {**keys, "scale": scale, "explanation": "true"}, [rate, *prompt[1:]])
    return lines, f"previous.{name}.score", f"previous.{name}.score >= {unit.threshold:g}"


def _rubric(unit: AssertionUnit, name: str, keys: dict[str, str], criterion: str, _: list[str]) -> _Built:
    prompt = [
        "Does the output meet the criterion?",
        *block("criterion", criterion),
        *block("output", slot_of("output")),
    ]
    return _yes_or_no(
        unit, name, keys, prompt, "How well does the output meet the criterion, from 0 (not at all) to 1 (fully)?"
    )


def _closed_qa(unit: AssertionUnit, name: str, keys: dict[str, str], criterion: str, question: list[str]) -> _Built:
    prompt = ["Does the answer to the question meet the criterion?", *question]
    prompt += [*block("answer", slot_of("output")), *block("criterion", criterion)]
    lines = judge_lines(name, {**keys, "scale": "boolean", "explanation": "true"}, prompt)
    return lines, f"1.0 if previous.{name}.score else 0.0", f"previous.{name}.score"


def _relevance(unit: AssertionUnit, name: str, keys: dict[str, str], _: str, question: list[str]) -> _Built:
    rate = "How much of the answer is about the question, from 0 (nothing) to 1 (all of it)?"
    prompt = [rate, *question, *block("answer", slot_of("output"))]
    lines = judge_lines(name, {**keys, "scale": "{type: continuous, min: 0, max: 1}", "explanation": "true"}, prompt)
    return lines, f"previous.{name}.score", f"previous.{name}.score >= {unit.threshold or 0:g}"


def _g_eval(unit: AssertionUnit, name: str, keys: dict[str, str], criterion: str, question: list[str]) -> _Built:
    threshold = _G_EVAL_THRESHOLD if unit.threshold is None else unit.threshold
    prompt = [
        "Plan the steps by which the output is to be checked against the criterion. Follow them, then rate the output from 0 (does not "
        "meet it at all) to 10 (meets it fully).",
        *block("criterion", criterion),
        *(line.replace("question>", "input>") for line in question),
        *block("output", slot_of("output")),
    ]
    lines = judge_lines(name, {**keys, "scale": "{type: discrete, range: [0, 10]}", "explanation": "true"}, prompt)
    return lines, f"previous.{name}.score / 10", f"previous.{name}.score / 10 >= {threshold:g}"


def _factuality(unit: AssertionUnit, name: str, keys: dict[str, str], criterion: str, question: list[str]) -> _Built:
    prompt = [
        "Compare the facts of the answer with those of the expert's answer. Style and wording do not count.",
        "subset: the answer has some of the expert's facts and no others.",
        "superset: the answer has all of the expert's facts and more, none of which contradicts them.",
        "same: both have the same facts.",
        "contradiction: the answers contradict each other.",
        "immaterial: they differ in nothing that matters for the facts.",
        *question,
        *block("expert", criterion),
        *block("answer", slot_of("output")),
    ]
    categories = f"[{', '.join(_FACTS.values())}]"
    lines = judge_lines(name, {**keys, "categories": categories, "explanation": "true"}, prompt, "CategoricalJudgeUnit")
    names = {"subset": "A", "superset": "B", "agree": "C", "disagree": "D", "differButFactual": "E"}
    scores = {letter: 0.0 if letter == "D" else 1.0 for letter in _FACTS}
    scores |= {
        names[key]: float(value)
        for key, value in (unit.scores or {}).items()
        if key in names and isinstance(value, int | float)
    }
    table = ", ".join(f"'{word}': {scores[letter]:g}" for letter, word in _FACTS.items())
    return lines, f"{{{table}}}[previous.{name}.choice]", f"{{{table}}}[previous.{name}.choice] > 0"


def _faithfulness(unit: AssertionUnit, name: str, keys: dict[str, str], _: str, question: list[str]) -> _Built:
    """Claims that are split by one call and checked by one call each."""
    model = {key: value for key, value in keys.items() if key == "model"}
    split = [
        "Split the answer into its claims. Each claim is one sentence that can be checked on its own, one fact each, and nothing that the "
        "answer does not say.",
        *question,
        *block("answer", slot_of("output")),
    ]
    check = ["Does the context support the claim?", *block("context", slot_of("context")), *block("claim", "{claim}")]
    steps = [
        *judge_lines(f"{name}_split", {**model, "response": '{claims: "list[str]"}'}, split, "Unit"),
        *_each(judge_lines(f"{name}_check", {**model, "scale": "boolean", "explanation": "true"}, check)),
        "- unit: MeanPoolUnit",
        f"  name: {name}",
        "  field: score",
        "  empty: 1",
    ]
    head = [f"- when: {keys['when']}", "  block:"] if "when" in keys else ["- block:"]
    return (
        [*head, *(f"    {line}" for line in steps)],
        f"previous.{name}.score",
        f"previous.{name}.score >= {unit.threshold or 0:g}",
    )


def _each(lines: list[str]) -> list[str]:
    first, *more = lines
    return ["- each: previous.claims", "  as: claim", f"  {first[2:]}", *more]


def _custom(unit: AssertionUnit, name: str, keys: dict[str, str], criterion: str) -> _Built:
    """The user's own prompt, whose reply has a reason, `pass` and a score from 0 to 1."""
    slots = {
        "output": slot_of("output"),
        "completion": slot_of("output"),
        "rubric": criterion,
        "criteria": criterion,
        "ideal": criterion,
    }
    prompt = prompt_text(unit.prompt or "", slots).splitlines()
    response = "{reason: str, pass: bool, score: {type: continuous, min: 0, max: 1}}"
    lines = judge_lines(name, {**keys, "response": response}, prompt, "Unit")
    passed = f"previous.{name}['pass']"
    return (
        lines,
        f"previous.{name}.score",
        passed + (f" and previous.{name}.score >= {unit.threshold:g}" if unit.threshold is not None else ""),
    )


_BUILDERS: Mapping[str, Callable[[AssertionUnit, str, dict[str, str], str, list[str]], _Built]] = {
    "llm-rubric": _rubric,
    "factuality": _factuality,
    "answer-relevance": _relevance,
    "context-faithfulness": _faithfulness,
    "model-graded-closedqa": _closed_qa,
    "g-eval": _g_eval,
}


def select_best(
    unit: AssertionUnit,
    values: Mapping[int, Any],
    cases: Sequence[Any],
    results: Mapping[int, Sequence[Mapping[str, Any]]],
    source: Path,
    default: Mapping[str, Any],
) -> tuple[str, list[ForeignRow]]:
    """The pipeline that chooses the best output of each test case, and its rows; empty without outputs to compare."""
    counts = {len(results.get(index, ())) for index in values}
    if len(counts) != 1 or not 2 <= (count := counts.pop()) <= 26:
        return "", []
    rows: list[ForeignRow] = [
        {
            **cases[index].vars,
            "id": f"test-{index + 1}",
            "criterion": str(value),
            "outputs": [str(result["output"]) for result in results[index]],
            "models": [str(result.get("model")) for result in results[index]],
        }
        for index, value in values.items()
    ]
    options = ", ".join(f'"source.outputs[{index}]"' for index in range(count))
    prompt = [
        "Which output meets the criterion best?",
        *block("criterion", "{source.criterion}"),
        "",
        "{input.options}",
    ]
    keys = {"options": f"[{options}]", "shuffle": "true", "explanation": "true"}
    lines = [
        "verdict: 1",
        "name: select-best",
        f"description: {json.dumps(f'The best output of each test of {source.name}.')}",
        f"model: {model_text(unit.model or default)}",
        "",
        "delimit: true",
        "",
        "dataset:",
        "  id: id",
        '  schema: {outputs: "list[str]", models: "list[str]"}',
        "",
        "pipeline:",
        *(f"  {line}".rstrip() for line in judge_lines("best", keys, prompt, "BestOfKJudgeUnit")),
        "",
        "evaluate:",
    ]
    for index in range(count):
        letter = chr(ord("A") + index)
        lines += [f"  output_{letter.lower()}:   # how often output {index + 1} of a test is the best"]
        lines += [f"    value: 1.0 if output.choice == '{letter}' else 0.0", "    metrics: [mean]"]
    return "\n".join(lines) + "\n", rows
