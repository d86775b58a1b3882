"""Judges of other tools as pipelines: what `verdict init --from promptfoo` and `--from deepeval` write.

Prompts are our own wording of what the other tool's judge decides; only the user's criteria and prompts are copied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.errors import UsageError
from verdict_cli.features.wizard.scaffold import flow, yaml_scalar
from verdict_cli.features.wizard.scaffold_columns import column_slot

ForeignRow = dict[str, Any]

_BRACE = re.compile(r"\{(?=\s*[\w.\[\]'\"]+\s*\})")


class ForeignJudge(Struct, frozen=True):
    """A judge of another tool as a unit. ``lines`` are its YAML as an item of a layer, ``score`` (from 0 to 1) and ``passed``
    expressions over `previous`. ``optional``: some rows do not have it."""

    name: str
    lines: Sequence[str]
    score: str
    passed: str
    weight: float = 1
    optional: bool = False


@dataclass(slots=True)
class ForeignPipeline:
    """A pipeline made of another tool's file: its text, its rows (those without an output have a null), and how many of them have one."""

    name: str
    text: str
    rows: list[ForeignRow] = field(default_factory=list)
    complete: bool = True


@dataclass(slots=True)
class Translation:
    """What became of another tool's file. ``left_out`` and ``changed`` name what was not translated, or not exactly, each with its
    place."""

    pipelines: list[ForeignPipeline] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def literal_text(text: str) -> str:
    """The text as part of a prompt, in which none of its braces is a placeholder."""
    return _BRACE.sub(r"\\{", text)


def block(tag: str, slot: str) -> list[str]:
    """Lines of a prompt that show a text between tags."""
    return ["", f"<{tag}>", slot, f"</{tag}>"]


def judge_lines(name: str, keys: Mapping[str, str], prompt: Sequence[str], unit: str = "JudgeUnit") -> list[str]:
    """The YAML of a unit with these keys and this prompt."""
    text = [line for part in prompt for line in part.splitlines() or [""]]
    return [
        f"- unit: {unit}",
        f"  name: {name}",
        *(f"  {key}: {value}" for key, value in keys.items()),
        "  prompt: |",
        *(f"    {line}".rstrip() for line in text),
    ]


def unit_name(text: str, used: set[str]) -> str:
    """A unit's name made of a text, which none of ``used`` has; it is added to them."""
    plain = "_".join(re.findall(r"[a-z0-9]+", text.lower()))[:40].strip("_") or "judge"
    plain = plain if plain[0].isalpha() else f"judge_{plain}"
    numbered = (plain if number == 1 else f"{plain}_{number}" for number in count(1))
    name = next(name for name in numbered if name not in used)
    used.add(name)
    return name


def pipeline_of(
    name: str,
    source: Path,
    model: Mapping[str, Any],
    judges: Sequence[ForeignJudge],
    *,
    threshold: float | None = None,
    theirs: str | None = None,
) -> str:
    """The text of a pipeline of these judges. A row passes where each judge passes it, or with ``threshold`` where the weighted mean
    of their scores reaches it. ``theirs`` is an expression of the other tool's own verdict."""
    lines = [
        "verdict: 1",
        f"name: {yaml_scalar(name)}",
        f"description: {json.dumps(f'The judges of {source.name}.', ensure_ascii=False)}",
        f"model: {model_text(model)}",
        "",
        "delimit: true",
        "",
        "dataset:",
        "  id: id",
        "",
        "pipeline:",
        "  - layer:",
        *(f"      {line}".rstrip() for judge in judges for line in judge.lines),
        "",
        "  - unit: MapUnit",
        "    name: result",
        "    map:",
    ]
    weights = [_where(judge, _number(judge.weight), "0") for judge in judges]
    scores = [
        _where(judge, f"{_number(judge.weight)} * ({judge.score})" if judge.weight != 1 else judge.score, "0")
        for judge in judges
    ]
    total = " + ".join(weights)
    mean = f"({' + '.join(scores)}) / ({total})"
    if all(judge.optional for judge in judges):
        mean = f"{mean} if {' or '.join(f'previous.{judge.name} is defined' for judge in judges)} else 1.0"
    elif not any(judge.optional for judge in judges):
        weight = sum(judge.weight for judge in judges)
        mean = f"({' + '.join(scores)}) / {_number(weight)}" if weight != 1 else " + ".join(scores)
    if any(judge.optional and judge.weight == 0 for judge in judges) or not any(judge.weight for judge in judges):
        mean = "1.0"
    passed = " and ".join(f"({_where(judge, judge.passed, 'true')})" for judge in judges if judge.weight)
    if threshold is not None:
        passed = f"({mean}) >= {_number(threshold)}"
    lines += [f"      passed: {json.dumps(passed or 'true', ensure_ascii=False)}"]
    lines += [f"      score: {json.dumps(mean, ensure_ascii=False)}", "", "evaluate:"]
    lines += [
        "  passed: {value: 1.0 if output.passed else 0.0, metrics: [mean]}",
        "  score: {value: output.score, metrics: [mean]}",
    ]
    if theirs is not None:
        lines += ["  theirs:   # the other tool's verdict on the same row", "    prediction: output.passed"]
        lines += [f"    target: {yaml_scalar(theirs)}", "    positive: true"]
    lines += ["", "# A threshold for CI: the share of rows that pass.", "# gates: [passed.mean >= 0.95]"]
    return "\n".join(lines) + "\n"


