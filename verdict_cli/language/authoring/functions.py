"""Python functions in place of a file's expressions, and units subclassed in Python."""

from __future__ import annotations

import inspect
import secrets
import tokenize
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from pydantic import TypeAdapter

from verdict_cli.config_model import check_keywords
from verdict_cli.errors import ReplyError, RowError, UsageError
from verdict_cli.language.authoring.schema import Keys, Schema, to_view, type_key, unwrap_views
from verdict_cli.language.fields.field_keys import FieldTypes, TypeTextError, record
from verdict_cli.language.fields.types import RecordType, UnknownType
from verdict_cli.language.scales import named_scales
from verdict_cli.language.scales.written_number import quote_value
from verdict_cli.messages import JsonObject

OUTPUT_NAMES = ("output", "response", "input", "previous", "source", "unit")
MAP_NAMES = ("outputs", "input", "previous", "source", "unit")
RULE_NAMES = ("response", "input", "previous", "source", "unit", "output")


AnyFunction = Callable[..., Any]


@dataclass(frozen=True)
class Function:
    """A function of a row's values, called with those that its parameters name.

    ``text`` is what a fingerprint covers: the function's source and the plain values that it closes over. A
    function without source has a text of its own in every process, so that no run resumes another's
    (``traceable`` is False). ``gives`` are the declared fields of what it gives, None where they are not
    declared. ``argument_classes`` are the classes of which its arguments are instances, ``own_names`` the function's own
    names of values.
    """

    function: AnyFunction = field(repr=False)
    name: str
    parameters: tuple[str, ...]
    text: str
    traceable: bool
    output_fields: RecordType | None = None
    argument_classes: Mapping[str, type[Schema]] = field(default_factory=dict)
    own_names: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, values: Keys) -> Any:
        """What the function gives, made of plain dictionaries and lists."""
        arguments = {
            self.own_names.get(name, name): self.argument_classes[name].over_checked(value)
            if name in self.argument_classes
            else to_view(value)
            for name, value in values.items()
        }
        return unwrap_views(self.function(**arguments))


StepPath = tuple[str | int, ...]
FunctionsByPath = dict[StepPath, Function]
"""Python functions by the path at which a pipeline file would have expressions."""


@dataclass(frozen=True)
class PythonRule(Function):
    """A function that refuses a response by raising, or by giving False: the unit is then called again."""

    def __call__(self, values: Keys) -> bool:
        """True; ReplyError with the function's own words when it refuses."""
        try:
            accepted = super().__call__(values)
        except (RowError, ReplyError):
            raise
        except Exception as error:
            raise ReplyError(
                f"{self.name}: {str(error) or type(error).__name__}", kind="invalid"
            ) from None
        if accepted is not None and not accepted:
            raise ReplyError(f"{self.name} gave {quote_value(accepted)}", kind="invalid")
        return True


def function(
    function_object: AnyFunction,
    subject: str,
    names: Sequence[str],
    fields: RecordType | Keys | Sequence[str] | None = None,
    *,
    first: str = "",
    argument_classes: Mapping[str, type[Schema]] | None = None,
    kind: type[Function] = Function,
) -> Function:
    """The function, its parameters checked against the names of the values that there are.

    A first parameter of any other name takes the value named ``first``, where there is one.
    """
    if not callable(function_object):
        raise UsageError(f"{subject} takes a function, not {function_object!r:.80}")
    if inspect.iscoroutinefunction(function_object):
        raise UsageError(f"{subject} takes a plain function, this one is async")
    try:
        parameters = inspect.signature(function_object).parameters
    except (TypeError, ValueError):
        raise UsageError(
            f"{subject}: {function_object!r:.80} does not say which arguments it takes",
            hint="wrap it in a lambda",
        ) from None
    own_name = _own_name(parameters, names, first)
    values: dict[str, None] = {}
    for parameter in parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            values |= dict.fromkeys(names)
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise UsageError(f"{subject}: arguments are given by name, `{parameter}` takes none")
        elif parameter.name in names:
            values[parameter.name] = None
        elif parameter.name == own_name:
            values[first] = None
        elif parameter.default is parameter.empty:
            check_keywords(f"the function of {subject}", [parameter.name], names)
    text, traceable = source_text(function_object)
    return kind(
        function_object,
        subject,
        tuple(values),
        text,
        traceable,
        _declared_fields(subject, fields),
        argument_classes or {},
        {first: own_name} if own_name else {},
    )


