"""`verdict init --from NAME`: a copy of a judge that comes with verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from verdict_cli.errors import UsageError
from verdict_cli.features.wizard.pipeline_text import yaml_value
from verdict_cli.language.document.document import read_document
from verdict_cli.language.package_files import folder, named_config
from verdict_cli.regex import regex

EMBEDDED = "baseline/lexical"
_SAMPLE = regex(r"datasets/(\w+_sample\.jsonl)")
_SCHEMA_LINE = regex(r"\A# yaml-language-server: \$schema=\S+\n")
"""What leads editors to the schema next to a shipped judge: a copy has none there."""


def shipped_judge(
    template: str, data: str | None, out: Path | None, pairs: Sequence[str]
) -> tuple[Path, dict[Path, str], str | None]:
    """The path of the copy, the files to write, and the dataset: the user's, or the sample that the judge names.

    ``pairs`` are `ROLE=COLUMN`: what the user's data call a column of the judge.
    """
    source = named_config(template)
    target = out or Path(f"{source.stem}.yaml")
    text = source.read_text(encoding="utf-8")
    files = {target: _with_columns(_SCHEMA_LINE.sub("", text), pairs)}
    evaluations = read_document(source).data.get("evaluate") or {}
    for evaluation in evaluations.values():
        if "published" in evaluation:
            table = source.parent / evaluation["published"]
            files[target.parent / evaluation["published"]] = table.read_text(encoding="utf-8")
    sample = _SAMPLE.search(text)
    if data is not None or sample is None:
        return target, files, data
    copy = target.parent / sample[1]
    files[copy] = (folder("datasets") / sample[1]).read_text(encoding="utf-8")
    return target, files, str(copy)


def _with_columns(text: str, pairs: Sequence[str]) -> str:
    """The text with these columns under `dataset`, which every shipped judge has."""
    columns = {}
    for pair in pairs:
        role, _, column = pair.partition("=")
        if not role or not column:
            hint = "such as --column prompt=request"
            raise UsageError(f"--column {pair}: expected ROLE=COLUMN", hint=hint)
        columns[role] = column
    if not columns:
        return text
    section = f"dataset:\n  columns: {yaml_value(columns)}\n"
    return re.sub(r"^dataset:\n", lambda _: section, text, count=1, flags=re.MULTILINE)
