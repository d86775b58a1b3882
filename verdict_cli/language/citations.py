"""Citations of a conversation's turns in an explanation: `[3]` (language-2.md, section C1)."""

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
"""The output field with the numbers of the cited turns, in ascending order."""

_CITED = re.compile(r"\[(\d{1,9})\]")


@dataclass(frozen=True)
class Citations:
    """The conversation that an explanation cites, by an expression."""

    conversation: Expression

    def check(self, response: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Raise ReplyError for a citation of a turn that the conversation does not have, RowError where the expression gives
        no conversation."""
        try:
            turns = numbered(self.conversation(values)).numbers
        except ConversationError as error:
            raise RowError(f"`cites: {self.conversation.text}`: {error}", kind="input") from None
        unknown = [number for number in _cited(response) if number not in turns]
        if unknown:
            has = f"turns {turns[0]} to {turns[-1]}" if turns else "no turns"
            raise ReplyError(f"the explanation cites [{unknown[0]}], but the conversation has {has}", kind="invalid")

    @staticmethod
    def of(responses: Sequence[Mapping[str, Any]]) -> list[int]:
        """The numbers of all turns that the explanations cite."""
        return sorted({number for response in responses for number in _cited(response)})


def _cited(response: Mapping[str, Any]) -> list[int]:
    return [int(number) for number in _CITED.findall(str(response.get(EXPLANATION, "")))]
