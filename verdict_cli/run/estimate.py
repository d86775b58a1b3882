"""Estimate of a run's calls and cost, from a dry run with made-up replies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson
from msgspec import structs

from verdict_cli.errors import PinnedError, RowError
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.llm.middleware.rate_limit import CHARACTERS_A_TOKEN
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.baseline import lexical_reply
from verdict_cli.llm.providers.baseline_answers import fill
from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.messages import Reply, Request, Row, Usage
from verdict_cli.model import Model
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.run.attempts import Context, draw
from verdict_cli.run.row import run_pinned, run_row
from verdict_cli.run.stopping_rule import first_batch

TEXT_TOKENS = 100
"""The assumed length of every text that a model writes."""
ASSUMPTIONS = (
    f"a token is taken as {CHARACTERS_A_TOKEN} characters of the rendered prompt; what providers add is not counted",
    f"every text that a model writes is taken as {TEXT_TOKENS} tokens, in its reply and in the prompts that show it",
    "every call is answered by its first model at the first attempt, and none from the cache",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One unit's calls of one model, at most; at least ``least`` of them are made. Tokens and ``cost_usd`` are those of
    the maximum, None where they are unknown."""

    unit: str
    model: str
    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    least: int = 0


@dataclass(slots=True)
class _Rendered:
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
    early or a unit escalates they are the maximum, and ``least`` is the minimum. A pinned unit's calls count once. Tokens
    come from the prompts rendered for every row, with made-up replies. A unit that is not reached in every row with
    these replies is scaled up.
    """
    rendered: dict[tuple[str, str], _Rendered] = {}

    async def ask(request: Request) -> Reply:
        reply = _made_up_reply(request)
        if request.attempt == 0:
            characters = sum(len(message.content) for message in request.messages)
            usage = Usage(characters // CHARACTERS_A_TOKEN, _length(request.model, reply))
            key = (request.node, request.model.name)
            rendered.setdefault(key, _Rendered()).add(request.model, usage)
        return reply

    counted: Counter[int] = Counter()
    if plan.groups or plan.conditions:
        rows = _counting(plan, rows, counted)
    asyncio.run(_dry_run(_with_every_call(plan), rows, Context(ask, seed=seed, sleep=_no_wait)))
    optional = optional_nodes(plan)
    lines = []
    for node in plan.nodes:
        if not isinstance(node.work, LLMNode):
            continue
        runs = 1 if node.pinned else counted[node.index] if plan.groups or plan.conditions else count
        times = runs * len(node.work.unit.option_orders(draw(seed, 0, node.id)))
        stages = [_names(node, stage) for stage in node.stages]
        models = [name for names in stages for name in names]
        for name in dict.fromkeys(models):
            sums = rendered.get((node.id, name), _Rendered())
            line = _line(node.id, name, times * models.count(name), sums)
            least = 0 if node.index in optional else times * stages[0].count(name)
            lines.append(replace(line, least=least))
    return tuple(lines)


def total(lines: Iterable[Line], unit: str, model: str) -> Line:
    """The sum of the lines, under these names; None as soon as one of them is."""
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


def _with_every_call(plan: Plan) -> Plan:
    """The plan with every call made: no layer stops early, every answer is escalated, no unit abstains."""
    nodes = []
    for node in plan.nodes:
        known = node.escalation
        made = None if known is None else replace(known, when=_always, abstains=False)
        nodes.append(replace(node, escalation=made if node.stages else None))
    true = compile_expression("true")
    conditions = tuple(replace(each, holds=true) if each.waits else each for each in plan.conditions)
    return replace(plan, nodes=tuple(nodes), early=(), conditions=conditions)


def _always(_: Mapping[str, Any]) -> bool:
    return True


def optional_nodes(plan: Plan) -> frozenset[int]:
    """The indices of the units that a layer may skip by stopping early, or that follow what other units say."""
    stopped = {place for early in plan.early for item in early.items[first_batch(early) :] for place in item}
    return frozenset(stopped | {node.index for node in plan.nodes if _follows_units(plan, node)})


def _follows_units(plan: Plan, node: Node) -> bool:
    """Whether other units' answers decide how often a unit runs at a row."""
    groups = [plan.groups[group] for group in node.groups]
    conditions = {*node.checked, *(place for group in groups for place in group.checked)}
    return any(group.waits for group in groups) or any(plan.conditions[place].waits for place in conditions)


