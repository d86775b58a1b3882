"""A message's content as the chat-completions protocol writes it."""

from __future__ import annotations

from typing import Any

from verdict_cli.fields import image_url
from verdict_cli.values import Message


def content(message: Message) -> Any:
    """The text; with pictures, the list of its parts in order, each picture at its place. RowError for a file that
    cannot be read.
    """
    if not message.images:
        return message.content
    parts: list[dict[str, Any]] = []
    start = 0
    for place, image in message.images:
        parts += _text(message.content[start:place])
        parts.append({"type": "image_url", "image_url": {"url": image_url(image)}})
        start = place
    return parts + _text(message.content[start:])


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text.strip() else []
