"""Every model that litellm knows and that does not speak the OpenAI protocol."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from functools import lru_cache
from inspect import unwrap
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from verdict_cli.errors import Refused, Rejected, ReplyError, Retryable
from verdict_cli.language.egress_hosts import OWNERS
from verdict_cli.llm.providers.chat_completions import STREAMED, arguments, parameters, read_envelope
from verdict_cli.llm.providers.http_errors import clean
from verdict_cli.llm.providers.json_mode import JsonMode, JsonModeFallback
from verdict_cli.llm.providers.litellm_egress import refuse_foreign
from verdict_cli.llm.providers.litellm_errors import translate
from verdict_cli.llm.providers.provider import TokenCallback
from verdict_cli.llm.providers.rate_limit_headers import allowance_of
from verdict_cli.llm.providers.secrets import redact, secrets, within_address
from verdict_cli.llm.providers.system_keyring import key_in
from verdict_cli.messages import Allowance, Reply, Request
from verdict_cli.model import Model

_ITS_OWN_WARNINGS = ("Item .* on TypedDict class", "Pydantic serializer warnings")
"""About its own types; nobody who runs a pipeline can act on them."""


class LitellmProvider:
    """Answers through ``litellm.acompletion``, without litellm's own retries, logging and telemetry.

    litellm is imported at the first call, in a thread: it takes seconds.
    """

    def __init__(self, heard: TokenCallback | None = None) -> None:
        self._heard = heard
        self._opening = asyncio.Lock()
        self._litellm: Any = None
        self._raised: tuple[type[BaseException], ...] = ()
        self._ways = JsonModeFallback()
        self._secrets: dict[tuple[str | None, str | None], tuple[str, ...]] = {}

    async def ask(self, request: Request) -> Reply:
        """The model's reply. ``model.timeout`` bounds the call as a whole."""
        await self._open()
        model = request.model
        if request.json_schema is None:
            return await self._asked(request, "schema")
        where = (model.name, model.api_base, model.api_key_env)
        return await self._ways.ask(where, _best(model.name), lambda way: self._asked(request, way))

    async def _asked(self, request: Request, way: JsonMode) -> Reply:
        model = request.model
        refuse_foreign(model, os.environ)
        asked = {"api_base": model.api_base, "api_key": _key(model), **arguments(request, way)}
        asked |= STREAMED if request.stream else {}
        start = perf_counter()
        try:
            async with asyncio.timeout(model.timeout):
                answer = await self._litellm.acompletion(
                    model=model.name,
                    timeout=model.timeout,
                    num_retries=0,
                    max_retries=0,
                    **(_WITHOUT_MCP if "tools" in asked and _knows_mcp() else {}),
                    **{name: value for name, value in asked.items() if value is not None},
                )
                response = await self._whole(answer, request) if request.stream else answer
        except TimeoutError:
            message = f"model {model.name}: no reply within {model.timeout:g} s"
            raise Retryable(message, kind="timeout") from None
        except self._raised as problem:
            raise translate(model.name, problem, self._hidden(model)) from None
        latency_s = perf_counter() - start
        try:
            reply = read_envelope(
                redact(_envelope(response), self._hidden(model)), request, latency_s, parameters(asked)
            )
        except (ReplyError, Rejected, Retryable) as problem:
            if problem.reply is not None:
                problem.reply = self._priced(problem.reply, model, response)
            raise
        return self._priced(reply, model, response)

    async def _whole(self, events: Any, request: Request) -> Any:
        """The completion that a stream's events make."""
        gathered = []
        async for event in events:
            gathered.append(event)
            if self._heard is not None and event.choices and (said := event.choices[0].delta.content):
                self._heard(request, said)
        return self._litellm.stream_chunk_builder(gathered)

    async def close(self) -> None:
        if self._litellm is not None:
            await self._litellm.close_litellm_async_clients()
            self._litellm.in_memory_llm_clients_cache.flush_cache()  # or the next run would be given closed ones

    async def _open(self) -> None:
        if self._litellm is None:
            async with self._opening:
                if self._litellm is None:
                    litellm, self._raised = await asyncio.to_thread(_import)
                    self._litellm = litellm

    def _hidden(self, model: Model) -> tuple[str, ...]:
        """What replies and errors of the model must not tell."""
        where = (model.api_base, model.api_key_env)
        if where not in self._secrets:
            base = model.api_base or ""
            hidden = (*secrets(model, os.environ), *within_address(base, os.environ))
            self._secrets[where] = hidden
        return self._secrets[where]

    def _priced(self, reply: Reply, model: Model, response: Any) -> Reply:
        """The reply with litellm's own figure for its cost, where the pipeline has none, and the provider's limits."""
        cost_usd = reply.cost_usd if model.cost is not None else self._price(response)
        return replace(reply, cost_usd=cost_usd, allowance=_allowance(response))

    def _price(self, response: Any) -> float | None:
        """litellm's own figure, mostly made with the response; None for a model whose price it does not know."""
        made = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
        if isinstance(made, int | float):
            return float(made)
        try:
            return float(self._litellm.completion_cost(response))
        except self._raised:
            return None


