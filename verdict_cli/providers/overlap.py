"""Word overlap between a row's value and the text around it: the measure of ``baseline/lexical``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from verdict_cli.values import Request

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_STOP_WORDS = (
    "a an and are as at be been but by can did do does for from had has have he her his how i if in into is it "
    "its me my no not of on or our she so than that the their them then there these they this to was we were "
    "what when where which who why will with would you your"
)
_STOP = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True, slots=True)
class Overlap:
    """``shared`` are the content words of a text, in its order, that also occur around it; ``total`` counts all of them."""

    shared: tuple[str, ...]
    total: int

    @property
    def share(self) -> float:
        """From 0 to 1; 0 for a text without words."""
        return len(self.shared) / self.total if self.total else 0.0


def content_words(text: str) -> tuple[str, ...]:
    """The distinct words of the text, case-folded, in order, without stop words (with them where nothing else is left)."""
    words = tuple(dict.fromkeys(word.casefold() for word in _WORD.findall(text)))
    return tuple(word for word in words if word not in _STOP) or words


def overlap(request: Request) -> Overlap:
    """How much of the last inserted value (else of the last user message) occurs in the rest of the messages."""
    text, rest = _text_and_rest(request)
    words = content_words(text)
    around = set(content_words(rest))
    return Overlap(tuple(word for word in words if word in around), len(words))


def _text_and_rest(request: Request) -> tuple[str, str]:
    if request.inserted:
        prompt = "\n".join(message.content for message in request.messages)
        text = request.inserted[-1]
        at = _place_of_last(prompt, request.inserted)
        return text, prompt if at < 0 else f"{prompt[:at]} {prompt[at + len(text) :]}"
    users = [place for place, message in enumerate(request.messages) if message.role == "user"]
    last = users[-1] if users else len(request.messages) - 1
    others = (message.content for place, message in enumerate(request.messages) if place != last)
    return request.messages[last].content, "\n".join(others)


def _place_of_last(prompt: str, inserted: tuple[str, ...]) -> int:
    """Where the last inserted value starts, -1 if nowhere. The values stand in order, so a word that also
    occurs in an earlier value is not taken for the later one."""
    at = end = 0
    for value in inserted:
        at = prompt.find(value, end)
        if at < 0:
            return prompt.rfind(inserted[-1])
        end = at + len(value)
    return at
