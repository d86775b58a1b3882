"""The wire protocol of each family of models.

A new HTTP API is a `WireProtocol` in a module of its own, a line here, and a line in `model_families` for each prefix of its
models' names. Keys, retries, limits, prices and records then work as for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from verdict_cli.llm.model_families import Family
from verdict_cli.llm.providers.wire_protocol import WireProtocol

_PROTOCOLS = {
    "chat": "verdict_cli.llm.providers.chat_completions:CHAT",
    "decisions": "verdict_cli.llm.providers.decision_protocols:OPENAI_DECISIONS",
    "systemone": "verdict_cli.llm.providers.decision_protocols:SYSTEM_ONE",
    "anthropic": "verdict_cli.llm.providers.anthropic_messages:ANTHROPIC_MESSAGES",
    "gemini": "verdict_cli.llm.providers.gemini:GEMINI",
    "responses": "verdict_cli.llm.providers.openai_responses:OPENAI_RESPONSES",
}


def protocol_of(family: Family) -> WireProtocol:
    """The protocol of a family's server."""
    path = _PROTOCOLS[family.protocol]
    module, _, name = path.partition(":")
    return cast("WireProtocol", getattr(import_module(module), name))