def _allowance(response: Any) -> Allowance | None:
    hidden = getattr(response, "_hidden_params", None) or {}
    headers = hidden.get("additional_headers") if isinstance(hidden, dict) else None
    return allowance_of({str(name): str(value) for name, value in headers.items()}) if headers else None


def _import() -> tuple[Any, tuple[type[BaseException], ...]]:
    """litellm, quiet, and the exceptions that a call may raise."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import httpx
    import litellm
    import openai

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.turn_off_message_logging = True
    litellm.drop_params = False
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    for words in _ITS_OWN_WARNINGS:
        warnings.filterwarnings("ignore", words, UserWarning)
    own = tuple(
        one
        for one in vars(litellm.exceptions).values()
        if isinstance(one, type) and issubclass(one, Exception) and one.__module__ == "litellm.exceptions"
    )
    return litellm, (*own, openai.OpenAIError, httpx.HTTPError, ImportError, OSError, ValueError)


_WITHOUT_MCP = {"_skip_mcp_handler": True}
"""Keeps litellm from importing the package `mcp`, which it does not require, for every call that has tools."""


@lru_cache(maxsize=1)
def _knows_mcp() -> bool:
    """Whether this litellm takes `_WITHOUT_MCP`: an older one would send it to the provider."""
    import litellm

    return "_skip_mcp_handler" in unwrap(litellm.completion).__code__.co_consts


@lru_cache(maxsize=256)
def _best(name: str) -> JsonMode:
    """The best way of asking for JSON that litellm knows the model to take."""
    import litellm

    if litellm.supports_response_schema(model=name):
        return "schema"
    return "tool" if litellm.supports_function_calling(model=name) else "words"


def _envelope(response: Any) -> dict[str, Any]:
    """The response in the OpenAI API's shape."""
    envelope: dict[str, Any] = response.model_dump()
    for choice in envelope.get("choices") or ():
        message = choice.get("message") or {}
        message.setdefault("refusal", (message.get("provider_specific_fields") or {}).get("refusal"))
    return envelope


def _key(model: Model) -> str | None:
    """The key in ``api_key_env``; else the one that the keyring has for the provider; None leaves it to the variables that
    litellm reads."""
    if model.api_key_env is None:
        variable = f"{model.name.partition('/')[0].upper()}_API_KEY"
        keeps = variable in OWNERS and not os.environ.get(variable)
        return (key_in(variable, os.environ) if keeps else "") or None
    key = key_in(model.api_key_env, os.environ)
    if not key:
        raise Refused(
            f"model {model.name} needs a key: the environment variable {model.api_key_env} is not set",
            hint=f"export {clean(model.api_key_env)}=…",
        )
    return key
