"""Regular expressions that are compiled at their first use: a command uses a few of the program's two hundred."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Pattern:
    def __init__(self, *form: Any) -> None:
        self._form = form

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._form), name)
        setattr(self, name, value)  # later uses find it without this method
        return value


def regex(text: AnyStr, flags: int | re.RegexFlag = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` gives, compiled when it is first used."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


def closing_brace(braces: re.Pattern[str], text: str, start: int) -> int:
    """The index after the brace that closes the one at `start`; the text's end where none does. The pattern finds braces, and
    quoted texts, whose braces do not count."""
    depth = 0
    for mark in braces.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(mark[0], 0)
        if not depth:
            return mark.end()
    return len(text)
