"""A file of gates alone, for `verdict gate --gates FILE`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from verdict_cli.config_model import ConfigModel, Seq
from verdict_cli.errors import Problem, SpecError
from verdict_cli.language import gate_rules
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.error_messages import explain_error
from verdict_cli.language.document.source_positions import format_path
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.gate_rules import Gate


class GatesFile(ConfigModel):
    """The limits that a run must keep."""

    gates: Seq[Gate]
    """The gates, in place of the run's own."""


def read_gates(path: Path, evaluations: Mapping[str, Evaluation]) -> tuple[Gate, ...]:
    """The gates of a file that has only `gates:`, or of a pipeline file. SpecError with every problem."""
    document = read_document(path)
    data = document.data
    if isinstance(data, dict) and "pipeline" in data:
        data = {"gates": data.get("gates", [])}
    try:
        gates = GatesFile.model_validate(data).gates
    except ValidationError as error:
        raise SpecError(explain_error(error, GatesFile, document)) from None
    found = []
    for place, one in enumerate(gates):
        for where, message, hint in gate_rules.gate_problems(place, one, evaluations):
            key = where.removeprefix(f"[{place}]").lstrip(".")
            at: tuple[str | int, ...] = ("gates", place, key) if key else ("gates", place)
            mark = document.value_at(at)
            found.append(Problem("bad-gate", message, hint, document.file, mark.line, mark.column, format_path(at)))
    if found:
        raise SpecError(found)
    return gates
