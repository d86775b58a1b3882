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
