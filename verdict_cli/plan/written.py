"""A resolved pipeline as YAML text that reads back as the same data."""

from __future__ import annotations

import re
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_/.-]*( [A-Za-z0-9_/.-]+)*")
_RESERVED = {"null", "true", "false"}
_UNFIT = re.compile(r"[ \t]$|[\r\x85\u2028\u2029]")
"""What a line of a block scalar cannot hold: space at its end, and what PyYAML takes for a line break."""


class _Dumper(yaml.SafeDumper):
    """Writes YAML 1.2: whatever another reader could take for a number or a truth value stands in quotes."""

    def ignore_aliases(self, data: Any) -> bool:
        """Every value is written out."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style: str | None = '"'
    lines = text.split("\n")
    if len(lines) > 1 and text == text.strip() and not any(_UNFIT.search(line) for line in lines):
        style = "|"
    elif _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        style = None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(data: Any) -> str:
    """The data as YAML, keys in their own order."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
