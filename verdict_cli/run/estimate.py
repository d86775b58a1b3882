"""Estimate of a run's calls and cost, from a dry run with made-up replies."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs
from msgspec.structs import replace

from verdict_cli.errors import PinnedError, RowError
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.llm.middleware.pack_questions import pack_questions
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.baseline import reply_from
from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.llm.providers.token_counts import (
    LATIN,
    by_script,
    prompt_tokens,
    text_counter,
    thinking_tokens,
)
from verdict_cli.messages import (
    Alternative,
    Answer,
    NamedValues,
    Reply,
    Request,
    Row,
    Usage,
    sum_usd,
)
from verdict_cli.model import Model
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.run.attempts import Context, draw
from verdict_cli.run.preflight import models_of
from verdict_cli.run.prompt_order import PromptOrder
from verdict_cli.run.row import run_pinned, run_row
from verdict_cli.run.stopping_rule import first_batch


def follows_units(plan: Plan, node: Node) -> bool:
    """Whether other units' answers decide how often a unit runs at a row."""
    groups = [plan.groups[group] for group in node.groups]
    conditions = {*node.checked, *(number for group in groups for number in group.checked)}
    return any(group.waits for group in groups) or any(
        plan.conditions[number].waits for number in conditions
    )


def entry_assumptions(plan: Plan) -> tuple[str, ...]:
    """What is assumed about lists that units make."""
    return tuple(
        f"the list of `each: {group.text}` is made by a unit: up to {group.most:,} entries a row are counted"
        for group in plan.groups
        if group.waits
    )


def runs_of_nodes(plan: Plan, row: Row) -> Counter[int]:
    """How often each unit runs at a row at most, by its index; nothing for a row whose list is bad."""
    try:
        return _runs(plan, (), {"source": row.source})
    except RowError:
        return Counter()


def _runs(plan: Plan, around: tuple[int, ...], values: NamedValues | None) -> Counter[int]:
    """How often each unit of a level runs at most; ``values`` None: they are not known. RowError for a bad list."""

    def holds(numbers: Iterable[int]) -> bool:
        conditions = (plan.conditions[number] for number in numbers if values is not None)
        return all(condition(values or {}) for condition in conditions if not condition.waits)

    runs: Counter[int] = Counter()
    for node in plan.nodes:
        if node.groups == around and not node.pinned and holds(node.checked):
            runs[node.index] += 1
    for number, group in enumerate(plan.groups):
        if group.around != around or not holds(group.checked):
            continue
        if group.waits or values is None:
            inside = _runs(plan, (*around, number), None)
            runs.update({index: count * group.most for index, count in inside.items()})
            continue
        for index, entry in enumerate(group.list_of(values)):
            runs.update(
                _runs(plan, (*around, number), {**values, group.name: entry, "index": index})
            )
    return runs


TEXT_TOKENS = 100
"""The assumed length of every text that a model writes."""
_TEXT = ("word " * TEXT_TOKENS)[: round(TEXT_TOKENS * LATIN)].strip()


class _Middle:
    """Answers in the middle of each scale, with sentences of the assumed length."""

    def level(self) -> float:
        return 0.5

    def position_on(self, count: int) -> float:
        return (count - 1) / 2

    def sentence(self) -> str:
        return _TEXT

    def remark(self) -> str:
        return _TEXT


def made_up_reply(request: Request) -> Reply:
    """A reply that every extractor can read."""
    return made_up_answers(request) if request.questions else reply_from(request, _Middle)


def made_up_answers(request: Request) -> Reply:
    """A decision model's reply, in which the middle option is a little more probable than the others."""
    answers = []
    for question in request.questions:
        middle = (len(question.options) - 1) // 2
        weights = [1 + (number == middle) for number in range(len(question.options))]
        alternatives = [
            Alternative(option.token, math.log(weight / sum(weights)))
            for option, weight in zip(question.options, weights, strict=True)
        ]
        answers.append(Answer(question.options[middle].token, tuple(alternatives)))
    return Reply(answers[0].token, logprobs=(answers[0].alternatives,), answers=tuple(answers))