def entry_assumptions(plan: Plan) -> tuple[str, ...]:
    """What is assumed about lists that units make."""
    return tuple(
        f"the list of `each: {group.text}` is made by a unit: up to {group.most:,} entries a row are counted"
        for group in plan.groups
        if group.waits
    )


def _counting(plan: Plan, rows: Iterable[Row], counted: Counter[int]) -> Iterator[Row]:
    """The rows; ``counted`` is how often each unit runs at them at most."""
    for row in rows:
        with suppress(RowError):
            counted.update(_runs(plan, (), {"source": row.source}))
        yield row


def _runs(plan: Plan, around: tuple[int, ...], values: Mapping[str, Any] | None) -> Counter[int]:
    """How often each unit of a level runs at most; ``values`` None: they are not known. RowError for a bad list."""

    def holds(places: Iterable[int]) -> bool:
        known = (plan.conditions[place] for place in places if values is not None)
        return all(condition(values or {}) for condition in known if not condition.waits)

    found: Counter[int] = Counter()
    for node in plan.nodes:
        if node.groups == around and not node.pinned and holds(node.checked):
            found[node.index] += 1
    for place, group in enumerate(plan.groups):
        if group.around != around or not holds(group.checked):
            continue
        if group.waits or values is None:
            inside = _runs(plan, (*around, place), None)
            times = -(-group.most // (group.per_call or 1))
            found.update({index: count * times for index, count in inside.items()})
            continue
        for index, entry in list(enumerate(group.list_of(values)))[:: group.per_call or 1]:
            found.update(_runs(plan, (*around, place), {**values, group.name: entry, "index": index}))
    return found


async def _dry_run(plan: Plan, rows: Iterable[Row], context: Context) -> None:
    try:
        context.pinned, _ = await run_pinned(plan, context)
    except PinnedError:  # made-up replies need not satisfy `validate`
        return
    for row in rows:
        await run_row(plan, row, context)


async def _no_wait(_: float) -> None:
    return None


def _line(unit: str, model: str, calls: int, rendered: _Rendered) -> Line:
    """The sums, scaled up to ``calls``."""
    if not calls:
        return Line(unit, model, 0, 0, 0, 0.0)
    if not rendered.calls:
        return Line(unit, model, calls, None, None, None)
    share = calls / rendered.calls
    return Line(
        unit,
        model,
        calls,
        round(rendered.prompt_tokens * share),
        round(rendered.completion_tokens * share),
        None if rendered.cost_usd is None else rendered.cost_usd * share,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _length(model: Model, reply: Reply) -> int:
    tokens = max(1, len(reply.text) // CHARACTERS_A_TOKEN)
    return tokens if model.max_tokens is None else min(tokens, model.max_tokens)


_TEXT = ("word " * TEXT_TOKENS)[: TEXT_TOKENS * CHARACTERS_A_TOKEN].strip()


class _Middle:
    """Answers in the middle of each scale, with sentences of the assumed length."""

    def level(self) -> float:
        return 0.5

    def position_on(self, count: int) -> float:
        return (count - 1) / 2

    def sentence(self) -> str:
        return _TEXT


def _made_up_reply(request: Request) -> Reply:
    """A reply that every extractor can read."""
    reply = lexical_reply(request)
    if request.json_schema is not None:
        return structs.replace(reply, text=orjson.dumps(fill(request.json_schema, _Middle())).decode())
    return reply if reply.logprobs else structs.replace(reply, text=f"{_TEXT}\n{reply.text}")
