"""`ArgumentUnit`: the best case for or against something (Khan et al., 2024: consultancy and debate openings)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from verdict_cli.language.extractors import ExtractKey
from verdict_cli.language.fields.types import TEXT, FieldType
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import LLMUnit


class ArgumentUnit(LLMUnit):
    """Argues for or against its target."""

    unit: Literal["ArgumentUnit"] = "ArgumentUnit"
    """The unit's type."""
    extract_key: ExtractKey = Field(default="raw", alias="extract")
    """How the argument is read from the reply; the whole text by default."""
    stance: Literal["for", "against"]
    """Which side is argued."""
    target: Annotated[str, Field(min_length=1)]
    """What is argued for or against, in words: `answer A`."""

    def own_fields(self, scale: Scale | None) -> dict[str, FieldType]:
        return {"argument": TEXT}

    def prompt_prefix(self) -> str:
        """Names side and target."""
        return (
            "Make the strongest honest case {unit.stance} {unit.target}. Argue this side only, with evidence that "
            "can be checked, in at most 200 words."
        )