def _own_name(parameters: Mapping[str, inspect.Parameter], names: Sequence[str], first: str) -> str:
    """The name of the function's first parameter where it stands for the value named ``first``, else ""."""
    name, parameter = next(iter(parameters.items()), ("", None))
    if not first or parameter is None or name in names or first in parameters:
        return ""
    is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    return name if is_named and parameter.default is parameter.empty else ""


EVALUATED = "<string>"
"""The file of whatever `eval` and `exec` make. From Python 3.13 on the text of `python -c` is kept under it, which is another's."""


def source_text(function_object: AnyFunction) -> tuple[str, bool]:
    """The function's source with the plain values that it reads from outside, and whether there is one."""
    unwrapped = inspect.unwrap(getattr(function_object, "__func__", function_object))
    try:
        if getattr(getattr(unwrapped, "__code__", None), "co_filename", "") == EVALUATED:
            raise OSError
        source = _source_lines(unwrapped)
    except (OSError, TypeError):
        return f"a function without source: {secrets.token_hex(16)}", False
    closure = inspect.getclosurevars(unwrapped) if inspect.isfunction(unwrapped) else None
    values = {**closure.globals, **closure.nonlocals} if closure is not None else {}
    values |= {f"={name}": value for name, value in _defaults(unwrapped).items()}
    values |= {
        f".{name}": value
        for name, value in _own_attributes(getattr(function_object, "__self__", None)).items()
    }
    known_values = {name: repr(value) for name, value in sorted(values.items()) if _is_plain(value)}
    return f"{inspect.cleandoc(source)}\n{known_values}", True


def _source_lines(function_object: Any) -> str:
    """The function's source. OSError or TypeError where it is not known."""
    try:
        source = inspect.getsource(function_object)
        return (
            source
            if source.count("lambda") < 2
            else source + _lambda_body(function_object.__code__)
        )
    except (tokenize.TokenError, SyntaxError):
        # The line of a lambda may begin with the end of a string: `""").propagate(lambda output: …)`.
        code = function_object.__code__
        last = max(line for _, _, line in code.co_lines() if line is not None)
        return "".join(inspect.findsource(function_object)[0][code.co_firstlineno - 1 : last])


def _lambda_body(code: CodeType) -> str:
    """The text of a function's own expression, which distinguishes it from other lambdas on the same lines."""
    spans = [
        ((start, column or 0), (end, last or 0))
        for start, end, column, last in code.co_positions()
        if start and end and last
    ]
    if not spans:
        return code.co_code.hex()
    lines = [line.encode() for line in inspect.findsource(code)[0]]
    first, final = min(start for start, _ in spans), max(end for _, end in spans)
    body = lines[first[0] - 1 : final[0]]
    body[-1] = body[-1][: final[1]]
    body[0] = body[0][first[1] :]
    return b"".join(body).decode(errors="replace")


def _own_attributes(owner: Any) -> JsonObject:
    """The attributes of a method's object. A unit's keys are not among them: they are in its fingerprint anyway."""
    if owner is None:
        return {}
    get_attributes = getattr(owner, "own_attributes", None)
    return dict(vars(owner) if get_attributes is None else get_attributes())


def _defaults(unwrapped: Any) -> JsonObject:
    parameters = inspect.signature(unwrapped).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not parameter.empty
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    return value is None or isinstance(value, str | int | float | bool)


def _declared_fields(
    subject: str, fields: RecordType | Keys | Sequence[str] | None
) -> RecordType | None:
    """The declared fields of what a function gives: types where they are given, else names alone."""
    if fields is None or isinstance(fields, RecordType):
        return fields
    if isinstance(fields, Mapping):
        return record_type(
            {name: type_key(f"{subject}: {name}", kind) for name, kind in fields.items()}
        )
    if isinstance(fields, str) or not isinstance(fields, Sequence):
        raise UsageError(
            f"{subject}: `fields` is a list of names or a mapping of types, not {fields!r}"
        )
    return RecordType(dict.fromkeys(fields, UnknownType()))


def record_type(fields: Keys) -> RecordType | None:
    """The record that field types mean as a pipeline file writes them."""
    if not fields:
        return None
    keys = TypeAdapter(FieldTypes).validate_python(dict(fields))
    try:
        return record(keys, named_scales().__getitem__)
    except TypeTextError as error:
        raise UsageError(error.message, hint=error.hint) from None
