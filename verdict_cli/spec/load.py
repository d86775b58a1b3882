"""From a file on disk to a validated pipeline: the structure is checked here, the meaning by the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from verdict_cli.errors import Problem, SpecError
from verdict_cli.fence import ANYWHERE, Fence
from verdict_cli.spec.code import Codes
from verdict_cli.spec.document import Document, read_document, spell
from verdict_cli.spec.override import overridden
from verdict_cli.spec.pipeline import PipelineFile
from verdict_cli.spec.problems import explain


@dataclass(frozen=True)
class Spec:
    """A pipeline file that has the language's structure, and where it stands. ``code`` holds the Python functions
    of a pipeline that was made in Python, ``fence`` tells which files may be named."""

    file: PipelineFile
    document: Document
    folder: Path
    code: Codes = field(default_factory=dict)
    fence: Fence = ANYWHERE

    def problem(
        self, code: str, message: str, hint: str, path: tuple[str | int, ...], *, key: bool = False
    ) -> Problem:
        """A problem at a path of this file."""
        at = self.document.key_at(path) if key else self.document.value_at(path)
        return Problem(code, message, hint, self.document.file, at.line, at.column, spell(path))


def load(path: Path, settings: Sequence[str] = (), fence: Fence | None = None) -> Spec:
    """The pipeline in the file, with `--set` settings applied. SpecError with every problem at once.

    It may name files of its own folder, or those that ``fence`` allows.
    """
    fence = Fence(path.parent) if fence is None else fence
    return validated(overridden(read_document(path), settings), path.parent, fence=fence)


def validated(
    document: Document, folder: Path, code: Codes | None = None, fence: Fence | None = None
) -> Spec:
    """The pipeline in a document, by the models and by the JSON Schema. SpecError with every problem.

    It may name files of ``folder``, or those that ``fence`` allows.
    """
    try:
        file = PipelineFile.model_validate(document.data)
    except ValidationError as error:
        raise SpecError(in_order(explain(error, PipelineFile, document))) from None
    spec = Spec(file, document, folder, code or {}, Fence(folder) if fence is None else fence)
    from verdict_cli.spec.json_schema import violations

    found = [spec.problem("schema", message, "", path) for path, message in violations(document.data)]
    if found:
        raise SpecError(in_order(found))
    return spec


def in_order(problems: list[Problem]) -> list[Problem]:
    """The problems in the order of their places in the file."""
    return sorted(problems, key=lambda problem: (problem.file, problem.line, problem.column))
