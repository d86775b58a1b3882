"""A promptfoo configuration as a pipeline: its model-graded assertions are units, its test cases with their variables are rows.

The configuration's form is that of promptfoo 0.121 (`promptfooconfig.yaml`). Nothing that it names is executed.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from verdict_cli.errors import DataError, SpecError
from verdict_cli.features.imports.logs import read_logs
from verdict_cli.features.imports.translate import (
    ForeignJudge,
    ForeignPipeline,
    ForeignRow,
    Translation,
    block,
    judge_lines,
    literal_text,
    model_text,
    pipeline_of,
    slot_of,
    unit_name,
)
from verdict_cli.features.wizard.scaffold import plain_name
from verdict_cli.language.document.document import parse_document, read_document
from verdict_cli.language.document.source_positions import Document, DocumentPath
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import stream_rows

TRANSLATED = (
    "llm-rubric", "factuality", "answer-relevance", "context-faithfulness", "model-graded-closedqa", "g-eval", "select-best",
)  # fmt: skip
"""The assertions that are translated."""

_G_EVAL_THRESHOLD = 0.7
_FACTS = {"A": "subset", "B": "superset", "C": "same", "D": "contradiction", "E": "immaterial"}
"""The categories of `factuality`: promptfoo's letter -> ours. All but a contradiction pass."""


class AssertionUnit(Struct, frozen=True):
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


_MOST_BYTES = 1_000_000
_MOST_CASES = 10_000
_VARIABLE = re.compile(r"\{\{-?\s*([A-Za-z_]\w*(?:\.\w+)*)\s*-?\}\}")
_CELL = re.compile(r"(?P<type>(?:not-)?[\w-]+)(?:\((?P<threshold>[\d.]+)\))?:\s*(?P<value>.*)", re.DOTALL)

_PROVIDERS = {
    "openai": "", "anthropic": "anthropic/", "google": "gemini/", "vertex": "vertex_ai/", "ollama": "ollama/",
    "azure": "azure/", "azureopenai": "azure/", "mistral": "mistral/", "groq": "groq/", "openrouter": "openrouter/",
    "deepseek": "deepseek/", "togetherai": "together_ai/", "xai": "xai/", "cohere": "cohere/", "bedrock": "bedrock/",
}  # fmt: skip
"""Prefixes of promptfoo's provider ids, and of litellm's names."""
_KINDS = ("chat", "completion", "messages", "responses", "embedding")
_SETTINGS = ("temperature", "max_tokens", "top_p", "seed")


@dataclass(slots=True)
class TestCase:
    """A test case: its variables, and the output if the configuration has it. ``path`` leads to it in the file."""

    vars: dict[str, Any]
    keys: Mapping[str, Any]
    path: DocumentPath
    file: str
    output: str | None = None


