"""DeepEval's G-Eval metrics as a pipeline, from the Python file that defines them or from JSON.

The file is parsed, never imported or executed: only values that are written out are read. The forms are those of DeepEval 4.3.
"""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verdict_cli.errors import UsageError
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
    unit_name,
)
from verdict_cli.features.wizard.scaffold import plain_name

_COLUMNS = {
    "INPUT": "input", "ACTUAL_OUTPUT": "output", "EXPECTED_OUTPUT": "target", "CONTEXT": "context",
    "RETRIEVAL_CONTEXT": "retrieval_context", "TOOLS_CALLED": "tools_called", "EXPECTED_TOOLS": "expected_tools",
    "METADATA": "metadata", "CONTENT": "messages", "ROLE": "messages", "SCENARIO": "input", "EXPECTED_OUTCOME": "target",
}  # fmt: skip
"""Parameters of a test case -> the columns that `verdict import deepeval` writes."""
_LISTS = ("context", "retrieval_context")
_G_EVALS = ("GEval", "ConversationalGEval")
_MODELS = {
    "GPTModel": "", "OpenAIModel": "", "AnthropicModel": "anthropic/", "GeminiModel": "gemini/", "OllamaModel": "ollama/",
    "AzureOpenAIModel": "azure/", "LiteLLMModel": "", "DeepSeekModel": "deepseek/", "GrokModel": "xai/",
}  # fmt: skip
_IGNORED = ("verbose_mode", "async_mode", "top_logprobs", "evaluation_template", "flaky")
_THRESHOLD = 0.5
_RANGE = (0, 10)


@dataclass(slots=True)
class _Metric:
    """A metric: its arguments by name, and its place."""

    place: str
    arguments: dict[str, Any]


class _ComputedError(Exception):
    """A value that is not written out in the file."""


def deepeval_judges(path: Path, outputs: Path | None, model: Callable[[], Mapping[str, Any]]) -> Translation:
    """The pipeline of the metrics of a file, with its test cases, or those of a test run in ``outputs``, as rows.

    ``model`` gives the one that judges where a metric names none. Raises UsageError for a file that is neither Python nor JSON
    with metrics.
    """
    translation = Translation()
    text = path.read_text(encoding="utf-8", errors="replace")
    metrics, rows = _of_json(path, text) if path.suffix == ".json" else _of_python(path, text, translation)
    rows = list(read_logs("deepeval", [outputs])) if outputs is not None else rows
    models = [named for metric in metrics if (named := _model(metric, translation))]
    default = models[0] if models and len(models) == len(metrics) else (dict(model()) if metrics else {})
    used = {"result"}
    if not (judges := [judge for metric in metrics if (judge := _judge(metric, used, default, translation))]):
        return translation
    columns = {column for metric in metrics for column in _parameters(metric)[0]}
    theirs = bool(rows) and all(isinstance((row.get("scores") or {}).get("pass"), bool) for row in rows)
    pipeline = pipeline_of(
        plain_name(path.stem), path, default, judges, theirs="source.scores.pass" if theirs else None
    )
    complete = bool(rows) and all(row.get(column) is not None for row in rows for column in columns)
    if rows and not complete:
        translation.changed.append(f"some test cases lack one of {', '.join(sorted(columns))}: nothing was tried")
    translation.pipelines.append(ForeignPipeline(plain_name(path.stem), pipeline, rows, complete))
    return translation


