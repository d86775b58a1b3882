"""Measuring a run: from its results to the figures of every evaluation."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.evaluate.bounds import bounds
from verdict_cli.evaluate.collect import SAID, Collected, collect
from verdict_cli.evaluate.column import MISSING, Ints
from verdict_cli.evaluate.families import Mask, judged
from verdict_cli.evaluate.figures import Figure, GoldFacts, Measures
from verdict_cli.evaluate.gold import corrected, pairs
from verdict_cli.evaluate.intervals import LEVEL, Draw
from verdict_cli.evaluate.keyed import key_text, told_apart
from verdict_cli.evaluate.kinds import fitting
from verdict_cli.evaluate.measured import measured
from verdict_cli.evaluate.reduce import reduced
from verdict_cli.evaluate.rows import Data, check_labels, check_positive
from verdict_cli.spec.evaluate import Evaluation
from verdict_cli.spec.metrics import OF_GOLD

MOST_GROUPS = 50
FEW_CLUSTERS = 20


def measure(
    evaluations: Mapping[str, Evaluation],
    results: Path,
    *,
    seed: int = 0,
    level: float = LEVEL,
    only: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Measures]:
    """The figures of each evaluation over a run's `results.parquet`; the same seed gives the same intervals.

    `level` is the intervals' confidence; `only` restricts an evaluation to rows whose paths have these values.
    Raises DataError for a row whose target or group cannot be computed, for a reduction that does not fit its
    values, for predictions and targets of which one side is text and the other numbers, and for a probability of
    which nothing says what it is of.
    """
    found = measuring(evaluations, results, seed=seed, level=level, only=only)
    return {name: measures for name, measures, _, _ in found}


def measuring(
    evaluations: Mapping[str, Evaluation],
    results: Path,
    *,
    seed: int = 0,
    level: float = LEVEL,
    only: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[tuple[str, Measures, Data, Ints | None]]:
    """Each evaluation's name, figures and rows, and the rows' places in the file (None where `group` made them).

    Raises what `measure` does.
    """
    found = collect(evaluations, results, only=only)
    for name, evaluation in evaluations.items():
        collected = reduced(name, evaluation, found.pop(name), results)
        data = Data.of(evaluation, collected)
        if "prediction" in collected.columns:
            check_labels(name, data, results)
        check_positive(name, evaluation, data, results)
        yield name, _measures(name, evaluation, collected, data, (seed, level)), data, collected.at


def _measures(
    name: str, evaluation: Evaluation, collected: Collected, data: Data, how: tuple[int, float]
) -> Measures:
    seed, level = how
    value = collected.columns.get("value")
    pairwise = "prediction" in collected.columns and data.kind == "pairwise"
    kind = data.kind if "target" in collected.columns or data.panel or pairwise else None
    labels_kind = data.kind if "prediction" in collected.columns else None
    metrics = tuple(metric for metric in fitting(evaluation, labels_kind, value) if metric not in OF_GOLD)
    everything = np.arange(collected.rows)
    groups, warnings = {}, list(_warnings(evaluation, collected, data))
    for text, keys in zip(evaluation.by, collected.by, strict=True):
        codes = keys.codes
        sizes = np.bincount(codes[codes != MISSING], minlength=len(keys.labels))
        order = np.argsort(-sizes, kind="stable")
        order = order[sizes[order] > 0]
        if len(order) > MOST_GROUPS:
            warnings.append(
                f"`by: {text}` has {len(order)} values; the {MOST_GROUPS} most frequent are shown"
            )
        shown = [keys.labels[place] for place in order[:MOST_GROUPS]]
        spelled = dict(zip(order.tolist(), told_apart(shown), strict=False))
        groups[text] = {
            spelled[place]: _group(
                evaluation,
                metrics,
                collected,
                data,
                np.flatnonzero(codes == place),
                _draw(seed, level, name, text, str(place)),
            )
            for place in spelled
        }
    labelled = np.ones(collected.rows, bool)
    if "target" in collected.columns and not data.panel:
        labelled = data.targets.present
    missing = labelled & ~_present(collected, data)
    counted = int(labelled.sum())
    own, gold = _gold(evaluation, collected, data, _draw(seed, level, name, "gold"), everything)
    return Measures(
        figures=measured(metrics, data, everything, _draw(seed, level, name)) | own,
        groups=groups,
        coverage=1 - int(missing.sum()) / counted if counted else None,
        rows=collected.rows,
        unlabelled=collected.rows - counted,
        missing=int(missing.sum()),
        kind=kind or "",
        bounds=bounds(metrics, data, missing) if missing.any() else {},
        unreadable={key: count for key, (count, _) in collected.unreadable.items()},
        warnings=tuple(warnings),
        published=evaluation.published,
        gold=gold,
    )


def _group(
    evaluation: Evaluation, metrics: tuple[str, ...], collected: Collected, data: Data, rows: Ints, draw: Draw
) -> dict[str, Figure]:
    """The figures of some of the rows, with the ones that labels correct."""
    return measured(metrics, data, rows, draw) | _gold(evaluation, collected, data, draw, rows)[0]


def _gold(
    evaluation: Evaluation, collected: Collected, data: Data, draw: Draw, rows: Ints
) -> tuple[dict[str, Figure], GoldFacts | None]:
    """The figures of these rows that people's labels of some correct; none without `gold`."""
    if evaluation.gold is None:
        return {}, None
    said = collected.columns["value" if evaluation.value is not None else "prediction"].take(rows)
    cluster = None if data.cluster is None else data.cluster[rows]
    found = pairs(evaluation, said, collected.columns["gold"].take(rows), cluster)
    if isinstance(found, str):
        return dict.fromkeys(OF_GOLD, Figure(None, None, None, len(rows), found)), None
    return corrected(found, draw, evaluation.gold.half_width, evaluation.gold.of)


def _present(collected: Collected, data: Data) -> Mask:
    """The rows on which the pipeline said what is measured; of a panel, two votes."""
    if data.panel:
        return judged(data)
    said = next((collected.columns[key] for key in SAID if key in collected.columns), None)
    return np.zeros(collected.rows, bool) if said is None else said.present


def _draw(seed: int, level: float, *names: str) -> Draw:
    return Draw(np.random.default_rng([abs(seed), zlib.crc32("\0".join(names).encode())]), level)


def _warnings(evaluation: Evaluation, collected: Collected, data: Data) -> list[str]:
    found = []
    for key, (count, first) in collected.unreadable.items():
        rows = "1 row counts" if count == 1 else f"{count} rows count"
        found.append(f"{rows} as without {key}: {first}")
    if collected.undecided:
        found.append(f"{collected.undecided} rows without an output are left out: `where` needs it")
    positive = data.positive
    if positive is not None and not (data.target == positive).any():
        labels = ", ".join(
            repr(data.labels[code]) for code in np.unique(data.target[data.target != MISSING])[:10]
        )
        found.append(
            f"`positive: {key_text(evaluation.positive)}` is never a target; the targets are {labels or 'none'}"
        )
    if data.cluster is not None and 0 < (clusters := len(np.unique(data.cluster))) < FEW_CLUSTERS:
        found.append(f"there are only {clusters} clusters: intervals from so few are rough")
    return found
