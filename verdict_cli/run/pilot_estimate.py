"""A pilot: a few rows are judged by the models, and their tokens and costs are carried over to all rows."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import BudgetError, VerdictError
from verdict_cli.llm.model_families import is_free
from verdict_cli.llm.providers.price_book import cost_usd, rates_of
from verdict_cli.messages import Call, Result, Row, cost_of
from verdict_cli.model import Model
from verdict_cli.run.estimate import DryRun, Line, UnitModel, total
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.preflight import models_of

CONCURRENCY = 16
"""Rows of a pilot that are judged at once."""


class PilotEstimate(Struct, frozen=True):
    """What a pilot showed. ``lines`` estimate all rows; ``low`` and ``high`` are the interval of their cost, None where a
    price is unknown or fewer than two rows were judged. ``spent_usd`` is what the pilot itself cost, ``failure`` the first
    failed row's message."""

    rows: int
    failed: int
    failure: str
    calls: int
    spent_usd: float | None
    lines: tuple[Line, ...]
    low: float | None
    high: float | None
    level: float
    stopped: str = ""
    """Why fewer rows were judged than were to be."""


def pilot_positions(rows: int, size: int, seed: int) -> list[int]:
    """The positions of the pilot's rows: a random sample of all."""
    return sorted(Random(f"pilot {seed}").sample(range(rows), min(size, rows)))


def run_pilot(session: JudgeSession, dry: DryRun, count: int, *, level: float = 0.95) -> PilotEstimate:
    """Judge the rows that the dry run kept, and estimate ``count`` rows.

    A spent budget ends the pilot with the rows that it could pay for. Raises Refused, PinnedError, and BudgetError where
    it paid for no row.
    """
    results, error = asyncio.run(_judge_rows(session, [kept.row for kept in dry.kept]))
    judged = [(number, result) for number, result in enumerate(results) if result is not None]
    if error is not None and not (isinstance(error, BudgetError) and judged):
        raise error
    return _estimate(session, dry, judged, count, level, "" if error is None else error.message)


async def _judge_rows(session: JudgeSession, rows: Sequence[Row]) -> tuple[list[Result | None], VerdictError | None]:
    """The rows' results, None for those that were not judged, and the first error that stopped them."""
    results: list[Result | None] = [None] * len(rows)
    errors: list[VerdictError] = []
    remaining = iter(enumerate(rows))

    async def work() -> None:
        for number, row in remaining:
            if errors:
                return
            try:
                results[number] = await session.judge(row)
            except VerdictError as error:
                errors.append(error)

    try:
        try:
            await session.open()
        except VerdictError as error:
            return results, error
        await asyncio.gather(*(work() for _ in range(min(CONCURRENCY, len(rows)))))
    finally:
        await session.client.close()
    return results, errors[0] if errors else None


@dataclass(slots=True)
class _Sums:
    """What one row's calls of a unit and model were charged."""

    calls: int = 0
    prompt: int = 0
    completion: int = 0
    cost: float | None = 0.0

    def add(self, call: Call) -> None:
        self.calls += 1
        if call.reply is None:
            return
        price = price_of(call)
        self.prompt += call.reply.usage.prompt_tokens
        self.completion += call.reply.usage.completion_tokens
        self.cost = None if price is None or self.cost is None else self.cost + price


def price_of(call: Call) -> float | None:
    """What the call costs where its reply is not in the cache."""
    assert call.reply is not None
    if is_free(call.request.model.name):
        return 0.0
    return cost_usd(call.request.model, call.reply.usage) if call.reply.cached else call.reply.cost_usd


def _estimate(
    session: JudgeSession, dry: DryRun, judged: Sequence[tuple[int, Result]], count: int, level: float, stopped: str
) -> PilotEstimate:
    models = {model.name: model for model in models_of(dry.plan)}
    numbers = [number for number, _ in judged]
    sums = [_by_key(result.calls) for _, result in judged]
    pinned = _by_key(session.pinned)
    shared = {node.id for node in dry.plan.nodes if node.pinned}
    least = {(line.unit, line.model): line.least for line in dry.lines(count)}
    lines: list[Line] = []
    residuals = [0.0] * len(judged)
    for key in dict.fromkeys([*least, *(key for row in (*sums, pinned) for key in row)]):
        if key[0] in shared:
            known = pinned.get(key, _Sums())
            lines.append(Line(*key, known.calls, known.prompt, known.completion, known.cost, known.calls))
            continue
        rendered = [dry.kept[number].prompt_tokens.get(key, 0) for number in numbers]
        used = [row.get(key, _Sums()) for row in sums]
        line, slope = _carried_over(key, dry.prompt_tokens(key), rendered, used, models[key[1]], count)
        lines.append(replace(line, least=min(line.calls, least.get(key, 0))))
        for number, row_sums in enumerate(used):
            residuals[number] += math.nan if row_sums.cost is None else row_sums.cost - slope * rendered[number]
    cost = total(lines, "", "").cost_usd
    margin = None if cost is None else margins(residuals, count, level)
    calls = [*session.pinned, *(call for _, result in judged for call in result.calls)]
    failures = [result.failure for _, result in judged if result.failure is not None]
    return PilotEstimate(
        rows=len(judged),
        failed=len(failures),
        failure=failures[0].message if failures else "",
        calls=sum(call.reply is None or not call.reply.cached for call in calls),
        spent_usd=cost_of(calls),
        lines=tuple(lines),
        low=None if margin is None or cost is None else max(0.0, cost - margin[0]),
        high=None if margin is None or cost is None else cost + margin[1],
        level=level,
        stopped=stopped,
    )


