"""Message sections: a line that is `@system`, `@user` or `@assistant` starts one."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verdict_cli.messages import Message

ROLES = ("system", "user", "assistant")
MARKER = re.compile(rf"^[ \t]*@({'|'.join(ROLES)})[ \t]*$", re.MULTILINE)


def dedented(text: str) -> str:
    """The text without its common indentation and without blank lines at both ends."""
    return trimmed(textwrap.dedent(text.replace("\r\n", "\n")))


def trimmed(text: str) -> str:
    """The text without blank lines at both ends."""
    lines = text.split("\n")
    full = [index for index, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[full[0] : full[-1] + 1]) if full else ""


def split_sections(text: str) -> list[tuple[str, str]]:
    """(role, text) of each section; text before the first marker is the user's message, left out when blank."""
    pieces = MARKER.split(text)
    sections = [("user", pieces[0])] if pieces[0].strip() or len(pieces) == 1 else []
    sections += list(zip(pieces[1::2], pieces[2::2], strict=True))
    return [(role, trimmed(body)) for role, body in sections]


def framed(prompt: str, before: str = "", after: str = "") -> str:
    """The prompt with `before` at the start of its first section and `after` at the end of the last user section."""
    sections = split_sections(dedented(prompt))
    if before:
        role, text = sections[0]
        sections[0] = (role, f"{before}\n\n{text}")
    users = [index for index, (role, _) in enumerate(sections) if role == "user"]
    if after and users:
        sections[users[-1]] = ("user", f"{sections[users[-1]][1]}\n\n{after}")
    elif after:
        sections.append(("user", after))
    return "\n".join(f"@{role}\n{text}" for role, text in sections)


def suffixed(messages: Sequence[Message], suffix: str) -> tuple[Message, ...]:
    """The messages with the suffix at the end of the last user message."""
    if not suffix:
        return tuple(messages)
    for index in range(len(messages) - 1, -1, -1):
        last = messages[index]
        if last.role == "user":
            content = f"{last.content}\n\n{suffix}" if last.content else suffix
            return (*messages[:index], type(last)("user", content, last.images), *messages[index + 1 :])
    from verdict_cli.messages import Message  # here, because no message is made before a run

    return (*messages, Message("user", suffix))
