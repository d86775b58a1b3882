"""`CompileContext`: what the compilation of one unit reads and reports to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from verdict_cli.errors import SpecError
from verdict_cli.language.calibrations import CalibrationFile, Fitted
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.error_messages import explain_error
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.fields.field_keys import TYPES_HINT, TypeTextError, field_type, map_parts
from verdict_cli.language.fields.types import FieldType, ImageType, RecordType, UnknownType
from verdict_cli.language.namespace import UnknownNameError
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.plan.expand import UnitInstance
from verdict_cli.plan.node import LLMNode, MapNode, PoolNode
from verdict_cli.plan.row_steps import InstancePath
from verdict_cli.plan.scope import SAY_FIELDS, NodeScope, Upstream

Compiled = TypeVar("Compiled", bound=Fitted)

PROMPT_ROOTS = ("source", "previous", "input", "unit")
"""The names that a prompt sees."""


@dataclass(frozen=True)
class CompiledUnit:
    """What a node does (None for an invalid one), the fields of its response and of its output."""

    work: LLMNode | MapNode | PoolNode | None
    response: RecordType
    output: RecordType


@dataclass
class CompileContext:
    """One unit being compiled: the scope in which its paths are resolved, the warnings, and the calibrations that it uses,
    each with its key."""

    instance: UnitInstance
    scope: NodeScope
    warn: Callable[[str, str, InstancePath], None]
    calibrations: list[tuple[InstancePath, Fitted]] = field(default_factory=list)

    def problem(self, code: str, message: str, hint: str, *path: str | int, key: bool = False) -> None:
        """Reports a problem at a key of the unit."""
        self.instance.names.problem(code, message, hint, (*self.instance.path, *path), key=key)

    def expression(self, text: str, roots: Sequence[str], scope: NodeScope, *path: str | int) -> Expression | None:
        """The compiled expression; None, and reported, when it can never be evaluated."""
        return scope.expression(text, roots, lambda message, hint: self.problem("bad-expression", message, hint, *path))

    def fitted(self, key: Any, kind: type[Compiled], *path: str | int) -> Compiled | None:
        """The calibration at a key of the unit; None, and reported, where none can be used."""
        if isinstance(key, kind):
            calibration: Compiled | None = key
        else:
            assert isinstance(key, CalibrationFile)
            calibration = self._read_calibration(key, kind, (*self.instance.path, *path))
        if calibration is not None:
            self.calibrations.append((path, calibration))
        return calibration

    def _read_calibration(self, key: CalibrationFile, kind: type[Compiled], path: InstancePath) -> Compiled | None:
        names = self.instance.names
        file = names.inside(key.file, (*path, "file"))
        if file is None:
            return None
        try:
            document = read_document(file)
        except SpecError as error:
            names.bad_file(key.file, error, (*path, "file"))
            return None
        try:
            calibration = kind.model_validate(document.data)
        except ValidationError as error:
            wanted, named_kind = kind.model_fields["kind"].annotation, document.data.get("kind")
            if isinstance(named_kind, str) and named_kind not in get_args(wanted):
                message = (
                    f"{key.file!r} is a calibration of the kind {named_kind!r}, here it must be {get_args(wanted)[0]!r}"
                )
                names.problem(
                    "wrong-calibration", message, "`verdict calibrate --fit` says which kind", (*path, "file")
                )
                return None
            for problem in explain_error(error, kind, document):
                names.tell(problem)
            return None
        names.calibrations[key.file] = document.data
        return calibration

    def scale(self, unit: LLMUnit) -> Scale | None:
        """The scale that the unit's values are on; None where it has none, or, reported, where it cannot be known."""
        names, path = self.instance.names, (*self.instance.path, "scale")
        if unit.scale is None:
            return unit.default_scale()
        try:
            scale = names.scale_named(unit.scale) if isinstance(unit.scale, str) else unit.scale
        except UnknownNameError as error:
            self.problem("unknown-scale", error.message, error.hint, "scale")
            return None
        if not names.check_scale(scale, path):
            return None
        told = unit.scale_instructions and unit.scaled_field() is not None
        for warning in (scale.warning(), scale.label_warning() if told else None):
            if warning is not None:
                key, message, hint = warning
                self.warn(message, hint, path if isinstance(unit.scale, str) else (*path, key))
        return scale

    def fields(self, declared: dict[str, Any] | None, key: str) -> dict[str, FieldType]:
        """The types of a declared schema; one that cannot be known is reported and `Unknown`."""
        types: dict[str, FieldType] = {}
        names, path = self.instance.names, (*self.instance.path, key)
        for name, spelled in (declared or {}).items():
            try:
                types[name] = _from_unit(names.sound(field_type(spelled, names.scale_named), (*path, name)))
            except (UnknownNameError, TypeTextError) as error:
                types[name] = UnknownType()
                hint = error.hint or TYPES_HINT
                self.problem("unknown-type", error.message.replace("scale", "type or scale", 1), hint, key, name)
        return types


def fields_are_known(context: CompileContext, parents: Sequence[Upstream]) -> bool:
    """Whether a pool without `field` can choose among its parents' fields; reports a parent whose fields are not known."""
    unit = next((parent for parent in parents if parent.output.unknown), None)
    if unit is not None:
        message = f"the fields of {unit.id} are not known: {unit.output.unknown}"
        context.problem("nothing-to-pool", message, f"name the field to pool: `field:`, or {SAY_FIELDS}")
    return unit is None


def _from_unit(kind: FieldType) -> FieldType:
    """The type of what a unit makes: an image in it is an address, not a file of this machine."""
    return map_parts(kind, lambda part, _: ImageType(files=False) if isinstance(part, ImageType) else part)
