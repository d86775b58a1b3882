"""How often a layer that stops early kept the result of all its units, on the rows where all were called (`audit_share`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.plan.early_stopping import EarlyStop, Mean
from verdict_cli.plan.node import Node, Plan, PoolNode
from verdict_cli.run.compute import pooled_values
from verdict_cli.run.stopping_rule import first_batch, is_audited, is_decided
from verdict_cli.stats.columns.collect import collect
from verdict_cli.stats.columns.column import Ints
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import Draw, mean_with_interval
from verdict_cli.storage.tables.reader import read_table, table_columns


def kept_promises(plan: Plan, results: Path, *, seed: int, level: float) -> dict[str, MetricValue]:
    """The share of audited rows whose early result is the full one, by the pool after the layer.

    Rows in clusters of the first evaluation that has any are not independent; its interval allows for that.
    """
    found: dict[str, MetricValue] = {}
    audited = [early for early in plan.early if early.audit_share]
    clusters = _clusters(plan, results) if audited else None
    for early in audited:
        pool = plan.nodes[early.pool]
        kept = _kept(plan, early, pool, results, seed)
        known = np.array([each is not None for each in kept], dtype=bool)
        hits = np.array([bool(each) for each in kept if each is not None], dtype=np.float64)
        cluster = None if clusters is None else clusters[known]
        draw = Draw(np.random.default_rng(abs(seed)), level)
        found[pool.id] = mean_with_interval(hits, cluster, draw, boolean=True)
    return found


def _clusters(plan: Plan, results: Path) -> Ints | None:
    cluster = next((each.cluster for each in plan.evaluations.values() if each.cluster is not None), None)
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
    for batch in read_table(results, ["id", "status", *read]):
        for row, (identity, status) in enumerate(zip(batch["id"], batch["status"], strict=True)):
            if status == "failed" or not is_audited(early, seed, identity):
                kept.append(None)
                continue
            outputs: list[dict[str, Any] | None] = [None] * len(plan.nodes)
            for leaf, names in columns.items():
                values = {
                    field: batch[name][row] if name in batch else None
                    for field, name in zip(fields, names, strict=True)
                }
                outputs[leaf] = values if None not in values.values() else None
            kept.append(_same_result(early, pool, outputs))
    return kept


def _same_result(early: EarlyStop, pool: Node, outputs: Sequence[dict[str, Any] | None]) -> bool | None:
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
        first, second = (float(np.mean([value[early.rule.field] for value in each])) for each in (part, whole))
        if early.rule.threshold is not None:
            return (first >= early.rule.threshold) == (second >= early.rule.threshold)
        return abs(first - second) <= (early.rule.within or 0.0)
    return _winners(pool, part) == _winners(pool, whole)


def _winners(pool: Node, values: Sequence[Mapping[str, Any]]) -> list[Any]:
    assert isinstance(pool.work, PoolNode)
    unit = pool.work.unit
    return [unit.pool_seeded([value[name] for value in values], None, 0) for name, _ in pool.work.fields]
