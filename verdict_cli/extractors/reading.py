"""What an extractor makes of a response schema: how to ask for it, and how to read the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verdict_cli.fields import Record
from verdict_cli.models import ModelKey

if TYPE_CHECKING:
    from verdict_cli.values import Message, Reply, Request


@dataclass(frozen=True)
class Reading:
    """An extractor bound to a unit's response schema.

    ``output`` are the fields that ``read`` gives. ``read(reply, request)`` raises ReplyError for a reply that
    cannot be read. ``corrects``: a reply that could not be read is told to the model when it is asked again.
    ``whole``: a reply that was cut off cannot be read, because what counts stands at its end.
    ``repaired(text)`` says of a text that was read whether it was not written as was asked for.
    ``then`` is a second call that reads the first one's text.
    """

    output: Record
    read: Callable[[Reply, Request], dict[str, Any]]
    json_schema: Mapping[str, Any] | None = None
    top_logprobs: int = 0
    support: tuple[str, ...] = ()
    corrects: bool = False
    whole: bool = False
    repaired: Callable[[str], bool] = lambda _: False
    then: FollowUp | None = None


@dataclass(frozen=True)
class FollowUp:
    """The second call of an extractor: its messages are made from the first reply's text."""

    messages: Callable[[str], tuple[Message, ...]]
    reading: Reading
    model: ModelKey | None = None


Trouble = tuple[str, str, str]
"""(key, what is wrong, hint) of an extractor that does not fit its unit."""

EXPLANATION = "explanation"
"""The field that `explanation: true` adds."""
