"""`RankerUnit`: all k options from best to worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from verdict_cli.fields import FieldType, Record, TextList
from verdict_cli.scales import Scale
from verdict_cli.units.among_k import AmongK


class RankerUnit(AmongK):
    """Ranks the options from best to worst; a reply that is no permutation is asked again."""

    unit: Literal["RankerUnit"]
    """The unit's type."""

    def own_fields(self, scale: Scale | None) -> dict[str, FieldType]:
        """`ranking`."""
        return {"ranking": TextList(self.letters())}

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
        """The ranking's letters, and the texts in that order where they are wanted."""
        ranked = [given[letter] for letter in responses[0]["ranking"]]
        return {**responses[0], "ranked": ranked} if self.original else responses[0]
