"""Pipelines validated against the shipped JSON Schema.

The classes, and the plan made of them, decide and have the words. What they accept the schema accepts too, and the other way
round: a difference is a defect of verdict, and is reported as one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from verdict_cli.config_model import displayed
from verdict_cli.errors import Problem
from verdict_cli.language.document.error_messages import nearest_spelling
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

_DEFECT = "a defect of verdict: please report it with this file (in a checkout, `make schema` writes it)"

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
    problems = [problem for error in errors for problem in _in_words(error, document)]
    return [
        replace(problem, hint=f"the program accepts `{problem.path}`, its JSON Schema does not: {_DEFECT}")
        for problem in dict.fromkeys(problems)
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
    units: tuple[str, ...], scales: tuple[str, ...], extractors: tuple[str, ...], metrics: tuple[str, ...]
) -> Draft202012Validator:
    """The validator of the shipped schema, with the parts of installed packages put in."""
    from jsonschema import Draft202012Validator

    schema = _shipped_schema()
    definitions = schema["$defs"]
    scales = tuple(name for name in scales if name not in definitions["ScaleType"]["enum"])
    extractors = tuple(name for name in extractors if name not in definitions["ExtractorName"]["enum"])
    definitions["UnitName"]["enum"] += units
    definitions["MetricKey"]["enum"] += (name for name in metrics if name not in definitions["MetricKey"]["enum"])
    definitions["ExtractorName"]["enum"] += extractors
    definitions["ScaleType"]["enum"] += scales
    definitions["ScaleName"]["anyOf"][0]["enum"] += scales
    for kind in (Model, Evaluation):
        known = definitions[kind.__name__]["properties"]
        if kind.model_fields.keys() - known.keys():  # an installed package has added keys
            part = _part_schema(kind)
            definitions |= {key: value for key, value in part.pop("$defs", {}).items() if key not in definitions}
            definitions[kind.__name__] = part
    for registry, names, forms in ((SCALES, scales, "ScaleKeys"), (EXTRACTORS, extractors, "ExtractorKeys")):
        for name in names:
            part = _part_schema(registry[name])
            definitions |= {key: value for key, value in part.pop("$defs", {}).items() if key not in definitions}
            definitions[forms]["oneOf"].append(part)
    return Draft202012Validator(schema)


def _shipped_schema() -> dict[str, Any]:
    schema: dict[str, Any] = orjson.loads((folder("schemas") / "pipeline.schema.json").read_bytes())
    return schema


def _part_schema(kind: Any) -> dict[str, Any]:
    from verdict_cli.language.json_schema import schema_of  # only for a part of an installed package

    return schema_of(kind)


_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def _in_words(error: ValidationError, document: Document) -> Iterator[Problem]:
    """The problems that an error of the validator means: of a union, those of the form that comes nearest."""
    if error.validator in ("anyOf", "oneOf") and error.context:
        nearest = _nearest_form(error)
        if nearest:
            for inner in nearest:
                yield from _in_words(inner, document)
            return
    given: Any = error.instance
    limit: Any = error.validator_value
    known: Any = error.schema
    path = tuple(error.absolute_path)
    keys: list[Any] = []
    message = f"{displayed(given)} is not possible here"
    validator = str(error.validator)
    match validator:
        case "additionalProperties":
            keys = [key for key in given if key not in known.get("properties", {})]
            message = "unknown key {!r}"
        case "required":
            keys = [key for key in limit if key not in given]
            message = "the key {!r} is missing"
        case "type":
            kinds = [limit] if isinstance(limit, str) else limit
            message = f"expected {' or '.join(_TYPES[kind] for kind in kinds)}, found {displayed(given)}"
        case "enum" | "const":
            allowed = [str(value) for value in (limit if isinstance(limit, list) else [limit])]
            near = nearest_spelling(str(given), allowed, most=0)
            message = f"{displayed(given)} is not one of {', '.join(allowed)}" if not near else f"{given!r:.80}: {near}"
        case "minItems" | "minProperties" | "maxItems" | "maxProperties":
            bound = "least" if validator.startswith("min") else "most"
            message = f"{displayed(given)}: at {bound} {limit} expected, found {len(given)}"
        case "minLength":
            message = f"{displayed(given)}: must not be empty"
        case "pattern":
            message = f"{displayed(given)}: must match {limit}"
        case _ if validator in _LIMITS:
            message = f"{displayed(given)}: must be {_LIMITS[validator]} {limit:g}"
    for key in keys or [None]:
        whole = path if key is None else (*path, key)
        at = document.key_at(whole) if validator == "additionalProperties" else document.value_at(whole)
        text = message if key is None else message.format(key)
        yield Problem("schema", text, "", document.file, at.line, at.column, format_path(whole))


def _nearest_form(error: ValidationError) -> list[ValidationError]:
    """The errors of the form of a union in which the value's own type is right and the error is deepest; none where no form
    has its type."""
    forms: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        forms.setdefault(inner.schema_path[0], []).append(inner)
    fitting = [
        errors
        for errors in forms.values()
        if not any(inner.validator in ("type", "const", "enum") and not inner.path for inner in errors)
    ]
    return max(fitting, key=lambda errors: max(len(inner.absolute_path) for inner in errors), default=[])
