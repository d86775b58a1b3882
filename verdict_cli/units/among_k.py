"""Units that choose among `k` options."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from verdict_cli.keys import Whole
from verdict_cli.units.keys import Trouble
from verdict_cli.units.options import Choosing


class AmongK(Choosing):
    """What units share whose number of options is `k`, or that of `options`."""

    k: Annotated[int, Field(ge=2, le=26), Whole] | None = None
    """How many options there are."""

    def count(self) -> int:
        """`k`, or as many as there are options."""
        return self.k or super().count()

    def problem(self) -> Trouble | None:
        """`k` and `options` agree, and nothing is on a scale."""
        if self.k is None and self.options is None:
            return ("k", "the unit needs `k` or `options`", "write `k: 4`, or an expression for each option")
        if self.k is not None and self.options is not None and len(self.options) != self.k:
            return (
                "options",
                f"k is {self.k}, but there are {len(self.options)} options",
                "give k expressions, or leave `k` out",
            )
        if self.scale is not None:
            return ("scale", "the unit answers with the options' letters", "leave `scale` out")
        return super().problem()
