"""Explain validation errors: what is in the file, what was expected, and the nearest valid name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, NamedTuple, TypeGuard, Union, get_args, get_origin

from msgspec import Struct
from pydantic import BaseModel, Tag, ValidationError
from typing_extensions import TypeAliasType, evaluate_forward_ref

from verdict_cli.config_model import (
    NOT_BLANK,
    ConfigModel,
    Expected,
    LazyUnion,
    display_value,
    key_descriptions,
    known_keys,
)
from verdict_cli.errors import Problem
from verdict_cli.language.document.source_positions import Document, KeyPath
from verdict_cli.messages import NamedValues
from verdict_cli.removed import KEYS

_MEANT = (
    (("a", "b", "candidates", "responses"), "options", "write `options: [source.a, source.b]`"),
    (("both_orders", "swap", "swap_positions"), "positions", "write `positions: both`"),
    (
        ("temperature", "top_p", "max_tokens", "stop"),
        "model",
        "write `model: {name: …, temperature: …}`",
    ),
    (
        ("system", "system_prompt"),
        "prompt",
        "write a line `@system` in the prompt, and `@user` before the rest",
    ),
    (("choices", "classes", "labels"), "categories", "write `categories: [a, b]`"),
    (
        ("categories", "choices", "labels", "values", "range"),
        "scale",
        "write `scale: {values: [bad, good]}` or `scale: {range: [1, 5]}`",
    ),
    (
        ("threshold", "min", "min_score", "fail_under"),
        "metrics",
        "a limit is a gate, at the top of the file: `gates: [NAME.METRIC >= 0.8]`",
    ),
    (
        ("prompt", "model", "scale", "extract", "explanation"),
        "quorum",
        "a pool asks no model: give it to the units that are pooled",
    ),
    (
        ("unit", "layer", "block", "use"),
        "when",
        "a step has exactly one of `unit`, `layer`, `block`, `use`: write two steps",
    ),
    (
        ("n", "votes", "repeat", "times"),
        "unit",
        "write `layer: [{unit: …}]` with `repeat: 3` beside it",
    ),
)
"""Keys that newcomers write, the key that is meant, and how that is written."""


ALIASES = {
    "acc": "accuracy",
    "assertions": "evaluate",
    "asserts": "evaluate",
    "average": "mean",
    "averagepoolunit": "MeanPoolUnit",
    "avgpoolunit": "MeanPoolUnit",
    "base_url": "api_base",
    "binaryjudgeunit": "JudgeUnit",
    "bool": "boolean",
    "boolunit": "JudgeUnit",
    "cast": "input",
    "criteria": "prompt",
    "criterion": "prompt",
    "endpoint": "api_base",
    "ensembleunit": "MeanPoolUnit",
    "eval": "evaluate",
    "evals": "evaluate",
    "evaluation": "evaluate",
    "evaluations": "evaluate",
    "evaluator": "unit",
    "expected": "target",
    "float": "continuous",
    "freetextunit": "Unit",
    "gold": "target",
    "ground_truth": "target",
    "id": "name",
    "in": "input",
    "inputs": "input",
    "instruction": "prompt",
    "instructions": "prompt",
    "int": "discrete",
    "integer": "int",
    "json": "structured",
    "judges": "pipeline",
    "kappa": "cohen_kappa",
    "label": "target",
    "labels": "target",
    "likertunit": "JudgeUnit",
    "llm": "model",
    "llmunit": "Unit",
    "macro_f1": "f1",
    "majoritypoolunit": "ModePoolUnit",
    "majorityvotepoolunit": "ModePoolUnit",
    "metric": "metrics",
    "nodes": "pipeline",
    "number": "float",
    "parallel": "layer",
    "pass/fail": "boolean",
    "predicted": "prediction",
    "reasoningunit": "CoTUnit",
    "reasonunit": "CoTUnit",
    "reference": "target",
    "rpm": "rate_limit",
    "scoreunit": "JudgeUnit",
    "stages": "pipeline",
    "steps": "pipeline",
    "string": "str",
    "template": "prompt",
    "test": "evaluate",
    "tests": "evaluate",
    "text": "str",
    "thinkunit": "CoTUnit",
    "threshold": "gates",
    "thresholds": "gates",
    "type": "unit",
    "units": "pipeline",
    "true/false": "boolean",
    "url": "api_base",
    "verifyunit": "JudgeUnit",
    "version": "verdict",
    "votepoolunit": "ModePoolUnit",
    "yes/no": "boolean",
    "yesno": "boolean",
}
"""Words of other tools, in small letters, and the word that is meant here."""


_TYPES = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


_LISTS = {"tuple_type", "list_type"}
_OF_ANOTHER_FORM = {"too_short", *_TYPES}
"""What is found of a value in whose parts there are mistakes, too: it is of a form that is not meant."""

_NO_FORM = ("union_tag_not_found", "union_tag_invalid")

CLOSE = 0.65
"""How alike a word and its correction are at least: `judge` and `JudgeUnit` are, `label` and `panel` are not."""

MOST_LISTED = 12
"""The most names that a message lists. With more, it names the command that lists them."""


def nearest_spelling(word: str, names: Iterable[str], most: int | None = None) -> str:
    """`did you mean 'x'?` for the nearest known word, else the list of known words; empty where none is known, and where
    there are more than ``most``."""
    words = sorted(names)
    alias = ALIASES.get(word.lower())
    if alias in words:
        return f"did you mean '{alias}'?"
    by_spelling = {
        **{name.lower(): name for name in reversed(words)},
        **{name: name for name in words},
    }
    close = get_close_matches(word, words, n=1, cutoff=CLOSE)
    close = close or get_close_matches(word.lower(), [*map(str.lower, words)], n=1, cutoff=CLOSE)
    if close:
        return f"did you mean '{by_spelling[close[0]]}'?"
    return f"known: {', '.join(words)}" if words and (most is None or len(words) <= most) else ""


def explain_error(
    error: ValidationError,
    root: type[BaseModel],
    document: Document,
    to_document: Callable[[KeyPath], KeyPath] = lambda path: path,
    feature_of: Callable[[str, str], str] = lambda owner, key: "",
) -> dict[KeyPath, Problem]:
    """Every problem of a validation error by the path of what is wrong, with its position. `to_document` maps a path in `root` to one in the document, and
    `feature_of` gives the feature that brings a key of a class, "" for no feature."""
    findings: dict[KeyPath, _Finding] = {}
    for detail in error.errors(include_url=False):
        path, owner, annotation = locate_error(root, detail["loc"])
        if _is_of_key(detail):
            path = (*path[:-2], detail["input"])
        elif detail["type"] == "invalid_key":
            path = (*path[:-1], detail["input"])
        where = to_document(path)
        finding = findings.setdefault(path, _Finding(detail, set(), owner, annotation, where))
        finding.kinds.add(detail["type"])
    entered = {path[:depth] for path in findings for depth in range(len(path))}
    problems: dict[KeyPath, Problem] = {}
    for path, finding in findings.items():
        if path in entered and finding.kinds <= _OF_ANOTHER_FORM:
            continue
        words = _words(finding, document)
        if words.code == "unknown-key" and finding.owner is not None:
            feature = feature_of(finding.owner.__name__, finding.key)
            words = _without_feature(finding.key, feature) if feature else words
        problems[path] = document.problem(
            words.code,
            words.message,
            words.hint,
            finding.path,
            key=words.at_key,
            replacement=1 if finding.path == ("verdict",) else words.replacement,
        )
    renamed = {
        (*path[:-1], problem.hint.removeprefix("did you mean '").removesuffix("'?"))
        for path, problem in problems.items()
        if problem.code == "unknown-key"
    }
    # A key that is only misspelled is not missing, too.
    return {
        path: problem
        for path, problem in problems.items()
        if problem.code != "missing-key" or path not in renamed
    }


def _number_of(text: str) -> float | None:
    """The number that a text has: `90%` is 0.9."""
    match = re.fullmatch(r"\s*([+-]?\d+(?:\.\d+)?)\s*(%?)\s*", text)
    if match is None:
        return None
    return float(match[1]) / 100 if match[2] else float(match[1])


class _Finding(Struct):
    """What pydantic found at a path: the first detail, the kinds of all details there, and what was expected."""

    detail: Any
    kinds: set[str]
    owner: type[BaseModel] | None
    annotation: Any
    path: KeyPath

    @property
    def kind(self) -> str:
        return str(self.detail["type"])

    @property
    def value(self) -> Any:
        return self.detail["input"]

    @property
    def context(self) -> NamedValues:
        return self.detail.get("ctx", {})  # type: ignore[no-any-return]

    @property
    def key(self) -> str:
        return str(self.path[-1]) if self.path else ""


class _Words(NamedTuple):
    """What is said of it; ``at_key``: the problem is the key, not its value. ``replacement`` is the value that is surely
    meant, None where there is none."""

    code: str
    message: str
    hint: str
    at_key: bool = False
    replacement: Any = None


def _words(finding: _Finding, document: Document) -> _Words:
    by_kind = _WORDS.get(finding.kind)
    if by_kind is not None:
        return by_kind(finding)
    value, path = finding.value, finding.path
    if path == ("name",) and isinstance(value, str):
        message = f"{value!r}: a name has small letters, digits, - and _"
        name = "-".join(re.findall(r"[a-z0-9_]+", value.lower())) or "judge"
        return _Words("wrong-value", message, f"write `{name}`", replacement=name)
    if path == ("units",) and isinstance(value, list):
        message = "`units` declares types of units; the steps stand under `pipeline`"
        return _Words("unknown-key", message, "did you mean 'pipeline'?", at_key=True)
    if finding.kinds <= _TYPES.keys():
        return _wrong_type(finding)
    if finding.key == "metric" and finding.kind == "string_pattern_mismatch" and "." not in value:
        return _bare_metric(value, document)
    at_key = _is_of_key(finding.detail)
    limit = _LIMITS.get(finding.kind, finding.kind.replace("_", " ")).format(**finding.context)
    if finding.context.get("pattern") == NOT_BLANK:
        limit = "must not be blank"
    purpose = "" if at_key else _purpose(finding.owner, finding.key)
    return _Words("wrong-value", f"{display_value(value)}: {limit}", purpose, at_key)


def _wrong_type(finding: _Finding) -> _Words:
    value, kinds = finding.value, finding.kinds
    expected = dict.fromkeys(_TYPES[kind] for kind in sorted(kinds, key=[*_TYPES].index))
    if "float_type" in kinds:
        expected.pop(_TYPES["int_type"], None)
    message = f"expected {' or '.join(expected)}, found {display_value(value)}"
    hint = _form_hint(finding)
    replacement: Any = None
    if kinds <= _LISTS and value is not None:
        replacement = [value]
    elif kinds <= {"float_type", "int_type"} and isinstance(value, str):
        replacement = _number_of(value)
        hint = hint if replacement is None else f"write `{replacement:g}`"
    return _Words("wrong-type", message, hint, _is_of_key(finding.detail), replacement)


def _bare_metric(value: str, document: Document) -> _Words:
    """A gate that names a metric without its evaluation, or an evaluation without a metric."""
    evaluations = document.data.get("evaluate")
    names = list(evaluations) if isinstance(evaluations, dict) else []
    if value in names:
        message = f"{display_value(value)} is an evaluation, and the gate names none of its metrics"
        return _Words("wrong-value", message, f"write `{value}.METRIC`")
    message = f"{display_value(value)} names no evaluation"
    metric = f"{names[0]}.{value}" if len(names) == 1 else None
    hint = f"write `{metric or f'EVALUATION.{value}'}`"
    return _Words("wrong-value", message, hint, replacement=metric)


def _without_feature(key: str, feature: str) -> _Words:
    message = f"`{key}` needs the feature `{feature}`, which this verdict is without"
    hint = f"remove `{key}`, or install verdict with all of its features"
    return _Words("missing-feature", message, hint, at_key=True)


def _missing(finding: _Finding) -> _Words:
    is_version = finding.path == ("verdict",)
    version = "write `verdict: 1`, the version of the language"
    hint = version if is_version else _purpose(finding.owner, finding.key)
    return _Words("missing-key", f"the key '{finding.key}' is missing", hint)


def _unknown_key(finding: _Finding) -> _Words:
    hint = _unknown(finding.key, finding.owner)
    return _Words("unknown-key", f"unknown key '{finding.key}'", hint, at_key=True)


def _key_is_no_text(finding: _Finding) -> _Words:
    keys = () if finding.owner is None else known_keys(finding.owner)
    hint = f"keys are words, such as `{keys[0]}`" if keys else ""
    return _Words("unknown-key", f"unknown key {display_value(finding.value)}", hint, at_key=True)


def _no_form(finding: _Finding) -> _Words:
    expected = _expected(finding.annotation)
    if expected is None:
        message = f"{display_value(finding.value)} is none of the possible forms"
        return _Words("wrong-type", message, "")
    message, hint = expected.words(finding.value)
    return _Words("wrong-type", message, hint, replacement=expected.replacement(finding.value))


def _not_listed(finding: _Finding) -> _Words:
    value = finding.value
    if finding.path == ("verdict",):
        message = f"{display_value(value)} is not a version of the language"
        return _Words("wrong-value", message, "write `1`")
    listed = str(finding.context["expected"]).replace(" or ", ", ").split(", ")
    allowed = [word.strip().strip("'") for word in listed]
    near = nearest_spelling(str(value), allowed, most=0) if isinstance(value, str) else ""
    if len(allowed) > MOST_LISTED:
        hint = near or "`verdict explain` lists the names"
        return _Words("wrong-value", f"{display_value(value)} is not a known name", hint)
    message = f"{display_value(value)} is not one of {', '.join(allowed)}"
    return _Words("wrong-value", message, near)


def _not_written(finding: _Finding) -> _Words:
    message = f"expected {finding.context['expected']}, found {display_value(finding.value)}"
    return _Words("wrong-value", message, finding.context["hint"])


_WORDS: dict[str, Callable[[_Finding], _Words]] = {
    "missing": _missing,
    "extra_forbidden": _unknown_key,
    "invalid_key": _key_is_no_text,
    **dict.fromkeys(_NO_FORM, _no_form),
    "literal_error": _not_listed,
    "written_form": _not_written,
}


def _is_of_key(detail: Any) -> bool:
    """Whether a mapping's key is wrong, and not its value: pydantic then adds `[key]` to the location."""
    value = detail["input"]
    return bool(detail["loc"][-1:] == ("[key]",) and isinstance(value, str | int | float))


