"""From a document to a plan, with the errors of both its structure and its names at once."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.document.error_messages import locate_error
from verdict_cli.language.document.source_positions import Document
from verdict_cli.language.load import UnitTypes, in_order, validated
from verdict_cli.language.pipeline_file import PipelineFile
from verdict_cli.plan.build import Built, build_plan
from verdict_cli.storage.path_policy import PathPolicy

_NAME_PROBLEMS = frozenset(
    (
        "unknown-unit",
        "unknown-scale",
        "unknown-type",
        "unknown-block",
        "name-used-twice",
        "bad-scale",
        "unset-variable",
        "foreign-host",
        "file-not-found",
        "outside",
    )
)
"""Problems that hold whatever else is wrong in the file."""


def load_plan(
    document: Document, folder: Path, fence: PathPolicy | None = None, unit_types: UnitTypes | None = None
) -> Built:
    """The plan of a document. SpecError with every problem of its structure; where there are some, with those of its
    names too, which a file without its wrong keys would have. ``fence`` and ``unit_types`` as in `validated`.
    """
    try:
        spec = validated(document, folder, None, fence, unit_types)
    except SpecError as error:
        raise SpecError(in_order([*error.problems, *_name_problems(document, folder, fence, unit_types)])) from None
    return build_plan(spec)


def _name_problems(
    document: Document, folder: Path, fence: PathPolicy | None, unit_types: UnitTypes | None
) -> list[Problem]:
    """The problems of names in the document without the keys that its structure forbids."""
    data = copy.deepcopy(document.data)
    try:
        PipelineFile.model_validate(data)
    except ValidationError as error:
        for path in sorted(
            {locate_error(PipelineFile, error_detail["loc"])[0] for error_detail in error.errors()},
            key=len,
            reverse=True,
        ):
            _remove(data, path)
    try:
        build_plan(validated(replace(document, data=data), folder, None, fence, unit_types))
    except SpecError as error:
        return [problem for problem in error.problems if problem.code in _NAME_PROBLEMS]
    return []


def _remove(data: Any, path: tuple[str | int, ...]) -> None:
    """Takes the key at the path out; items of a list stay, so that the places of the others do."""
    here = data
    for part in path[:-1]:
        try:
            here = here[part]
        except (LookupError, TypeError):
            return
    if isinstance(here, dict) and path:
        here.pop(path[-1], None)
