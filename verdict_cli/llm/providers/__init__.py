"""Providers answer model calls: built-in baselines, recordings, OpenAI-compatible servers, and litellm for the rest.

A new provider is a module with a class that has the methods of `Provider`: a feature's part, or an entry point of the group
`verdict_cli.providers`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from verdict_cli.llm.identity_cache import IdentityCache
from verdict_cli.llm.providers.json_mode import TopLogprobsLimit
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model
from verdict_cli.registry import Registry

if TYPE_CHECKING:
    from verdict_cli.llm.providers.recording import Recording

TokenCallback = Callable[[Request, str], None]
"""Receives the text of a streamed reply piece by piece."""


class Provider(Protocol):
    """Answers model calls. ``on_token`` receives the text of streamed replies."""

    def __init__(self, on_token: TokenCallback | None = None) -> None: ...

    @staticmethod
    def serves(model: Model) -> bool:
        """Whether the model is one of this provider's."""
        ...

    @staticmethod
    def check(model: Model) -> str | None:
        """What would keep the model from answering, such as a missing key; None if nothing is known. Sends nothing."""
        ...

    async def ask(self, request: Request) -> Reply:
        """The model's reply. Raises ProviderError, or ReplyError for a reply that is unusable by its own account."""
        ...

    async def close(self) -> None: ...


PROVIDERS: Registry[type[Provider]] = Registry(
    "verdict_cli.llm.providers",
    {
        "baseline": "baseline.BaselineProvider",
        "replay": "recording.ReplayProvider",
        "native": "native.NativeProvider",
        "litellm": "litellm.LitellmProvider",
    },
    "verdict_cli.providers",
)
"""The classes, imported when they are first needed. The first one that serves a model answers it, in the order of
`provider_class`."""


def provider_class(model: Model) -> type[Provider]:
    """The class of the provider that answers a model."""
    # litellm serves every model, so that nothing can come after it; packages are looked for only where it would be asked.
    for name in ("baseline", "replay", "native"):
        if name == "native":  # it imports the HTTP client
            from verdict_cli.language.model_address import load_http_client

            load_http_client()
        if (kind := PROVIDERS[name]).serves(model):
            return kind
    fixed_names = ("baseline", "replay", "native", "litellm")
    added = (PROVIDERS[name] for name in PROVIDERS.names() if name not in fixed_names)
    return next((kind for kind in added if kind.serves(model)), PROVIDERS["litellm"])


class Providers:
    """The providers of one run, created on first use and closed together.

    With a recording, all calls are answered from it and nothing is sent to any model.
    """

    def __init__(
        self, recording: Recording | None = None, on_token: TokenCallback | None = None
    ) -> None:
        self._on_token = on_token
        self._replay: Provider | None = None
        if recording is not None:
            from verdict_cli.llm.providers.recording import ReplayProvider

            self._replay = ReplayProvider(recording=recording)
        self._open: dict[type[Provider], Provider] = {}
        self._top_logprobs = TopLogprobsLimit()
        self._by_model: IdentityCache[Provider] = IdentityCache()

    def ask(self, request: Request) -> Coroutine[Any, Any, Reply]:
        """The reply of the request's model. Raises ProviderError or ReplyError."""
        provider = self._replay or self._by_model.get(
            (request.model,), None, self._provider, request.model
        )
        if request.top_logprobs and self._replay is None:
            return self._top_logprobs.ask(request.model.endpoint_key, request, provider.ask)
        return provider.ask(request)

    async def close(self) -> None:
        providers = [*self._open.values(), *([self._replay] if self._replay else [])]
        self._open.clear()
        self._by_model = IdentityCache()
        for provider in providers:
            await provider.close()

    def _provider(self, model: Model) -> Provider:
        kind = provider_class(model)
        if kind not in self._open:
            self._open[kind] = kind(self._on_token)
        return self._open[kind]
