"""`PairwiseJudgeUnit`: the better of two options (Zheng et al., 2023), both orders called against position bias
(Wang et al., 2023: "Large Language Models are not Fair Evaluators")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from verdict_cli.config_model import Seq
from verdict_cli.language.extractors.bound_extractor import MASS_FIELD, SAMPLED_FIELD
from verdict_cli.language.fields.types import TEXT, TRUTH, FieldType, RecordType, ScaleType
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.discrete import Categories
from verdict_cli.language.units.base import UnitIssue
from verdict_cli.language.units.choice_base import ChoiceUnit

TIE = "tie"


Label = Annotated[str, Field(pattern=r"^[^{}<>@\n]+$")]
"""The name of an option, which a prompt shows as it is."""


def label_letters(choice: FieldType) -> dict[Any, str]:
    """The letter of each label of a pairwise judge, by the type of its `choice`."""
    values = choice.scale.values() if isinstance(choice, ScaleType) else ()
    return dict(zip((value for value in values if value != TIE), "AB", strict=False))


class PairwiseJudgeUnit(ChoiceUnit):
    """Chooses the better of two options, A or B."""

    unit: Literal["PairwiseJudgeUnit"] = "PairwiseJudgeUnit"
    """The unit's type."""
    tie: bool = False
    """Whether `tie` may be chosen too."""
    positions: Literal["given", "both"] = "given"
    """`both` asks in both orders; where the answers disagree the choice is `tie`."""
    labels: Annotated[Seq[Label], Field(min_length=2, max_length=2)] | None = None
    """What the options are called in the prompt, the answer and `choice`, instead of A and B. Metrics of preferences need A and B."""

    def validation_error(self) -> UnitIssue | None:
        """Exactly two options; the choices are the unit's own."""
        if self.options is not None and len(self.options) != 2:
            return (
                "options",
                f"a pairwise judge compares 2 options, here are {len(self.options)}",
                "use BestOfKJudgeUnit for more",
            )
        if self.scale is not None:
            hint = "leave `scale` out; `labels: [first, second]` gives them names, and `tie: true` adds a tie"
            return ("scale", "a pairwise judge chooses between A and B", hint)
        if len({*self.choices(), TIE}) < 3:
            return ("labels", "the labels are not two, or one of them is `tie`", "give each option a name of its own")
        return super().validation_error()

    def default_scale(self) -> Scale:
        """A and B, and `tie` where it may be chosen."""
        return Categories(values=(*self.choices(), TIE) if self.tie else self.choices())

    def choices(self) -> tuple[str, ...]:
        """What the options are called."""
        return self.labels or self.letters()

    def listed(self) -> str:
        if self.labels is None:
            return super().listed()
        return "\n\n".join(
            f"{label}:\n<option>\n{{input.{letter}}}\n</option>"
            for label, letter in zip(self.labels, self.letters(), strict=True)
        )

    def scaled_field(self) -> str:
        return "choice"

    def default_prompt(self) -> str:
        """Asks for the better option, order and length aside."""
        return (
            "Two options answer the same request. Decide which one is better. Neither the order in which they "
            "stand nor their length may count.\n\n" + self.listed()
        )

    def output_fields(self, read: RecordType) -> RecordType:
        """`choice`, and `consistent` where both orders are queried, and `chosen` with `original`."""
        fields = dict(read.fields)
        if self.positions == "both":
            fields["choice"] = ScaleType(Categories(values=(*self.choices(), TIE)))
            fields["consistent"] = TRUTH
        if self.original:
            fields["chosen"] = TEXT
        return RecordType(fields)

    def needs_letter(self) -> bool:
        """For the option's text, and to compare both orders."""
        return self.original or self.positions == "both"

    def option_orders(self, draw: int) -> tuple[tuple[int, ...], ...]:
        """As given, and swapped where both orders are queried."""
        return ((0, 1), (1, 0)) if self.positions == "both" else ((0, 1),)

    def combine_responses(
        self, responses: Sequence[dict[str, Any]], orders: Sequence[tuple[int, ...]], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The choice in terms of the options as given."""
        if not self.gets_letter():
            return responses[0]
        names = self.choices()
        choices = [
            response["choice"] if response["choice"] == TIE else names[order[names.index(response["choice"])]]
            for response, order in zip(responses, orders, strict=True)
        ]
        output = dict(responses[0])
        if self.positions == "both":
            output["consistent"] = choices[0] == choices[1]
            output |= {MASS_FIELD: min(response[MASS_FIELD] for response in responses)} if MASS_FIELD in output else {}
            output |= (
                {SAMPLED_FIELD: any(response[SAMPLED_FIELD] for response in responses)}
                if SAMPLED_FIELD in output
                else {}
            )
        output["choice"] = choices[0] if len(set(choices)) == 1 else TIE
        if self.original:
            output["chosen"] = "" if output["choice"] == TIE else given[self.letters()[names.index(output["choice"])]]
        return output
