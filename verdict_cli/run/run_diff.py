"""Differences between the run in a directory and the one that is to resume it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from verdict_cli.messages import RunFacts
from verdict_cli.plan.node import LLMNode, Plan


@dataclass(frozen=True, slots=True)
class RunDiff:
    """``changes`` has (what, the earlier fingerprint, the new one) of the pipeline and the dataset where they differ.

    ``units`` are the units that call a model and whose calls change, of ``llm_units`` in all.
    """

    changes: tuple[tuple[str, str, str], ...]
    units: tuple[str, ...]
    llm_units: int

    def refusal(self, directory: Path) -> str:
        """Why the run is not resumed without `--update`."""
        others = " and ".join(
            f"another {what} ({earlier[:12]}…, this one is {now[:12]}…)" for what, earlier, now in self.changes
        )
        return f"{directory} holds a run of {others}"

    def work(self) -> str:
        """What `--update` does, as a phrase."""
        parts = []
        if any(what == "pipeline" for what, _, _ in self.changes):
            names = f": {', '.join(self.units[:6])}{', …' if len(self.units) > 6 else ''}" if self.units else ""
            parts.append(f"calls {len(self.units)} of {self.llm_units} units again{names}")
        if any(what == "dataset" for what, _, _ in self.changes):
            parts.append("calls models for rows that it does not have")
        return " and ".join(parts)


def diff_runs(plan: Plan, earlier: RunFacts, now: RunFacts) -> RunDiff | None:
    """How the earlier run differs from what the plan would do now; None where it is the same run."""
    changes = tuple(
        (what, before, after)
        for what, before, after in (
            ("pipeline", earlier.spec_fingerprint, now.spec_fingerprint),
            ("dataset", earlier.data_fingerprint, now.data_fingerprint),
        )
        if before != after
    )
    if not changes:
        return None
    llm_units = [node.id for node in plan.nodes if isinstance(node.work, LLMNode)]
    units = tuple(name for name in llm_units if earlier.nodes.get(name) != now.nodes[name])
    return RunDiff(changes, units, len(llm_units))
