"""Citations in an explanation, `[3]`: of a conversation's turns (language-2.md, section C1), or of a list's entries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verdict_cli.errors import ReplyError, RowError
from verdict_cli.language.conversation import ConversationError, numbered
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.extractors.bound_extractor import EXPLANATION

CITATIONS = "citations"
"""The output field with the cited numbers, in ascending order."""

_JOINT = r"[ \t]*(?:[,;&]|and|to|[-‐‑–—])[ \t]*"
_CITED = re.compile(rf"\[[ \t]*(\d{{1,9}}(?:{_JOINT}\d{{1,9}})*)[ \t]*\]")
_RANGE = re.compile(r"(\d+)[ \t]*(?:to|[-‐‑–—])[ \t]*(\d+)")
_LONGEST_RANGE = 1_000
"""A longer range is cited by its ends: no conversation that a prompt shows has as many turns."""


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
        if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
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
    found: list[int] = []
    for cited in _CITED.findall(str(response.get(EXPLANATION, ""))):
        found += map(int, re.findall(r"\d+", cited))
        for first, last in _RANGE.findall(cited):
            if 0 <= int(last) - int(first) <= _LONGEST_RANGE:
                found += range(int(first), int(last) + 1)
    return found
