"""What a middleware remembers of each model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import EndpointKey, Model

S = TypeVar("S")


def with_model_state(ask: Ask, guard: Callable[[Request, S], Awaitable[Reply]], new_state: Callable[[], S]) -> Ask:
    """``guard``, which gets the state of the request's model; ``ask`` itself for built-in models and recordings."""
    states: dict[EndpointKey, S] = {}

    last: Model | None = None  # most calls in succession are of one model: its state need not be looked up
    state: S | None = None

    def ask_guarded(request: Request) -> Awaitable[Reply]:
        nonlocal last, state
        model = request.model
        if model is not last:
            last = model
            if is_local(model.name):
                state = None
            elif (state := states.get(model.endpoint_key)) is None:
                state = states[model.endpoint_key] = new_state()
        return ask(request) if state is None else guard(request, state)

    return ask_guarded
