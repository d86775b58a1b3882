"""What a user names: a path, or a URL."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
_CUT = re.compile(r"[a-z][a-z0-9+]+:/")


def is_url(name: str) -> bool:
    """Whether the name is a URL of something other than this machine's files."""
    found = _URL.match(name)
    return found is not None and found[1].lower() != "file"


def was_url(path: Path) -> bool:
    """Whether the path is what becomes of a URL that is taken for one."""
    return _CUT.match(str(path)) is not None


def path_of(name: str) -> str:
    """The path that a ``file:`` URL stands for; any other name as it is."""
    return url2pathname(urlsplit(name).path) if name[:7].lower() == "file://" else name