def _of_json(path: Path, text: str) -> tuple[list[_Metric], list[ForeignRow]]:
    """The metrics of a JSON file: one, a list, or a list below `metrics`, in Python's names or those of DeepEval's API."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{path}: not valid JSON: {error}", hint="give the file with the metrics") from None
    if isinstance(data, dict) and ("testCases" in data or "testRunData" in data):
        raise UsageError(
            f"{path} is a test run of DeepEval, which does not have the criteria of its metrics",
            hint=f"verdict init --from deepeval METRICS.py --outputs {path}",
        )
    listed = data.get("metrics", [data]) if isinstance(data, dict) else data
    metrics = []
    for index, item in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(item, dict) and "name" in item:
            arguments = {_snake(key): value for key, value in item.items()}
            rubric, given = arguments.get("rubric") or [], arguments.get("evaluation_params") or []
            arguments["rubric"] = [{_snake(key): value for key, value in band.items()} for band in rubric]
            arguments["evaluation_params"] = [_snake(str(parameter)).upper() for parameter in given]
            metrics.append(_Metric(f"{path.name}[{index}]", arguments))
    return metrics, []


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() and name != name.upper() else letter for letter in name)


def _of_python(path: Path, text: str, translation: Translation) -> tuple[list[_Metric], list[ForeignRow]]:
    """The metrics and the test cases that the file writes out."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UsageError(
            f"{path}{line}: not valid Python", hint="give the .py or .json file with the metrics"
        ) from None
    source = _Source(tree)
    metrics: list[_Metric] = []
    rows: list[ForeignRow] = []
    for name, call in source.calls():
        place = f"{path.name}:{call.lineno}"
        if name in _G_EVALS:
            try:
                metrics.append(
                    _Metric(
                        place, source.arguments(call, ("name", "evaluation_params", "criteria", "evaluation_steps"))
                    )
                )
            except _ComputedError as error:
                translation.left_out.append(f"{place}: {name}: {error}")
        elif name == "LLMTestCase":
            try:
                rows.append(_row(source.arguments(call, ("input", "actual_output")), len(rows)))
            except _ComputedError as error:
                translation.changed.append(f"{place}: a test case is not a row: {error}")
        elif name.endswith("Metric") or name == "ArenaGEval":
            translation.left_out.append(f"{place}: {name}")
    return metrics, rows


def _row(arguments: Mapping[str, Any], index: int) -> ForeignRow:
    row = {"id": f"test-{index + 1}"}
    return row | {_COLUMNS[key.upper()]: value for key, value in arguments.items() if key.upper() in _COLUMNS}


@dataclass(slots=True)
class _Source:
    """A Python file: its names of imports, and the values that it assigns at its top."""

    tree: ast.Module
    imported: dict[str, str] = field(init=False)
    assigned: dict[str, ast.expr] = field(init=False)

    def __post_init__(self) -> None:
        imports = [node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom)]
        self.imported = {alias.asname or alias.name: alias.name for node in imports for alias in node.names}
        self.assigned = {
            target.id: node.value
            for node in self.tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """The calls of a name or of a module's attribute, in the order of the file, each with the name that was imported."""
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        for node in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
            if isinstance(node.func, ast.Name):
                yield self.imported.get(node.func.id, node.func.id), node
            elif isinstance(node.func, ast.Attribute):
                yield node.func.attr, node

    def arguments(self, call: ast.Call, positions: tuple[str, ...]) -> dict[str, Any]:
        """The values of a call's arguments by name. _ComputedError for one that is not written out."""
        named = dict(zip(positions, call.args, strict=False))
        for keyword in call.keywords:
            if keyword.arg is None:
                raise _ComputedError("its arguments are computed (**)")
            named[keyword.arg] = keyword.value
        values = {}
        for name, node in named.items():
            if name not in _IGNORED:
                try:
                    values[name] = self.value(node)
                except _ComputedError:
                    if name != "model":
                        raise _ComputedError(f"its {name} is computed") from None
                    values[name] = _ComputedError()
        return values

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """The value that an expression writes out. _ComputedError for any other."""
        if depth > 50:
            raise _ComputedError
        match node:
            case ast.Constant(value=value):
                return value
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.value(item, depth + 1) for item in items]
            case ast.Dict(keys=keys, values=values) if all(keys):
                return {
                    self.value(key, depth + 1): self.value(value, depth + 1)
                    for key, value in zip(keys, values, strict=True)
                    if key
                }
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self.value(left, depth + 1), self.value(right, depth + 1)
                if isinstance(first, str) and isinstance(second, str):
                    return first + second
            case ast.JoinedStr(values=parts) if all(isinstance(part, ast.Constant) for part in parts):
                return "".join(str(self.value(part, depth + 1)) for part in parts)
            case ast.Name(id=name) if name in self.assigned:
                return self.value(self.assigned[name], depth + 1)
            case ast.Attribute(attr=name) if name in _COLUMNS or name == "TAGS":
                return name
            case ast.Call(func=ast.Attribute(value=inner, attr="strip"), args=[]):
                return str(self.value(inner, depth + 1)).strip()
            case ast.Call(func=ast.Name(id="dedent") | ast.Attribute(attr="dedent"), args=[inner]):
                return textwrap.dedent(str(self.value(inner, depth + 1)))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=keywords, args=args):
                kind = self.imported.get(name, name)
                if kind == "Rubric" or kind in _MODELS:
                    named = {keyword.arg: keyword.value for keyword in keywords if keyword.arg is not None}
                    named |= {"model": args[0]} if args and kind in _MODELS else {}
                    kept = (
                        named
                        if kind == "Rubric"
                        else {key: named[key] for key in ("model", "model_name") if key in named}
                    )
                    return {"of": kind, **{key: self.value(inner, depth + 1) for key, inner in kept.items()}}
        raise _ComputedError


