"""Which values can stand where others are asked for."""

from __future__ import annotations

from verdict_cli.fields.types import FieldType, OnScale, Plain, Record, TextList, Unknown


def fits(given: FieldType, wanted: FieldType) -> bool:
    """Whether every value of `given` can stand where `wanted` is asked for.

    A type fits itself; an int fits a float; a scale of words, integers … fits that plain type; an unknown type
    fits everything, and is checked when its value is there.
    """
    if given == wanted or isinstance(given, Unknown) or isinstance(wanted, Unknown):
        return True
    if isinstance(wanted, Plain):
        if isinstance(given, OnScale):
            kind = given.json_schema().get("type")
            return kind == wanted.json_schema()["type"] or (kind == "integer" and wanted.name == "float")
        return isinstance(given, Plain) and given.name == "int" and wanted.name == "float"
    if isinstance(wanted, TextList):
        return isinstance(given, TextList) and not wanted.ranks
    if isinstance(wanted, OnScale) and isinstance(given, OnScale):
        return given.scale.json_schema() == wanted.scale.json_schema()
    if isinstance(wanted, Record) and isinstance(given, Record):
        return set(wanted.fields) <= set(given.fields) and all(
            fits(given.fields[name], kind) for name, kind in wanted.fields.items()
        )
    return False
