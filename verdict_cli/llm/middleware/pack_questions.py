"""Questions of one row about one state, in one request to a decision model.

Each question stays a request of its own for everything outside: the cache, the journal, attempts and readings. Those that wait at
the same moment, of the same row, are sent together, and each gets its share of the usage. Questions of two rows are never together:
such models answer worse where a state has several, and the place in it counts.
"""

from __future__ import annotations

import asyncio
import copy
import random
import re
from collections.abc import Hashable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any
from uuid import uuid4

from msgspec.structs import asdict, replace

from verdict_cli.errors import Rejected, ReplyError, Retryable, VerdictError
from verdict_cli.llm.backoff import delay_s
from verdict_cli.llm.providers.decision_protocols import decision_limits
from verdict_cli.messages import Ask, Message, Option, Question, Reply, Request, Usage
from verdict_cli.model import EndpointKey
from verdict_cli.regex import regex

WINDOW_S = 0.005
"""How long a question that is called again waits for the others of its row."""
_IDLE_TURNS = 4
"""Turns of the event loop without a further question, after which those that wait are sent."""
_CHARACTERS_A_TOKEN = 4
_FILLED = 0.9
"""The share of a server's limit of tokens that an estimate may fill."""
_NUMBER = regex(r"question|array_above_max_length|too[_ ]many", re.IGNORECASE)
_NO_PREDICATE = regex(r"\bnouls?\b", re.IGNORECASE)

Waiting = tuple[Request, asyncio.Future[Reply]]


def pack_questions(ask: Ask) -> Ask:
    """``ask`` for requests with questions put together; other requests are passed on."""
    packer = Packer(ask)
    return lambda request: packer.ask(request) if request.questions else ask(request)


class _Group:
    """Questions that wait to be sent together."""

    def __init__(self, now: float) -> None:
        self.waiting: list[Waiting] = []
        self.since = now
        self.idle = 0
        self.is_retry = False

    def is_complete(self, now: float) -> bool:
        """Whether no further question is expected. Those that are called again come by timers, microseconds apart."""
        self.idle += 1
        return self.idle > _IDLE_TURNS and not (self.is_retry and now - self.since < WINDOW_S)


class Packer:
    """Collects questions, sends them, and distributes the answers. It remembers what each endpoint takes."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._groups: dict[Hashable, _Group] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._most: dict[EndpointKey, int] = {}
        self._without_predicates: set[EndpointKey] = set()

    async def ask(self, request: Request) -> Reply:
        """The answer to the request's one question."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        key = (
            request.row.index,
            request.row.id,
            id(request.model),
            request.messages[1:],
            request.most_questions,
        )
        if not self._groups:
            loop.call_soon(self._turn, loop)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(loop.time())
        group.waiting.append((request, future))
        group.idle = 0
        group.is_retry |= request.attempt > 0
        return await future

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send the groups to which no question was added for some turns of the event loop."""
        now = loop.time()
        for key in [key for key, group in self._groups.items() if group.is_complete(now)]:
            waiting = self._groups.pop(key).waiting
            task = loop.create_task(self._send(waiting))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
            for _, future in waiting:
                future.add_done_callback(partial(_cancel_unwanted, waiting, task))
        if self._groups:
            loop.call_soon(self._turn, loop)

    async def _send(self, group: Sequence[Waiting]) -> None:
        """Send the questions of a group, in as many requests as the server's limits take."""
        try:
            await asyncio.gather(*map(self._send_chunk, self._chunks(group)))
        except BaseException as error:
            for _, future in group:
                _raise(future, error)
            if not isinstance(error, Exception):
                raise

    def _chunks(self, group: Sequence[Waiting]) -> list[list[Waiting]]:
        request = group[0][0]
        limits = decision_limits(request.model)
        most = self._most.get(request.model.endpoint_key, limits.questions)
        most = min(most, request.most_questions or most)
        room = _FILLED * _CHARACTERS_A_TOKEN * (limits.tokens or 10**12) - _state_size(request)
        chunks: list[list[Waiting]] = []
        filled = 0.0
        for waiting in group:
            size = _question_size(waiting[0].questions[0])
            if not chunks or len(chunks[-1]) >= most or filled + size > room:
                chunks.append([])
                filled = 0.0
            chunks[-1].append(waiting)
            filled += size
        return chunks

    async def _send_chunk(self, chunk: Sequence[Waiting]) -> None:
        request = self._together([waiting[0] for waiting in chunk])
        try:
            reply = await self._ask(request)
        except Rejected as error:
            again = self._again(error, request, chunk)
            if not again:
                _fail(chunk, error)
            for part in again:
                await self._send_chunk(part)
        except VerdictError as error:
            _fail(chunk, error)
        else:
            _distribute(chunk, reply)

    def _together(self, requests: Sequence[Request]) -> Request:
        first = requests[0]
        questions = tuple(request.questions[0] for request in requests)
        if first.model.endpoint_key in self._without_predicates:
            questions = tuple(map(_as_choice, questions))
        instructions = "\n".join(question.instructions for question in questions)
        messages = (Message("system", instructions), *first.messages[1:])
        return replace(first, messages=messages, questions=questions)

    def _again(
        self, error: Rejected, request: Request, chunk: Sequence[Waiting]
    ) -> list[Sequence[Waiting]]:
        """What to send in place of a request that the server rejected for its form; empty where that would not help."""
        endpoint = request.model.endpoint_key
        is_first = endpoint not in self._without_predicates
        if (
            is_first
            and _NO_PREDICATE.search(error.message)
            and any(q.kind == "predicate" for q in request.questions)
        ):
            self._without_predicates.add(endpoint)
            return [chunk]
        is_long = error.failure == "context-too-long" or error.status == 413
        if len(chunk) < 2 or not (is_long or _NUMBER.search(error.message)):
            return []
        half = (len(chunk) + 1) // 2
        if not is_long:
            self._most[endpoint] = half
        return [chunk[:half], chunk[half:]]


