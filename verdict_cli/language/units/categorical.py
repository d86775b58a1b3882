"""`CategoricalJudgeUnit`: one of some categories."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from verdict_cli.config_model import KeyRule, Seq
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.discrete import Categories, Value
from verdict_cli.language.units.base import LLMUnit, UnitIssue

_BOTH = ("the unit needs `categories` (or a discrete `scale`, not both)", "write `categories: [safe, unsafe]`")


class CategoricalJudgeUnit(LLMUnit):
    """Chooses one of the categories."""

    unit: Literal["CategoricalJudgeUnit"] = "CategoricalJudgeUnit"
    """The unit's type."""
    categories: Annotated[Seq[Value], Field(min_length=1)] | None = None
    """The categories to choose from; those of `scale` by default."""

    key_rules: ClassVar[tuple[KeyRule, ...]] = (
        KeyRule("categories", "scale", (), *_BOTH),
        KeyRule("", "", ("categories", "scale"), *_BOTH, at="categories"),
    )

    def validation_error(self) -> UnitIssue | None:
        """Categories are given by exactly one of the two keys, each once."""
        broken = self.broken_rule()
        return broken if broken or self.categories is None else self.default_scale().validation_error()

    def default_scale(self) -> Scale:
        return Categories.model_validate({"values": self.categories})

    def scaled_field(self) -> str:
        return "choice"
