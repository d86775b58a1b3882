"""`RubricUnit`: writes a rubric, or judges against a given one (the lesson on parsing verdicts)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from verdict_cli.config_model import KeyRule, NonEmptyText, NonEmptyTuple, Whole
from verdict_cli.language.extractors import ExtractKey
from verdict_cli.language.extractors.verdict import OUTPUT, build_rubric
from verdict_cli.language.fields.types import Fields, TextListType
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.messages import JsonObject


class RubricUnit(LLMUnit):
    """Without `criteria`: writes a list of them. With `criteria`: judges against them, PASS or FAIL and 0 to 10."""

    unit: Literal["RubricUnit"] = "RubricUnit"
    """The unit's type."""
    extract_key: ExtractKey | None = Field(default=None, alias="extract")  # type: ignore[assignment]
    """How the response is read; by default `verdict` with criteria and `structured` without."""
    criteria: NonEmptyTuple[NonEmptyText] | None = None
    """The criteria to judge against."""
    n: Annotated[int, Field(ge=1, le=50), Whole] = 5
    """How many criteria to write."""

    positional = ("criteria",)
    key_rules = (
        KeyRule("n", "criteria", (), "`n` says how many criteria to write, but `criteria` gives them", "leave one of the two out"),
    )  # fmt: skip

    def own_fields(self, scale: Scale | None) -> Fields:
        """`criteria`, or `verdict` and `score`."""
        return {"criteria": TextListType()} if self.criteria is None else dict(OUTPUT.fields)

    def settings(self) -> JsonObject:
        """The unit's settings, and as `rubric` the given criteria as its prompt shows them."""
        rubric = {} if self.criteria is None else {"rubric": build_rubric(self.criteria)}
        return super().settings() | rubric

    def prompt_prefix(self) -> str:
        """Asks for a rubric, unless one is given."""
        if self.criteria is not None:
            return ""
        return (
            "Write a rubric for the task below: {unit.n} criteria, each one sentence that can be checked on its own, "
            "that does not overlap with the others, and that a good answer meets."
        )

    def prompt_suffix(self, prompt: str) -> str:
        """The rubric where one is given."""
        return "" if self.criteria is None else "{unit.rubric}"
