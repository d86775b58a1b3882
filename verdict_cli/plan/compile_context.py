"""What the compilation of one unit reads and reports to, and how a Python function is compiled at its node: it is tried with
sample values before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from msgspec import Struct
from pydantic import ValidationError

from verdict_cli.errors import ReplyError, RowError
from verdict_cli.language.calibrations import CalibrationFile, Fitted
from verdict_cli.language.document.error_messages import explain_error
from verdict_cli.language.expressions.paths import ExpressionError, RowValues, follow
from verdict_cli.language.fields.field_keys import (
    PLAIN,
    TYPES_HINT,
    TypeTextError,
    field_type,
    map_parts,
)
from verdict_cli.language.fields.types import (
    DistributionType,
    Fields,
    FieldType,
    ImageType,
    ListType,
    PlainType,
    RecordType,
    ScaleType,
    TextListType,
    TranscriptType,
    UnknownType,
    Values,
    without_null,
)
from verdict_cli.language.namespace import UnknownNameError
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.plan.expand import UnitInstance
from verdict_cli.plan.node import LLMNode, MapNode, OutputFields, PoolNode
from verdict_cli.plan.place import InstancePath, Place
from verdict_cli.plan.scope import SAY_FIELDS, NodeScope, Upstream

if TYPE_CHECKING:
    from verdict_cli.language.authoring.functions import Function


Compiled = TypeVar("Compiled", bound=Fitted)

PROMPT_ROOTS = ("source", "previous", "input", "unit")
"""The names that a prompt sees."""


class CompiledUnit(Struct, frozen=True):
    """What a node does (None for an invalid one), the fields of its response and of its output."""

    work: LLMNode | MapNode | PoolNode | None
    response: RecordType
    output: RecordType


class CompileContext(Struct):
    """One unit being compiled: its place, the scope in which its paths are resolved, and the calibrations that it uses, each
    with its key."""

    instance: UnitInstance
    place: Place
    scope: NodeScope
    calibrations: list[tuple[InstancePath, Fitted]] = []

    def problem(
        self, code: str, message: str, hint: str, *keys: str | int, key: bool = False
    ) -> None:
        """Reports a problem at a key of the unit."""
        self.place.problem(code, message, hint, *keys, key=key)

    def fitted(self, key: Any, kind: type[Compiled], *keys: str | int) -> Compiled | None:
        """The calibration at a key of the unit; None, and reported, where none can be used."""
        if isinstance(key, kind):
            calibration: Compiled | None = key
        else:
            assert isinstance(key, CalibrationFile)
            calibration = _read_calibration(key, kind, self.place.below(*keys, "file"))
        if calibration is not None:
            self.calibrations.append((keys, calibration))
        return calibration

    def scale(self, unit: LLMUnit) -> Scale | None:
        """The scale that the unit's values are on; None where it has none, or, reported, where it cannot be known."""
        if unit.scale is None or unit.scale_names_options:
            return unit.default_scale()
        names, place = self.place.names, self.place.below("scale")
        try:
            scale = names.scale_named(unit.scale) if isinstance(unit.scale, str) else unit.scale
        except UnknownNameError as error:
            place.problem("unknown-scale", error.message, error.hint)
            return None
        if not names.check_scale(scale, place.path):
            return None
        is_in_prompt = unit.scale_instructions and unit.scaled_field() is not None
        for warning in (scale.warning(), scale.label_warning() if is_in_prompt else None):
            if warning is not None:
                keys = () if isinstance(unit.scale, str) else warning.path
                place.warn(warning.message, warning.hint, *keys)
        return scale

    def fields(self, declared: JsonObject | None, key: str) -> Fields:
        """The types of a declared schema; one that cannot be known is reported and `Unknown`."""
        types = declared_types(declared or {}, self.place.below(key))
        return {name: _from_unit(kind) for name, kind in types.items()}


