"""Base of all extractors, and an extractor bound to a unit's response schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verdict_cli.config_model import ConfigModel
from verdict_cli.language.fields.types import RecordType
from verdict_cli.model import ModelKey

if TYPE_CHECKING:
    from verdict_cli.messages import Message, Reply, Request

EXPLANATION = "explanation"
"""The field that `explanation: true` adds."""
MASS_FIELD, SAMPLED_FIELD = "mass", "sampled"
"""The fields that token extractors add: the probability of the scale's tokens, and whether further replies were needed."""


@dataclass(frozen=True)
class BoundExtractor:
    """An extractor bound to a unit's response schema.

    Attributes:
        output: The fields that ``read`` returns.
        read: ``read(reply, request)`` returns the fields; it raises ReplyError for a reply that it cannot read.
        json_schema: The schema by which the provider is to return JSON, if it can.
        top_logprobs: How many alternatives to request at each position.
        support: The tokens of the scale, worst first, for models that answer with one of them.
        instruction: What is added to the prompt after the scale's sentence.
        token_cap: The most tokens of a reply where the model sets no `max_tokens`; 0: no limit.
        corrects: Whether a retry shows the model the reply that could not be read.
        whole: Whether a reply that was cut off cannot be read, because what counts is at its end.
        repaired: ``repaired(text)`` says of a text that was read whether it deviates from the requested format.
        then: A second call that reads the text of the first one.
        more: Further replies to the same request, where the first one does not say enough.
        sequence: Whether probabilities are products along several tokens.
    """

    output: RecordType
    read: Callable[[Reply, Request], dict[str, Any]]
    json_schema: Mapping[str, Any] | None = None
    top_logprobs: int = 0
    support: tuple[str, ...] = ()
    instruction: str = ""
    token_cap: int = 0
    corrects: bool = False
    whole: bool = False
    repaired: Callable[[str], bool] = lambda _: False
    then: FollowUp | None = None
    more: MoreReplies | None = None
    sequence: bool = False

    @property
    def calls(self) -> int:
        """How many calls one response takes at most, if every first attempt succeeds."""
        return 2 if self.then is not None else 1 if self.more is None else 1 + self.more.count


@dataclass(frozen=True)
class FollowUp:
    """The second call of an extractor. ``messages`` builds its prompt from the text of the first reply."""

    messages: Callable[[str], tuple[Message, ...]]
    reading: BoundExtractor
    model: ModelKey | None = None


@dataclass(frozen=True)
class MoreReplies:
    """``count`` further replies to a request, at temperature 1, where ``needed(response)`` says so of the first response,
    which is then not used.

    ``reading`` reads one; ``complete(reply, request, fields)`` returns the response, from the first reply and the fields of
    the others.
    """

    count: int
    needed: Callable[[dict[str, Any]], bool]
    reading: BoundExtractor
    complete: Callable[[Reply, Request, Sequence[dict[str, Any]]], dict[str, Any]]


ExtractorIssue = tuple[str, str, str]
"""(key, what is wrong, hint) of an extractor that does not fit its unit."""


class Extractor(ConfigModel):
    """How a unit's response is requested and read from the reply."""

    type: str
    """The type of extractor."""

    def validation_error(self, response: RecordType) -> ExtractorIssue | None:
        """Why the extractor does not fit this response, None when it does."""
        return None

    def bind(self, response: RecordType) -> BoundExtractor:
        """The extractor for a response without `validation_error`."""
        raise NotImplementedError

    def key(self, fields: Sequence[str] = ()) -> Any:
        """The extractor as a pipeline file has it. ``fields`` are those of the response without the explanation."""
        keys = self.model_dump(by_alias=True, exclude_defaults=True)
        return {"type": self.type, **keys} if keys else self.type
