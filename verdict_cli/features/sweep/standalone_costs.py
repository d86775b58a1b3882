"""What a run costs and takes without a cache, so that the variants of a sweep can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.messages import Usage
from verdict_cli.model import Model
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.storage.tables.reader import read_table

_CALL_COLUMNS = (
    "row", "unit", "model", "messages", "reply", "prompt_tokens", "completion_tokens", "cost_usd", "latency_s", "cached",
)  # fmt: skip


class StandaloneCost(Struct, frozen=True):
    """A run without a cache: its calls, their cost (None: unknown), and the median seconds of a row (None: unknown).

    A reply from the cache counts with the price of its tokens, and the latency that it had when the model was called. A
    row takes as long as the longest chain of its units.
    """

    calls: int
    cost_usd: float | None
    row_s: float | None


@dataclass(slots=True)
class ReplyLatencies:
    """The latency of each reply when the model was called, shared by the runs of a sweep."""

    seconds: dict[bytes, float] = field(default_factory=dict)


def standalone_costs(plan: Plan, calls: Path, latencies: ReplyLatencies, *, recorded: bool) -> StandaloneCost:
    """Calls, cost and seconds of the run with this `calls.parquet`. A recording (`recorded`) has no latency, and a cost
    only if it has tokens."""
    models = _models(plan)
    count, cost = 0, 0.0
    known = True
    rows: dict[int, dict[str, float | None]] = {}
    for call in _iterate_calls(calls):
        count += 1
        price = _price(call, models.get((call["unit"], call["model"])), recorded)
        known = known and price is not None
        cost += price or 0.0
        if not recorded:
            units = rows.setdefault(call["row"], {})
            took = _seconds(call, latencies)
            before = units.get(call["unit"], 0.0)
            units[call["unit"]] = None if took is None or before is None else before + took
    return StandaloneCost(count, cost if known else None, _median_row_seconds(plan, rows))


def _iterate_calls(calls: Path) -> Iterator[Mapping[str, Any]]:
    for batch in read_table(calls, _CALL_COLUMNS):
        for values in zip(*(batch[name] for name in _CALL_COLUMNS), strict=True):
            yield dict(zip(_CALL_COLUMNS, values, strict=True))


def _models(plan: Plan) -> dict[tuple[str, str], Model]:
    models = {}
    for node in plan.nodes:
        if isinstance(node.work, LLMNode):
            for model in (*(model for stage in node.stages for model in stage), *node.work.follow_up):
                models[node.id, model.name] = model
    return models


def _price(call: Mapping[str, Any], model: Model | None, recorded: bool) -> float | None:
    if is_local(call["model"]) or call["reply"] is None:
        return 0.0
    if not recorded and not call["cached"]:
        paid: float | None = call["cost_usd"]
        return paid
    tokens = call["prompt_tokens"] or 0, call["completion_tokens"] or 0
    return None if model is None or not sum(tokens) else cost_usd(model, Usage(*tokens))


def _seconds(call: Mapping[str, Any], latencies: ReplyLatencies) -> float | None:
    text = "\0".join(str(call[name]) for name in ("model", "messages", "reply"))
    key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()
    if call["cached"]:
        return latencies.seconds.get(key)
    took: float = call["latency_s"] or 0.0
    latencies.seconds[key] = took
    return took


def _median_row_seconds(plan: Plan, rows: Mapping[int, Mapping[str, float | None]]) -> float | None:
    took = []
    for units in rows.values():
        if all(seconds is not None for seconds in units.values()):
            ends: list[float] = []
            for node in plan.nodes:
                start = max((ends[parent] for parent in node.parents), default=0.0)
                ends.append(start + (units.get(node.id) or 0.0))
            took.append(max(ends))
    return float(np.median(took)) if took else None
