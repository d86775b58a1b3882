"""What a middleware remembers of each model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import EndpointKey

S = TypeVar("S")


def with_model_state(ask: Ask, guard: Callable[[Request, S], Awaitable[Reply]], new_state: Callable[[], S]) -> Ask:
    """``guard``, which gets the state of the request's model; ``ask`` itself for built-in models and recordings."""
    states: dict[EndpointKey, S] = {}

    def ask_guarded(request: Request) -> Awaitable[Reply]:
        model = request.model
        if is_local(model.name):
            return ask(request)
        state = states.get(model.endpoint_key)
        if state is None:
            state = states[model.endpoint_key] = new_state()
        return guard(request, state)

    return ask_guarded
