"""What must not be told: the keys of the environment, and what it adds to an address."""

from __future__ import annotations

import re
from collections.abc import Mapping

from verdict_cli.models import Model
from verdict_cli.models.hosts import host_of

_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SHORTEST = 8
"""A shorter value is no secret (`EMPTY`, `none`), and its letters stand everywhere."""


def secrets(model: Model, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that are named as keys are, and of the model's own, the longest first."""
    own = model.api_key_env
    found = {value.strip() for name, value in environ.items() if name == own or _NAME.search(name)}
    return _longest_first(found)


def within_address(model: Model, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that stand in the model's address beside its host, the longest first."""
    base = model.api_base or ""
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


def _longest_first(values: set[str]) -> tuple[str, ...]:
    return tuple(sorted((one for one in values if len(one) >= _SHORTEST), key=len, reverse=True))
