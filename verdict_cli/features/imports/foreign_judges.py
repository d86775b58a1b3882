"""`verdict init --from promptfoo` and `--from deepeval`: the files to write, and what is said about the translation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.errors import UsageError
from verdict_cli.features.imports.tool_configs import Translation

_FILES = {"promptfoo": "promptfooconfig.yaml", "deepeval": "test_judges.py"}
_RESULTS = {
    "promptfoo": "promptfoo eval -c {file} -o results.json",
    "deepeval": "DEEPEVAL_RESULTS_FOLDER=results deepeval test run {file}",
}


@dataclass(frozen=True)
class ForeignFiles:
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

    module = import_module(f"verdict_cli.features.imports.tool_configs.{tool}")
    translation: Translation = getattr(module, f"{tool}_judges")(source, outputs, default)
    if not translation.pipelines:
        listed = "".join(f"\n    {place}" for place in translation.left_out)
        raise UsageError(
            f"{source} has no judge that can be translated{listed}", hint=f"see docs/recipes.md, --from {tool}"
        )
    files: dict[Path, str] = {}
    runnable = []
    first = out or Path("judge.yaml")
    for place, pipeline in enumerate(translation.pipelines):
        config = first if place == 0 else first.with_name(f"{first.stem}_{pipeline.name}.yaml")
        files[config] = pipeline.text
        if pipeline.rows:
            rows = config.with_suffix(".jsonl")
            files[rows] = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in pipeline.rows)
            if pipeline.complete:
                runnable.append((config, str(rows)))
    paths = [path for path in files if path.suffix == ".yaml"]
    return ForeignFiles(tool, source, files, paths, runnable, translation)
