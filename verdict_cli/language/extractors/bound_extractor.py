"""Base of all extractors, and an extractor bound to a unit's response schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verdict_cli.language.fields.types import RecordType
from verdict_cli.model import ModelKey

if TYPE_CHECKING:
    from verdict_cli.messages import Message, Reply, Request
from verdict_cli.config_model import ConfigModel


@dataclass(frozen=True)
class BoundExtractor:
    """An extractor bound to a unit's response schema.

    ``output`` are the fields that ``read`` gives. ``read(reply, request)`` raises ReplyError for a reply that
    cannot be read. ``corrects``: a reply that could not be read is told to the model when it is asked again.
    ``whole``: a reply that was cut off cannot be read, because what counts stands at its end.
    ``repaired(text)`` says of a text that was read whether it was not written as was asked for.
    ``then`` is a second call that reads the first one's text.
    """

    output: RecordType
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
    reading: BoundExtractor
    model: ModelKey | None = None


ExtractorIssue = tuple[str, str, str]
"""(key, what is wrong, hint) of an extractor that does not fit its unit."""

EXPLANATION = "explanation"
"""The field that `explanation: true` adds."""


class BaseExtractor(ConfigModel):
    """How a response is asked for and read from the reply."""

    type: str
    """The kind of extractor."""

    def problem(self, response: RecordType) -> ExtractorIssue | None:
        """What makes no sense about the extractor for this response, None when nothing."""
        return None

    def bind(self, response: RecordType) -> BoundExtractor:
        """The extractor for this response, in which it has found no problem."""
        raise AssertionError(f"{self.type} reads nothing")