def _where(judge: ForeignJudge, value: str, otherwise: str) -> str:
    return f"(({value}) if previous.{judge.name} is defined else {otherwise})" if judge.optional else f"({value})"


def _number(value: float) -> str:
    return f"{value:g}"


def model_text(model: Mapping[str, Any]) -> str:
    """A model in YAML: its name where it has nothing else."""
    return flow(model["name"] if list(model) == ["name"] else model)


def slot_of(*path: str) -> str:
    """The placeholder of a column, or of a key within it."""
    return column_slot(path)


_FILES = {"promptfoo": "promptfooconfig.yaml", "deepeval": "test_judges.py"}
_RESULTS = {
    "promptfoo": "promptfoo eval -c {file} -o results.json",
    "deepeval": "DEEPEVAL_RESULTS_FOLDER=results deepeval test run {file}",
}


class ForeignFiles(Struct, frozen=True):
    """The files of a translation. ``paths`` are the pipelines, ``runnable`` those with the dataset that they can judge."""

    tool: str
    source: Path
    files: dict[Path, str]
    paths: list[Path]
    runnable: list[tuple[Path, str]]
    translation: Translation

    def report(self) -> None:
        """Print what was not translated, and what is missing for a run."""
        for place in self.translation.changed:
            print_message(f"translated with a difference: {place}")
        for place in self.translation.left_out:
            print_error(f"warning: not translated: {place}")
        if len(self.runnable) < len(self.paths):
            command = _RESULTS[self.tool].format(file=self.source)
            print_message(
                f"\nThe outputs to judge are not in {self.source}. Next:\n  {command}\n"
                f"  verdict init --from {self.tool} {self.source} --outputs results.json --force"
            )


def foreign_judges(
    tool: str, data: str | None, outputs: Path | None, out: Path | None, model: Callable[[], tuple[str, str | None]]
) -> ForeignFiles:
    """Translate another tool's file. UsageError where it is not given, or has no judge that can be translated."""
    if data is None:
        raise UsageError(f"--from {tool} needs its file", hint=f"verdict init --from {tool} {_FILES[tool]}")
    source = Path(data)
    for file in (source, outputs):
        if file is not None and not file.is_file():
            raise UsageError(f"no such file: {file}", hint=f"give the path, such as {_FILES[tool]}")

    def default() -> dict[str, str]:
        name, server = model()
        return {"name": name, **({"api_base": server} if server else {})}

    module = import_module(f"verdict_cli.features.imports.{tool}")
    translation: Translation = getattr(module, f"{tool}_judges")(source, outputs, default)
    if not translation.pipelines:
        listed = "".join(f"\n    {place}" for place in translation.left_out)
        raise UsageError(
            f"{source} has no judge that can be translated{listed}", hint=f"see docs/recipes.md, --from {tool}"
        )
    files: dict[Path, str] = {}
    runnable = []
    first = out or Path("judge.yaml")
    for index, pipeline in enumerate(translation.pipelines):
        config = first if index == 0 else first.with_name(f"{first.stem}_{pipeline.name}.yaml")
        files[config] = pipeline.text
        if pipeline.rows:
            rows = config.with_suffix(".jsonl")
            files[rows] = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in pipeline.rows)
            if pipeline.complete:
                runnable.append((config, str(rows)))
    paths = [path for path in files if path.suffix == ".yaml"]
    return ForeignFiles(tool, source, files, paths, runnable, translation)
