"""What a user names: a path, or a URL."""

from __future__ import annotations

import re
from urllib.parse import urlsplit
from urllib.request import url2pathname

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")


def is_url(name: str) -> bool:
    """Whether the name is a URL of something other than this machine's files."""
    found = _URL.match(name)
    return found is not None and found[1].lower() != "file"


def path_of(name: str) -> str:
    """The path that a ``file:`` URL stands for; any other name as it is."""
    return url2pathname(urlsplit(name).path) if name[:7].lower() == "file://" else name
