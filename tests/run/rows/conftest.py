"""A plan from YAML text, and a model that answers as it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from paths import SHARED

from verdict_cli.language.load import load
from verdict_cli.messages import Reply, Request, Result, Row
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan
from verdict_cli.run.attempts import Context
from verdict_cli.run.row import run_pinned, run_row

Outcome = str | Reply | Exception


@dataclass
class FakeModel:
    """Answers with `rule`, else with the outcomes in turn; keeps what it was asked and how long it was waited for."""

    outcomes: list[Outcome] = field(default_factory=list)
    rule: Callable[[Request], Outcome] | None = None
    requests: list[Request] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def ask(self, request: Request) -> Reply:
        self.requests.append(request)
        outcome = self.rule(request) if self.rule else self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return Reply(outcome) if isinstance(outcome, str) else outcome

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def prompts(self) -> list[str]:
        """The last message of every request."""
        return [request.messages[-1].content for request in self.requests]

    def run(
        self,
        plan: Plan,
        source: Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        row_id: str | int = 0,
        pinned: bool = False,
    ) -> Result:
        """The outcome of one row; `pinned` runs the pinned units first."""

        async def go() -> Result:
            context = Context(self.ask, seed=seed, sleep=self.sleep, jitter=Random(0))
            if pinned:
                context.pinned, _ = await run_pinned(plan, context)
            return await run_row(plan, Row(0, row_id, source or {}), context)

        return asyncio.run(go())


@pytest.fixture
def plan_of(tmp_path: Path) -> Callable[..., Plan]:
    """A plan from the text below `pipeline:`; `head` may set another model."""

    def make(steps: str, head: str = "model: {name: m, retries: 2}") -> Plan:
        path = tmp_path / "pipeline.yaml"
        path.write_text(f"verdict: 1\nname: t\n{head}\npipeline:\n{steps}")
        return build_plan(load(path)).plan

    return make


@pytest.fixture
def model() -> Callable[..., FakeModel]:
    """A model that gives these outcomes in turn, or those of `rule`."""

    def make(*outcomes: Outcome, rule: Callable[[Request], Outcome] | None = None) -> FakeModel:
        return FakeModel(list(outcomes), rule)

    return make


@pytest.fixture
def value_case() -> Callable[[str], Any]:
    """What the shared case of this name expects."""
    shared = SHARED
    path = shared / "spec" / "value-cases.json"
    if not path.exists():
        pytest.skip("the shared value cases are not there: set VERDICT_SHARED")
    cases = {case["name"]: case["expect"] for case in json.loads(path.read_text())["cases"]}
    return cases.__getitem__
