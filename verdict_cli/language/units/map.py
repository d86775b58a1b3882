"""`MapUnit`: expressions over the outputs of the units before it (paper, section 3.3). No model call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from pydantic import Field

from verdict_cli.errors import UsageError
from verdict_cli.language.units.base import Expressions, UnitBase

if TYPE_CHECKING:
    from verdict_cli.language.authoring.arguments import UnitKeys


class MapUnit(UnitBase):
    """Computes its fields from `outputs`, the list of its dependencies' outputs in order of definition."""

    unit: Literal["MapUnit"]
    """The unit's type."""
    expressions: Expressions = Field(alias="map")
    """An expression for each output field."""

    def __init__(
        self,
        map: Callable[..., Any] | Mapping[str, str] | None = None,  # noqa: A002
        *,
        fields: Mapping[str, Any] | Sequence[str] | None = None,
        **keys: Unpack[UnitKeys],
    ) -> None:
        """Take expressions by field, or a function of any of `outputs`, `input`, `previous`, `source`, `unit` by parameter
        name that returns a Schema or a mapping. A first parameter of another name takes `outputs`. `fields` declares the function's fields where a trial with made-up
        values cannot show them."""
        if map is None:
            raise UsageError("MapUnit takes a function or expressions", hint="`MapUnit(lambda outputs: Schema.of(…))`")
        if isinstance(map, Mapping):
            super().__init__(map=map, **keys)
            return
        from verdict_cli.language.authoring.functions import MAP_NAMES, function

        # The function replaces this expression, which only makes the step valid.
        super().__init__(map={"value": "outputs"}, **keys)
        object.__setattr__(self, "_functions", {"map": function(map, "MapUnit", MAP_NAMES, fields, first="outputs")})
