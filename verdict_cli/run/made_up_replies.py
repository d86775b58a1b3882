"""Replies for a dry run, which every extractor can read."""

from __future__ import annotations

import orjson
from msgspec import structs

from verdict_cli.llm.providers.baseline import lexical_reply
from verdict_cli.llm.providers.baseline_answers import fill
from verdict_cli.llm.providers.token_counts import LATIN
from verdict_cli.messages import Reply, Request

TEXT_TOKENS = 100
"""The assumed length of every text that a model writes."""
_TEXT = ("word " * TEXT_TOKENS)[: round(TEXT_TOKENS * LATIN)].strip()


class _Middle:
    """Answers in the middle of each scale, with sentences of the assumed length."""

    def level(self) -> float:
        return 0.5

    def position_on(self, count: int) -> float:
        return (count - 1) / 2

    def sentence(self) -> str:
        return _TEXT


def made_up_reply(request: Request) -> Reply:
    """A reply that every extractor can read."""
    reply = lexical_reply(request)
    if request.json_schema is not None:
        return structs.replace(reply, text=orjson.dumps(fill(request.json_schema, _Middle())).decode())
    return reply if reply.logprobs else structs.replace(reply, text=f"{_TEXT}\n{reply.text}")
