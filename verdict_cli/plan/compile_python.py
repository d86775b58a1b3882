"""Compile a Python function at its node, and try it with sample values before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verdict_cli.errors import ReplyError, RowError
from verdict_cli.language.expressions.paths import ExpressionError, follow
from verdict_cli.language.fields.types import (
    DistributionType,
    FieldType,
    ListType,
    OptionalType,
    PlainType,
    RecordType,
    ScaleType,
    TextListType,
    TranscriptType,
    UnknownType,
)
from verdict_cli.plan.compile_context import CompileContext
from verdict_cli.plan.scope import SAY_FIELDS, NodeScope

if TYPE_CHECKING:
    from verdict_cli.language.authoring.functions import Function

_PLAIN: dict[str, Any] = {"str": "1", "int": 1, "float": 0.5, "bool": True}


class _Row(dict[str, Any]):
    """A mapping with a text for every column that is not declared."""

    def __missing__(self, column: str) -> str:
        return "1"


def sample_value(kind: FieldType) -> Any:
    """A value of the type; of a type that is not known, 1."""
    if isinstance(kind, RecordType):
        return _Row({name: sample_value(inner) for name, inner in kind.fields.items()})
    if isinstance(kind, ScaleType):
        return kind.scale.sample()
    if isinstance(kind, DistributionType):
        return {kind.scale.sample(): 1.0}
    if isinstance(kind, TranscriptType):
        return [{"role": "speaker", "content": "1"}]
    if isinstance(kind, TextListType | ListType):
        return [sample_value(kind.item)]
    if isinstance(kind, OptionalType):
        return sample_value(kind.item)
    return _PLAIN[kind.name] if isinstance(kind, PlainType) else 1


RESOLVED = ("previous", "input")
"""Roots whose names are resolved as in an expression: by name, further upstream, or cast."""


@dataclass(frozen=True)
class PythonCall:
    """A function that is called with a row's values, as an expression is. ``words`` are those that `previous` and
    `input` have at this node, where no row adds to them."""

    code: Function
    scope: NodeScope
    words: Mapping[str, tuple[str, ...]]

    @property
    def text(self) -> str:
        """How messages name the function."""
        return self.code.name

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """What the function gives. RowError when it raises; ReplyError when it refuses a response."""
        scope = self.scope.at_row(values["previous"])
        given = {
            name: _ResolvedRoot(name, values, scope, self.words[name] if scope is self.scope else _words(name, scope))
            if name in RESOLVED
            else values[name]
            for name in self.code.parameters
        }
        try:
            return self.code(given)
        except (RowError, ReplyError):
            raise
        except Exception as fault:
            raise RowError(f"{self.code.name}: {type(fault).__name__}: {fault}") from None


@dataclass(frozen=True)
class OutputCall(PythonCall):
    """A function that gives an output with these fields."""

    output_fields: RecordType

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The output. RowError for anything but a mapping with the expected fields."""
        try:
            given = super().__call__(values)
        except ReplyError as error:
            raise RowError(f"{self.code.name}: {error.message}", hint=error.hint) from None
        if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            raise RowError(f"{self.code.name} gave {given!r:.80}, expected a Schema or a mapping of fields")
        try:
            return self.output_fields.read(given)
        except ReplyError as error:
            raise RowError(f"{self.code.name} gave {given!r:.80}: {error.message}") from None


class _ResolvedRoot(Mapping[str, Any]):
    """`previous` or `input` as a mapping: each word is resolved as in an expression."""

    def __init__(self, root: str, values: Mapping[str, Any], scope: NodeScope, words: tuple[str, ...]) -> None:
        self.root, self.values_, self.scope, self.words = root, values, scope, words

    def __getitem__(self, word: str) -> Any:
        try:
            meant = self.scope.resolve((self.root, word))
        except ExpressionError as error:
            raise RowError(f"`{self.root}.{word}`: {error.message}", hint=error.hint) from None
        found = [follow(path, self.values_) for path in meant.paths]
        return found if meant.many else found[0]

    def __contains__(self, word: object) -> bool:
        return word in self.words

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.words)


def code_at(context: CompileContext, key: str) -> Function | None:
    """The function at a key of the unit."""
    return context.instance.names.code.get((*context.instance.path, key))


def compile_python_unit(code: Function, scope: NodeScope) -> PythonCall:
    """The function in its scope, which remembers what the function may use."""
    inputs, needs = set(scope.uses.inputs), set(scope.uses.needs)
    words = {root: _words(root, scope) for root in RESOLVED if root in code.parameters}
    scope.uses.inputs, scope.uses.needs = inputs, needs  # that a function could read a field is no reason to need it
    for root in ("source", "outputs"):
        if root in code.parameters:
            scope.resolve((root,))
    return PythonCall(code, scope, words)


def compile_output_function(context: CompileContext, code: Function, scope: NodeScope, key: str) -> OutputCall:
    """The function with the fields that it gives: the declared ones, else those that a trial shows."""
    call = compile_python_unit(code, scope)
    output_fields = code.output_fields or _fields_of_trial(context, call, scope, key)
    return OutputCall(call.code, call.scope, call.words, output_fields)


def compile_process(code: Function, scope: NodeScope, output_fields: RecordType) -> OutputCall:
    """The function that makes an output of these fields from a response."""
    call = compile_python_unit(code, scope)
    return OutputCall(call.code, call.scope, call.words, output_fields)


def _fields_of_trial(context: CompileContext, call: PythonCall, scope: NodeScope, key: str) -> RecordType:
    """The fields that the function gives for sample values; unknown, with a warning, when it raises on them."""
    fixed = {root: sample_value(record) for root, record in scope.fixed.items()}
    values = {
        **fixed,
        "source": sample_value(RecordType(scope.columns)),
        "previous": {unit.id: sample_value(unit.output) for unit in scope.upstream}
        | {
            f"{unit.id}.{name}": sample_value(kind)
            for unit in scope.upstream
            if scope.depth(unit)
            for name, kind in scope.seen(unit).fields.items()
        },
        "input": {name: sample_value(kind) for name, kind in (scope.input or {}).items()},
        "outputs": [sample_value(scope.upstream[index].output) for index in scope.parents],
    }
    trial = OutputCall(call.code, call.scope, call.words, RecordType({}, "only a call shows them"))
    try:
        return RecordType(dict.fromkeys(trial(values), UnknownType()))
    except RowError as error:
        reason = f"on made-up values, {error.message}"
        context.warn(f"its fields are not known: {reason}", SAY_FIELDS, (*context.instance.path, key))
        return RecordType({}, reason)


def _words(root: str, scope: NodeScope) -> tuple[str, ...]:
    """The words of the root that mean something at the node."""
    if root == "input" and scope.input is not None:
        return tuple(scope.input)
    words = dict.fromkeys(name for unit in scope.parent_units() for name in unit.output.fields)
    if root == "previous":
        words |= dict.fromkeys(unit.name for unit in scope.upstream)
    return tuple(word for word in words if _means(root, word, scope))


def _means(root: str, word: str, scope: NodeScope) -> bool:
    try:
        scope.resolve((root, word))
    except ExpressionError:
        return False
    return True
