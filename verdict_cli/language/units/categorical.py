"""`CategoricalJudgeUnit`: one of some categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from pydantic import Field

from verdict_cli.config_model import Seq
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.discrete import Categories, Value
from verdict_cli.language.units.base import LLMUnit, UnitBase, UnitIssue

if TYPE_CHECKING:
    from verdict_cli.language.authoring.arguments import LLMUnitKeys


class CategoricalJudgeUnit(LLMUnit):
    """Chooses one of the categories."""

    unit: Literal["CategoricalJudgeUnit"]
    """The unit's type."""
    categories: Annotated[Seq[Value], Field(min_length=1)] | None = None
    """The categories to choose from; those of `scale` by default."""

    def __init__(self, categories: Sequence[Any] | Scale | str | None = None, **keys: Unpack[LLMUnitKeys]) -> None:
        is_list = isinstance(categories, list | tuple)
        UnitBase.__init__(self, **{"categories" if is_list else "scale": categories}, **keys)

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
