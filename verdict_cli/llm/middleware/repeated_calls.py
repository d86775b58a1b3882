"""One request for equal calls of a row: copies of a repeated unit, where the model sets `params: {n_for_repeat: true}`.

The prompt is then charged once. Each call has its own reply, with its share of the usage and the cost.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from verdict_cli.errors import ProviderError, ReplyError, VerdictError
from verdict_cli.llm.model_families import family
from verdict_cli.messages import Ask, Reply, Request, Usage
from verdict_cli.model import N_FOR_REPEAT, Model

MOST_COPIES = 128
"""The most replies that OpenAI gives to a request."""


def takes_copies(model: Model) -> bool:
    """Whether equal calls of the model are made by one request."""
    of = family(model)
    return model.params.get(N_FOR_REPEAT) is True and of is not None and of.protocol == "chat"


@dataclass
class _Group:
    """Equal calls that came at the same time."""

    request: Request
    outcomes: list[asyncio.Future[Reply]] = field(default_factory=list)


def made_together(ask: Ask) -> Ask:
    """``ask``, which makes one request for equal calls that come in the same turn of the event loop.

    Streamed calls and those with log-probabilities are made one by one. A call for which the server gave no reply is made
    on its own.
    """
    groups: dict[Any, _Group] = {}

    def ask_either(request: Request) -> Awaitable[Reply]:
        if not request.model.params or request.stream or request.top_logprobs or not takes_copies(request.model):
            return ask(request)
        return ask_together(request)

    async def ask_together(request: Request) -> Reply:
        key = (request.row.index, request.row.item, request.model.endpoint_key, request.messages)
        group = groups.get(key)
        if group is None or not _is_equal(group.request, request) or len(group.outcomes) >= MOST_COPIES - 1:
            return await lead(key, request)
        outcome = asyncio.get_running_loop().create_future()
        group.outcomes.append(outcome)
        return await outcome or await ask(request)

    async def lead(key: Any, request: Request) -> Reply:
        group = groups[key] = _Group(request)
        try:
            await asyncio.sleep(0)  # the row's other calls come in this turn
            if groups.get(key) is group:
                del groups[key]
            count = 1 + len(group.outcomes)
            if count == 1:
                return await ask(request)
            found = _divided(await ask(replace(request, copies=count)), count)
        except BaseException as error:
            _fail(group.outcomes, error)
            raise
        for future, outcome in zip(group.outcomes, found[1:], strict=True):
            if future.done():
                continue
            if isinstance(outcome, VerdictError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        if isinstance(found[0], VerdictError):
            raise found[0]
        return found[0] or await ask(request)

    return ask_either


def _is_equal(one: Request, other: Request) -> bool:
    return one.model == other.model and one.json_schema == other.json_schema and one.seed == other.seed


def _fail(outcomes: Sequence[asyncio.Future[Reply]], error: BaseException) -> None:
    """Give the failure of the request to the other calls. What was charged counts at the first one."""
    for future in outcomes:
        if future.done():
            continue
        if isinstance(error, ProviderError | ReplyError):
            same = copy.copy(error)
            same.reply = None
            future.set_exception(same)
        else:
            future.cancel()


def _divided(reply: Reply, count: int) -> list[Any]:
    """A reply, an error, or None (none came) for each call, with its share of the usage and the cost."""
    if not reply.choices:
        return [reply, *[None] * (count - 1)]
    replies = [each if isinstance(each, Reply) else each.reply for each in reply.choices]
    lengths = [1 if each is None else 1 + len(each.text) for each in replies]
    usages = _usages(reply.usage, lengths)
    tokens = max(1, reply.usage.prompt_tokens + reply.usage.completion_tokens)
    found: list[Any] = []
    spent = 0.0
    for place, (outcome, usage) in enumerate(zip(reply.choices, usages, strict=True)):
        cost = None
        if reply.cost_usd is not None:
            is_last = place == len(usages) - 1
            share = (usage.prompt_tokens + usage.completion_tokens) / tokens
            cost = reply.cost_usd - spent if is_last else reply.cost_usd * share
            spent += cost
        part = {"usage": usage, "cost_usd": cost, "latency_s": reply.latency_s, "allowance": reply.allowance}
        if isinstance(outcome, Reply):
            found.append(replace(outcome, **part))
        else:
            outcome.reply = replace(outcome.reply or Reply("", "error", model=reply.model), **part)
            found.append(outcome)
    return [*found[:count], *[None] * (count - len(found))]


def _usages(whole: Usage, lengths: Sequence[int]) -> list[Usage]:
    """The usage in parts: the prompt's tokens in equal ones, those of the replies by their lengths."""
    equal = [1] * len(lengths)
    columns = [
        _parts(whole.prompt_tokens, equal),
        _parts(whole.completion_tokens, lengths),
        _parts(whole.cached_tokens, equal),
        _parts(whole.cache_write_tokens, equal),
        _parts(whole.reasoning_tokens, lengths),
    ]
    return [Usage(*values) for values in zip(*columns, strict=True)]


def _parts(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in proportion to the weights, with this sum."""
    whole, parts, before, given = sum(weights), [], 0, 0
    for weight in weights:
        before += weight
        parts.append(total * before // whole - given)
        given += parts[-1]
    return parts