_LIMITS = {
    "too_short": "at least {min_length} expected, found {actual_length}",
    "too_long": "at most {max_length} expected, found {actual_length}",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must match {pattern}",
    "greater_than": "must be > {gt:g}",
    "greater_than_equal": "must be >= {ge:g}",
    "less_than": "must be < {lt:g}",
    "less_than_equal": "must be <= {le:g}",
}


def _unknown(key: str, owner: type[BaseModel] | None) -> str:
    if key == "api_key":
        return "a file never contains an API key: name the environment variable that holds it with `api_key_env`"
    if key == "<<":
        return "merge keys are not part of YAML 1.2"
    if key in KEYS:
        return KEYS[key]
    if owner is None:
        return ""
    keys = known_keys(owner)
    # A unit has some 35 keys: the list would bury the message.
    return (
        next((hint for names, target, hint in _MEANT if key in names and target in keys), "")
        or nearest_spelling(key, keys, most=MOST_LISTED)
        or f"`verdict explain {owner.__name__}` lists its {len(keys)} keys"
    )


def _purpose(owner: type[BaseModel] | None, key: str) -> str:
    return (
        key_descriptions(owner).get(key, "")
        if owner is not None and issubclass(owner, ConfigModel)
        else ""
    )


def _form_hint(finding: _Finding) -> str:
    """How to write a value of another type than expected."""
    value, kinds, key, owner = finding.value, finding.kinds, finding.key, finding.owner
    plural = f"{key}s"
    hint = ""
    if isinstance(value, list) and owner is not None and plural in known_keys(owner):
        hint = f"for several write `{plural}: [{', '.join(map(str, value))}]`"
    elif kinds <= _LISTS and isinstance(value, dict):
        hint = f"begin each entry of `{key}` with `- `"
    elif kinds <= _LISTS and isinstance(value, str | int | float):
        hint = f"write `[{value}]`"
    elif kinds <= {"dict_type"} and isinstance(value, list):
        hint = f"give each entry of `{key}` a name: `NAME: …` in place of `- …`"
    elif key == "dataset" and isinstance(value, str):
        hint = "remove it: the data is an argument of the command, `verdict run CONFIG DATA`"
    elif kinds <= {"model_type", "model_attributes_type"} and (
        mapping := _class_in(finding.annotation)
    ):
        hint = f"write its keys in it: `verdict explain {mapping.__name__}` lists them"
    elif "bool_type" in kinds and str(value).lower() in _TRUTHS:
        truth = _TRUTHS[str(value).lower()]
        hint = f"in YAML 1.2 `{value}` is a string; write `{truth}`"
    elif "string_type" in kinds and isinstance(value, bool | int | float):
        hint = "put it in quotes to make it a text"
    return hint


