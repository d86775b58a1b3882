"""Every model that litellm knows and that the native provider does not serve."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from functools import lru_cache, partial
from importlib.util import find_spec
from inspect import unwrap
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from verdict_cli.errors import Refused, Rejected, ReplyError, Retryable
from verdict_cli.llm.model_families import provider_of
from verdict_cli.llm.providers import TokenCallback
from verdict_cli.llm.providers.chat_completions import STREAMED, arguments
from verdict_cli.llm.providers.endpoint import check_litellm_host
from verdict_cli.llm.providers.http_errors import Source, clean
from verdict_cli.llm.providers.json_mode import JsonMode, JsonModeFallback
from verdict_cli.llm.providers.litellm_errors import nearest_model, translate, unknown_model
from verdict_cli.llm.providers.price_book import entry_of, litellm_folder
from verdict_cli.llm.providers.read_reply import read_envelope
from verdict_cli.llm.providers.secrets import address_secrets, key_in, model_secrets, redact
from verdict_cli.llm.providers.wire_protocol import parameters
from verdict_cli.llm.providers.wire_values import object_at
from verdict_cli.messages import JsonObject, Reply, Request, Usage
from verdict_cli.model import Model

_INSTALL = "pip install litellm, or call the model's server by openai/NAME with api_base"
_OWN_WARNINGS = ("Item .* on TypedDict class", "Pydantic serializer warnings")
"""Warnings about litellm's own types, which users cannot act on."""


class LitellmProvider:
    """Answers through ``litellm.acompletion``, without litellm's own retries, logging and telemetry.

    litellm is imported at the first call, in a thread: it takes seconds.
    """

    def __init__(self, on_token: TokenCallback | None = None) -> None:
        self._on_token = on_token
        self._opening = asyncio.Lock()
        self._litellm: Any = None
        self._exceptions: tuple[type[BaseException], ...] = ()
        self._json_modes = JsonModeFallback()
        self._secrets: dict[tuple[str | None, str | None], tuple[str, ...]] = {}

    @staticmethod
    def serves(model: Model) -> bool:
        return True  # litellm raises for a model that it does not know

    @staticmethod
    def check(model: Model) -> str | None:
        if litellm_folder() is None:
            return f"model {model.name} is called through the package litellm, which is not installed; {_INSTALL}"
        try:
            check_litellm_host(model, os.environ)
        except Refused as error:
            return error.in_one_line()
        if _is_misspelled(model):
            unknown = unknown_model(model.name)
            return f"{unknown.message}; {unknown.hint}"
        if model.name.startswith(("vertex_ai/", "vertex_ai_beta/")) and not _has_google_auth():
            return f"model {model.name} needs the package google-auth; pip install google-auth"
        return None

    async def ask(self, request: Request) -> Reply:
        """The model's reply. ``model.timeout`` limits the call as a whole."""
        await self._open()
        best = _best_json_mode(request.model.known_name)
        return await self._json_modes.ask(request, best, partial(self._send, request))

    async def _send(self, request: Request, mode: JsonMode) -> Reply:
        model = request.model
        check_litellm_host(model, os.environ)
        settings = {"api_base": model.api_base, "api_key": _key(model), **arguments(request, mode)}
        settings |= STREAMED if request.stream else {}
        start = perf_counter()
        try:
            async with asyncio.timeout(model.timeout):
                answer = await self._litellm.acompletion(
                    model=model.name,
                    timeout=model.timeout,
                    num_retries=0,
                    max_retries=0,
                    **(_SKIP_MCP if "tools" in settings and _takes_skip_mcp() else {}),
                    **{name: value for name, value in settings.items() if value is not None},
                )
                response = await self._assemble(answer, request) if request.stream else answer
        except TimeoutError:
            message = f"model {model.name}: no reply within {model.timeout:g} s"
            raise Retryable(message, kind="timeout") from None
        except self._exceptions as error:
            raise translate(model.name, error, self._hidden(model)) from None
        source = Source(
            model.name,
            f"the provider of {model.name}",
            _headers(response),
            latency_s=perf_counter() - start,
            sent=parameters(settings),
        )
        try:
            reply = read_envelope(redact(_envelope(response), self._hidden(model)), request, source)
        except (ReplyError, Rejected, Retryable) as error:
            if error.reply is not None:
                error.reply = self._priced(error.reply, model, response)
            raise
        return self._priced(reply, model, response)

    async def _assemble(self, events: Any, request: Request) -> Any:
        """The completion in a stream's events."""
        received = []
        async for event in events:
            received.append(event)
            if (
                self._on_token is not None
                and event.choices
                and (text := event.choices[0].delta.content)
            ):
                self._on_token(request, text)
        return self._litellm.stream_chunk_builder(received)

    async def close(self) -> None:
        if self._litellm is not None:
            await self._litellm.close_litellm_async_clients()
            self._litellm.in_memory_llm_clients_cache.flush_cache()  # or the next run gets closed clients

    async def _open(self) -> None:
        async with self._opening:
            if self._litellm is None:
                try:
                    self._litellm, self._exceptions = await asyncio.to_thread(_import)
                except ImportError as error:
                    message = f"the package litellm cannot be imported: {error}"
                    raise Refused(message, hint=_INSTALL) from None

    def _hidden(self, model: Model) -> tuple[str, ...]:
        """Texts to remove from the model's replies and errors."""
        key = (model.api_base, model.api_key_env)
        if key not in self._secrets:
            base = model.api_base or ""
            hidden = (*model_secrets(model, os.environ), *address_secrets(base, os.environ))
            self._secrets[key] = hidden
        return self._secrets[key]

    def _priced(self, reply: Reply, model: Model, response: Any) -> Reply:
        """The reply with litellm's cost where the pipeline has no price."""
        cost_usd = reply.cost_usd if model.cost or model.base_model else self._price(response)
        if cost_usd == 0 and reply.cost_usd is None and reply.usage != Usage():
            cost_usd = None  # litellm gives 0 for some models whose price it does not know
        return replace(reply, cost_usd=cost_usd)

    def _price(self, response: Any) -> float | None:
        """The cost by litellm, which it mostly computes with the response; None for a model whose price it does not know."""
        computed = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
        if isinstance(computed, int | float):
            return float(computed)
        try:
            return float(self._litellm.completion_cost(response))
        except (
            Exception
        ):  # some versions raise the bare class; a price that fails must not lose a paid reply
            return None