def _cancel_unwanted(
    group: Sequence[Waiting], task: asyncio.Task[None], _: asyncio.Future[Reply]
) -> None:
    """Cancel a request whose questions are all cancelled."""
    if all(future.cancelled() for _, future in group):
        task.cancel()


def _as_choice(question: Question) -> Question:
    """A predicate as a choice, for servers that have none."""
    if question.kind != "predicate":
        return question
    labels = zip(question.options, ("true", "false"), strict=True)
    return replace(
        question,
        kind="choice",
        options=tuple(Option(option.token, label, option.description) for option, label in labels),
    )


def _state_size(request: Request) -> int:
    return sum(len(message.content) for message in request.messages[1:])


def _question_size(question: Question) -> int:
    options = sum(len(option.label) + len(option.description) for option in question.options)
    return len(question.instructions) + options


def _fail(chunk: Sequence[Waiting], error: VerdictError) -> None:
    """Fail every question by a copy of the error, with its share of what was paid. Those that are called again wait alike."""
    paid = getattr(error, "reply", None)
    shares: Sequence[Reply | None] = [None] * len(chunk) if paid is None else _shares(paid, chunk)
    if isinstance(error, Retryable) and error.retry_after_s is None:
        error.retry_after_s = delay_s(chunk[0][0].attempt + 1, None, random.Random())
    for (_, future), share in zip(chunk, shares, strict=True):
        share_error: Any = copy.copy(error)
        if share is not None:
            share_error.reply = share
        _raise(future, share_error)


def _distribute(chunk: Sequence[Waiting], reply: Reply) -> None:
    """Give each question its answer, or the error in its place."""
    for (_, future), answer, share in zip(chunk, reply.answers, _shares(reply, chunk), strict=True):
        if answer.failure:
            _raise(future, ReplyError(answer.error, kind=answer.failure, reply=share))
        elif not future.done():
            usage = replace(share.usage, note=answer.note or share.usage.note)
            logprobs = (answer.alternatives,)
            future.set_result(replace(share, text=answer.token, logprobs=logprobs, usage=usage))


def _raise(future: asyncio.Future[Reply], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _shares(reply: Reply, chunk: Sequence[Waiting]) -> list[Reply]:
    """The reply once for each question, with parts of its usage and cost that add up to them. The share of each question is its
    own size, and a like part of the state."""
    state = _state_size(chunk[0][0]) / len(chunk)
    weights = [state + _question_size(request.questions[0]) + 1 for request, _ in chunk]
    whole = asdict(reply.usage)
    note = whole.pop("note")
    counts = {name: _parts(count, weights) for name, count in whole.items()}
    total = sum(weights)
    name = uuid4().hex[:16]
    return [
        replace(
            reply,
            answers=(),
            request=name,
            cost_usd=None if reply.cost_usd is None else reply.cost_usd * weight / total,
            allowance=None if number else reply.allowance,
            usage=Usage(**{key: parts[number] for key, parts in counts.items()}, note=note),
        )
        for number, weight in enumerate(weights)
    ]


def _parts(count: int, weights: Sequence[float]) -> list[int]:
    """Whole parts of a number in these proportions, which add up to it."""
    total = sum(weights)
    ends = [round(count * weight / total) for weight in accumulate(weights)]
    return [end - start for start, end in pairwise([0, *ends])]
