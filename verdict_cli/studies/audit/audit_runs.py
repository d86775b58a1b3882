"""The runs of an audit: the baseline once, and one for each probe; what they will cost."""

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
    """How the runs are made; `named` are the pipeline file and the dataset as the user gave them."""

    folder: Path
    named: tuple[str, str]
    seed: int
    replay: Path | None
    concurrency: int
    recording: Recording | None
    budget_usd: float | None
    fresh: bool = False

    def prepared(self, probe: Probe | None, plan: Plan, dataset: Dataset, data: DatasetFacts) -> PreparedRun:
        """The probe's run, the baseline's where there is none."""
        facts = new_facts(plan, data, self.named, self.seed, self.replay)
        if probe is None:
            place = self.folder / BASELINE
        else:
            place = self.folder / "probes" / re.sub(r"[^A-Za-z0-9._-]+", "-", probe.name).strip("-.")
            texts = [probe.name, probe.column, "" if probe.change is None else probe.change("text")]
            own = "\0".join([data.fingerprint, str(probe.again), *texts])
            facts = replace(facts, data_fingerprint=blake2b(own.encode(), digest_size=16).hexdigest())
        job = RunJob(
            plan,
            dataset,
            data,
            RunDirectory(place),
            facts,
            self.concurrency,
            self.recording,
            self.budget_usd,
            fresh=self.fresh,
            changed=None if probe is None or probe.change is None else probe.changed,
            renamed=None if probe is None else probe.renamed(plan),
        )
        return prepared(BASELINE if probe is None else probe.name, job)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the runs will ask and cost at most."""

    runs: int
    rows: int
    calls: int
    cost_usd: float | None
    recorded: bool

    @property
    def words(self) -> str:
        """As a sentence."""
        cost = "from the recording" if self.recorded else f"about {money(self.cost_usd)}"
        return f"{self.runs} runs of {self.rows:,} rows: {self.calls:,} calls, {cost}"

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"rows": self.rows, "calls": self.calls, "cost_usd": 0.0 if self.recorded else self.cost_usd}


def expected(runs: Sequence[PreparedRun], *, recorded: bool) -> Expected:
    """The calls from the plans; tokens from the prompts of the rows as they stand, which texts made longer exceed."""
    known: dict[str, Line] = {}
    lines = []
    for one in runs:
        job = one.job
        if job.plan.fingerprint not in known:
            each = estimate_run(job.plan, stream_rows(job.dataset, job.data.selection), job.data.rows, job.start.seed)
            known[job.plan.fingerprint] = total(each, "", "")
        lines.append(known[job.plan.fingerprint])
    summed = total(lines, "", "")
    return Expected(len(runs), runs[0].job.data.rows, summed.calls, summed.cost_usd, recorded)