def _model(metric: _Metric, translation: Translation) -> dict[str, Any] | None:
    """The model that a metric names."""
    given = metric.arguments.get("model")
    if isinstance(given, str):
        return {"name": given}
    if isinstance(given, dict) and isinstance(given.get("model") or given.get("model_name"), str):
        return {"name": f"{_MODELS[given['of']]}{given.get('model') or given.get('model_name')}"}
    if given is not None:
        translation.left_out.append(f"{metric.place}: the model of {metric.arguments.get('name')!r}, which is computed")
    return None


def _parameters(metric: _Metric) -> tuple[list[str], list[str]]:
    """The columns of a metric's parameters, and the parameters that have none."""
    given = [str(parameter) for parameter in metric.arguments.get("evaluation_params") or []]
    known = list(dict.fromkeys(_COLUMNS[parameter] for parameter in given if parameter in _COLUMNS))
    return known, [parameter for parameter in given if parameter not in _COLUMNS]


def _judge(
    metric: _Metric, used: set[str], default: Mapping[str, Any], translation: Translation
) -> ForeignJudge | None:
    """The unit of a metric; None where it lacks what a judge needs."""
    arguments = metric.arguments
    title = str(arguments.get("name") or "g_eval")
    columns, unknown = _parameters(metric)
    steps = [str(step) for step in arguments.get("evaluation_steps") or []]
    criteria = arguments.get("criteria")
    if not columns or not (steps or isinstance(criteria, str)):
        lacks = "criteria or evaluation_steps" if columns else "evaluation_params"
        translation.left_out.append(f"{metric.place}: {title!r} has no {lacks}")
        return None
    translation.left_out += [f"{metric.place}: the parameter {name} of {title!r}" for name in unknown]
    rubric = [band for band in arguments.get("rubric") or [] if isinstance(band, dict) and band.get("score_range")]
    ends = [int(end) for band in rubric for end in band["score_range"]] or _RANGE
    low, high = min(ends), max(ends)
    strict = arguments.get("strict_mode") is True or low == high
    prompt = [
        "Does the test case meet the criteria fully?"
        if strict
        else f"Rate how well the test case meets the criteria, from {low} (not at all) to {high} (fully)."
    ]
    numbered = "\n".join(f"{number}. {literal_text(step)}" for number, step in enumerate(steps, 1))
    prompt += (
        block("steps", numbered) if steps else block("criteria", literal_text(textwrap.dedent(str(criteria)).strip()))
    )
    if rubric and not strict:
        lines = [f"{'-'.join(map(str, dict.fromkeys(band['score_range'])))}: {literal_text(str(band.get('expected_outcome')))}" for band in rubric]  # fmt: skip
        prompt += block("rubric", "\n".join(lines))
    for column in columns:
        prompt += block(column, f"{{source.{column} | numbered}}" if column in _LISTS else f"{{source.{column}}}")
    name = unit_name(title, used)
    own = _model(metric, Translation())
    keys = {"model": model_text(own)} if own is not None and own != dict(default) else {}
    keys |= {"scale": "boolean" if strict else f"{{type: discrete, range: [{low}, {high}]}}", "explanation": "true"}
    threshold = arguments.get("threshold", _THRESHOLD)
    least = float(threshold) if isinstance(threshold, int | float) else _THRESHOLD
    over = f"(previous.{name}.score - {low})" if low else f"previous.{name}.score"
    score = f"1.0 if previous.{name}.score else 0.0" if strict else f"{over} / {high - low}"
    passed = f"previous.{name}.score" if strict else f"{score} >= {least:g}"
    return ForeignJudge(name, judge_lines(name, keys, prompt), score, passed)