def _has_google_auth() -> bool:
    try:
        return find_spec("google.auth") is not None
    except ModuleNotFoundError:  # there is no package `google` at all
        return False


def _headers(response: Any) -> dict[str, str]:
    """The headers of the provider's response."""
    hidden = getattr(response, "_hidden_params", None) or {}
    headers = object_at(hidden, "additional_headers")
    return {str(name): str(value) for name, value in headers.items()}


def _import() -> tuple[Any, tuple[type[BaseException], ...]]:
    """Import litellm without its output. Returns it and the exceptions that a call may raise."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import httpx
    import litellm
    import openai

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.turn_off_message_logging = True
    litellm.drop_params = False
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    for message in _OWN_WARNINGS:
        warnings.filterwarnings("ignore", message, UserWarning)
    error_classes = tuple(
        kind
        for kind in vars(litellm.exceptions).values()
        if isinstance(kind, type)
        and issubclass(kind, Exception)
        and kind.__module__ == "litellm.exceptions"
    )
    return litellm, (
        *error_classes,
        openai.OpenAIError,
        httpx.HTTPError,
        ImportError,
        OSError,
        ValueError,
    )


_SKIP_MCP = {"_skip_mcp_handler": True}
"""Keeps litellm from importing the package `mcp`, which it does not require, at every call with tools: the call fails without."""


@lru_cache(maxsize=1)
def _takes_skip_mcp() -> bool:
    """Whether this version of litellm takes `_SKIP_MCP`. An older one sends it to the provider."""
    import litellm

    return "_skip_mcp_handler" in unwrap(litellm.completion).__code__.co_consts


@lru_cache(maxsize=256)
def _best_json_mode(name: str) -> JsonMode:
    """The best JSON mode that the model takes, by litellm's data; for a model that the data lacks, the best of all, since
    a rejected mode is followed by the next."""
    entry = entry_of(name)
    if entry is None:
        return "schema"
    import litellm

    if entry.get("supports_response_schema") or litellm.supports_response_schema(model=name):
        return "schema"
    return "tool" if litellm.supports_function_calling(model=name) else "prompt"


def _is_misspelled(model: Model) -> bool:
    """Whether the name is a slip: a bare one that neither litellm's data nor its rules have, but that is near one of them.

    Any other unknown name is left to litellm, whose rules may be newer.
    """
    name = model.name
    if model.api_base or "custom_llm_provider" in model.params or name.startswith("ft:"):
        return False
    is_unknown = "/" not in name and provider_of(name) == name and entry_of(name) is None
    return is_unknown and nearest_model(name) != ""


def _envelope(response: Any) -> JsonObject:
    """The response in the OpenAI API's shape."""
    envelope: JsonObject = response.model_dump()
    for choice in envelope.get("choices") or ():
        message = choice.get("message") or {}
        message.setdefault(
            "refusal", (message.get("provider_specific_fields") or {}).get("refusal")
        )
    return envelope


def _key(model: Model) -> str | None:
    """The key in ``api_key_env``; None leaves it to the variables that litellm reads."""
    if model.api_key_env is None:
        return None
    key = key_in(model.api_key_env, os.environ)
    if not key:
        raise Refused(
            f"model {model.name} needs a key: the environment variable {model.api_key_env} is not set",
            hint=f"export {clean(model.api_key_env)}=…",
        )
    return key
