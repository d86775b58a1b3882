"""Every model that litellm knows and that does not speak the OpenAI protocol."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from dataclasses import replace
from functools import lru_cache
from time import perf_counter
from typing import Any

import orjson

from verdict_cli.errors import Refused, Retryable
from verdict_cli.models import Model
from verdict_cli.providers.chat import arguments, read_envelope
from verdict_cli.providers.litellm_errors import translate
from verdict_cli.providers.statuses import clean
from verdict_cli.values import Reply, Request

_INSTRUCTION = "\n\nReply with one JSON object, and nothing else, that satisfies this JSON Schema:\n"
_ITS_OWN_WARNINGS = ("Item .* on TypedDict class", "Pydantic serializer warnings")
"""About its own types; nobody who runs a pipeline can act on them."""


class LitellmProvider:
    """Answers through ``litellm.acompletion``, without litellm's own retries, logging and telemetry.

    litellm is imported at the first call, in a thread: it takes seconds.
    """

    def __init__(self) -> None:
        self._opening = asyncio.Lock()
        self._litellm: Any = None
        self._raised: tuple[type[BaseException], ...] = ()

    async def ask(self, request: Request) -> Reply:
        """The model's reply. ``model.timeout`` bounds the call as a whole."""
        await self._open()
        model = request.model
        asked = {"api_base": model.api_base, "api_key": _key(model), **self._arguments(request)}
        start = perf_counter()
        try:
            async with asyncio.timeout(model.timeout):
                response = await self._litellm.acompletion(
                    model=model.name,
                    timeout=model.timeout,
                    num_retries=0,
                    max_retries=0,
                    **{name: value for name, value in asked.items() if value is not None},
                )
        except TimeoutError:
            message = f"model {model.name}: no reply within {model.timeout:g} s"
            raise Retryable(message, kind="timeout") from None
        except self._raised as problem:
            raise translate(model.name, problem) from None
        reply = read_envelope(_envelope(response), request, perf_counter() - start)
        return reply if model.cost is not None else replace(reply, cost_usd=self._price(response))

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

    def _arguments(self, request: Request) -> dict[str, Any]:
        """As for the OpenAI API; a model without JSON-schema output is told the schema in words."""
        asked = arguments(request)
        if request.json_schema is not None and not _takes_schema(request.model.name):
            del asked["response_format"]
            schema = orjson.dumps(request.json_schema).decode()
            last = asked["messages"][-1]
            asked["messages"][-1] = {**last, "content": f"{last['content']}{_INSTRUCTION}{schema}"}
        return asked

    def _price(self, response: Any) -> float | None:
        """litellm's own figure; None for a model whose price it does not know."""
        try:
            return float(self._litellm.completion_cost(response))
        except self._raised:
            return None


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


@lru_cache(maxsize=256)
def _takes_schema(name: str) -> bool:
    import litellm

    return bool(litellm.supports_response_schema(model=name))


def _envelope(response: Any) -> dict[str, Any]:
    """The response in the OpenAI API's shape."""
    envelope: dict[str, Any] = response.model_dump()
    for choice in envelope.get("choices") or ():
        message = choice.get("message") or {}
        message.setdefault("refusal", (message.get("provider_specific_fields") or {}).get("refusal"))
    return envelope


def _key(model: Model) -> str | None:
    """The key in ``api_key_env``; None leaves it to the variables that litellm reads for the provider."""
    if model.api_key_env is None:
        return None
    key = os.environ.get(model.api_key_env, "").strip()
    if not key:
        raise Refused(
            f"model {model.name} needs a key: the environment variable {model.api_key_env} is not set",
            hint=f"export {clean(model.api_key_env)}=…",
        )
    return key
