"""Where replies come from: the built-in floors, recordings, OpenAI-compatible servers, and litellm for the rest."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from verdict_cli.llm.model_families import family, is_local
from verdict_cli.llm.providers.baseline import BaselineProvider
from verdict_cli.llm.providers.http_errors import failure_again
from verdict_cli.llm.providers.model_checks import check_model, sees_images
from verdict_cli.llm.providers.provider import Provider, TokenCallback, endpoint_address
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.llm.providers.replay import PREFIX, ReplayProvider
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model

__all__ = [
    "Provider",
    "Providers",
    "Recording",
    "TokenCallback",
    "check_model",
    "endpoint_address",
    "failure_again",
    "is_local",
    "sees_images",
]


class Providers:
    """Every provider of one run, opened on first use and closed together.

    With a recording, all calls are answered from it and nothing is sent to any model. ``heard`` is told each piece of
    a reply that is streamed.
    """

    def __init__(self, recording: Recording | None = None, heard: TokenCallback | None = None) -> None:
        self._heard = heard
        self._all = None if recording is None else ReplayProvider(recording)
        self._open: dict[str, Provider] = {}
        self._named: dict[tuple[str | None, ...], Provider] = {}

    def ask(self, request: Request) -> Coroutine[Any, Any, Reply]:
        """The reply of the request's model. Raises ProviderError or ReplyError."""
        return (self._all or self._provider(request.model)).ask(request)

    async def close(self) -> None:
        providers = [*self._open.values(), *([self._all] if self._all else [])]
        self._open.clear()
        self._named.clear()
        for provider in providers:
            await provider.close()

    def _provider(self, model: Model) -> Provider:
        named = (model.name, model.api_base, *model.params)
        provider = self._named.get(named)
        if provider is None:
            kind = _kind(model)
            provider = self._open.get(kind)
            if provider is None:
                provider = self._open[kind] = _make(kind, self._heard)
            self._named[named] = provider
        return provider


def _kind(model: Model) -> str:
    if model.name.startswith("baseline/"):
        return "baseline"
    if model.name.startswith(PREFIX):
        return model.name
    return "litellm" if family(model) is None else "native"


def _make(kind: str, heard: TokenCallback | None) -> Provider:
    match kind:
        case "baseline":
            return BaselineProvider()
        case "native":
            from verdict_cli.llm.providers.native import NativeProvider

            return NativeProvider(heard)
        case "litellm":
            from verdict_cli.llm.providers.litellm import LitellmProvider

            return LitellmProvider(heard)
        case _:
            return ReplayProvider(Recording.load(Path(kind.removeprefix(PREFIX))))
