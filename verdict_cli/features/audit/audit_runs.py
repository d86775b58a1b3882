"""The runs of an audit (the baseline and one for each probe), and their estimated cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from verdict_cli.features.audit.probes import Probe
from verdict_cli.plan.node import Plan
from verdict_cli.report.formatting import money
from verdict_cli.run.estimate import Line, estimate_run, total
from verdict_cli.run.job import RunOptions
from verdict_cli.storage.datasets.read import stream_rows

BASELINE = "baseline"


def probe_options(options: RunOptions, probe: Probe | None, plan: Plan, folder: Path) -> RunOptions:
    """The options of the probe's run; None is the baseline, whose options are given."""
    if probe is None:
        return replace(options, plan=plan, out=folder / BASELINE)
    texts = [
        probe.name,
        probe.column,
        "" if probe.change is None else probe.change("text"),
        *filter(None, [probe.digest]),
    ]
    data = options.data
    content = "\0".join([options.data.fingerprint, str(probe.repeat), *texts])
    return replace(
        options,
        plan=plan,
        # The rows are read from the same files and changed then: the change belongs to what identifies the data.
        data=replace(
            data, fingerprint=blake2b(content.encode(), digest_size=16).hexdigest(), files_fingerprint=data.of_files
        ),
        out=folder / "probes" / re.sub(r"[^A-Za-z0-9._-]+", "-", probe.name).strip("-."),
        transform_row=None if probe.change is None else probe.changed_row,
        rename_unit=probe.node_renaming(plan),
    )


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


def estimate_audit(runs: Sequence[RunOptions]) -> AuditEstimate:
    """The calls by the plans; tokens by the prompts of the unchanged rows, which probes that lengthen texts exceed."""
    known: dict[str, Line] = {}
    lines = []
    for run in runs:
        plan, data = run.plan, run.data
        if plan.fingerprint not in known:
            units = estimate_run(plan, stream_rows(run.dataset, data.selection), data.rows, run.seed)
            known[plan.fingerprint] = total(units, "", "")
        lines.append(known[plan.fingerprint])
    summed = total(lines, "", "")
    recorded = runs[0].recording is not None
    return AuditEstimate(len(runs), runs[0].data.rows, summed.calls, summed.cost_usd, recorded)
