"""`BestOfKJudgeUnit`: the best of k options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from verdict_cli.language.fields.types import TEXT, RecordType
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.discrete import Categories
from verdict_cli.language.units.choice_base import KChoiceUnit, shuffled


class BestOfKJudgeUnit(KChoiceUnit):
    """Chooses the best of k options by its letter."""

    unit: Literal["BestOfKJudgeUnit"] = "BestOfKJudgeUnit"
    """The unit's type."""
    shuffle: bool = False
    """Shows the options in a seeded order of each row's own, against position bias."""

    def default_scale(self) -> Scale:
        return Categories(values=self.letters())

    def scaled_field(self) -> str:
        return "choice"

    def default_prompt(self) -> str:
        """Asks for the best option, order and length aside."""
        return (
            f"{self.count()} options answer the same request. Decide which one is best. Neither the order in which "
            "they stand nor their length may count.\n\n" + self.listed()
        )

    def output_fields(self, read: RecordType) -> RecordType:
        """`choice`, and `chosen` with `original`."""
        return RecordType({**read.fields, **({"chosen": TEXT} if self.original else {})})

    def needs_letter(self) -> bool:
        """For the option's text, and to undo a shuffle."""
        return self.original or self.shuffle

    def option_orders(self, draw: int) -> tuple[tuple[int, ...], ...]:
        """One call, the options as given or in a seeded order."""
        return (shuffled(self.count(), draw),) if self.shuffle else super().option_orders(draw)

    def combine_responses(
        self, responses: Sequence[dict[str, Any]], orders: Sequence[tuple[int, ...]], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The choice in terms of the options as given."""
        if not self.gets_letter():
            return responses[0]
        letters = self.letters()
        choice = letters[orders[0][letters.index(responses[0]["choice"])]]
        return {**responses[0], "choice": choice, **({"chosen": given[choice]} if self.original else {})}
