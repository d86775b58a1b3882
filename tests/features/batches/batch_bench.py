"""Runs of a judge and a verifier, three times each, whose calls a batch server on this machine answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer
from jsonl import jsonl

from verdict_cli.features.batches.run_hooks import BatchOptions
from verdict_cli.features.batches.sent import RunBatches
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.run.job import RunOptions
from verdict_cli.run.session import open_run
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import scan
from verdict_cli.storage.tables.reader import read_table

STEPS = """
- layer: [{unit: JudgeUnit, name: judge, explanation: true, prompt: 'Rate {source.text}'}]
  repeat: 3
- layer: [{unit: JudgeUnit, name: verify, explanation: true, prompt: 'Check {previous.score} of {source.text}'}]
  repeat: 3
- {unit: MeanPoolUnit, field: score}
"""
SPARED = {"service_tier", "recalled", "latency_s", "cost_usd", "calls", "attempt"}
"""Columns in which a run of batches may differ from one of ordinary calls."""


@dataclass
class BatchBench:
    """Runs a pipeline against a server; ``head`` are more keys of its model."""

    folder: Path
    server: BatchServer

    def options(
        self,
        rows: int = 10,
        steps: str = STEPS,
        *,
        out: str = "out",
        head: str = "",
        name: str = "gpt-4o-mini",
        base: str = "/v1",
        **more: Any,
    ) -> RunOptions:
        config = self.folder / "pipeline.yaml"
        model = f"{{name: {name}, api_base: '{self.server.url}{base}'{', ' if head else ''}{head}}}"
        config.write_text(f"verdict: 1\nname: t\nmodel: {model}\npipeline:{steps}")
        data = self.folder / f"{rows}.jsonl"
        data.write_text(jsonl({"text": f"text {place}"} for place in range(rows)))
        dataset = Dataset(files=(data,))
        batches = more.pop("batches", BatchOptions(every_model=True))
        plan = build_plan(load(config)).plan
        return RunOptions(
            plan=plan,
            dataset=dataset,
            data=scan(dataset),
            out=out if "://" in out else self.folder / out,
            chosen_hooks={"batches": batches},
            **more,
        )

    def run(self, *args: Any, **keys: Any) -> RunFacts:
        with open_run(self.options(*args, **keys)) as session:
            return session.execute().facts

    def tables(self, out: str = "out") -> dict[str, list[Any]]:
        """The results, and the calls that succeeded, without what may differ from an ordinary run."""
        folder = self.folder / out
        results = {
            f"results.{name}": values
            for name, values in columns(folder / "results.parquet").items()
        }
        calls = columns(folder / "calls.parquet")
        answered = [place for place, failure in enumerate(calls["failure"]) if not failure]
        chosen = {
            f"calls.{name}": [values[place] for place in answered] for name, values in calls.items()
        }
        return {
            name: values
            for name, values in {**results, **chosen}.items()
            if name.split(".", 1)[1] not in SPARED
        }


def columns(path: Path) -> dict[str, list[Any]]:
    values_by_column: dict[str, list[Any]] = {}
    for part in read_table(path):
        for name, values in part.items():
            values_by_column.setdefault(name, []).extend(values)
    return values_by_column


class KilledError(BaseException):
    """The process was killed here."""


@contextmanager
def killed_at_note(step: int, *, after: bool) -> Iterator[None]:
    """The body runs until it is killed at this note of a batch, counted from 1: after it was committed, or before."""
    save = RunBatches._save
    notes = 0

    async def killed_save(batches: RunBatches, batch: Any) -> None:
        nonlocal notes
        notes += 1
        if notes == step and not after:
            raise KilledError
        await save(batches, batch)
        if notes == step:
            raise KilledError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(RunBatches, "_save", killed_save)
        yield
