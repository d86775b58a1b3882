"""`verdict init --from NAME`: a copy of a judge that comes with verdict, with the columns of the user's data in the roles of its own."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from verdict_cli.cli import console
from verdict_cli.cli.model_options import PipelineOptions
from verdict_cli.errors import UsageError
from verdict_cli.features.wizard import questions
from verdict_cli.features.wizard.columns import DatasetColumns, read_columns
from verdict_cli.features.wizard.pipeline_text import flow, without_schema_line
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.language.package_files import folder, named_config

EMBEDDED = "baseline/lexical"
_SAMPLE = re.compile(r"datasets/(\w+_sample\.jsonl)")
_NONE = "none"
_SYNONYMS = (
    "question prompt query input request task instruction",
    "answer response reply output completion summary",
    "document context source text passage",
    "contexts documents passages",
    "label gold target correct rating supported verdict winner",
    "messages conversation turns",
    "response_A answer_a response_1 output_a chosen",
    "response_B answer_b response_2 output_b rejected",
)
"""Names that datasets give to the same thing."""


def shipped_judge(
    template: str, data: str | None, out: Path | None, given: Sequence[str]
) -> tuple[Path, dict[Path, str], str | None]:
    """The path of the copy, the files to write, and the dataset: the given one, or the sample that the judge names.

    ``given`` are pairs `ROLE=COLUMN`. UsageError where a column of the judge is neither in the data nor given, and there is
    no terminal.
    """
    source = named_config(template)
    target = out or Path(f"{source.stem}.yaml")
    text = source.read_text(encoding="utf-8")
    document = read_document(source).data
    sample = _SAMPLE.search(text)
    dataset = data
    if data is not None:
        text = _for_data(template, source, text, document, read_columns(data), given)
    elif given:
        raise UsageError(
            "--column maps the columns of DATA, which is missing",
            hint=f"verdict init --from {template} DATA",
        )
    files = {target: without_schema_line(text)}
    for evaluation in (document.get("evaluate") or {}).values():
        if "published" in evaluation:
            table = source.parent / evaluation["published"]
            files[target.parent / evaluation["published"]] = table.read_text(encoding="utf-8")
    if data is None and sample is not None:
        copy = target.parent / sample[1]
        files[copy] = (folder("datasets") / sample[1]).read_text(encoding="utf-8")
        dataset = str(copy)
    return target, files, dataset


def _for_data(
    template: str,
    source: Path,
    text: str,
    document: Any,
    samples: DatasetColumns,
    given: Sequence[str],
) -> str:
    """The judge's text, with `dataset.columns` for the columns that the data calls otherwise."""
    plan = PipelineOptions(model=EMBEDDED).plan(source, warn=False)
    roles: dict[str, bool] = {}
    for used in plan.columns:
        roles[used.column] = roles.get(used.column, False) or used.asked
    mapped = _given(given, roles, samples)
    missing = {
        role: needed
        for role, needed in roles.items()
        if role not in samples.names and role not in mapped
    }
    free = [name for name in samples.names if name not in roles and name not in mapped.values()]
    guesses = _guesses(missing, free)
    if missing and not console.is_interactive():
        raise _unmapped(template, samples, missing, guesses)
    for role, needed in missing.items():
        default = guesses.get(role) or (None if needed else _NONE)
        mapped[role] = questions.ask_role(
            role, dict.fromkeys(samples.names), default, optional=not needed
        )
    keys = dict(document.get("dataset") or {})
    identity = keys.pop("id", None)
    if identity is not None and (
        own := identity if identity in samples.names else samples.identifier()
    ):
        keys = {"id": own, **keys}
    renamed = {
        role: column for role, column in mapped.items() if column is not None and column != role
    }
    # A column in the role of another one is no longer there under its own name.
    if keys.get("id") in renamed.values():
        keys["id"] = next(role for role, column in renamed.items() if column == keys["id"])
    if renamed:
        keys["columns"] = {**keys.get("columns", {}), **renamed}
    dropped = {role for role, column in mapped.items() if column is None}
    types = {name: kind for name, kind in keys.pop("schema", {}).items() if name not in dropped}
    if types:
        keys["schema"] = types
    return _without(_with_dataset(text, keys), document, dropped)