_TRUTHS = dict.fromkeys(("yes", "on", "y"), "true") | dict.fromkeys(("no", "off", "n"), "false")


def locate_error(
    root: type[BaseModel], loc: KeyPath
) -> tuple[KeyPath, type[BaseModel] | None, Any]:
    """The path in the data of a pydantic location (which also names union members), the class whose key is the last of
    the path, and the annotation at its end."""
    here: Any = root
    path: list[str | int] = []
    owner: type[BaseModel] | None = None
    for part in loc:
        member = _member(here, part)
        if member is not None:
            here = member
        else:
            path.append(part)
            owner = _class_in(here)
            here = _inside(here, part)
    return tuple(path), owner, here


def _class_in(annotation: Any) -> type[BaseModel] | None:
    """The class of a value, also of one that may be null."""
    bare = _unwrapped(annotation)[0]
    kinds = (_unwrapped(member)[0] for member in _members(bare) or (bare,))
    return next((kind for kind in kinds if _is_class(kind)), None)


def _is_class(kind: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _unwrapped(annotation: Any) -> tuple[Any, list[Any]]:
    """The type itself, and its marks."""
    marks: list[Any] = []
    while True:
        if isinstance(annotation, TypeAliasType):
            annotation = annotation.__value__
        elif isinstance(annotation, ForwardRef):
            annotation = evaluate_forward_ref(annotation)
        elif get_origin(annotation) is Annotated:
            marks += annotation.__metadata__
            annotation = annotation.__origin__
        else:
            return annotation, marks


def _members(bare: Any) -> tuple[Any, ...]:
    return get_args(bare) if get_origin(bare) in (Union, UnionType) else ()


def _expected(annotation: Any) -> Expected | None:
    """What a union, an optional one also, says of a value that has none of its forms."""
    bare, marks = _unwrapped(annotation)
    own = (mark for mark in marks if isinstance(mark, Expected))
    return next(own, None) or next(filter(None, map(_expected, _members(bare))), None)


def _member(annotation: Any, tag: str | int) -> Any:
    """The union member that the tag names, or the type in pydantic's words; in an optional union also."""
    bare, marks = _unwrapped(annotation)
    looked_up = (mark.member(tag) for mark in marks if isinstance(mark, LazyUnion))
    type_name = str(tag).partition("[")[0].removeprefix("constrained-")
    tagged = (member for member in _members(bare) if _is_named(member, tag, type_name))
    inner = (_member(member, tag) for member in _members(bare))
    return next((member for member in (*looked_up, *tagged, *inner) if member is not None), None)


def _is_named(member: Any, tag: str | int, type_name: str) -> bool:
    """Whether the member of a union has this tag, or is of the type that is called so where members have no tags."""
    kind, marks = _unwrapped(member)
    tags = [mark.tag for mark in marks if isinstance(mark, Tag)]
    if tags:
        return tag in tags
    if _is_class(kind):
        return str(tag).startswith("function-plain[")  # a `lazy_schema`
    return getattr(get_origin(kind) or kind, "__name__", "") == type_name


def _inside(annotation: Any, part: str | int) -> Any:
    """The annotation of a key or an item."""
    bare = _unwrapped(annotation)[0]
    options = [option for option in _members(bare) if option is not NoneType] or [bare]
    for option in options:
        kind = _unwrapped(option)[0]
        if _is_class(kind):
            kind.model_rebuild()
            for name, field in kind.model_fields.items():
                if part in (field.alias, name):
                    return (
                        Annotated[(field.annotation, *field.metadata)]
                        if field.metadata
                        else field.annotation
                    )
        arguments = get_args(kind)
        if get_origin(kind) is dict:
            return arguments[1]
        if get_origin(kind) in (tuple, list) and isinstance(part, int):
            return arguments[0]
    return None