ASSUMPTIONS = (
    f"every text that a model writes is taken as {TEXT_TOKENS} tokens, in its reply and in the prompts that show it",
    "every call is answered by its first model at the first attempt, and none from the cache",
)
_BY_SCRIPT = "a token is taken as 4 characters of Latin script, 2.5 of other alphabets and 1.4 of scripts without spaces"


class Line(Struct, frozen=True):
    """One unit's calls of one model, at most; at least ``least`` of them are made. Tokens and ``cost_usd`` are those of
    the maximum, None where they are unknown."""

    unit: str
    model: str
    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    least: int = 0
    requests: int | None = None
    """The HTTP requests, where a decision model answers several calls in one."""


class _Rendered(Struct):
    """Sums over the calls of one unit and model that were rendered."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    requests: int = 0

    def add(self, model: Model, usage: Usage, questions: int) -> None:
        """Add a request: a call, or the calls that are its questions."""
        price = 0.0 if is_local(model.name) else cost_usd(model, usage)
        self.calls += questions or 1
        self.requests += questions > 0
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        self.cost_usd = sum_usd(self.cost_usd, price)


UnitModel = tuple[str, str]
"""A unit's id and a model's name."""


class DryRun:
    """Every prompt of a plan's rows, rendered with made-up replies, with its tokens. No model is called.

    ``real``: count with the model's own tokenizer where it is available.
    """

    def __init__(self, plan: Plan, seed: int = 0, *, real: bool = True) -> None:
        self.plan = plan
        self.seed = seed
        self.longest: dict[UnitModel, int] = {}
        self.order = PromptOrder()
        self._real = real
        self._counters: dict[str, tuple[Callable[[str], int], str]] = {}
        self._rendered: dict[UnitModel, _Rendered] = {}
        self._rows = 0
        self._runs: Counter[int] = Counter()

    def add(self, rows: Iterable[Row]) -> DryRun:
        """Render the rows' prompts."""
        asyncio.run(self._run(rows))
        return self

    def assumptions(self) -> tuple[str, ...]:
        """What the estimate takes for granted, in sentences."""
        named: dict[str, list[str]] = {}
        for model, (_, encoding) in self._counters.items():
            named.setdefault(encoding, []).append(model)
        counted = [
            f"tokens of {', '.join(models)} are counted by {encoding}" if encoding else _BY_SCRIPT
            for encoding, models in named.items()
        ]
        thoughts = {
            model.name: tokens
            for model in models_of(self.plan)
            if (tokens := thinking_tokens(model))
        }
        return (
            *(counted or [_BY_SCRIPT]),
            *(
                f"a reply of {name} is taken to have {tokens} reasoning tokens"
                for name, tokens in thoughts.items()
            ),
            *ASSUMPTIONS,
            *entry_assumptions(self.plan),
            *(
                f"{node.id} shows {min(pool.k, len(pool.examples))} of {len(pool.examples):,} examples ({pool.choose}) in each prompt"
                for node, work in self.plan.llm_nodes
                if (pool := work.examples) is not None
            ),
        )

    def lines(self, count: int) -> tuple[Line, ...]:
        """The calls of ``count`` rows, a line for each unit and model in order of definition.

        The numbers of calls come from the plan alone and are exact but for retries and fallbacks; where a layer stops
        early or a unit escalates they are the maximum, and ``least`` is the minimum. A pinned unit's calls count once.
        Tokens come from the rendered prompts; a unit that is not reached in every row is scaled up.
        """
        optional = optional_nodes(self.plan)
        lines = []
        for node, work in self.plan.llm_nodes:
            times = 1 if node.pinned else self._runs_of(node, count)
            times *= len(work.unit.option_orders(draw(self.seed, 0, node.id)))
            stages = [_names(work, stage) for stage in node.stages]
            models = [name for names in stages for name in names]
            for name in dict.fromkeys(models):
                sums = self._rendered.get((node.id, name), _Rendered())
                line = _line(node.id, name, times * models.count(name), sums)
                sure = times * stages[0].count(name)
                least = 0 if node.index in optional else sure
                lines.append(structs.replace(line, least=least))
        return tuple(lines)

    def _runs_of(self, node: Node, count: int) -> int:
        """How often the unit runs at ``count`` rows at most."""
        if not self._varies:
            return count
        return round(self._runs[node.index] * count / max(self._rows, 1))

    @property
    def _varies(self) -> bool:
        """Whether a row decides how often a unit runs."""
        return bool(self.plan.groups or self.plan.conditions)

    async def _run(self, rows: Iterable[Row]) -> None:
        plan = _with_every_call(self.plan)
        context = Context(pack_questions(self._ask), seed=self.seed, sleep=_no_wait)
        try:
            context.pinned, _ = await run_pinned(plan, context)
        except PinnedError:  # made-up replies need not satisfy `validate`
            return
        for row in rows:
            if self._varies:
                self._rows += 1
                self._runs.update(runs_of_nodes(self.plan, row))
            await run_row(plan, row, context)

    async def _ask(self, request: Request) -> Reply:
        reply = made_up_reply(request)
        if request.attempt == 0:
            model = request.model
            if model.name not in self._counters:
                self._counters[model.name] = text_counter(model.known_name, real=self._real)
            prompt = prompt_tokens(request, self._counters[model.name][0])
            key = (request.node, model.name)
            usage = Usage(prompt, 0 if request.questions else _length(model, reply))
            self._rendered.setdefault(key, _Rendered()).add(model, usage, len(request.questions))
            self.order.add(request)
            self.longest[key] = max(prompt, self.longest.get(key, 0))
        return reply


