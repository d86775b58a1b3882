"""Models that can be called right now: a provider's key in the environment, or a server on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException

from msgspec import Struct

from verdict_cli.regex import regex

KEYS = {
    "OPENAI_API_KEY": "gpt-4o-mini",
    "ANTHROPIC_API_KEY": "anthropic/claude-haiku-4-5",
    "GEMINI_API_KEY": "gemini/gemini-2.5-flash",
}
"""Environment variable -> a small model of its provider."""

DECISION_KEYS = {
    "TYPESAFE_API_KEY": "typesafe/jev-latest",
    "OPENAI_API_KEY": "decisions/gpt-6-luna",
    "PERPLEXITYAI_API_KEY": "perplexity/pplx-decider-latest",
    "CLOUDFLARE_API_KEY": "cloudflare/clef",
    "FIREWORKS_API_KEY": "fireworks_ai/accounts/fireworks/routers/rune",
}
"""Environment variable -> a decision model of its provider."""
SERVERS = {11434: "Ollama", 8080: "llama.cpp", 1234: "LM Studio", 8000: "vLLM", 30000: "SGLang"}
"""Default port -> server. All of them list their models under `/v1/models`."""
_DECIDES = regex(r"jev|decid|decision|clef|nimble|drex|rune", re.IGNORECASE)
"""Names of models that answer System One's questions: a server lists them as it lists chat models."""

_TIMEOUT_S = 0.3
"""A server on the same machine answers within milliseconds; a closed port refuses at once."""
_MOST_BYTES = 1_000_000


class AtHand(Struct, frozen=True):
    """A model, why it can be called, and the environment variables that its command needs besides those that are set."""

    model: str
    reason: str
    variables: Mapping[str, str]


def at_hand(environ: Mapping[str, str], ports: Mapping[int, str] = SERVERS) -> AtHand | None:
    """The first model that can be called: by a key, else on a local server. None where there is neither."""
    base = "OPENAI_BASE_URL", "/v1"
    return _by_key(environ, KEYS) or _on_server(ports, "openai", base, regex("."))


def decision_model_at_hand(
    environ: Mapping[str, str], ports: Mapping[int, str] = SERVERS
) -> AtHand | None:
    """The first decision model that can be called: by a key, else on a local server that lists one. None where there is neither."""
    base = "SYSTEMONE_API_BASE", "/v1/systemone"
    return _by_key(environ, DECISION_KEYS) or _on_server(ports, "systemone", base, _DECIDES)


def _on_server(
    ports: Mapping[int, str], prefix: str, base: tuple[str, str], form: re.Pattern[str]
) -> AtHand | None:
    """The first model with a name of this form on a local server, with the variable of the server's address."""
    variable, path = base
    for port, server in ports.items():
        model = _first_model(port)
        if form.search(model):
            variables = {variable: f"http://127.0.0.1:{port}{path}"}
            return AtHand(f"{prefix}/{model}", f"{server} answers on port {port}", variables)
    return None


def _by_key(environ: Mapping[str, str], models: Mapping[str, str]) -> AtHand | None:
    """The first model whose variable is set."""
    for variable, model in models.items():
        if environ.get(variable, "").strip():
            return AtHand(model, f"{variable} is set", {})
    return None


def _first_model(port: int) -> str:
    """The first model that the server lists; empty where nothing, or another kind of server, answers there."""
    connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        listed = json.loads(answer.read(_MOST_BYTES)) if answer.status == 200 else None
    except (OSError, HTTPException, ValueError):
        return ""
    finally:
        connection.close()
    models = listed.get("data") if isinstance(listed, dict) else None
    first = models[0] if isinstance(models, list) and models else None
    name = first.get("id") if isinstance(first, dict) else None
    return name if isinstance(name, str) and name.isprintable() else ""
