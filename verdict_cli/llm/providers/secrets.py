"""Keys from the environment, and their removal from texts that people read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from verdict_cli.language.model_address import host_of
from verdict_cli.model import Model
from verdict_cli.regex import regex

_NAME = regex(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_ESCAPED = regex(rb"\\(?:u00[2-7]|/)")
_PLAIN = regex(r"[ !#-\[\]-~]*")
_MIN_LENGTH = 8
"""A shorter value is not a secret (`EMPTY`, `none`), and would be found in ordinary words."""


def model_secrets(model: Model, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables with a key-like name and of the model's own variable, the longest first."""
    key_variable = model.api_key_env
    values = {
        value.strip()
        for name, value in environ.items()
        if name == key_variable or _NAME.search(name)
    }
    return _longest_first(values)


def environment_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Every value of the environment that may be or contain a key, the longest first: for texts that
    nobody checks, such as a traceback."""
    values = {
        value
        for value in environ.values()
        if not value.startswith("/") and ("://" not in value or "@" in value)
    }
    return _longest_first(values)


def address_secrets(base: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that occur in an address outside its host, the longest first."""
    host = host_of(base)
    return _longest_first(
        {
            value
            for value in environ.values()
            if "://" not in value and value in base and value not in host
        }
    )


def redact_text(text: str, hidden: tuple[str, ...]) -> str:
    """The text with each hidden value as `(key)`."""
    for value in hidden:
        if value in text:
            text = text.replace(value, "(key)")
    return text


def redact(value: Any, hidden: tuple[str, ...]) -> Any:
    """A decoded JSON value without the hidden values, at any depth. Raises ValueError for one that is nested too deeply."""
    try:
        return _redact(value, hidden) if hidden else value
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _redact(value: Any, hidden: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return redact_text(value, hidden)
    if isinstance(value, dict):
        return {_redact(key, hidden): _redact(part, hidden) for key, part in value.items()}
    return [_redact(part, hidden) for part in value] if isinstance(value, list) else value


def may_contain(content: bytes, hidden: tuple[str, ...]) -> bool:
    """Whether a JSON text may contain a hidden value, literally or as escapes."""
    if not hidden:
        return False
    values, plain = _encoded(hidden)
    return (
        not plain
        or _ESCAPED.search(content) is not None
        or any(value in content for value in values)
    )


@lru_cache(maxsize=256)
def _encoded(hidden: tuple[str, ...]) -> tuple[tuple[bytes, ...], bool]:
    """The values as bytes, and whether JSON writes all of them literally or with one of the `_ESCAPED` escapes."""
    values = tuple(value.encode("utf-8", "surrogateescape") for value in hidden)
    return values, all(map(_PLAIN.fullmatch, hidden))


def _longest_first(values: set[str]) -> tuple[str, ...]:
    return tuple(
        sorted((value for value in values if len(value) >= _MIN_LENGTH), key=len, reverse=True)
    )


def key_in(variable: str, environ: Mapping[str, str]) -> str:
    """The key in that environment variable; "" where there is none."""
    return environ.get(variable, "").strip()
