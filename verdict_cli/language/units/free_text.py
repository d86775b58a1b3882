"""Units that write text: free reasoning (Wei et al., 2022; paper, appendix A.1), the next turn of a conversation (Khan et al.,
2024; Michael et al., 2023), and the best case for or against something (Khan et al., 2024: consultancy and debate openings)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from verdict_cli.config_model import NonEmptyText
from verdict_cli.language.expressions.paths import RowValues
from verdict_cli.language.extractors import ExtractKey
from verdict_cli.language.extractors.bound_extractor import Thoughts
from verdict_cli.language.fields.types import (
    TEXT,
    Fields,
    RecordType,
    TranscriptType,
    Values,
)
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import LLMUnit, OptionOrder


class CoTUnit(LLMUnit):
    """Reasons in free text; the reply is its `thinking`."""

    unit: Literal["CoTUnit"] = "CoTUnit"
    """The unit's type."""
    extract_key: ExtractKey = Field(default="raw", alias="extract")
    """How the response is read from the reply; the whole text by default."""

    positional = ()
    raw_thoughts: ClassVar[Thoughts] = "spare"

    def own_fields(self, scale: Scale | None) -> Fields:
        return {"thinking": TEXT}


class ConversationalUnit(LLMUnit):
    """Speaks the next turn of a conversation in its role."""

    unit: Literal["ConversationalUnit"] = "ConversationalUnit"
    """The unit's type."""
    extract_key: ExtractKey = Field(default="raw", alias="extract")
    """How the turn is read from the reply; the whole text by default."""
    role_name: NonEmptyText
    """Who speaks."""
    number: bool = False
    """Numbers the turns by their place in the conversation: `Proponent #1`."""

    positional: ClassVar[tuple[str, ...]] = ("role_name",)
    raw_thoughts: ClassVar[Thoughts] = "drop"

    def own_fields(self, scale: Scale | None) -> Fields:
        return {"response": TEXT}

    def required_inputs(self) -> Fields:
        """The conversation so far: of a unit before, else the row's column, else empty."""
        return {"conversation": TranscriptType()}

    def output_fields(self, read: RecordType) -> RecordType:
        """`conversation` with this turn, and `response`."""
        return RecordType({"conversation": TranscriptType(), **read.fields})

    def combine_responses(
        self,
        responses: Sequence[Values],
        orders: Sequence[OptionOrder],
        inputs: RowValues,
    ) -> Values:
        """The transcript with this turn at its end."""
        before = list(inputs["conversation"])
        role = f"{self.role_name} #{len(before) + 1}" if self.number else self.role_name
        turn = {"role": role, "content": responses[0]["response"]}
        return {"conversation": [*before, turn], **responses[0]}


class DebateUnit(ConversationalUnit):
    """Speaks the next turn of a debate and argues its stance."""

    unit: Literal["DebateUnit"] = "DebateUnit"  # type: ignore[assignment]
    """The unit's type."""
    stance: NonEmptyText
    """The position that the unit argues, whatever the others say."""

    positional = ("role_name", "stance")

    def prompt_prefix(self) -> str:
        """Names the role and the stance."""
        return (
            "You take part in a debate as {unit.role_name}. You argue this stance and hold it to the end: "
            "{unit.stance}\nAnswer the strongest point that the other side has made, if any, then give your own best evidence. "
            "State nothing that you know to be false."
        )

    def prompt_suffix(self, prompt: str) -> str:
        """Shows the debate where the prompt itself does not."""
        return "" if "input.conversation" in prompt else "The debate so far:\n{input.conversation}"


class ArgumentUnit(LLMUnit):
    """Argues for or against its target."""

    unit: Literal["ArgumentUnit"] = "ArgumentUnit"
    """The unit's type."""
    extract_key: ExtractKey = Field(default="raw", alias="extract")
    """How the argument is read from the reply; the whole text by default."""
    stance: Literal["for", "against"]
    """Which side is argued."""
    target: NonEmptyText
    """What is argued for or against, in words: `answer A`."""

    positional = ("stance", "target")

    def own_fields(self, scale: Scale | None) -> Fields:
        return {"argument": TEXT}

    def prompt_prefix(self) -> str:
        """Names side and target."""
        return (
            "Make the strongest honest case {unit.stance} {unit.target}. Argue this side only, with evidence that "
            "can be checked, in at most 200 words."
        )
