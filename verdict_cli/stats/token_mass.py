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


def token_masses(plan: Plan, results: Path) -> dict[str, TokenMass]:
    """The evidence of each unit that gives `mass`, by its id; units without an answered row are left out."""
    import numpy as np

    readings = {
        node.id: node.work.reading
        for node in plan.nodes
        if isinstance(node.work, LLMNode) and MASS_FIELD in node.output.fields and node.work.reading.top_logprobs
    }
    present = set(table_columns(results)) if readings else set()
    masses: dict[str, TokenMass] = {}
    for node, reading in readings.items():
        names = [name for field in (MASS_FIELD, SAMPLED_FIELD) if (name := f"{node}.{field}") in present]
        if f"{node}.{MASS_FIELD}" not in names:
            continue
        found: list[float] = []
        sampled = 0
        for batch in read_table(results, names):
            found += [value for value in batch[names[0]] if value is not None]
            sampled += sum(value is True for name in names[1:] for value in batch[name])
        if found:
            samples = reading.more.count if reading.more is not None else 0
            masses[node] = TokenMass(len(found), float(np.median(found)), reading.sequence, samples, sampled)
    return masses
