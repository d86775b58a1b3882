"""Changes to a text that is judged: longer without more content, plain without its markdown."""

from __future__ import annotations

import re

PADDING = (
    "To put the above in other words: everything that matters has been said, and what was said stands as it was said. "
    "It bears repeating that the points made above are the points made above, and that nothing is added to them here."
)
_MARKDOWN = (
    (re.compile(r"(?m)^[ \t]*(?:```|~~~)[^\n]*\n?"), ""),
    (re.compile(r"(?m)^[ \t]{0,3}#{1,6}[ \t]+(.*?)[ \t]*#*$"), r"\1"),
    (re.compile(r"(?m)^[ \t]{0,3}>[ \t]?"), ""),
    (re.compile(r"(?m)^([ \t]*)(?:[-*+]|\d{1,3}[.)])[ \t]+"), r"\1"),
    (re.compile(r"(?m)^[ \t]{0,3}(?:[-*_][ \t]*){3,}$\n?"), ""),
    (re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)"), r"\1"),
    (re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"`([^`\n]+)`"), r"\1"),
)


def padded(text: str) -> str:
    """The text followed by as much again that says nothing, at least one paragraph of it."""
    times = max(1, round(len(text) / len(PADDING)))
    return f"{text}\n\n{' '.join([PADDING] * times)}"


def plain(text: str) -> str:
    """The text without headings, lists, quotes, emphasis, links and code marks; its words stay."""
    for pattern, kept in _MARKDOWN:
        text = pattern.sub(kept, text)
    return text
