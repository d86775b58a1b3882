"""Message sections: a line that is `@system`, `@user` or `@assistant` starts one."""

from __future__ import annotations

import re
import textwrap

_MARKER = re.compile(r"^[ \t]*@(system|user|assistant)[ \t]*$", re.MULTILINE)


def dedented(text: str) -> str:
    """The text without its common indentation and without blank lines at both ends."""
    return trimmed(textwrap.dedent(text.replace("\r\n", "\n")))


def trimmed(text: str) -> str:
    """The text without blank lines at both ends and without white space at its end."""
    return re.sub(r"\A(?:[ \t]*\n)+", "", text).rstrip()


def split(text: str) -> list[tuple[str, str]]:
    """(role, text) of each section; text before the first marker is the user's message, left out when blank."""
    pieces = _MARKER.split(text)
    sections = [("user", pieces[0])] if pieces[0].strip() or len(pieces) == 1 else []
    sections += list(zip(pieces[1::2], pieces[2::2], strict=True))
    return [(role, trimmed(body)) for role, body in sections]
