"""What pools share: one value from the same field of several units (paper, appendix A.1). No model call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from verdict_cli.calibrations import PoolWeightsKey
from verdict_cli.fields import NUMBER, Record
from verdict_cli.keys import Seq, Whole
from verdict_cli.units.keys import Common, Trouble


class Pool(Common):
    """What pools share: which fields, and how many units must be left."""

    numbers: ClassVar[bool] = True
    """Whether the pool needs values that have a number."""

    field: str | None = None
    """The field to pool."""
    fields: Annotated[Seq[str], Field(min_length=1)] | None = None
    """The fields to pool; all that can be pooled where neither is given."""
    quorum: Annotated[int, Field(ge=1), Whole] = 1
    """The least number of units that must be left when some were skipped."""

    def problem(self) -> Trouble | None:
        """`field` or `fields`, not both."""
        if self.field is not None and self.fields is not None:
            return ("fields", "both `field` and `fields` are given", "keep one of them")
        return None

    def named(self) -> tuple[str, ...] | None:
        """The fields that were named, None for all that can be pooled."""
        return self.fields if self.field is None else (self.field,)

    def weighting(self) -> PoolWeightsKey | None:
        """A weight for each dependency, as it is spelled; None where all weigh the same."""
        return None

    def further(self) -> str:
        """The name of an output field that is of no single value pooled, "" where there is none."""
        return ""

    def gives(self, pooled: Record) -> Record:
        """The output's fields, from those that are pooled."""
        return Record(dict.fromkeys(pooled.fields, NUMBER))

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> Any:
        """One value from several. RowError when there is none, or one without a number."""
        raise AssertionError(f"{self.type_name} pools nothing")

    def settle(self, pooled: dict[str, Any]) -> dict[str, Any]:
        """The output, from each field's pooled value."""
        return pooled

    def beside(
        self, pooled: dict[str, Any], said: Mapping[str, Sequence[Any]], weights: Sequence[float] | None
    ) -> dict[str, Any]:
        """What the output holds besides: the field that `further` names, from the values that were pooled."""
        return {}
