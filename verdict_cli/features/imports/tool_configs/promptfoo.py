"""A promptfoo configuration as a pipeline: its model-graded assertions are units, its test cases with their variables are rows.

The configuration's form is that of promptfoo 0.121 (`promptfooconfig.yaml`). Nothing that it names is executed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verdict_cli.features.imports.tool_configs import ForeignPipeline, ForeignRow, Translation, pipeline_of, unit_name
from verdict_cli.features.imports.tool_configs.promptfoo_tests import (
    ConfigFile,
    TestCase,
    assertions_of,
    grading_model,
    rendered,
    test_cases,
)
from verdict_cli.features.imports.tool_configs.promptfoo_units import TRANSLATED, AssertionUnit, judge_of, select_best
from verdict_cli.features.imports.tool_logs import read_logs
from verdict_cli.features.wizard.scaffold import plain_name
from verdict_cli.language.document.document import read_document

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
    made = Translation()
    config = ConfigFile(path, read_document(path), made.left_out)
    cases = test_cases(config)
    judges: dict[str, _Judge] = {}
    compared: dict[str, _Judge] = {}
    for place, case in enumerate(cases):
        seen: dict[str, int] = {}
        for found in assertions_of(config, case):
            if found.type not in TRANSLATED:
                continue
            key = found.signature
            seen[key] = seen.get(key, 0) + 1
            group = compared if found.type == "select-best" else judges
            group.setdefault(f"{key}#{seen[key]}", _Judge(found)).values[place] = found.value
    default = grading_model(config, config.default.get("options", {}).get("provider")) or dict(model())
    results = _results(outputs)
    rows, complete = _rows(config, cases, results, made)
    if judges:
        made.pipelines.append(_pipeline(config, cases, list(judges.values()), rows, default, made))
        made.pipelines[-1].complete = complete
    for judge in compared.values():
        text, best_rows = select_best(judge.unit, judge.values, cases, _by_case(cases, results), path, default)
        if text:
            made.pipelines.append(ForeignPipeline("select_best", text, best_rows))
        else:
            made.left_out.append(
                f"{judge.unit.place}: select-best compares outputs of one test: give its results with --outputs"
            )
    made.left_out[:] = dict.fromkeys(made.left_out)
    made.changed[:] = dict.fromkeys(made.changed)
    return made


def _pipeline(
    config: ConfigFile,
    cases: Sequence[TestCase],
    judges: Sequence[_Judge],
    rows: list[tuple[int, ForeignRow]],
    default: Mapping[str, Any],
    made: Translation,
) -> ForeignPipeline:
    used = {"result", *(name for case in cases for name in case.vars), _OUTPUT, _INPUT, "id", "scores"}
    units = []
    for judge in judges:
        name = unit_name(judge.unit.metric or judge.unit.type, used)
        values = list(judge.values.values())
        always = len(judge.values) == len(cases) or not cases
        constant = always and all(value == values[0] for value in values)
        if not constant:
            for place, row in rows:
                is_judged = place in judge.values
                row[f"{name}_value"] = rendered(_text(judge.values[place]), cases[place].vars) if is_judged else None
        units.append(
            judge_of(
                judge.unit,
                name,
                _text(values[0]) if constant else None,
                optional=not always,
                has_input=all(row.get(_INPUT) for _, row in rows) and bool(rows),
                variables={name for case in cases for name in case.vars},
                changed=made.changed,
                default=default,
            )
        )
    theirs = bool(rows) and all(isinstance((row.get("scores") or {}).get("pass"), bool) for _, row in rows)
    text = pipeline_of(
        plain_name(config.path.stem),
        config.path,
        default,
        units,
        types={},
        threshold=config.default.get("threshold"),
        theirs="source.scores.pass" if theirs else None,
    )
    return ForeignPipeline(plain_name(config.path.stem), text, [row for _, row in rows])


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(f"- {each}" for each in value)
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _results(outputs: Path | None) -> list[dict[str, Any]]:
    return list(read_logs("promptfoo", [outputs])) if outputs is not None else []


def _by_case(cases: Sequence[TestCase], results: Sequence[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    """The results of each test case, by its variables."""
    places = {_key(case.vars): place for place, case in enumerate(cases)}
    found: dict[int, list[Mapping[str, Any]]] = {}
    for result in results:
        place = places.get(_key((result.get("metadata") or {}).get("vars") or {}))
        if place is not None and result.get("output") is not None:
            found.setdefault(place, []).append(result)
    return found


def _key(variables: Mapping[str, Any]) -> str:
    return json.dumps(variables, sort_keys=True, default=str)


def _rows(
    config: ConfigFile, cases: Sequence[TestCase], results: Sequence[Mapping[str, Any]], made: Translation
) -> tuple[list[tuple[int, ForeignRow]], bool]:
    """The rows, each with the place of its test case, and whether all have an output."""
    rows: list[tuple[int, ForeignRow]] = []
    if results:
        for place, found in _by_case(cases, results).items():
            rows += [
                (place, {**cases[place].vars, "id": _id(place, at), _INPUT: one.get("input"), _OUTPUT: _output(one["output"]), "scores": one.get("scores"), "model": one.get("model")})
                for at, one in enumerate(found)
            ]  # fmt: skip
        if lost := len(results) - len(rows):
            made.changed.append(
                f"{lost} of {len(results)} results have no output, or are of no test case of {config.path.name}"
            )
        return rows, bool(rows)
    for place, case in enumerate(cases):
        for at, (prompt, output) in enumerate(_outputs(config, case)):
            rows.append((place, {**case.vars, "id": _id(place, at), _INPUT: prompt, _OUTPUT: output}))
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


def _id(place: int, at: int) -> str:
    return f"test-{place + 1}" if at == 0 else f"test-{place + 1}-{at + 1}"


def _output(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
