"""What must not be told: the keys of the environment, and what it adds to an address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from verdict_cli.language.egress_hosts import host_of
from verdict_cli.llm.providers import system_keyring
from verdict_cli.model import Model

_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_ESCAPED = re.compile(rb"\\(?:u00[2-7]|/)")
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
_SHORTEST = 8
"""A shorter value is no secret (`EMPTY`, `none`), and its letters stand everywhere."""


def secrets(model: Model, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that are named as keys are, and of the model's own; what the keyring gave; the longest
    first."""
    own = model.api_key_env
    found = {value.strip() for name, value in environ.items() if name == own or _NAME.search(name)}
    return _longest_first({*found, *system_keyring.find_key()})


def in_the_environment(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Every value of the environment that may be a key or hold one, whatever its name, and what the keyring gave, the
    longest first: for texts that nobody looks through, such as a traceback."""
    found = {value for value in environ.values() if not value.startswith("/") and ("://" not in value or "@" in value)}
    return _longest_first({*found, *system_keyring.find_key()})


def within_address(base: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that stand in an address beside its host, the longest first."""
    host = host_of(base)
    return _longest_first(
        {value for value in environ.values() if "://" not in value and value in base and value not in host}
    )


def without(text: str, hidden: tuple[str, ...]) -> str:
    """The text with each hidden value as `(key)`."""
    for one in hidden:
        if one in text:
            text = text.replace(one, "(key)")
    return text


def redact(value: Any, hidden: tuple[str, ...]) -> Any:
    """A decoded JSON value without the hidden values, wherever they stand in it. ValueError for one that is nested too
    deeply to be looked through."""
    try:
        return _cleared(value, hidden) if hidden else value
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _cleared(value: Any, hidden: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return without(value, hidden)
    if isinstance(value, dict):
        return {_cleared(key, hidden): _cleared(one, hidden) for key, one in value.items()}
    return [_cleared(one, hidden) for one in value] if isinstance(value, list) else value


def may_tell(content: bytes, hidden: tuple[str, ...]) -> bool:
    """Whether a hidden value may stand in a JSON text: as it is, or spelled by escapes."""
    if not hidden:
        return False
    sought, plain = _sought(hidden)
    return not plain or _ESCAPED.search(content) is not None or any(one in content for one in sought)


@lru_cache(maxsize=256)
def _sought(hidden: tuple[str, ...]) -> tuple[tuple[bytes, ...], bool]:
    """The values as bytes, and whether JSON writes all of them as they are, or by one of `_ESCAPED`."""
    sought = tuple(one.encode("utf-8", "surrogateescape") for one in hidden)
    return sought, all(map(_PLAIN.fullmatch, hidden))


def _longest_first(values: set[str]) -> tuple[str, ...]:
    return tuple(sorted((one for one in values if len(one) >= _SHORTEST), key=len, reverse=True))
