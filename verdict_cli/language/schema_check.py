"""Pipelines validated against the shipped JSON Schema.

The classes, and the plan made of them, decide and have the words. What they accept the schema accepts too, and the other way
round: a difference is a defect of verdict, and is reported as one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson
from msgspec.structs import replace

from verdict_cli.errors import Problem
from verdict_cli.language.document.source_positions import Document, format_path
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.extractors import EXTRACTORS
from verdict_cli.language.metric_registry import METRICS
from verdict_cli.language.package_files import folder
from verdict_cli.language.scales import SCALES
from verdict_cli.model import Model

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

_DEFECT = (
    "a defect of verdict: please report it with this file (in a checkout, `make schema` writes it)"
)

_accepted: set[bytes] = set()
"""Digests of documents that the schema accepted: a server and a sweep build plans of the same ones again and again."""
_MOST_REMEMBERED = 1000


def schema_problems(document: Document, unit_names: Iterable[str] = ()) -> list[Problem]:
    """What the schema refuses in a document that the program accepts. ``unit_names`` are unit types written in Python."""
    units = tuple(sorted(unit_names))
    key = _digest(document.data, units)
    if key in _accepted:
        return []
    errors = list(_validator(units, *_parts()).iter_errors(document.data))
    if not errors:
        if len(_accepted) >= _MOST_REMEMBERED:
            _accepted.clear()
        _accepted.add(key)
    return [
        replace(
            problem,
            hint=f"the program accepts `{problem.path}`, its JSON Schema does not: {_DEFECT}",
        )
        for problem in dict.fromkeys(_problem(error, document) for error in errors)
    ]


def schema_refuses(document: Document) -> bool:
    """Whether the schema refuses a document, as it should where the classes do."""
    return not _validator((), *_parts()).is_valid(document.data)


def lax_schema(problem: Problem) -> Problem:
    """A problem that the classes report in a document that the schema accepts."""
    return replace(
        problem,
        hint=f"{problem.hint + '; ' if problem.hint else ''}the JSON Schema accepts `{problem.path}`: {_DEFECT}",
    )


def feature_of(owner: str, key: str) -> str:
    """The feature that brings a key of a class, as the shipped schema names it; "" where none does."""
    properties = _shipped_schema()["$defs"].get(owner, {}).get("properties", {})
    known = properties.get(key)
    return str(known.get("x-feature", "")) if isinstance(known, dict) else ""


def _digest(data: Any, units: tuple[str, ...]) -> bytes:
    try:
        text = orjson.dumps([data, units, *_parts()], option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # an integer of more than 64 bits
        text = repr((data, units, *_parts())).encode(errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()


def _parts() -> tuple[tuple[str, ...], ...]:
    """The parts of installed packages that the files so far have named."""
    return tuple(tuple(registry.plugins) for registry in (SCALES, EXTRACTORS, METRICS))


@lru_cache(maxsize=32)
def _validator(
    units: tuple[str, ...],
    scales: tuple[str, ...],
    extractors: tuple[str, ...],
    metrics: tuple[str, ...],
) -> Draft202012Validator:
    """The validator of the shipped schema, with the parts of installed packages put in."""
    from jsonschema import Draft202012Validator

    schema = _shipped_schema()
    definitions = schema["$defs"]
    scales = tuple(name for name in scales if name not in definitions["ScaleType"]["enum"])
    extractors = tuple(
        name for name in extractors if name not in definitions["ExtractorName"]["enum"]
    )
    definitions["UnitName"]["enum"] += units
    definitions["MetricKey"]["enum"] += (
        name for name in metrics if name not in definitions["MetricKey"]["enum"]
    )
    definitions["ExtractorName"]["enum"] += extractors
    definitions["ScaleType"]["enum"] += scales
    definitions["ScaleName"]["anyOf"][0]["enum"] += scales
    for kind in (Model, Evaluation):
        known = definitions[kind.__name__]["properties"]
        if kind.model_fields.keys() - known.keys():  # an installed package has added keys
            part = _part_schema(kind)
            definitions |= {
                key: value for key, value in part.pop("$defs", {}).items() if key not in definitions
            }
            definitions[kind.__name__] = part
    for registry, names, forms in (
        (SCALES, scales, "ScaleKeys"),
        (EXTRACTORS, extractors, "ExtractorKeys"),
    ):
        for name in names:
            part = _part_schema(registry[name])
            definitions |= {
                key: value for key, value in part.pop("$defs", {}).items() if key not in definitions
            }
            definitions[forms]["oneOf"].append(part)
    return Draft202012Validator(schema)


def _shipped_schema() -> dict[str, Any]:
    schema: dict[str, Any] = orjson.loads((folder("schemas") / "pipeline.schema.json").read_bytes())
    return schema


def _part_schema(kind: Any) -> dict[str, Any]:
    from verdict_cli.language.json_schema import (
        schema_of,  # only for a part of an installed package
    )

    return schema_of(kind)


def _problem(error: ValidationError, document: Document) -> Problem:
    """An error of the validator at its position, in the validator's words: only a defect of verdict is told so. Of a union,
    the error of the form that comes nearest."""
    from jsonschema.exceptions import best_match

    nearest = best_match([error])
    path = tuple(nearest.absolute_path)
    at = document.value_at(path)
    return Problem(
        "schema",
        f"{nearest.message:.200}",
        "",
        document.file,
        at.line,
        at.column,
        format_path(path),
    )
