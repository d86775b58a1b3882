"""The evidence of token scores: how much probability the tokens of each unit's scale had."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from verdict_cli.language.extractors.bound_extractor import MASS_FIELD, SAMPLED_FIELD
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.storage.tables.reader import read_table, table_columns


@dataclass(frozen=True, slots=True)
class TokenMass:
    """The median `mass` of a unit over the `n` rows that it answered.

    With `sequence`, values may have several tokens; on `sampled` of the rows, some of them were estimated from `samples`
    further replies.
    """

    n: int
    median: float
    sequence: bool = False
    samples: int = 0
    sampled: int = 0


def token_masses(plan: Plan, results: Path, calls: Path) -> dict[str, TokenMass]:
    """The evidence of each unit with a token extractor, by its id; units without an answered row are left out.

    It is read from the results, or where the unit passes on other fields (`propagate`), from its calls.
    """
    import numpy as np

    readings = {
        node.id: node.work.reading
        for node in plan.nodes
        if isinstance(node.work, LLMNode) and MASS_FIELD in node.work.reading.output.fields
    }
    present = set(table_columns(results)) if readings else set()
    in_calls = _masses_of_calls(calls) if any(f"{node}.{MASS_FIELD}" not in present for node in readings) else {}
    masses: dict[str, TokenMass] = {}
    for node, reading in readings.items():
        names = [name for field in (MASS_FIELD, SAMPLED_FIELD) if (name := f"{node}.{field}") in present]
        found: list[float] = [] if f"{node}.{MASS_FIELD}" in names else in_calls.get(node, [])
        sampled = 0
        for batch in read_table(results, names) if names else ():
            found += [value for value in batch.get(f"{node}.{MASS_FIELD}", ()) if value is not None]
            sampled += sum(value is True for value in batch.get(f"{node}.{SAMPLED_FIELD}", ()))
        if found:
            samples = reading.more.count if reading.more is not None else 0
            masses[node] = TokenMass(len(found), float(np.median(found)), reading.sequence, samples, sampled)
    return masses


def _masses_of_calls(calls: Path) -> dict[str, list[float]]:
    """The `mass` of each reply that was read, by unit."""
    columns = ("unit", "failure", MASS_FIELD)
    found: dict[str, list[float]] = {}
    if calls.exists() and set(columns) <= set(table_columns(calls)):
        for batch in read_table(calls, columns):
            for unit, failure, mass in zip(*(batch[name] for name in columns), strict=True):
                if failure is None and mass is not None:
                    found.setdefault(unit, []).append(mass)
    return found
