"""`CoTUnit`: free reasoning (Wei et al., 2022; paper, appendix A.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Unpack

from pydantic import Field

from verdict_cli.language.extractors import ExtractKey
from verdict_cli.language.extractors.bound_extractor import Thoughts
from verdict_cli.language.fields.types import TEXT, FieldType
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import LLMUnit, UnitBase

if TYPE_CHECKING:
    from verdict_cli.language.authoring.arguments import LLMUnitKeys


class CoTUnit(LLMUnit):
    """Reasons in free text; the reply is its `thinking`."""

    unit: Literal["CoTUnit"]
    """The unit's type."""
    extract_key: ExtractKey = Field(default="raw", alias="extract")
    """How the response is read from the reply; the whole text by default."""

    raw_thoughts: ClassVar[Thoughts] = "spare"

    def __init__(self, **keys: Unpack[LLMUnitKeys]) -> None:
        UnitBase.__init__(self, **keys)

    def own_fields(self, scale: Scale | None) -> dict[str, FieldType]:
        return {"thinking": TEXT}
