"""Bases of units that choose among options, which have letters in the order shown."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from verdict_cli.config_model import KeyRule, Seq, Whole
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.fields.types import TEXT, FieldType
from verdict_cli.language.prompts.prompt import JinjaPrompt
from verdict_cli.language.units.base import LLMUnit, UnitIssue

LETTERS = string.ascii_uppercase

OPTIONS_HINT = "name the options' texts: `options: [source.x, source.y]`"

_SHOWN = re.compile(r"(?<!\\)\{input\.options(?:\[(\d{1,2})\])?\}")


class ChoiceUnit(LLMUnit):
    """Keys of units with options. Option i has letter i."""

    options: Seq[str] | None = None
    """An expression for each option; the input fields `A`, `B` … by default."""
    original: bool = False
    """Whether the output also has the text of the chosen option."""

    def count(self) -> int:
        """How many options there are."""
        return 2 if self.options is None else len(self.options)

    def letters(self) -> tuple[str, ...]:
        """The options' letters."""
        return tuple(LETTERS[: self.count()])

    def validation_error(self) -> UnitIssue | None:
        """Two to 26 options, and a letter wherever the options' order or texts are needed again."""
        if not 2 <= self.count() <= len(LETTERS):
            return (
                "options",
                f"{self.count()} options, where 2 to {len(LETTERS)} are possible",
                "give an expression for each option",
            )
        if self.needs_letter() and not self.gets_letter():
            return (
                "extract",
                "`original`, `shuffle` and `positions: both` need a letter, which this extractor does not read",
                "use `argmax_score`, or leave them out",
            )
        return None

    def needs_letter(self) -> bool:
        """Whether the output is made from the letter that was chosen."""
        return self.original

    def gets_letter(self) -> bool:
        """Whether the reply is read as a letter, not as a distribution or its expectation."""
        return resolve_extractor(self.extract_key).type not in ("token_probability", "weighted_summed_score")

    def required_inputs(self) -> dict[str, FieldType]:
        """The options' texts, where no expressions give them."""
        return {} if self.options is not None else dict.fromkeys(self.letters(), TEXT)

    def option_orders(self, draw: int) -> tuple[tuple[int, ...], ...]:
        """One call, the options as given."""
        return (tuple(range(self.count())),)

    def frame(self, prompt: str) -> str:
        """The prompt with `{input.options}` and `{input.options[0]}` replaced by the options and their letters."""
        if isinstance(self.prompt_key, JinjaPrompt) or "options" in (self.input or {}):
            return super().frame(prompt)
        return super().frame(_SHOWN.sub(self._listed_at, prompt))

    def _listed_at(self, found: re.Match[str]) -> str:
        if found[1] is None:
            return self.listed()
        letters = self.letters()
        return f"{{input.{letters[int(found[1])]}}}" if int(found[1]) < len(letters) else found[0]

    def listed(self) -> str:
        """The part of a prompt that shows the options."""
        return "\n\n".join(f"<option_{letter}>\n{{input.{letter}}}\n</option_{letter}>" for letter in self.letters())


def shown(given: Mapping[str, Any], letters: Sequence[str], arrangement: Sequence[int]) -> dict[str, Any]:
    """The input with the options in another order: letter i names option arrangement[i]. A unit whose prompt shows the
    texts by its own placeholders has no options in its input."""
    if not set(letters) <= given.keys():
        return dict(given)
    return {**given, **{letters[index]: given[letters[option]] for index, option in enumerate(arrangement)}}


def shuffled(count: int, draw: int) -> tuple[int, ...]:
    """A seeded order of `count` options."""
    order = list(range(count))
    random.Random(draw).shuffle(order)
    return tuple(order)


class KChoiceUnit(ChoiceUnit):
    """Keys of units with `k` options."""

    key_rules: ClassVar[tuple[KeyRule, ...]] = (
        KeyRule("", "", ("k", "options"), "the unit needs `k` or `options`", "write `k: 4`, or an expression for each option", at="k"),
    )  # fmt: skip

    k: Annotated[int, Field(ge=2, le=26), Whole] | None = None
    """How many options there are."""

    def count(self) -> int:
        """`k`, or as many as there are options."""
        return self.k or super().count()

    def validation_error(self) -> UnitIssue | None:
        """`k` and `options` agree, and nothing is on a scale."""
        if broken := self.broken_rule():
            return broken
        if self.k is not None and self.options is not None and len(self.options) != self.k:
            return (
                "options",
                f"k is {self.k}, but there are {len(self.options)} options",
                "give k expressions, or leave `k` out",
            )
        if self.scale is not None:
            return ("scale", "the unit answers with the options' letters", "leave `scale` out")
        return super().validation_error()
