"""Citations in an explanation, `[3]`: of a conversation's turns (language-2.md, section C1), or of a list's entries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verdict_cli.errors import ReplyError, RowError
from verdict_cli.language.conversation import ConversationError
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.extractors.bound_extractor import EXPLANATION
from verdict_cli.language.transcript import numbered

CITATIONS = "citations"
"""The output field with the cited numbers, in ascending order."""

_CITED = re.compile(r"\[(\d{1,9})\]")


@dataclass(frozen=True)
class Citations:
    """What an explanation cites: a conversation, or a list such as the contexts of an answer, by an expression."""

    cited: Expression

    def check(self, response: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Raise ReplyError for a citation of a turn or an entry that does not exist, RowError where the expression gives
        neither a conversation nor a list of texts."""
        what, numbers = self._numbers(self.cited(values))
        unknown = [number for number in _cited(response) if number not in numbers]
        if unknown:
            owner = "conversation" if what == "turns" else "list"
            has = f"{what} {numbers[0]} to {numbers[-1]}" if numbers else f"no {what}"
            raise ReplyError(f"the explanation cites [{unknown[0]}], but the {owner} has {has}", kind="invalid")

    def _numbers(self, value: Any) -> tuple[str, Sequence[int]]:
        """What can be cited, and its numbers: those of the turns, or from 1 to the list's length."""
        if isinstance(value, list) and value and all(isinstance(entry, str) for entry in value):
            return "entries", range(1, len(value) + 1)
        try:
            return "turns", numbered(value).numbers
        except ConversationError as error:
            raise RowError(f"`cites: {self.cited.text}`: {error}", kind="input") from None

    @staticmethod
    def of(responses: Sequence[Mapping[str, Any]]) -> list[int]:
        """The numbers of all turns that the explanations cite."""
        return sorted({number for response in responses for number in _cited(response)})


def _cited(response: Mapping[str, Any]) -> list[int]:
    return [int(number) for number in _CITED.findall(str(response.get(EXPLANATION, "")))]