@dataclass(slots=True)
class ConfigFile:
    """A configuration. What is not translated is appended to ``left_out``."""

    path: Path
    document: Document
    left_out: list[str]
    default: Mapping[str, Any] = field(init=False)
    prompts: list[str] = field(init=False)
    only_echo: bool = field(init=False)

    def __post_init__(self) -> None:
        data = self.document.data
        default = self.read(data.get("defaultTest") or {}, ("defaultTest",))
        self.default = default if isinstance(default, Mapping) else {}
        prompts = data.get("prompts") or []
        listed = prompts if isinstance(prompts, list) else [prompts]
        texts = [self.read(prompt.get("raw", prompt.get("id")) if isinstance(prompt, Mapping) else prompt, ("prompts", at)) for at, prompt in enumerate(listed)]  # fmt: skip
        self.prompts = [text for text in texts if isinstance(text, str)]
        providers = data.get("providers") or data.get("targets") or []
        providers = providers if isinstance(providers, list) else [providers]
        names = [provider.get("id") if isinstance(provider, Mapping) else provider for provider in providers]
        self.only_echo = bool(names) and all(name == "echo" for name in names)
        for key in ("scenarios", "derivedMetrics", "redteam", "extensions"):
            if data.get(key):
                self.left_out.append(f"{self.place((key,))}: {key}")

    def place(self, path: DocumentPath) -> str:
        """`file:line` of a value."""
        return f"{self.path.name}:{self.document.key_at(path).line}"

    def read(self, value: Any, path: DocumentPath) -> Any:
        """The value; that of a `$ref` within the file, and the content of a text file or of YAML next to it."""
        if isinstance(value, Mapping) and isinstance(value.get("$ref"), str) and value["$ref"].startswith("#/"):
            target: Any = self.document.data
            for key in value["$ref"][2:].split("/"):
                target = target.get(key) if isinstance(target, Mapping) else None
            return target if target is not None else self._lost(path, value["$ref"])
        if not isinstance(value, str) or not value.startswith("file://"):
            return value
        file = (self.path.parent / value.removeprefix("file://")).resolve()
        inside = file.is_relative_to(self.path.parent.resolve()) and file.is_file()
        if (
            not inside
            or file.suffix not in (".txt", ".md", ".json", ".yaml", ".yml")
            or file.stat().st_size > _MOST_BYTES
        ):
            return self._lost(path, value)
        if file.suffix in (".txt", ".md"):
            return file.read_text(encoding="utf-8", errors="replace").strip()
        if file.suffix == ".json":
            try:
                return json.loads(file.read_text(encoding="utf-8"))
            except ValueError:
                return self._lost(path, value)
        try:
            # A document is a mapping: a list of tests becomes the value of a key.

            text = file.read_text(encoding="utf-8")
            is_list = text.lstrip().startswith("-")
            indented = "".join(f"  {line}\n" for line in text.splitlines())
            data = parse_document((f"list:\n{indented}" if is_list else text).encode(), str(file)).data
            return data["list"] if is_list else data
        except SpecError:
            return self._lost(path, value)

    def _lost(self, path: DocumentPath, what: str) -> None:
        self.left_out.append(f"{self.place(path)}: {what} is not a text, YAML or JSON file below {self.path.parent}")


def test_cases(config: ConfigFile) -> list[TestCase]:
    """The test cases with the default variables, one for each combination where a variable is a list; without any, one without
    variables."""
    given = config.document.data.get("tests") or []
    cases: list[TestCase] = []
    for at, test in enumerate(given if isinstance(given, list) else [given]):
        path: DocumentPath = ("tests", at) if isinstance(given, list) else ("tests",)
        for keys in _tests(config, test, path):
            variables = config.read(keys.get("vars") or {}, (*path, "vars"))
            if not isinstance(variables, Mapping):
                config.left_out.append(f"{config.place((*path, 'vars'))}: vars that are not a mapping")
                continue
            merged = {
                name: config.read(value, (*path, "vars", name))
                for name, value in {**(config.default.get("vars") or {}), **variables}.items()
            }
            options = keys.get("options") or {}
            lists = [
                name
                for name, value in merged.items()
                if isinstance(value, list) and not options.get("disableVarExpansion")
            ]
            for combination in itertools.product(*(merged[name] for name in lists)):
                case = {**merged, **dict(zip(lists, combination, strict=True))}
                output = keys.get("providerOutput")
                text = output if output is None or isinstance(output, str) else json.dumps(output, ensure_ascii=False)
                cases.append(TestCase(case, keys, path, config.path.name, text))
            if keys.get("threshold") is not None:
                config.left_out.append(
                    f"{config.place((*path, 'threshold'))}: the threshold of one test (that of defaultTest is)"
                )
    return cases[:_MOST_CASES] or [TestCase(dict(config.default.get("vars") or {}), {}, (), config.path.name)]


def _tests(config: ConfigFile, test: Any, path: DocumentPath) -> Iterator[Mapping[str, Any]]:
    """A test case, or those of a file."""
    if isinstance(test, str):
        file = config.path.parent / test.removeprefix("file://")
        if file.suffix in (".csv", ".jsonl") and file.resolve().is_relative_to(config.path.parent.resolve()):
            try:
                yield from (_from_row(row.source) for row in stream_rows(Dataset((file,))))
            except DataError as error:
                config.left_out.append(f"{config.place(path)}: {test}: {error.problem.message}")
            return
        test = config.read(test if test.startswith("file://") else f"file://{test}", path)
    for keys in test if isinstance(test, list) else [test]:
        if isinstance(keys, Mapping) and ("path" not in keys or "vars" in keys):
            yield keys
        elif keys is not None:
            config.left_out.append(f"{config.place(path)}: tests that a program generates")


