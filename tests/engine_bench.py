"""Runs of a small pipeline in a temporary directory, answered by a function in the place of the providers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.language.load import load
from verdict_cli.messages import Reply, Request
from verdict_cli.plan.build import build_plan
from verdict_cli.run.job import RunJob, Stop
from verdict_cli.run.local import run_alone
from verdict_cli.run.progress import Progress
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.run_metadata import node_fingerprints
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import scan
from verdict_cli.storage.tables.reader import read_table

Rule = Callable[[Request], Awaitable[Reply]]

ONE_JUDGE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"


async def three(_: Request) -> Reply:
    """Every judge says 3."""
    return Reply('{"score": 3}')


@dataclass
class Bench:
    """Makes jobs and runs them. `requests` are all requests that reached the model, of every run."""

    folder: Path
    rule: Rule = three
    requests: list[Request] = field(default_factory=list)
    seen: list[Progress] = field(default_factory=list)
    stop: Stop = field(default_factory=Stop)

    def rows(self, count: int) -> Path:
        path = self.folder / f"{count}.jsonl"
        lines = [
            json.dumps({"key": f"r{place}", "text": f"text {place}"}) for place in range(count)
        ]
        path.write_text("\n".join(lines) + "\n")
        return path

    def job(
        self,
        rows: int | Path = 20,
        steps: str = ONE_JUDGE,
        *,
        head: str = "model: {name: m, retries: 1}",
        out: str = "out",
        seed: int = 0,
        limit: int | None = None,
        sample: int | None = None,
        **settings: Any,
    ) -> RunJob:
        config = self.folder / "pipeline.yaml"
        config.write_text(f"verdict: 1\nname: t\n{head}\npipeline:\n{steps}\n")
        plan = build_plan(load(config)).plan
        dataset = Dataset(files=(rows if isinstance(rows, Path) else self.rows(rows),))
        source = scan(dataset, limit=limit, sample=sample, seed=seed)
        start = RunFacts(
            name="t",
            status="running",
            config="pipeline.yaml",
            dataset="data.jsonl",
            spec_fingerprint=plan.fingerprint,
            data_fingerprint=source.fingerprint,
            version="0",
            started="2026-01-01T00:00:00+00:00",
            seed=seed,
            rows=source.rows,
            nodes=node_fingerprints(plan, seed),
        )
        return RunJob(
            plan=plan,
            dataset=dataset,
            data=source,
            directory=RunDirectory(self.folder / out),
            start=start,
            seed=seed,
            **{"concurrency": 4, **settings},
        )

    def run(self, job: RunJob) -> RunFacts:
        self.stop = Stop()
        return run_alone(job, self.stop, self.seen.append)

    def calls(self) -> list[tuple[int, str, int, int]]:
        """(row, node, call, attempt) of each request, in order."""
        return [
            (request.row.index, request.node, request.call, request.attempt)
            for request in self.requests
        ]


def column(path: Path, name: str) -> list[Any]:
    """A table's column."""
    return [value for batch in read_table(path, [name]) for value in batch[name]]


@pytest.fixture
def bench(tmp_path: Path, scripted_model: Any) -> Bench:
    new_bench = Bench(tmp_path, requests=scripted_model.requests)

    def answer(request: Request) -> Awaitable[Reply]:
        return new_bench.rule(
            request
        )  # looked up at each call: a test may change the rule between two runs

    scripted_model.answer = answer
    return new_bench


@pytest.fixture
def read() -> Callable[[Path, str], Sequence[Any]]:
    """Reads a column of a table."""
    return column
