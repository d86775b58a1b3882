"""What a run will ask and cost, before anything is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from msgspec import structs

from verdict_cli.errors import PinnedError
from verdict_cli.llm.middleware.rate_limit import CHARACTERS_A_TOKEN
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.baseline import lexical
from verdict_cli.llm.providers.baseline_answers import fill
from verdict_cli.llm.providers.prices import cost_usd
from verdict_cli.messages import Reply, Request, Row, Usage
from verdict_cli.model import Model
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.run.attempts import Context, draw
from verdict_cli.run.row import run_pinned, run_row
from verdict_cli.run.stopping_rule import at_first

TEXT_TOKENS = 100
"""What every text that a model writes is taken to be long."""
ASSUMPTIONS = (
    f"a token is taken as {CHARACTERS_A_TOKEN} characters of the rendered prompt; what providers add is not counted",
    f"every text that a model writes is taken as {TEXT_TOKENS} tokens, in its reply and in the prompts that show it",
    "every call is answered by its first model at the first attempt, and none from the cache",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One unit's calls of one model, at most; ``least`` of them are made in any case. Tokens and ``cost_usd`` are
    those of the most, None where they cannot be told."""

    unit: str
    model: str
    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    least: int = 0


@dataclass(slots=True)
class _Seen:
    """Sums over the calls of one unit and model that were rendered."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0

    def add(self, model: Model, usage: Usage) -> None:
        price = 0.0 if is_local(model.name) else cost_usd(model, usage)
        self.calls += 1
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        self.cost_usd = None if price is None or self.cost_usd is None else self.cost_usd + price


def estimate_run(plan: Plan, rows: Iterable[Row], count: int, seed: int = 0) -> tuple[Line, ...]:
    """The calls of ``count`` rows, a line for each unit and model in order of definition.

    The numbers of calls come from the plan alone and are exact but for retries and fallbacks; where a layer stops
    early or a unit escalates they are the most, and the least stands beside them. A pinned unit's count once. Tokens
    come from the prompts rendered for every row, with replies made up in the place of the models'. A unit that made-up
    replies do not reach in every row counts as much there as where they do.
    """
    seen: dict[tuple[str, str], _Seen] = {}

    async def ask(request: Request) -> Reply:
        reply = _made_up(request)
        if request.attempt == 0:
            characters = sum(len(message.content) for message in request.messages)
            usage = Usage(characters // CHARACTERS_A_TOKEN, _length(request.model, reply))
            key = (request.node, request.model.name)
            seen.setdefault(key, _Seen()).add(request.model, usage)
        return reply

    asyncio.run(_dry(_everything(plan), rows, Context(ask, seed=seed, sleep=_at_once)))
    perhaps = perhaps_asked(plan)
    lines = []
    for node in plan.nodes:
        if not isinstance(node.work, LLMNode):
            continue
        times = (1 if node.pinned else count) * len(node.work.unit.option_orders(draw(seed, 0, node.id)))
        stages = [_names(node, models) for models in node.stages]
        wanted = [name for names in stages for name in names]
        for name in dict.fromkeys(wanted):
            found = seen.get((node.id, name), _Seen())
            line = _line(node.id, name, times * wanted.count(name), found)
            least = 0 if node.index in perhaps else times * stages[0].count(name)
            lines.append(replace(line, least=least))
    return tuple(lines)


def total(lines: Iterable[Line], unit: str, model: str) -> Line:
    """The sum of the lines, under these names; unknown as soon as one of them is."""
    summed = Line(unit, model, 0, 0, 0, 0.0)
    for line in lines:
        summed = Line(
            unit,
            model,
            summed.calls + line.calls,
            _sum(summed.prompt_tokens, line.prompt_tokens),
            _sum(summed.completion_tokens, line.completion_tokens),
            None if summed.cost_usd is None or line.cost_usd is None else summed.cost_usd + line.cost_usd,
            summed.least + line.least,
        )
    return summed


def _names(node: Node, models: tuple[Model, ...]) -> list[str]:
    """The models of one stage's calls for one arrangement, at the first attempt."""
    assert isinstance(node.work, LLMNode)
    then = node.work.reading.then
    if then is None:
        return [models[0].name]
    return [models[0].name, (models if then.model is None else node.work.follow_up)[0].name]


def _everything(plan: Plan) -> Plan:
    """The plan in which no layer stops early, every answer is escalated, and none is withheld."""
    nodes = []
    for node in plan.nodes:
        known = node.escalation
        made = None if known is None else replace(known, when=_always, abstains=False)
        nodes.append(replace(node, escalation=made if node.stages else None))
    return replace(plan, nodes=tuple(nodes), early=())


def _always(_: Mapping[str, Any]) -> bool:
    return True


def perhaps_asked(plan: Plan) -> frozenset[int]:
    """The places of the units that a layer which stops early may leave out."""
    return frozenset(place for early in plan.early for item in early.items[at_first(early) :] for place in item)


async def _dry(plan: Plan, rows: Iterable[Row], context: Context) -> None:
    try:
        context.pinned, _ = await run_pinned(plan, context)
    except PinnedError:  # made-up replies need not satisfy `validate`
        return
    for row in rows:
        await run_row(plan, row, context)


async def _at_once(_: float) -> None:
    return None


def _line(unit: str, model: str, calls: int, seen: _Seen) -> Line:
    """The sums, scaled up where not all calls were reached."""
    if not calls:
        return Line(unit, model, 0, 0, 0, 0.0)
    if not seen.calls:
        return Line(unit, model, calls, None, None, None)
    share = calls / seen.calls
    return Line(
        unit,
        model,
        calls,
        round(seen.prompt_tokens * share),
        round(seen.completion_tokens * share),
        None if seen.cost_usd is None else seen.cost_usd * share,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _length(model: Model, reply: Reply) -> int:
    tokens = max(1, len(reply.text) // CHARACTERS_A_TOKEN)
    return tokens if model.max_tokens is None else min(tokens, model.max_tokens)


_TEXT = ("word " * TEXT_TOKENS)[: TEXT_TOKENS * CHARACTERS_A_TOKEN].strip()


class _Middle:
    """A standing in the middle, whose words have the assumed length."""

    def level(self) -> float:
        return 0.5

    def centre(self, count: int) -> float:
        return (count - 1) / 2

    def sentence(self) -> str:
        return _TEXT


def _made_up(request: Request) -> Reply:
    """A reply that every extractor can read."""
    reply = lexical(request)
    if request.json_schema is not None:
        return structs.replace(reply, text=orjson.dumps(fill(request.json_schema, _Middle())).decode())
    return reply if reply.logprobs else structs.replace(reply, text=f"{_TEXT}\n{reply.text}")
