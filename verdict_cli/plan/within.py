"""Following a path into a type: what `previous.judge` is `.score` of."""

from __future__ import annotations

from difflib import get_close_matches

from verdict_cli.expressions import ExpressionError, Path
from verdict_cli.fields import NUMBER, TEXT, Distribution, FieldType, OnScale, Record, TextList, Unknown
from verdict_cli.scales import Continuous


def inside(kind: FieldType, rest: Path, where: str) -> tuple[Path, FieldType]:
    """The rest of a path as it is followed at run time, and the type found there. ExpressionError when there is none."""
    if not rest:
        return (), kind
    part, more = rest[0], rest[1:]
    if isinstance(kind, Record):
        if part not in kind.fields:
            close = get_close_matches(str(part), kind.fields, n=1)
            hint = (
                f"did you mean {close[0]!r}?"
                if close
                else f"its fields are {', '.join(kind.fields) or 'none'}"
            )
            raise ExpressionError(f"{where} has no field {part!r}", hint)
        deeper, found = inside(kind.fields[str(part)], more, f"{where}.{part}")
        return (part, *deeper), found
    if isinstance(kind, Distribution):
        tokens = () if isinstance(kind.scale, Continuous) else kind.scale.tokens()
        value = next((value for token, value in tokens if value == part or token == str(part)), None)
        if value is None or more:
            raise ExpressionError(
                f"{where} has no value {part!r}", f"the scale's values are {kind.scale.display()}"
            )
        return (value,), NUMBER
    if isinstance(kind, TextList) and isinstance(part, int) and not more:
        return rest, TEXT
    if isinstance(kind, OnScale) or kind.spell() in ("str", "int", "float", "bool", "list[str]"):
        raise ExpressionError(f"{where} is of type {kind.spell()} and has no part {part!r}", "")
    return rest, Unknown()
