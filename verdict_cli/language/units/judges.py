"""Units that judge: a score on a scale, the standard LLM judge (paper, appendix A.1), and one of some categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from verdict_cli.config_model import Issue, KeyRule, NonEmptyTuple
from verdict_cli.language.scales import Scale, Value
from verdict_cli.language.scales.discrete import LIKERT, Categories
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.messages import JsonObject


class JudgeUnit(LLMUnit):
    """Scores on a scale: 1 to 5 by default."""

    unit: Literal["JudgeUnit"] = "JudgeUnit"
    """The unit's type."""

    def default_scale(self) -> Scale:
        return LIKERT

    def scaled_field(self) -> str:
        return "score"


_BOTH = (
    "the unit needs `categories` (or a discrete `scale`, not both)",
    "write `categories: [safe, unsafe]`",
)


class CategoricalJudgeUnit(LLMUnit):
    """Chooses one of the categories."""

    unit: Literal["CategoricalJudgeUnit"] = "CategoricalJudgeUnit"
    """The unit's type."""
    categories: NonEmptyTuple[Value] | None = None
    """The categories to choose from; those of `scale` by default."""

    key_rules = (
        KeyRule("categories", "scale", (), *_BOTH),
        KeyRule("", "", ("categories", "scale"), *_BOTH, at="categories"),
    )

    @classmethod
    def positional_keys(cls, values: Sequence[Any]) -> JsonObject:
        """A list has the categories, anything else is a scale."""
        keys = super().positional_keys(values)
        is_list = isinstance(keys.get("scale"), list | tuple)
        return {"categories": keys["scale"]} if is_list else keys

    def validation_error(self) -> Issue | None:
        """Categories are given by exactly one of the two keys, each once."""
        broken = self.broken_rule()
        if broken or self.categories is None:
            return broken
        issue = self.default_scale().validation_error()
        return issue and issue._replace(key=issue.key.replace("values", "categories", 1))

    def default_scale(self) -> Scale:
        return Categories.model_validate({"values": self.categories})

    def scaled_field(self) -> str:
        return "choice"


class Unit(LLMUnit):
    """A unit with the response that `response` declares; with a `scale`, a `score` on it follows."""

    unit: Literal["Unit"] = "Unit"
    """The unit's type."""

    key_rules = (
        KeyRule("", "", ("response", "scale"), "a Unit needs a `response`", "declare its fields: `response: {answer: str}`"),
    )  # fmt: skip

    def scaled_field(self) -> str | None:
        return None if self.scale is None else "score"
