"""Base of all extractors, and an extractor bound to a unit's response schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.config_model import ConfigModel, Issue
from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.answer_text import (
    drop_invisible,
    replace_surrogates,
    split_thoughts,
)
from verdict_cli.language.fields.types import TEXT, Fields, RecordType, Values
from verdict_cli.messages import Message, NamedValues, Reply, Request
from verdict_cli.model import ModelKey

EXPLANATION = "explanation"
"""The field that `explanation: true` adds."""
MASS_FIELD = "mass"
"""The fields that token extractors add: the probability of the scale's tokens, and whether further replies were needed."""
DEFAULTED_FIELD = "defaulted"
"""The field that `verdict` adds: whether nothing could be read and the lesson's default was used."""


def judged_fields(response: RecordType) -> Fields:
    """The response's fields without the explanation."""
    fields = dict(response.fields)
    if fields.get(EXPLANATION) == TEXT:
        del fields[EXPLANATION]
    return fields


Thoughts = Literal["drop", "keep", "spare"]


class BoundExtractor(Struct, frozen=True):
    """An extractor bound to a unit's response schema.

    Attributes:
        output: The fields that ``read`` returns.
        parse: ``parse(reply, request)`` returns the fields, from a reply whose text is the answer without thoughts; it raises
            ReplyError for a reply that it cannot read.
        json_schema: The schema by which the provider is to return JSON, if it can.
        top_logprobs: How many alternatives to request at each position.
        support: The tokens of the scale, worst first, for models that answer with one of them.
        instruction: What is added to the prompt after the scale's sentence.
        token_cap: The most tokens of a reply where the model sets no `max_tokens`; 0: no limit.
        corrects: Whether a retry shows the model the reply that could not be read.
        whole: Whether a reply that was cut off cannot be read, because what counts is at its end.
        deviates: ``deviates(text)`` says of a text that was read whether it is not in the requested format.
        thoughts: What happens to the thoughts in a reply: ``drop`` them, ``keep`` the whole text, or ``spare`` them where no
            answer follows.
        kept_tags: Names of tags that mark no thoughts, because the prompt or a pattern asks for them.
        then: A second call that reads the text of the first one.
        sequence: Whether probabilities are products along several tokens.
    """

    output: RecordType
    parse: Callable[[Reply, Request], Values]
    json_schema: NamedValues | None = None
    top_logprobs: int = 0
    support: tuple[str, ...] = ()
    instruction: str = ""
    token_cap: int = 0
    corrects: bool = False
    whole: bool = False
    deviates: Callable[[str], bool] | None = None
    thoughts: Thoughts = "drop"
    kept_tags: frozenset[str] = frozenset()
    then: FollowUp | None = None
    sequence: bool = False

    def read(self, reply: Reply, request: Request) -> Values:
        """The fields of a reply. ReplyError for one that cannot be read, also because it has only thoughts."""
        return self.parse(self.answer(reply), request)

    def answer(self, reply: Reply) -> Reply:
        """The reply without its thoughts and end-of-turn marks; the same one where it has none."""
        text = replace_surrogates(reply.text)
        if text != reply.text:
            reply = replace(reply, text=text)
        if self.thoughts == "keep":
            return reply
        try:
            split = split_thoughts(text, self.kept_tags)
        except ReplyError:
            if self.thoughts == "spare":
                return reply
            raise
        if split.doubt and self.thoughts == "drop":
            raise ReplyError(
                f"{split.doubt} is within other text, so that it is not clear where the reasoning ends: {split.answer[:200]!r}",
                hint="ask for the answer on a line of its own",
            )
        return reply if split.answer == reply.text else replace(reply, text=split.answer)

    def repaired(self, text: str) -> bool:
        """Whether a text that was read deviates from the requested format: here, in what is not part of the answer."""
        if self.deviates is not None:
            return self.deviates(text)
        if self.thoughts == "keep":
            return replace_surrogates(text) != text
        return (
            self.thoughts == "drop"
            and drop_invisible(
                split_thoughts(replace_surrogates(text), self.kept_tags).answer
            ).strip()
            != text.strip()
        )

    @property
    def calls(self) -> int:
        """How many calls one response takes at most, if every first attempt succeeds."""
        return 1 if self.then is None else 2


class FollowUp(Struct, frozen=True):
    """The second call of an extractor. ``messages`` builds its prompt from the text of the first reply."""

    messages: Callable[[str], tuple[Message, ...]]
    reading: BoundExtractor
    model: ModelKey | None = None


class Extractor(ConfigModel):
    """How a unit's response is requested and read from the reply."""

    type: str
    """The type of extractor."""

    def validation_error(self, response: RecordType) -> Issue | None:
        """Why the extractor does not fit this response, None when it does."""
        return self.broken_rule()

    def bind(self, response: RecordType) -> BoundExtractor:
        """The extractor for a response without `validation_error`."""
        raise NotImplementedError

    def for_decisions(self) -> Extractor | None:
        """The extractor for the answers of decision models; None where it reads written replies only."""
        return None

    def key(self) -> Any:
        """The extractor as a pipeline file has it."""
        keys = self.model_dump(by_alias=True, exclude_defaults=True)
        return {"type": self.type, **keys} if keys else self.type
