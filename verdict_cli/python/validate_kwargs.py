"""Keys checked as soon as they are written in Python, in the words of the language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError

from verdict_cli.config_model import ConfigModel
from verdict_cli.errors import UsageError

K = TypeVar("K", bound=ConfigModel)


def validate_kwargs(kind: type[K], what: str, keys: Mapping[str, Any]) -> K:
    """The keys as the language's own class. UsageError names `what` and the first key that is wrong."""
    known(what, keys, (field.alias or name for name, field in kind.model_fields.items()))
    try:
        return kind.model_validate(dict(keys))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"][:1])
        raise UsageError(f"{what}: {where}: {first['msg']}, found {first['input']!r:.80}") from None


def known(what: str, keys: Iterable[str], names: Iterable[str]) -> None:
    """UsageError for a key that is none of the names, with the nearest one."""
    allowed = list(names)
    for key in keys:
        if key not in allowed:
            close = get_close_matches(key, allowed, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"it takes {', '.join(allowed)}"
            raise UsageError(f"{what} takes no `{key}`", hint=hint)
