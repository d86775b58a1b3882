"""What stands between a directory's run and another one that is to go on in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from verdict_cli.messages import RunFacts
from verdict_cli.plan.node import LLMNode, Plan


@dataclass(frozen=True, slots=True)
class RunDiff:
    """``differs`` has (what, the run's fingerprint, this one's) of the pipeline and the dataset where they differ.

    ``units`` are those that ask a model and ask otherwise than they did, or after one that does, of ``asking`` in all.
    """

    differs: tuple[tuple[str, str, str], ...]
    units: tuple[str, ...]
    asking: int

    def refusal(self, directory: Path) -> str:
        """Why the run does not simply go on."""
        others = " and ".join(
            f"another {what} ({was[:12]}…, this one is {now[:12]}…)" for what, was, now in self.differs
        )
        return f"{directory} holds a run of {others}"

    def work(self) -> str:
        """What `--update` asks."""
        done = []
        if any(what == "pipeline" for what, _, _ in self.differs):
            named = f": {', '.join(self.units[:6])}{', …' if len(self.units) > 6 else ''}" if self.units else ""
            done.append(f"asks {len(self.units)} of {self.asking} units again{named}")
        if any(what == "dataset" for what, _, _ in self.differs):
            done.append("asks for rows that it has not")
        return " and ".join(done)


def diff_runs(plan: Plan, run: RunFacts, now: RunFacts) -> RunDiff | None:
    """How the run differs from what the plan would do now; None where it is the same run."""
    differs = tuple(
        (what, was, new)
        for what, was, new in (
            ("pipeline", run.spec_fingerprint, now.spec_fingerprint),
            ("dataset", run.data_fingerprint, now.data_fingerprint),
        )
        if was != new
    )
    if not differs:
        return None
    asking = [node.id for node in plan.nodes if isinstance(node.work, LLMNode)]
    units = tuple(name for name in asking if run.nodes.get(name) != now.nodes[name])
    return RunDiff(differs, units, len(asking))
