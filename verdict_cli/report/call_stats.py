"""Statistics of a run's calls: cost, latency and failures by unit,
how much probability the tokens of scales had, and how many answers are the default of the extractor `verdict`,
and how often a layer that stops early kept the result of all its units on the rows where all were called (`audit_share`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.extractors.bound_extractor import DEFAULTED_FIELD, MASS_FIELD
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.plan.early_stopping import EarlyStop, Mean
from verdict_cli.plan.node import Node, Plan, PoolNode
from verdict_cli.run.compute import pooled_values
from verdict_cli.run.stopping_rule import first_batch, is_audited, is_decided
from verdict_cli.stats.columns.collect import collect
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import Draw, mean_with_interval
from verdict_cli.storage.datasets.arrow_vectors import floats, present
from verdict_cli.storage.tables.reader import (
    has_columns,
    read_arrow,
    table_columns,
    table_rows,
)

_UNIT_COLUMNS = (
    "unit", "failure", "finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "latency_s",
)  # fmt: skip
_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")


class UnitCalls(Struct, frozen=True):
    """The calls of one unit. `cost_usd` is None if a price is unknown; seconds are None if none was measured."""

    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_usd: float | None
    median_s: float | None
    p95_s: float | None


class _UnitTotals:
    """The totals of one unit while its calls are read: four bytes of memory for each call."""

    def __init__(self) -> None:
        self.calls = self.failed = self.unpriced = 0
        self.tokens = [0] * len(_TOKENS)
        self.cost_usd = 0.0
        self.seconds: list[Any] = []

    def add(self, batch: JsonObject, mask: Any) -> None:
        """Add the rows of a batch that are this unit's."""
        self.calls += int(mask.sum())
        self.failed += int(batch["failed"][mask].sum())
        for index, name in enumerate(_TOKENS):
            self.tokens[index] += int(np.nansum(batch[name][mask]))
        cost = batch["cost_usd"][mask]
        self.unpriced += int((np.isnan(cost) & batch["answered"][mask]).sum())
        self.cost_usd += float(np.nansum(cost))
        seconds = batch["latency_s"][mask]
        self.seconds.append(seconds[np.isfinite(seconds)].astype(np.float32))

    def totals(self) -> UnitCalls:
        """The finished totals."""
        seconds = np.concatenate(self.seconds)
        median, p95 = _median_and_p95(seconds) if len(seconds) else (None, None)
        cost_usd = None if self.unpriced else self.cost_usd
        prompt, completion, cached = self.tokens
        return UnitCalls(self.calls, self.failed, prompt, completion, cached, cost_usd, median, p95)


def by_unit(calls: Path) -> dict[str, UnitCalls]:
    """The calls of a `calls.parquet` by unit, in the order of their first appearance; empty if the file is missing."""
    if not has_columns(calls, _UNIT_COLUMNS):
        return {}
    totals_of: dict[str, _UnitTotals] = {}
    for batch in read_arrow(calls, _UNIT_COLUMNS):
        units = np.array(batch.column("unit").to_pylist(), dtype=object)
        columns: JsonObject = {name: floats(batch.column(name)) for name in _UNIT_COLUMNS[3:]}
        columns["failed"] = present(batch.column("failure"))
        columns["answered"] = present(batch.column("finish_reason"))
        for unit in dict.fromkeys(units):
            totals_of.setdefault(unit, _UnitTotals()).add(columns, units == unit)
    return {unit: totals.totals() for unit, totals in totals_of.items()}


class Latency(Struct, frozen=True):
    """Seconds per call, over `n` answered calls."""

    n: int
    mean_s: float
    median_s: float
    p95_s: float


def latency(calls: Path) -> Latency | None:
    """The latency of the calls in a `calls.parquet`; None if the file is missing, or no call was answered."""
    if not has_columns(calls, ["latency_s"]):
        return None
    parts = [floats(batch.column("latency_s")) for batch in read_arrow(calls, ["latency_s"])]
    seconds = np.concatenate([np.empty(0), *parts])
    seconds = seconds[np.isfinite(seconds)]
    if not len(seconds):
        return None
    return Latency(len(seconds), float(seconds.mean()), *_median_and_p95(seconds))


def _median_and_p95(values: Floats) -> tuple[float, float]:
    """The median and the 95th percentile, as `np.quantile` has them, which imports masked arrays for it."""
    places = np.multiply([0.5, 0.95], len(values) - 1)
    median, p95 = np.interp(places, np.arange(len(values)), np.sort(values)).tolist()
    return median, p95


class TokenMass(Struct, frozen=True):
    """The median `mass` of a unit over the `n` rows that it answered.

    With `sequence`, values may have several tokens.
    """

    n: int
    median: float
    sequence: bool = False


def token_masses(plan: Plan, results: Path, calls: Path) -> dict[str, TokenMass]:
    """The evidence of each unit with a token extractor, by its id; units without an answered row are left out.

    It is read from the results, or where the unit passes on other fields (`propagate`), from its calls.
    """
    readings = {
        node.id: work.reading
        for node, work in plan.llm_nodes
        if MASS_FIELD in work.reading.output.fields
    }
    present = set(table_columns(results)) if readings else set()
    in_calls = (
        _masses_of_calls(calls)
        if any(f"{node}.{MASS_FIELD}" not in present for node in readings)
        else {}
    )
    masses = {}
    for node, reading in readings.items():
        name = f"{node}.{MASS_FIELD}"
        values = in_calls.get(node, [])
        if name in present:
            values = [mass for (mass,) in table_rows(results, [name]) if mass is not None]
        if values:
            masses[node] = TokenMass(len(values), float(np.median(values)), reading.sequence)
    return masses