def _read_calibration(key: CalibrationFile, kind: type[Compiled], place: Place) -> Compiled | None:
    names = place.names
    document = names.used_document(key.file, place.path)
    if document is None:
        return None
    try:
        calibration = kind.model_validate(document.data)
    except ValidationError as error:
        expected = get_args(kind.model_fields["kind"].annotation)
        name = document.data.get("kind")
        if isinstance(name, str) and name not in expected:
            message = f"{key.file!r} is a calibration of the kind {name!r}, here it must be {expected[0]!r}"
            place.problem("wrong-calibration", message, "`verdict calibrate --fit` says which kind")
            return None
        for problem in explain_error(error, kind, document).values():
            names.tell(problem)
        return None
    names.calibrations[key.file] = document.data
    return calibration


def declared_types(declared: NamedValues, place: Place) -> Fields:
    """The types of declared fields; one that cannot be known is reported and `Unknown`."""
    types: Fields = {}
    scale_named = partial(place.names.scale_named, types=PLAIN)
    for name, key in declared.items():
        try:
            kind = field_type(key, scale_named)
            types[name] = place.names.sound(kind, (*place.path, name))
        except (UnknownNameError, TypeTextError) as error:
            types[name] = UnknownType()
            place.problem("unknown-type", error.message, error.hint or TYPES_HINT, name)
    return types


def compile_output(
    scope: NodeScope, texts: Mapping[str, str], roots: Sequence[str], key: str
) -> tuple[OutputFields, RecordType]:
    """The expressions of an output and its fields; a field whose expression is reported has an unknown type."""
    compiled = {name: scope.expression(text, roots, key, name) for name, text in texts.items()}
    valid = tuple(
        (name, expression) for name, expression in compiled.items() if expression is not None
    )
    kinds: Fields = dict.fromkeys(texts, UnknownType())
    kinds |= {name: expression.type for name, expression in valid}
    return OutputFields(valid), RecordType(kinds)


def fields_are_known(context: CompileContext, parents: Sequence[Upstream]) -> bool:
    """Whether a pool without `field` can choose among its parents' fields; reports a parent whose fields are not known."""
    unit = next((parent for parent in parents if parent.output.unknown), None)
    if unit is not None:
        message = f"the fields of {unit.id} are not known: {unit.output.unknown}"
        context.problem(
            "nothing-to-pool", message, f"name the field to pool: `field:`, or {SAY_FIELDS}"
        )
    return unit is None


def _from_unit(kind: FieldType) -> FieldType:
    """The type of what a unit makes: an image in it is an address, not a file of this machine."""
    return map_parts(
        kind, lambda part, _: ImageType(files=False) if isinstance(part, ImageType) else part
    )


_PLAIN: JsonObject = {"str": "1", "int": 1, "float": 0.5, "bool": True}


class _Declared(JsonObject):
    """A mapping whose fields are all known: a function that asks for another one is wrong for every row."""


class _Open(JsonObject):
    """A mapping with a text for every field that is not declared."""

    def __missing__(self, name: str) -> str:
        return "1"


def sample_value(kind: FieldType) -> Any:
    """A value of the type; of a type that is not known, 1."""
    kind = without_null(kind)
    if isinstance(kind, RecordType):
        fields = {name: sample_value(inner) for name, inner in kind.fields.items()}
        return _Open(fields) if kind.unknown else _Declared(fields)
    if isinstance(kind, ScaleType):
        return kind.scale.sample()
    if isinstance(kind, DistributionType):
        return {kind.scale.sample(): 1.0}
    if isinstance(kind, TranscriptType):
        return [{"role": "speaker", "content": "1"}]
    if isinstance(kind, TextListType | ListType):
        return [sample_value(kind.item)]
    return _PLAIN[kind.name] if isinstance(kind, PlainType) else 1


RESOLVED_ROOTS = ("previous", "input")
"""Roots whose names are resolved as in an expression: by name, further upstream, or cast."""


class PythonCall(Struct, frozen=True):
    """A function that is called with a row's values, as an expression is."""

    code: Function
    scope: NodeScope

    @property
    def text(self) -> str:
        """How messages name the function."""
        return self.code.name

    def __call__(self, values: RowValues) -> Any:
        """What the function gives. RowError when it raises; ReplyError when it refuses a response."""
        scope = self.scope.at_row(values["previous"])
        arguments = {
            name: _ResolvedRoot(name, values, scope) if name in RESOLVED_ROOTS else values[name]
            for name in self.code.parameters
        }
        try:
            return self.code(arguments)
        except (RowError, ReplyError):
            raise
        except Exception as fault:
            raise RowError(f"{self.code.name}: {type(fault).__name__}: {fault}") from fault


