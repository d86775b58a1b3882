"""`CoTUnit`: free reasoning (Wei et al., 2022; paper, appendix A.1)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from verdict_cli.language.extractors import ExtractKey
from verdict_cli.language.extractors.bound_extractor import Thoughts
from verdict_cli.language.fields.types import TEXT, FieldType
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import LLMUnit


class CoTUnit(LLMUnit):
    """Reasons in free text; the reply is its `thinking`."""

    unit: Literal["CoTUnit"] = "CoTUnit"
    """The unit's type."""
    extract_key: ExtractKey = Field(default="raw", alias="extract")
    """How the response is read from the reply; the whole text by default."""

    raw_thoughts: ClassVar[Thoughts] = "spare"

    def own_fields(self, scale: Scale | None) -> dict[str, FieldType]:
        return {"thinking": TEXT}