def _by_key(calls: Sequence[Call]) -> dict[UnitModel, _Sums]:
    sums: dict[UnitModel, _Sums] = {}
    for call in calls:
        sums.setdefault((call.request.node, call.request.model.name), _Sums()).add(call)
    return sums


def _carried_over(
    key: UnitModel, all_rendered: int, rendered: Sequence[int], used: Sequence[_Sums], model: Model, count: int
) -> tuple[Line, float]:
    """The line of all rows, and the dollars that a token of a rendered prompt costs. ``rendered`` are the tokens of the
    judged rows' prompts as the dry run counts them, ``all_rendered`` those of all rows.

    Prompts are estimated by the ratio of charged to rendered tokens, which is known for every row; replies by their mean.
    The cost is a difference estimate: the mean of the judged rows, plus what the other rows' prompts differ from theirs.
    """
    share = count / len(used)
    prompt, completion = sum(row_sums.prompt for row_sums in used), sum(row_sums.completion for row_sums in used)
    ratio = prompt / sum(rendered) if sum(rendered) else 0.0
    slope = ratio * _read_price(model)
    costs = [row_sums.cost for row_sums in used if row_sums.cost is not None]
    cost = share * sum(costs) + slope * (all_rendered - share * sum(rendered))
    line = Line(
        *key,
        round(share * sum(row_sums.calls for row_sums in used)),
        round(ratio * all_rendered if ratio else share * prompt),
        round(share * completion),
        max(0.0, cost) if len(costs) == len(used) else None,
    )
    return line, slope


def _read_price(model: Model) -> float:
    """Dollars a prompt token; 0 where unknown, which only makes the interval wider."""
    if is_free(model.name):
        return 0.0
    if model.cost is not None:
        return model.cost.input_per_million / 1e6
    rates = rates_of(model.known_name, tier=str(model.params.get("service_tier") or ""))
    return 0.0 if rates is None else rates.read


def margins(residuals: Sequence[float], count: int, level: float) -> tuple[float, float] | None:
    """How far the interval of the total of ``count`` rows reaches below and above its estimate, from those of some rows.

    Student's t, with the correction for a finite population. It falls short above where a few rows cost far more than
    most, as replies of reasoning models do: there the upper end is Cox's for a log-normal mean (Land, 1972; Zhou and Gao,
    1997) where the logarithms are less skewed than the values, else Johnson's (1978) for a skewed one.
    """
    rows = len(residuals)
    if rows >= count:
        return 0.0, 0.0
    if rows < 2:
        return None
    from scipy.stats import t

    quantile = float(t.ppf((1 + level) / 2, rows - 1))
    mean, variance, skewness = _moments(residuals)
    if not variance:
        return 0.0, 0.0
    error = math.sqrt(variance / rows * (1 - rows / count))
    above = quantile * error
    if skewness > 0:
        logs = [math.log(value) for value in residuals] if min(residuals) > 0 else []
        log_mean, log_variance, log_skewness = _moments(logs) if logs else (0.0, 0.0, math.inf)
        if abs(log_skewness) < skewness:
            spread = math.sqrt(log_variance / rows + log_variance**2 / (2 * (rows - 1)))
            upper = math.exp(log_mean + log_variance / 2 + quantile * spread)
            above = max(above, (1 - rows / count) * (upper - mean))
        else:
            above += error * skewness / (6 * math.sqrt(rows)) * (1 + 2 * quantile**2)
    return count * quantile * error, count * above


def _moments(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean, the variance and the skewness."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    third = sum((value - mean) ** 3 for value in values) / len(values)
    return mean, variance, third / variance**1.5 if variance > 0 else 0.0
