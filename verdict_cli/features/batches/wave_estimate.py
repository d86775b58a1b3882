"""What a run costs as batches, and in how many waves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from verdict_cli.features.batches.batch_interfaces import TIER, batch_problem, most_requests
from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.messages import Usage
from verdict_cli.model import Model
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.run.estimate import Line
from verdict_cli.run.preflight import models_of


@dataclass(frozen=True, slots=True)
class WaveEstimate:
    """``waves`` at most when every request is answered at its first attempt, ``files`` in them, what they cost at batch
    prices (None: unknown), and how long they take at worst, in hours."""

    waves: int
    files: int
    cost_usd: float | None
    worst_h: float


def estimate_waves(plan: Plan, lines: Sequence[Line]) -> WaveEstimate | None:
    """The run as batches; None where a model of it has no batch interface."""
    models = {model.name: model for model in models_of(plan)}
    if not models or any(batch_problem(model) is not None for model in models.values()):
        return None
    depth = _depths(plan)
    waves = max(depth.values(), default=0)
    requests: Counter[tuple[int, str]] = Counter()
    cost: float | None = 0.0
    for line in lines:
        model = models[line.model]
        requests[depth.get(line.unit, 1), line.model] += line.calls
        price = _price(model, line)
        cost = None if price is None or cost is None else cost + price
    files = sum(math.ceil(count / most_requests(models[name])) for (_, name), count in requests.items())
    wait_s = max(batch_settings(model).wait_s for model in models.values())
    return WaveEstimate(waves, files, cost, waves * wait_s / 3600)


def _price(model: Model, line: Line) -> float | None:
    if not line.calls:
        return 0.0
    if line.prompt_tokens is None or line.completion_tokens is None:
        return None
    usage = Usage(round(line.prompt_tokens / line.calls), round(line.completion_tokens / line.calls))
    price = cost_usd(model, usage, tier=TIER)
    return None if price is None else line.calls * price


def _depths(plan: Plan) -> dict[str, int]:
    """The wave in which each unit's last call is answered, by the unit's id."""
    depths: dict[int, int] = {}
    held = {index: early for early in plan.early for item in early.items for index in item}
    for node in plan.nodes:
        depth = max((depths[parent] for parent in node.parents), default=0)
        early = held.get(node.index)
        if early is not None:
            item = next(number for number, indices in enumerate(early.items) if node.index in indices)
            depth += max(0, math.ceil((item + 1 - early.first) / max(1, early.batch)))
        depths[node.index] = depth + _rounds(node)
    return {plan.nodes[index].id: depth for index, depth in depths.items()}


def _rounds(node: Node) -> int:
    """How many calls of a unit wait for one another."""
    if not isinstance(node.work, LLMNode):
        return 0
    reading = node.work.reading
    return max(1, len(node.stages)) * (1 + (reading.then is not None) + (reading.more is not None))
