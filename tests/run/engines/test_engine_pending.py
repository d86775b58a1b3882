"""Calls that are answered later: a row with such a call is put back, and run again until its calls are answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from verdict_cli.errors import BudgetError, Pending
from verdict_cli.messages import Reply, Request
from verdict_cli.run.hooks import RunHooks
from verdict_cli.run.progress import PendingCalls
from verdict_cli.run_facts import RunFacts

STEPS = """
- {unit: CoTUnit, name: think, prompt: 'Think about {source.text}'}
- {unit: JudgeUnit, name: judge, prompt: 'Rate {previous.thinking}'}
"""
Key = tuple[str, str, int, int]


class NoLetters:
    """Nothing to display."""

    def plus(self, other: PendingCalls | None) -> PendingCalls:
        return other or self

    def text(self) -> str:
        return ""


@dataclass
class Letters:
    """Calls that are answered between two passes over the rows, at most ``rounds`` times."""

    rounds: int = 9
    error: BudgetError | None = None
    answers: dict[Key, Reply] = field(default_factory=dict)
    sent: list[list[Key]] = field(default_factory=list)
    waiting: bool = False
    closed: bool = False
    retry: Callable[[Request], bool] | None = None
    pending: PendingCalls = field(default_factory=NoLetters)

    async def ask(self, request: Request) -> Reply:
        key = (request.row.key, request.node, request.call, request.attempt)
        if key not in self.answers:
            assert self.closed or key not in self.sent[-1]
            if not self.closed:
                self.sent[-1].append(key)
            raise Pending("no letter has come")
        return self.answers[key]

    def forget(self, request: Request) -> None:
        """Nothing is kept."""

    def again(self, request: Request) -> bool:
        return False

    async def start(self) -> None:
        """Nothing was left."""

    def begin_pass(self) -> None:
        self.sent.append([])

    async def answer(self) -> bool:
        if not self.sent[-1]:
            return False
        if len(self.sent) > self.rounds:
            if self.error is not None:
                raise self.error
            self.waiting = True
            return False
        for key in self.sent[-1]:
            self.answers[key] = Reply("thought" if key[1] == "think" else '{"score": 3}')
        return True

    async def close(self) -> None:
        self.closed = True

    def facts(self, facts: RunFacts) -> RunFacts:
        return facts


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> Letters:
    calls = Letters()

    @dataclass(frozen=True)
    class Post(RunHooks):
        def defers(self, options: Any) -> bool:
            return True

        def deferred_calls(self, *_: Any) -> Letters:
            return calls

    monkeypatch.setattr("verdict_cli.run.job.hook_classes", lambda: {"post": Post})
    return calls


def test_each_row_is_run_again_until_its_calls_are_answered(bench: Any, read: Any, letters: Letters) -> None:
    job = bench.job(20, STEPS)
    facts = bench.run(job)
    assert (facts.status, facts.done, facts.calls) == ("finished", 20, 40)
    assert [len(keys) for keys in letters.sent] == [20, 20, 0]
    assert read(job.directory.results, "row") == list(range(20))
    assert read(job.directory.results, "output.score") == [3] * 20
    assert letters.closed


def test_a_run_may_end_while_its_calls_wait(bench: Any, read: Any, letters: Letters) -> None:
    letters.rounds = 1
    facts = bench.run(bench.job(5, STEPS))
    assert (facts.status, facts.done) == ("waiting", 0)


def test_an_error_between_two_passes_ends_the_run_after_its_tables_are_written(
    bench: Any, read: Any, letters: Letters
) -> None:
    letters.rounds, letters.error = 1, BudgetError("nothing is left")
    job = bench.job(5, STEPS)
    with pytest.raises(BudgetError, match="nothing is left"):
        bench.run(job)
    assert job.directory.results.is_file()
    assert job.directory.facts().status == "interrupted"


def test_pinned_units_are_answered_before_any_row_is_begun(bench: Any, letters: Letters) -> None:
    steps = STEPS.replace("{unit: CoTUnit, name: think,", "{unit: CoTUnit, name: think, pin: true,").replace(
        "{source.text}", "nothing"
    )
    facts = bench.run(bench.job(4, steps))
    assert facts.status == "finished"
    assert [[key[1] for key in keys] for keys in letters.sent] == [["think"], ["judge"] * 4, []]
