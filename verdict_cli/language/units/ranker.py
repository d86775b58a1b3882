"""`RankerUnit`: all k options from best to worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from verdict_cli.language.fields.types import FieldType, RecordType, TextListType
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.choice_base import KChoiceUnit


class RankerUnit(KChoiceUnit):
    """Ranks the options from best to worst; a reply that is not a permutation is retried."""

    unit: Literal["RankerUnit"] = "RankerUnit"
    """The unit's type."""

    def own_fields(self, scale: Scale | None) -> dict[str, FieldType]:
        return {"ranking": TextListType(self.letters())}

    def default_prompt(self) -> str:
        return (
            f"Rank the {self.count()} options from best to worst. The ranking lists each of the letters "
            f"{', '.join(self.letters())} exactly once.\n\n" + self.listed()
        )

    def output_fields(self, read: RecordType) -> RecordType:
        """`ranking`, and `ranked` (the texts in that order) with `original`."""
        return RecordType({**read.fields, **({"ranked": TextListType()} if self.original else {})})

    def combine_responses(
        self, responses: Sequence[dict[str, Any]], orders: Sequence[tuple[int, ...]], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The ranking's letters, and the texts in that order with `original`."""
        if not self.original:
            return responses[0]
        return {**responses[0], "ranked": [given[letter] for letter in responses[0]["ranking"]]}
