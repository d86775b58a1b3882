"""The runs of an audit (the baseline and one for each probe), and their estimated cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from verdict_cli.llm.providers.recording import Recording
from verdict_cli.plan.node import Plan
from verdict_cli.report.formatting import money
from verdict_cli.run.batch import PreparedRun, prepared
from verdict_cli.run.estimate import Line, estimate_run, total
from verdict_cli.run.job import RunJob
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.run_metadata import new_facts
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.studies.audit.probes import Probe

BASELINE = "baseline"


@dataclass(frozen=True)
class AuditRunConfig:
    """The settings shared by the runs; `named` are the pipeline file and the dataset as the user gave them."""

    folder: Path
    named: tuple[str, str]
    seed: int
    replay: Path | None
    concurrency: int
    recording: Recording | None
    budget_usd: float | None
    fresh: bool = False

    def prepare(self, probe: Probe | None, plan: Plan, dataset: Dataset, data: DatasetFacts) -> PreparedRun:
        """The run of the probe; None stands for the baseline."""
        facts = new_facts(plan, data, self.named, self.seed, self.replay)
        if probe is None:
            path = self.folder / BASELINE
        else:
            path = self.folder / "probes" / re.sub(r"[^A-Za-z0-9._-]+", "-", probe.name).strip("-.")
            texts = [probe.name, probe.column, "" if probe.change is None else probe.change("text")]
            # A probe changes rows after they are read: their fingerprint must differ, or it would resume the baseline's run.
            own = "\0".join([data.fingerprint, str(probe.repeat), *texts])
            facts = replace(facts, data_fingerprint=blake2b(own.encode(), digest_size=16).hexdigest())
        job = RunJob(
            plan,
            dataset,
            data,
            RunDirectory(path),
            facts,
            self.concurrency,
            self.recording,
            self.budget_usd,
            fresh=self.fresh,
            changed=None if probe is None or probe.change is None else probe.changed_row,
            renamed=None if probe is None else probe.node_renaming(plan),
        )
        return prepared(BASELINE if probe is None else probe.name, job)


@dataclass(frozen=True, slots=True)
class AuditEstimate:
    """The calls and cost of the runs, at most."""

    runs: int
    rows: int
    calls: int
    cost_usd: float | None
    recorded: bool

    @property
    def summary(self) -> str:
        """`15 runs of 40 rows: 600 calls, about $0.12`."""
        cost = "from the recording" if self.recorded else f"about {money(self.cost_usd)}"
        return f"{self.runs} runs of {self.rows:,} rows: {self.calls:,} calls, {cost}"

    def as_json(self) -> dict[str, Any]:
        """The counts as `--dry-run --json` prints them."""
        return {"rows": self.rows, "calls": self.calls, "cost_usd": 0.0 if self.recorded else self.cost_usd}


def estimate_audit(runs: Sequence[PreparedRun], *, recorded: bool) -> AuditEstimate:
    """Estimate calls from the plans, and tokens from the unchanged rows; probes that lengthen a text cost more."""
    by_plan: dict[str, Line] = {}
    lines = []
    for run in runs:
        job = run.job
        if job.plan.fingerprint not in by_plan:
            each = estimate_run(job.plan, stream_rows(job.dataset, job.data.selection), job.data.rows, job.start.seed)
            by_plan[job.plan.fingerprint] = total(each, "", "")
        lines.append(by_plan[job.plan.fingerprint])
    summed = total(lines, "", "")
    return AuditEstimate(len(runs), runs[0].job.data.rows, summed.calls, summed.cost_usd, recorded)
