"""A file of gates alone, for `verdict gate --gates FILE`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from verdict_cli.errors import Problem, SpecError
from verdict_cli.keys import Keys, Seq
from verdict_cli.spec import gate
from verdict_cli.spec.document import read_document, spell
from verdict_cli.spec.evaluate import Evaluation
from verdict_cli.spec.gate import Gate
from verdict_cli.spec.problems import explain


class GatesFile(Keys):
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
        raise SpecError(explain(error, GatesFile, document)) from None
    found = []
    for place, one in enumerate(gates):
        for where, message, hint in gate.problems(place, one, evaluations):
            key = where.removeprefix(f"[{place}]").lstrip(".")
            at: tuple[str | int, ...] = ("gates", place, key) if key else ("gates", place)
            mark = document.value_at(at)
            found.append(Problem("bad-gate", message, hint, document.file, mark.line, mark.column, spell(at)))
    if found:
        raise SpecError(found)
    return gates
