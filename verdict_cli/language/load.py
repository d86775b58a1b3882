"""Load and validate a pipeline file: the structure is checked here, the meaning by the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from msgspec import Struct, field
from pydantic import ValidationError

from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.error_messages import explain_error
from verdict_cli.language.document.overrides import apply_override
from verdict_cli.language.document.source_positions import Document, KeyPath
from verdict_cli.language.package_files import folder
from verdict_cli.language.pipeline_file import PipelineFile
from verdict_cli.storage.path_policy import ANYWHERE, PathPolicy

if TYPE_CHECKING:
    from verdict_cli.language.authoring.functions import Function
    from verdict_cli.language.authoring.unit_step import LLMUnitStep

Codes = Mapping[KeyPath, "Function"]
"""The functions of a pipeline by the path at which a file would have expressions."""
UnitTypes = Mapping[str, "type[LLMUnitStep]"]
"""Unit types written in Python, by name."""


class Spec(Struct, frozen=True):
    """A pipeline file that the classes accept, and its folder. ``code`` has the functions of a pipeline from Python,
    ``fence`` says which files it may use."""

    file: PipelineFile
    document: Document
    folder: Path
    code: Codes = field(default_factory=dict)
    fence: PathPolicy = ANYWHERE
    unit_types: UnitTypes = field(default_factory=dict)


class InvalidFile(SpecError):
    """A file that the classes refuse. ``mistakes`` has each problem by the path of what is wrong."""

    def __init__(self, mistakes: Mapping[KeyPath, Problem]) -> None:
        super().__init__(sort_problems(list(mistakes.values())))
        self.mistakes = mistakes


def load(path: Path, settings: Sequence[str] = (), fence: PathPolicy | None = None) -> Spec:
    """The pipeline in the file, with `--set` settings applied. SpecError with every problem at once.

    It may name files of its own folder, or those that ``fence`` allows.
    """
    fence = PathPolicy(path.parent) if fence is None else fence
    return validate_document(
        apply_override(read_document(path), settings), path.parent, fence=fence
    )


def validate_document(
    document: Document,
    folder: Path,
    code: Codes | None = None,
    fence: PathPolicy | None = None,
    unit_types: UnitTypes | None = None,
) -> Spec:
    """The pipeline in a document. SpecError with every problem at once.

    It may name files of ``folder``, or those that ``fence`` allows. ``unit_types`` are those written in Python.
    """
    try:
        file = PipelineFile.model_validate(document.data)
    except ValidationError as error:
        raise InvalidFile(
            explain_error(error, PipelineFile, document, feature_of=_feature_of)
        ) from None
    return Spec(
        file,
        document,
        folder,
        code or {},
        PathPolicy(folder) if fence is None else fence,
        unit_types or {},
    )


def _feature_of(owner: str, key: str) -> str:
    """The feature that brings a key of a class, as the shipped schema names it; "" where none does."""
    schema = orjson.loads((folder("schemas") / "pipeline.schema.json").read_bytes())
    definition = schema["$defs"].get(owner, {}).get("properties", {}).get(key, {})
    return str(definition.get("x-feature", ""))


def sort_problems(problems: list[Problem]) -> list[Problem]:
    """The problems in the order of their positions in the file."""
    return sorted(problems, key=lambda problem: (problem.file, problem.line, problem.column))
