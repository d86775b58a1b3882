"""Whether the report in a run's directory is the one that would be written again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import orjson
from msgspec import structs

import verdict_cli
from verdict_cli.errors import DataError
from verdict_cli.messages import JsonObject
from verdict_cli.registry import is_extended
from verdict_cli.report.report import Report, full_json
from verdict_cli.run.digests import changed_files, file_digest, with_table_digests
from verdict_cli.run.load_run import RunResult
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.tables.human_labels import FILE
from verdict_cli.storage.tables.label_queue import QUEUE_FILE


def report_inputs(run: RunResult, made_with: Sequence[Any]) -> str:
    """A digest of everything that the run's report is made from.

    ``made_with`` are the options. It is "" where that cannot be told: a baseline, a feature's evaluation or a part of an installed package may change.
    """
    directory, facts, plan = run
    facts = with_table_digests(directory, facts)
    if plan.studies or any(gate.baseline for gate in plan.gates) or is_extended():
        return ""
    labels = [directory.path / name for name in (FILE, QUEUE_FILE)]
    inputs = (
        directory.display_name,
        facts.as_json(),
        plan.fingerprint,
        plan.resolved,
        plan.evaluations,
        plan.gates,
        plan.published,
        plan.interval_level,
        [file_digest(path) for path in labels if path.exists()],
        program_files(),
        made_with,
    )
    return hashlib.sha256(repr(inputs).encode()).hexdigest()


@cache
def program_files() -> list[tuple[str, int, int]]:
    """The files of this package: in a checkout, another program may have the same version."""
    paths = [
        os.path.join(folder, name)  # noqa: PTH118 -- a third of the time
        for folder, _, names in os.walk(os.path.dirname(verdict_cli.__file__))  # noqa: PTH120
        for name in names
        if not name.endswith(".pyc")
    ]
    found = [(path, os.stat(path)) for path in sorted(paths)]  # noqa: PTH116
    return [(path, status.st_mtime_ns, status.st_size) for path, status in found]


def unchanged_report(run: RunResult, made_with: Sequence[Any]) -> Report | None:
    """The report in the run's directory, if it would be made from the same inputs, and no file has changed since."""
    directory, facts, _ = run
    try:
        content = orjson.loads((directory.path / "report.json").read_bytes())
        if not content["inputs"] or content["inputs"] != report_inputs(run, made_with):
            return None
        return None if changed_files(directory, facts) else _report(content, facts)
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return None


def is_readable(report: Report) -> bool:
    """Whether `report.json` holds all of the report: JSON has no NaN, and other keys than texts become texts."""
    content = orjson.loads(orjson.dumps(full_json(report), option=orjson.OPT_NON_STR_KEYS))
    try:
        return _report(content, report.facts) == report
    except ValueError:
        return False


def _report(content: JsonObject, facts: RunFacts) -> Report:
    """The report in the content of `report.json`. ValueError where it has not the form of one."""
    evaluations = {
        name: {**keys, "values": keys["figures"]} for name, keys in content["evaluations"].items()
    }
    report = msgspec.convert({**content, "evaluations": evaluations}, Report)
    return structs.replace(report, facts=facts)