def _masses_of_calls(calls: Path) -> dict[str, list[float]]:
    """The `mass` of each reply that was read, by unit."""
    columns = ("unit", "failure", MASS_FIELD)
    masses: dict[str, list[float]] = {}
    if has_columns(calls, columns):
        for unit, failure, mass in table_rows(calls, columns):
            if failure is None and mass is not None:
                masses.setdefault(unit, []).append(mass)
    return masses


_ANSWER_COLUMNS = ("unit", "row", "item", "call", "attempt", "failure")


def defaulted_answers(plan: Plan, calls: Path) -> dict[str, int]:
    """The number of defaulted answers of each unit that has some, by its id. A unit may pass on other fields (`propagate`), so
    they are counted in its calls."""
    units = {
        node.id for node, work in plan.llm_nodes if DEFAULTED_FIELD in work.reading.output.fields
    }
    if not units or not has_columns(calls, _ANSWER_COLUMNS):
        return {}
    last: dict[tuple[object, ...], tuple[int, bool]] = {}
    for unit, row, item, call, attempt, failure in table_rows(calls, _ANSWER_COLUMNS):
        if unit in units:
            key = (unit, row, item, call)
            last[key] = max(last.get(key, (-1, False)), (attempt, failure == "no-verdict"))
    return dict(Counter(str(unit) for (unit, *_), (_, defaulted) in last.items() if defaulted))


def kept_promises(plan: Plan, results: Path, *, seed: int, level: float) -> dict[str, MetricValue]:
    """The share of audited rows whose early result is the full one, by the pool after the layer.

    Rows in clusters of the first evaluation that has any are not independent; its interval allows for that.
    """
    shares = {}
    audited = [early for early in plan.early if early.audit_share]
    clusters = _clusters(plan, results) if audited else None
    for early in audited:
        pool = plan.nodes[early.pool]
        kept = np.array(_kept(plan, early, pool, results, seed), dtype=np.float64)
        known = np.isfinite(kept)
        hits = kept[known]
        cluster = None if clusters is None else clusters[known]
        draw = Draw(np.random.default_rng(abs(seed)), level)
        shares[pool.id] = mean_with_interval(hits, cluster, draw, boolean=True)
    return shares


def _clusters(plan: Plan, results: Path) -> Ints | None:
    cluster = next(
        (item.cluster for item in plan.evaluations.values() if item.cluster is not None), None
    )
    if cluster is None:
        return None
    evaluation = Evaluation(value=cluster, metrics=("mean",))
    column = collect({"cluster": evaluation}, results)["cluster"].columns["value"]
    codes = np.where(column.codes >= 0, column.codes, -2)
    texts = [f"{code} {number}" for code, number in zip(codes, column.numbers, strict=True)]
    return np.unique(texts, return_inverse=True)[1].astype(np.int64)


def _kept(plan: Plan, early: EarlyStop, pool: Node, results: Path, seed: int) -> list[bool | None]:
    """Whether each row's early result is the full one; None for rows that were not audited, or failed."""
    assert isinstance(pool.work, PoolNode)
    fields = [name for name, _ in pool.work.fields]
    present = set(table_columns(results))
    columns = {leaf: [f"{plan.nodes[leaf].id}.{name}" for name in fields] for leaf in early.leaves}
    read = [name for names in columns.values() for name in names if name in present]
    kept: list[bool | None] = []
    for identity, status, *values in table_rows(results, ["id", "status", *read]):
        if status == "failed" or not is_audited(early, seed, identity):
            kept.append(None)
            continue
        row = dict(zip(read, values, strict=True))
        outputs: list[JsonObject | None] = [None] * len(plan.nodes)
        for leaf, names in columns.items():
            output = {field: row.get(name) for field, name in zip(fields, names, strict=True)}
            outputs[leaf] = None if None in output.values() else output
        kept.append(_same_result(early, pool, outputs))
    return kept


def _same_result(early: EarlyStop, pool: Node, outputs: Sequence[JsonObject | None]) -> bool | None:
    count = len(early.items)
    started = first_batch(early)
    while started < count:
        if is_decided(early, pooled_values(pool, outputs, early.leaves[:started]), count - started):
            break
        started = min(started + early.batch, count)
    part, whole = (pooled_values(pool, outputs, early.leaves[:end]) for end in (started, count))
    if not part or not whole:
        return None
    if isinstance(early.rule, Mean):
        first, second = (
            float(np.mean([value[early.rule.field] for value in values]))
            for values in (part, whole)
        )
        if early.rule.threshold is not None:
            return (first >= early.rule.threshold) == (second >= early.rule.threshold)
        return abs(first - second) <= (early.rule.within or 0.0)
    return _winners(pool, part) == _winners(pool, whole)


def _winners(pool: Node, values: Sequence[NamedValues]) -> list[Any]:
    assert isinstance(pool.work, PoolNode)
    unit = pool.work.unit
    return [unit.pool([value[name] for value in values], None) for name, _ in pool.work.fields]
