"""`BestOfKJudgeUnit`: the best of k options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from verdict_cli.fields import TEXT, FieldType, OnScale, Record
from verdict_cli.keys import Whole
from verdict_cli.scales import Categories, Scale
from verdict_cli.units.keys import Trouble
from verdict_cli.units.options import Choosing, shuffled


class BestOfKJudgeUnit(Choosing):
    """Chooses the best of k options by its letter."""

    unit: Literal["BestOfKJudgeUnit"]
    """The unit's type."""
    k: Annotated[int, Field(ge=2, le=26), Whole] | None = None
    """How many options there are."""
    shuffle: bool = False
    """Shows the options in a seeded order of each row's own, against position bias."""

    def count(self) -> int:
        """`k`, or as many as there are options."""
        return self.k or super().count()

    def problem(self) -> Trouble | None:
        """`k` and `options` agree."""
        if self.k is None and self.options is None:
            return ("k", "the unit needs `k` or `options`", "write `k: 4`, or an expression for each option")
        if self.k is not None and self.options is not None and len(self.options) != self.k:
            return (
                "options",
                f"k is {self.k}, but there are {len(self.options)} options",
                "give k expressions, or leave `k` out",
            )
        if self.scale is not None:
            return ("scale", "the unit chooses among the options' letters", "leave `scale` out")
        return super().problem()

    def default_scale(self) -> Scale:
        """The letters."""
        return Categories(values=self.letters())

    def own_fields(self, scale: Scale | None) -> dict[str, FieldType]:
        """`choice`."""
        assert scale is not None
        return {"choice": OnScale(scale)}

    def scaled_field(self) -> str:
        """`choice`."""
        return "choice"

    def default_prompt(self) -> str:
        """Asks for the best option, order and length aside."""
        return (
            f"{self.count()} options answer the same request. Decide which one is best. Neither the order in which "
            "they stand nor their length may count.\n\n" + self.listed()
        )

    def gives(self, read: Record) -> Record:
        """`choice`, and `chosen` where the text is wanted."""
        return Record({**read.fields, **({"chosen": TEXT} if self.original else {})})

    def arrangements(self, draw: int) -> tuple[tuple[int, ...], ...]:
        """One call, the options as given or in a seeded order."""
        return (shuffled(self.count(), draw),) if self.shuffle else super().arrangements(draw)

    def settle(
        self,
        responses: Sequence[dict[str, Any]],
        arrangements: Sequence[tuple[int, ...]],
        given: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The choice in terms of the options as given."""
        letters = self.letters()
        choice = letters[arrangements[0][letters.index(responses[0]["choice"])]]
        return {**responses[0], "choice": choice, **({"chosen": given[choice]} if self.original else {})}