def estimate_run(
    plan: Plan, rows: Iterable[Row], count: int, seed: int = 0, *, real: bool = True
) -> tuple[Line, ...]:
    """The calls of ``count`` rows, estimated from the prompts of ``rows``; see `DryRun.lines`."""
    return DryRun(plan, seed, real=real).add(rows).lines(count)


def total(lines: Iterable[Line], unit: str, model: str) -> Line:
    """The sum of the lines, under these names; None as soon as one of them is."""
    every = list(lines)
    requests = [line.calls if line.requests is None else line.requests for line in every]
    has_requests = any(line.requests is not None for line in every)
    return Line(
        unit,
        model,
        sum(line.calls for line in every),
        _sum([line.prompt_tokens for line in every]),
        _sum([line.completion_tokens for line in every]),
        sum_usd(*[line.cost_usd for line in every]),
        sum(line.least for line in every),
        sum(requests) if has_requests else None,
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    numbers = [count for count in counts if count is not None]
    return sum(numbers) if len(numbers) == len(counts) else None


def _names(work: LLMNode, models: tuple[Model, ...]) -> list[str]:
    """The models of one stage's calls for one arrangement, at the first attempt."""
    then = work.reading.then
    if then is None:
        return [models[0].name]
    return [models[0].name, (models if then.model is None else work.follow_up)[0].name]


def _with_every_call(plan: Plan) -> Plan:
    """The plan with every call made: no layer stops early, every answer is escalated, no unit abstains."""
    nodes = []
    for node in plan.nodes:
        known = node.escalation
        escalation = None if known is None else structs.replace(known, when=_always, abstains=False)
        nodes.append(replace(node, escalation=escalation if node.stages else None))
    conditions = tuple(
        structs.replace(condition, holds=compile_expression("true"))
        if condition.waits
        else condition
        for condition in plan.conditions
    )
    return replace(plan, nodes=tuple(nodes), early=(), conditions=conditions)


def _always(_: NamedValues) -> bool:
    return True


def optional_nodes(plan: Plan) -> frozenset[int]:
    """The indices of the units that a layer may skip by stopping early, or that follow what other units say."""
    stopped = {
        index
        for early in plan.early
        for item in early.items[first_batch(early) :]
        for index in item
    }
    return frozenset(stopped | {node.index for node in plan.nodes if follows_units(plan, node)})


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
        requests=round(rendered.requests * share) if rendered.requests else None,
    )


def _length(model: Model, reply: Reply) -> int:
    tokens = max(1, by_script(reply.text)) + thinking_tokens(model)
    return tokens if model.max_tokens is None else min(tokens, model.max_tokens)
