"""`CategoricalJudgeUnit`: one of some categories."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from verdict_cli.config_model import Seq
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.discrete import Categories, Value
from verdict_cli.language.units.base import LLMUnit, UnitIssue


class CategoricalJudgeUnit(LLMUnit):
    """Chooses one of the categories."""

    unit: Literal["CategoricalJudgeUnit"] = "CategoricalJudgeUnit"
    """The unit's type."""
    categories: Annotated[Seq[Value], Field(min_length=1)] | None = None
    """The categories to choose from; those of `scale` by default."""

    def validation_error(self) -> UnitIssue | None:
        """Categories are given by exactly one of the two keys, each once."""
        if (self.categories is None) == (self.scale is None):
            return (
                "categories",
                "the unit needs `categories` (or a discrete `scale`, not both)",
                "write `categories: [safe, unsafe]`",
            )
        return None if self.categories is None else self.default_scale().validation_error()

    def default_scale(self) -> Scale:
        return Categories.model_validate({"values": self.categories})

    def scaled_field(self) -> str:
        return "choice"
