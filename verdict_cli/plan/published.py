"""The published tables that evaluations are shown beside."""

from __future__ import annotations

from pydantic import ValidationError

from verdict_cli.errors import SpecError
from verdict_cli.spec import Namespace
from verdict_cli.spec.document import read_document
from verdict_cli.spec.evaluate import Published
from verdict_cli.spec.problems import explain


def published(names: Namespace) -> dict[str, Published]:
    """The table of each evaluation that names one; tells of every file that is none."""
    tables = {}
    for name, evaluation in names.spec.file.evaluate.items():
        if evaluation.published is None:
            continue
        path = names.inside(evaluation.published, ("evaluate", name, "published"))
        if path is None:
            continue
        try:
            document = read_document(path)
        except SpecError as error:
            names.bad_file(evaluation.published, error, ("evaluate", name, "published"))
            continue
        try:
            tables[name] = Published.model_validate(document.data)
        except ValidationError as error:
            for problem in explain(error, Published, document):
                names.tell(problem)
    return tables