def _from_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A test case of a row: columns are variables, `__expected` and `__expected1` … assertions."""
    if "vars" in row:
        return row
    asserts = []
    for name, value in row.items():
        if name.startswith("__expected") and value:
            cell = _CELL.fullmatch(str(value).strip())
            kind = (cell["type"] if cell else "equals").replace("grade", "llm-rubric")
            threshold = {"threshold": float(cell["threshold"])} if cell and cell["threshold"] else {}
            asserts.append({"type": kind, "value": cell["value"] if cell else value, **threshold})
    return {"vars": {name: value for name, value in row.items() if not name.startswith("__")}, "assert": asserts}


def assertions_of(config: ConfigFile, case: TestCase) -> Iterator[AssertionUnit]:
    """The assertions of a test case: the default ones, then its own, those of sets among them. What no model grades, and what cannot
    be translated, is noted."""
    options = {**(config.default.get("options") or {}), **(case.keys.get("options") or {})}
    if not options.get("disableDefaultAsserts"):
        yield from _assertions(config, config.default.get("assert"), ("defaultTest", "assert"), options)
    yield from _assertions(config, case.keys.get("assert"), (*case.path, "assert"), options)


def _assertions(
    config: ConfigFile, listed: Any, path: DocumentPath, options: Mapping[str, Any]
) -> Iterator[AssertionUnit]:
    for at, item in enumerate(listed if isinstance(listed, list) else []):
        inner: DocumentPath = (*path, at)
        assertion = config.read(item, inner)
        if not isinstance(assertion, Mapping) or not isinstance(assertion.get("type"), str):
            config.left_out.append(f"{config.place(inner)}: an assertion without a type")
            continue
        if assertion["type"] == "assert-set":
            if assertion.get("threshold") is not None:
                config.left_out.append(
                    f"{config.place((*inner, 'threshold'))}: the threshold of an assert-set: each of its assertions must pass"
                )
            yield from _assertions(config, assertion.get("assert"), (*inner, "assert"), options)
        elif (unit := _unit(config, assertion, inner, options)) is not None:
            yield unit


def _unit(
    config: ConfigFile, assertion: Mapping[str, Any], path: DocumentPath, options: Mapping[str, Any]
) -> AssertionUnit | None:
    negated = assertion["type"].startswith("not-")
    kind = assertion["type"].removeprefix("not-").replace("model-graded-factuality", "factuality")
    place = config.place(path)
    for key in ("transform", "contextTransform"):
        if assertion.get(key):
            config.left_out.append(f"{place}: {assertion['type']} with {key}, which is code")
            return None
    if kind not in TRANSLATED or (negated and kind == "select-best"):
        config.left_out.append(f"{place}: {assertion['type']}")
        return None
    value = config.read(assertion.get("value"), (*path, "value"))
    rubric = config.read(assertion.get("rubricPrompt", options.get("rubricPrompt")), (*path, "rubricPrompt"))
    prompt = _messages(rubric)
    for text in (value if isinstance(value, list) else [value], [prompt]):
        if any(isinstance(template, str) and _is_program(template) for template in text):
            config.left_out.append(f"{place}: {assertion['type']} with a template that has more than {{{{variables}}}}")
            return None
    given = assertion.get("provider", options.get("provider"))
    model = grading_model(config, given)
    if given is not None and model is None:
        config.left_out.append(
            f"{place}: the provider {given if isinstance(given, str) else json.dumps(given)[:60]} of {assertion['type']}"
        )
    return AssertionUnit(
        type=kind,
        value=value,
        place=place,
        negated=negated,
        threshold=float(assertion["threshold"]) if isinstance(assertion.get("threshold"), int | float) else None,
        weight=float(assertion["weight"]) if isinstance(assertion.get("weight"), int | float) else 1.0,
        metric=assertion["metric"] if isinstance(assertion.get("metric"), str) else None,
        model=model,
        prompt=prompt,
        scores=options.get("factuality") if isinstance(options.get("factuality"), Mapping) else None,
    )


def _messages(prompt: Any) -> str | None:
    """A custom prompt as text; messages become sections."""
    if isinstance(prompt, str) and prompt.lstrip().startswith("[{"):
        with suppress(ValueError):
            prompt = json.loads(prompt)
    if isinstance(prompt, list):
        texts = [f"@{message['role']}\n{message['content']}" if isinstance(message, Mapping) and "content" in message else str(message) for message in prompt]  # fmt: skip
        return "\n".join(texts)
    return prompt if isinstance(prompt, str) else None


def _is_program(text: str) -> bool:
    return "{%" in text or "{{" in _VARIABLE.sub("", text)


def rendered(text: str, variables: Mapping[str, Any]) -> str:
    """The text with the values of its variables; a variable that is not known stays."""

    def value(name: str, written: str) -> str:
        content: Any = variables
        for key in name.split("."):
            content = content.get(key) if isinstance(content, Mapping) else None
        if content is None:
            return written
        return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)

    return _VARIABLE.sub(lambda match: value(match[1], match[0]), text)


def grading_model(config: ConfigFile, provider: Any) -> dict[str, Any] | None:
    """The model of a provider, such as `openai:chat:gpt-4o`; None for one that is a program, or not known."""
    settings: Mapping[str, Any] = {}
    if isinstance(provider, Mapping):
        provider = provider.get("text", provider)
    if isinstance(provider, Mapping):
        settings, provider = provider.get("config") or {}, provider.get("id")
    if not isinstance(provider, str):
        return None
    family, _, name = provider.partition(":")
    kind, _, rest = name.partition(":")
    name = rest if kind in _KINDS and rest else name
    if family not in _PROVIDERS or not name:
        return None
    kept = {key: settings[key] for key in _SETTINGS if isinstance(settings.get(key), int | float)}
    return {"name": f"{_PROVIDERS[family]}{name}", **kept}


_OUTPUT, _INPUT = "output", "input"


@dataclass(slots=True)
class _Judge:
    """Assertions of several test cases that one unit judges: the criteria by test case."""

    unit: AssertionUnit
    values: dict[int, Any] = field(default_factory=dict)


def promptfoo_judges(path: Path, outputs: Path | None, model: Callable[[], Mapping[str, Any]]) -> Translation:
    """The pipeline and rows of a configuration, with the outputs of a results file. ``model`` gives the one that judges where the file names none.

    Raises SpecError for a file that is not YAML, and DataError for results that are not promptfoo's.
    """
    translation = Translation()
    config = ConfigFile(path, read_document(path), translation.left_out)
    cases = test_cases(config)
    judges: dict[str, _Judge] = {}
    compared: dict[str, _Judge] = {}
    for index, case in enumerate(cases):
        seen: dict[str, int] = {}
        for assertion in assertions_of(config, case):
            if assertion.type not in TRANSLATED:
                continue
            key = assertion.signature
            seen[key] = seen.get(key, 0) + 1
            group = compared if assertion.type == "select-best" else judges
            group.setdefault(f"{key}#{seen[key]}", _Judge(assertion)).values[index] = assertion.value
    default = grading_model(config, config.default.get("options", {}).get("provider")) or dict(model())
    results = list(read_logs("promptfoo", [outputs])) if outputs is not None else []
    rows, complete = _rows(config, cases, results, translation)
    if judges:
        translation.pipelines.append(_pipeline(config, cases, list(judges.values()), rows, default, translation))
        translation.pipelines[-1].complete = complete
    for judge in compared.values():
        text, best_rows = select_best(judge.unit, judge.values, cases, _by_case(cases, results), path, default)
        if text:
            translation.pipelines.append(ForeignPipeline("select_best", text, best_rows))
        else:
            translation.left_out.append(
                f"{judge.unit.place}: select-best compares outputs of one test: give its results with --outputs"
            )
    translation.left_out[:] = dict.fromkeys(translation.left_out)
    translation.changed[:] = dict.fromkeys(translation.changed)
    return translation


def _pipeline(
    config: ConfigFile,
    cases: Sequence[TestCase],
    judges: Sequence[_Judge],
    rows: list[tuple[int, ForeignRow]],
    default: Mapping[str, Any],
    translation: Translation,
) -> ForeignPipeline:
    used = {"result", *(name for case in cases for name in case.vars), _OUTPUT, _INPUT, "id", "scores"}
    units = []
    for judge in judges:
        name = unit_name(judge.unit.metric or judge.unit.type, used)
        values = list(judge.values.values())
        always = len(judge.values) == len(cases) or not cases
        constant = always and all(value == values[0] for value in values)
        if not constant:
            for index, row in rows:
                is_judged = index in judge.values
                row[f"{name}_value"] = rendered(_text(judge.values[index]), cases[index].vars) if is_judged else None
        units.append(
            judge_of(
                judge.unit,
                name,
                _text(values[0]) if constant else None,
                optional=not always,
                has_input=all(row.get(_INPUT) for _, row in rows) and bool(rows),
                variables={name for case in cases for name in case.vars},
                changed=translation.changed,
                default=default,
            )
        )
    theirs = bool(rows) and all(isinstance((row.get("scores") or {}).get("pass"), bool) for _, row in rows)
    text = pipeline_of(
        plain_name(config.path.stem),
        config.path,
        default,
        units,
        threshold=config.default.get("threshold"),
        theirs="source.scores.pass" if theirs else None,
    )
    return ForeignPipeline(plain_name(config.path.stem), text, [row for _, row in rows])


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(f"- {item}" for item in value)
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _by_case(cases: Sequence[TestCase], results: Sequence[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    """The results of each test case, by its variables."""
    index_of = {_key(case.vars): index for index, case in enumerate(cases)}
    by_case: dict[int, list[Mapping[str, Any]]] = {}
    for result in results:
        index = index_of.get(_key((result.get("metadata") or {}).get("vars") or {}))
        if index is not None and result.get("output") is not None:
            by_case.setdefault(index, []).append(result)
    return by_case


def _key(variables: Mapping[str, Any]) -> str:
    return json.dumps(variables, sort_keys=True, default=str)


def _rows(
    config: ConfigFile, cases: Sequence[TestCase], results: Sequence[Mapping[str, Any]], translation: Translation
) -> tuple[list[tuple[int, ForeignRow]], bool]:
    """The rows, each with the place of its test case, and whether all have an output."""
    rows: list[tuple[int, ForeignRow]] = []
    if results:
        for index, outputs in _by_case(cases, results).items():
            rows += [
                (index, {**cases[index].vars, "id": _id(index, at), _INPUT: result.get("input"), _OUTPUT: _output(result["output"]), "scores": result.get("scores"), "model": result.get("model")})
                for at, result in enumerate(outputs)
            ]  # fmt: skip
        if lost := len(results) - len(rows):
            translation.changed.append(
                f"{lost} of {len(results)} results have no output, or are of no test case of {config.path.name}"
            )
        return rows, bool(rows)
    for index, case in enumerate(cases):
        for at, (prompt, output) in enumerate(_outputs(config, case)):
            rows.append((index, {**case.vars, "id": _id(index, at), _INPUT: prompt, _OUTPUT: output}))
    return rows, bool(rows) and all(row[_OUTPUT] is not None for _, row in rows)


def _outputs(config: ConfigFile, case: TestCase) -> Iterator[tuple[str | None, str | None]]:
    """The prompts of a test case with their outputs, where the configuration itself has them."""
    prompts: list[str] = [rendered(prompt, case.vars) for prompt in config.prompts]
    if case.output is not None:
        yield (prompts[0] if prompts else None), case.output
    elif config.only_echo and prompts:
        yield from ((prompt, prompt) for prompt in prompts)
    elif prompts:
        yield from ((prompt, None) for prompt in prompts)
    else:
        yield None, None


def _id(index: int, at: int) -> str:
    return f"test-{index + 1}" if at == 0 else f"test-{index + 1}-{at + 1}"


def _output(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