class OutputCall(PythonCall, frozen=True):
    """A function that gives an output with these fields."""

    output_fields: RecordType

    def __call__(self, values: RowValues) -> Values:
        """The output. RowError for anything but a mapping with the expected fields."""
        try:
            result = super().__call__(values)
        except ReplyError as error:
            raise RowError(f"{self.code.name}: {error.message}", hint=error.hint) from None
        if not isinstance(result, dict) or not all(isinstance(name, str) for name in result):
            raise RowError(
                f"{self.code.name} gave {result!r:.80}, expected a Schema or a mapping of fields"
            )
        try:
            return self.output_fields.read(result)
        except ReplyError as error:
            raise RowError(f"{self.code.name} gave {result!r:.80}: {error.message}") from None


class _ResolvedRoot(NamedValues):
    """`previous` or `input` as a mapping: each word is resolved as in an expression."""

    def __init__(self, root: str, values: RowValues, scope: NodeScope) -> None:
        self.root, self.values_, self.scope = root, values, scope

    @cached_property
    def words(self) -> tuple[str, ...]:
        """What has a meaning here."""
        return _words(self.root, self.scope)

    def __getitem__(self, word: str) -> Any:
        try:
            target = self.scope.resolve((self.root, word))
        except ExpressionError as error:
            raise RowError(f"`{self.root}.{word}`: {error.message}", hint=error.hint) from None
        resolved = [follow(path, self.values_) for path in target.paths]
        return resolved if target.many else resolved[0]

    def __contains__(self, word: object) -> bool:
        return word in self.words

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.words)


def code_at(context: CompileContext, key: str) -> Function | None:
    """The function at a key of the unit."""
    return context.place.names.code.get((*context.place.path, key))


def compile_python_unit(code: Function, scope: NodeScope) -> PythonCall:
    """The function in its scope, which remembers what the function may use."""
    uses = scope.uses
    inputs, needs = set(uses.inputs), set(uses.needs)
    for root in RESOLVED_ROOTS:
        if root in code.parameters:
            _words(root, scope)
    # That a function could read a field is no reason to need it.
    uses.inputs, uses.needs = inputs, needs
    for root in ("source", "outputs"):
        if root in code.parameters:
            scope.resolve((root,))
    return PythonCall(code, scope)


def compile_output_function(
    context: CompileContext, key: str, scope: NodeScope, otherwise: RecordType | None = None
) -> OutputCall | None:
    """The function at a key of the unit, with the fields that it gives: the declared ones, else ``otherwise``, else those
    that a trial shows. None where there is no function."""
    code = code_at(context, key)
    if code is None:
        return None
    call = compile_python_unit(code, scope)
    output_fields = code.output_fields or otherwise or _fields_of_trial(call, key)
    return OutputCall(code, scope, output_fields)


def _fields_of_trial(call: PythonCall, key: str) -> RecordType:
    """The fields that the function gives for sample values; unknown, with a warning, when it raises on them."""
    scope = call.scope
    fixed = {root: sample_value(record) for root, record in scope.fixed.items()}
    values = {
        **fixed,
        "source": sample_value(RecordType(scope.columns, "a row may have more columns")),
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
    trial = OutputCall(call.code, scope, RecordType({}, "only a call shows them"))
    try:
        return RecordType(dict.fromkeys(trial(values), UnknownType()))
    except RowError as error:
        reason = f"on made-up values, {error.message}"
        if _asks_for_no_field(error.__cause__):
            scope.place.problem("unknown-field", error.message, "name a field that is given", key)
            return RecordType({}, reason)
        scope.place.warn(f"its fields are not known: {reason}", SAY_FIELDS, key)
        return RecordType({}, reason)


def _asks_for_no_field(fault: BaseException | None) -> bool:
    """Whether a function named a field that a value with known fields does not have."""
    return isinstance(fault, AttributeError) and isinstance(
        getattr(fault.obj, "_fields", None), _Declared
    )


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
