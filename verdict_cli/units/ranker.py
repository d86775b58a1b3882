"""`RankerUnit`: all k options from best to worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from verdict_cli.errors import ReplyError
from verdict_cli.fields import FieldType, Record, TextList
from verdict_cli.keys import Whole
from verdict_cli.scales import Scale
from verdict_cli.units.keys import Trouble
from verdict_cli.units.options import Choosing


class RankerUnit(Choosing):
    """Ranks the options from best to worst; a reply that is no permutation is asked again."""

    unit: Literal["RankerUnit"]
    """The unit's type."""
    k: Annotated[int, Field(ge=2, le=26), Whole] | None = None
    """How many options there are."""

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
            return ("scale", "the unit ranks the options' letters", "leave `scale` out")
        return super().problem()

    def own_fields(self, scale: Scale | None) -> dict[str, FieldType]:
        """`ranking`."""
        return {"ranking": TextList()}

    def default_prompt(self) -> str:
        """Asks for a ranking of all letters."""
        return (
            f"Rank the {self.count()} options from best to worst. The ranking lists each of the letters "
            f"{', '.join(self.letters())} exactly once.\n\n" + self.listed()
        )

    def gives(self, read: Record) -> Record:
        """`ranking`, and `ranked` (the texts in that order) where they are wanted."""
        return Record({**read.fields, **({"ranked": TextList()} if self.original else {})})

    def settle(
        self,
        responses: Sequence[dict[str, Any]],
        arrangements: Sequence[tuple[int, ...]],
        given: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The ranking's letters. ReplyError when they are no permutation of the options."""
        ranking = [letter.strip().upper() for letter in responses[0]["ranking"]]
        if sorted(ranking) != sorted(self.letters()):
            raise ReplyError(
                f"{responses[0]['ranking']!r} does not rank each of {', '.join(self.letters())} exactly once"
            )
        output = {**responses[0], "ranking": ranking}
        return {**output, "ranked": [given[letter] for letter in ranking]} if self.original else output