def _given(
    given: Sequence[str], roles: Mapping[str, bool], samples: DatasetColumns
) -> dict[str, str | None]:
    """The column of each role in `ROLE=COLUMN`; None for `none`."""
    mapped: dict[str, str | None] = {}
    for pair in given:
        role, is_pair, column = pair.partition("=")
        if not is_pair or role not in roles:
            hint = (
                nearest_spelling(role, roles)
                or f"the judge's columns are {', '.join(roles)}: --column {next(iter(roles))}=COLUMN"
            )
            raise UsageError(f"--column {pair}: the judge has no column {role!r}", hint=hint)
        if column == _NONE and not roles[role]:
            mapped[role] = None
        else:
            (mapped[role],) = (
                samples.check([column], "--column") if column in samples.names else (None,)
            )
            if mapped[role] is None:
                hint = (
                    nearest_spelling(column, samples.names)
                    or f"the columns are: {', '.join(samples.names)}"
                )
                raise UsageError(
                    f"--column {pair}: {samples.data} has no column {column!r}", hint=hint
                )
    return mapped


def _guesses(missing: Collection[str], free: Sequence[str]) -> dict[str, str]:
    """For each missing column the one of the data that probably has its role."""
    guesses: dict[str, str] = {}
    names = {re.split(r"[\W_]", name.lower())[-1]: name for name in free}  # `Gold Label` is a label
    names |= {name.lower(): name for name in free}
    for role in missing:
        alike = " ".join(group for group in _SYNONYMS if role in group.split()).lower().split()
        close = difflib.get_close_matches(role.lower(), names, n=1, cutoff=0.7)
        name = next((word for word in (*alike, *close) if word in names), None)
        if name is not None:
            guesses[role] = names[name]
            names = {word: column for word, column in names.items() if column != names[name]}
    return guesses


def _unmapped(
    template: str, samples: DatasetColumns, missing: Mapping[str, bool], guesses: Mapping[str, str]
) -> UsageError:
    pairs = [
        f"{role}={guesses.get(role, 'COLUMN' if needed else _NONE)}"
        for role, needed in missing.items()
    ]
    words = [f"--column {shlex.quote(pair)}" for pair in pairs]
    optional = [role for role, needed in missing.items() if not needed]
    leave = f"; only metrics use {', '.join(optional)}: `none` leaves them out" if optional else ""
    return UsageError(
        f"{samples.data} has no column {', '.join(map(repr, missing))}, which {template} uses",
        hint=f"say which of its columns that is: {' '.join(words)}\n"
        f"    the columns are: {', '.join(samples.names)}{leave}",
    )


def _with_dataset(text: str, keys: Mapping[str, Any]) -> str:
    """The text with this section `dataset`."""
    lines = [f"  {key}: {flow(value)}\n" for key, value in keys.items()]
    section = "".join(["dataset:\n", *lines]) if lines else ""
    pattern = re.compile(r"^dataset:.*\n(?:[ \t]+.*\n)*", re.MULTILINE)
    if pattern.search(text):
        return pattern.sub(lambda _: section, text, count=1)
    return re.sub(
        r"^(?=pipeline:)",
        lambda _: f"{section}\n" if section else "",
        text,
        count=1,
        flags=re.MULTILINE,
    )


def _without(text: str, document: Any, dropped: Collection[str]) -> str:
    """The text without the evaluations that use one of these columns, and without their gates."""
    evaluations = document.get("evaluate") or {}
    uses = re.compile(
        "|".join(
            rf"source(?:\.{re.escape(column)}\b|\[\W+{re.escape(column)}\W)" for column in dropped
        )
        or "(?!)"
    )
    named = set()
    for name, keys in evaluations.items():
        if uses.search(
            json.dumps({key: value for key, value in keys.items() if key != "by"}, default=str)
        ):
            named.add(name)
            entry = rf"^  {re.escape(name)}:.*\n(?:    .*\n|\n(?=    ))*"
            text = re.sub(entry, "", text, count=1, flags=re.MULTILINE)
            text = re.sub(rf"^  - .*\b{re.escape(name)}\..*\n", "", text, flags=re.MULTILINE)
    text = re.sub(
        r"^    by: \[.*\]\n",
        lambda line: "" if uses.search(line[0]) else line[0],
        text,
        flags=re.MULTILINE,
    )
    if named and named == set(evaluations):
        text = re.sub(r"^(?:evaluate|gates):[ \t]*\n", "", text, flags=re.MULTILINE)
    return text
