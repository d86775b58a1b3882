"""Marks of cacheable prefixes in the blocks of Anthropic's messages (`cache_control`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verdict_cli.llm.prompt_prefix import TOKEN_BYTES, cacheable_minimum
from verdict_cli.llm.providers.wire_protocol import protocol_parts
from verdict_cli.messages import Message, Request

SYSTEM = -1
"""Stands for the system prompt, which the API takes apart from the turns."""
_BETWEEN = "\n\n"
"""What joins system messages."""
EPHEMERAL = {"type": "ephemeral"}
_SETTING = "cache_control"


def cache_marks(request: Request) -> Mapping[int, list[int]]:
    """The positions to mark by the number of the turn (`SYSTEM`: of the system prompt), in order.

    Only marks at or behind the model's cacheable minimum; none where the pipeline's own `params` ask for caching.
    """
    params = request.model.params
    if not request.marks or _SETTING in params or _SETTING in (params.get("extra_body") or {}):
        return {}
    least = cacheable_minimum(request.model)
    if least is None:
        return {}
    found: dict[int, list[int]] = {}
    marks = [(len(request.messages) - 1, -1) if mark == (-1, -1) else mark for mark in request.marks]
    system = preceding = turn = 0
    for place, message in enumerate(request.messages):
        is_system = message.role == "system"
        start = system + (len(_BETWEEN) if system else 0) if is_system else 0
        for _, at in (mark for mark in marks if mark[0] == place):
            end = len(message.content) if at < 0 else min(at, len(message.content))
            size = preceding + len(message.content[:end].encode(errors="surrogatepass"))
            if size >= least * TOKEN_BYTES:
                found.setdefault(SYSTEM if is_system else turn, []).append(start + end)
        preceding += len(message.content.encode(errors="surrogatepass"))
        if is_system:
            system = start + len(message.content)
        else:
            turn += 1
    return found


def marked_parts(message: Message, positions: Sequence[int]) -> list[dict[str, Any]]:
    """The message's content as OpenAI's parts, split at the positions; what ends at one of them is marked."""
    if not positions:
        return protocol_parts(message)
    parts: list[dict[str, Any]] = []
    start = 0
    for end in sorted({*positions, len(message.content)}):
        is_last = end == len(message.content)
        text = message.content[start:end]
        images = tuple(
            (at - start, url) for at, url in message.images if start <= at and (at < end or (is_last and at == end))
        )
        if text.strip() or images:
            parts += protocol_parts(Message(message.role, text, images))
            start = end
            if end in positions:
                parts[-1] = {**parts[-1], _SETTING: EPHEMERAL}
    return parts
