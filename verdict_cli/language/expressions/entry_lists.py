"""Functions that give the list of an `each`, with the types of their entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from verdict_cli.language.expressions.match_calls import MATCHES, match_calls
from verdict_cli.language.expressions.turns import TURNS, turns
from verdict_cli.language.fields.types import ListType

ENTRY_LISTS: Mapping[str, Callable[..., list[Any]]] = MappingProxyType({"turns": turns, "match_calls": match_calls})
"""The functions by name. No other expression can call them."""

ENTRY_LIST_TYPES: Mapping[str, ListType] = MappingProxyType({"turns": TURNS, "match_calls": MATCHES})
"""The types of what they give."""
