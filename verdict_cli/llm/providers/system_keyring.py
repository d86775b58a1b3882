"""Keys: from the environment, else from the system's keyring where the extra `keyring` is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

SERVICE = "verdict"
"""The keyring's entries that are read: `keyring set verdict OPENAI_API_KEY`. No others are, whatever a file names."""

_found: dict[str, str] = {}


def key_in(variable: str, environ: Mapping[str, str]) -> str:
    """The key of that variable's name; "" where there is none. The keyring is asked once for each name, and imported only
    where the environment has no such key."""
    key = environ.get(variable, "").strip()
    if key or not variable:
        return key
    if variable not in _found:
        _found[variable] = _asked(variable)
    return _found[variable]


def find_key() -> tuple[str, ...]:
    """The keys that the keyring has given."""
    return tuple(key for key in _found.values() if key)


def _asked(variable: str) -> str:
    if find_spec("keyring") is None:
        return ""
    import keyring
    from keyring.errors import KeyringError

    try:
        return (keyring.get_password(SERVICE, variable) or "").strip()
    except (KeyringError, RuntimeError, OSError):  # locked, or none on this machine: then there is no key
        return ""
